//! Two, then five workers share one table while they are killed and put to sleep in turns.

use super::*;

const LEASE: &str = "1";
/// What happens to the workers, one after the other.
const BLOWS: usize = 10;

struct Team<'a> {
    world: &'a World,
    running: Vec<(String, Program)>,
    ended: Vec<Ended>,
    names: usize,
}

impl Team<'_> {
    /// Starts one under a name, or under a new one.
    fn join(&mut self, name: Option<String>) {
        self.names += 1;
        let name = name.unwrap_or_else(|| format!("worker-{}", self.names));
        let arguments = self.world.worker(&["--lease-seconds", LEASE, "--worker-id", &name]);
        let program = Program::start(&arguments);
        self.running.push((name, program));
    }

    /// Kills one and starts another, or puts one to sleep for less or more than a lease.
    async fn blow(&mut self, random: &mut Random) {
        let at = random.below(self.running.len());
        match random.below(4) {
            0 => {
                self.running[at].1.signal("STOP");
                pause(random, 2_000).await;
                self.running[at].1.signal("CONT");
            }
            1 => {
                let (_, stopped) = self.running.remove(at);
                // Before that it does not listen for signals yet.
                stopped.at_work().await;
                stopped.terminate();
                let stopped = stopped.end().await;
                self.ended.push(stopped.expect(0));
                self.join(None);
            }
            which => {
                let (name, killed) = self.running.remove(at);
                self.ended.push(killed.kill().await);
                self.join((which == 2).then_some(name));
            }
        }
        pause(random, 400).await;
    }
}

async fn share(workers: usize, seed: u64) {
    let world = World::begun().await;
    let mut random = Random::new(seed);
    let when = format!("{workers} workers, seed {seed}");
    let team = world.under_load(seed, async {
        let mut team = Team { world: &world, running: Vec::new(), ended: Vec::new(), names: 0 };
        for _ in 0..workers {
            team.join(None);
        }
        for (_, worker) in &team.running {
            worker.at_work().await;
        }
        for _ in 0..BLOWS {
            team.blow(&mut random).await;
        }
        // Whoever has it now, someone reads on.
        pause(&mut random, 1_500).await;
        team
    });
    let Team { running, mut ended, .. } = team.await;
    for (_, worker) in running {
        ended.push(worker.kill().await);
    }
    world.assert_invariants(&when).await;
    let caught_up = world.assert_exact_at_tip(&when).await;
    assert_no_repair(&caught_up, &when);
    let took = ended.iter().filter(|worker| worker.says("shard taken")).count();
    let lost = ended.iter().filter(|worker| worker.says("another worker's now")).count();
    let applied: u64 = ended.iter().map(|worker| worker.sum("applied")).sum();
    println!(
        "{when}: {} transactions written; {} workers, of which {took} had the shard and {lost} lost it; items applied {applied}, \
         left to the next {}",
        world.transactions.load(Ordering::SeqCst),
        ended.len(),
        caught_up.sum("applied"),
    );
    assert!(took >= 2 && applied > 0, "{when}: the shard did not change hands");
    world.close().await;
}

#[tokio::test]
async fn two_workers_share_a_table_and_are_killed_and_paused() {
    share(2, SEED + 20).await;
}

#[tokio::test]
async fn five_workers_share_a_table_and_are_killed_and_paused() {
    share(5, SEED + 50).await;
}
