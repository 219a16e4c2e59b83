//! Reconcile beside everybody else: the application writes, workers apply, one under a former model, one that was paused,
//! requests fail and whole runs are cut off, between any two requests of it.
#![cfg(test)]

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::adapters::sim::{Fault, SimClock, SimStore, StreamView};
use crate::engine::batch::{BatchReport, OldImages};
use crate::engine::tests::assert_audit;

const JOBS: usize = 6;
/// No scene has more turns than this, faults and pauses included.
const TURNS_MAX: usize = 20_000;

#[derive(Debug, Clone)]
enum Act {
    Put {
        job: usize,
        project: usize,
        status: usize,
        hours: i64,
    },
    Delete {
        job: usize,
    },
    /// A worker takes the next records; it goes on with them request by request.
    Batch {
        count: usize,
    },
    /// Another one, that was paused with some records of before.
    Late {
        from: usize,
        count: usize,
    },
    /// So many requests of the worker under way.
    Worker {
        steps: usize,
    },
    /// So many requests of the run itself.
    Run {
        steps: usize,
    },
    /// The run is cut off and started again; it goes on where it was.
    Restart,
    /// The worker is gone with its batch, which comes again.
    Crash,
    LoseAnswer,
    Conflict(usize),
    Throttle,
}

fn put() -> impl Strategy<Value = Act> {
    (0..JOBS, 0..2usize, 0..4usize, -3..4i64).prop_map(|(job, project, status, hours)| Act::Put {
        job,
        project,
        status,
        hours,
    })
}

fn delete() -> impl Strategy<Value = Act> {
    (0..JOBS).prop_map(|job| Act::Delete { job })
}

fn write() -> impl Strategy<Value = Act> {
    prop_oneof![2 => put(), 1 => delete()]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => put(),
        3 => delete(),
        3 => (1..6usize).prop_map(|count| Act::Batch { count }),
        2 => (0..30usize, 1..5usize).prop_map(|(from, count)| Act::Late { from, count }),
        6 => (1..9usize).prop_map(|steps| Act::Worker { steps }),
        8 => (1..9usize).prop_map(|steps| Act::Run { steps }),
        1 => Just(Act::Restart),
        1 => Just(Act::Crash),
        1 => Just(Act::LoseAnswer),
        1 => (0..9usize).prop_map(Act::Conflict),
        1 => Just(Act::Throttle),
    ]
}

type SimEngine = Engine<SimStore, SimClock>;
type Applying<'e> = Stepper<'e, Result<BatchReport, ApplyError>>;

struct Scene<'e> {
    store: SimStore,
    engine: &'e SimEngine,
    /// What the late worker runs under.
    other: &'e SimEngine,
    trust: OldImages,
    run: Stepper<'e, Result<ReconcileReport, ReconcileError>>,
    /// A batch under way, and the position after it.
    worker: Option<(Applying<'e>, usize)>,
    late: Option<Applying<'e>>,
    /// Records before this one are durable.
    position: usize,
    /// Records before this one are not to be had any more.
    horizon: usize,
    commits: usize,
}

/// A run that can be resumed, in few segments, so that they have several pages each.
fn run(engine: &SimEngine) -> Stepper<'_, Result<ReconcileReport, ReconcileError>> {
    let journal = Journal { name: "beside".to_owned(), from_start: false, gap: None };
    let options = ReconcileOptions { segments: 2, max_read_units: None, journal: Some(journal) };
    Stepper::new(async move { reconcile_with(engine, &options, |_| {}).await })
}

impl<'e> Scene<'e> {
    fn new(
        store: &SimStore,
        engine: &'e SimEngine,
        other: &'e SimEngine,
        trust: OldImages,
        horizon: usize,
    ) -> Scene<'e> {
        Scene {
            store: store.clone(),
            engine,
            other,
            trust,
            run: run(engine),
            worker: None,
            late: None,
            position: horizon,
            horizon,
            commits: store.counters().commits,
        }
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Put { .. } | Act::Delete { .. } => apply_write(&self.store, act),
            Act::Batch { count } => self.begin(count),
            Act::Late { from, count } if self.late.is_none() => {
                let records: Vec<_> = self.store.records(self.horizon + from).into_iter().take(count).collect();
                let (other, trust) = (self.other, self.trust);
                self.late = Some(Stepper::new(async move { other.apply(&records, trust).await }));
            }
            Act::Late { count, .. } => (0..count).for_each(|_| self.turn_of_late()),
            Act::Worker { steps } => (0..steps).for_each(|_| self.turn_of_worker()),
            Act::Run { steps } => (0..steps).for_each(|_| self.turn_of_run()),
            Act::Restart => self.run = run(self.engine),
            Act::Crash => self.worker = None,
            Act::LoseAnswer => self.store.inject(Fault::LoseAnswer),
            Act::Conflict(at) => self.store.inject(Fault::Conflict(at)),
            Act::Throttle => self.store.inject(Fault::Read(StoreError::Throttled("slow down".to_owned()))),
        }
    }

    fn begin(&mut self, count: usize) {
        if self.worker.is_none() {
            let records: Vec<_> = self.store.records(self.position).into_iter().take(count).collect();
            let (engine, trust, end) = (self.engine, self.trust, self.position + records.len());
            self.worker = Some((Stepper::new(async move { engine.apply(&records, trust).await }), end));
        }
    }

    fn turn_of_worker(&mut self) {
        let Some((worker, end)) = &mut self.worker else { return };
        if let Some(result) = worker.step() {
            if result.is_ok() {
                self.position = *end;
            }
            self.worker = None;
        }
        assert_audit(&self.store, &mut self.commits);
    }

    fn turn_of_late(&mut self) {
        if self.late.as_mut().is_some_and(|late| late.step().is_some()) {
            self.late = None;
        }
        assert_audit(&self.store, &mut self.commits);
    }

    fn turn_of_run(&mut self) {
        match self.run.step() {
            // Throttled for longer than it is patient: whoever started it starts it again.
            Some(Err(ReconcileError::Store(error))) if error.can_retry() => self.run = run(self.engine),
            Some(Err(ReconcileError::Apply(error))) if error.can_retry() => self.run = run(self.engine),
            Some(Err(ReconcileError::Journal(TransactError::Store(error)))) if error.can_retry() => {
                self.run = run(self.engine);
            }
            Some(Err(error)) => panic!("{error}"),
            Some(Ok(_)) | None => {}
        }
        assert_audit(&self.store, &mut self.commits);
    }

    /// Everybody comes to an end, turn by turn, and the stream is read to its end.
    fn finish(mut self) {
        for _ in 0..TURNS_MAX {
            self.begin(4);
            self.turn_of_worker();
            self.turn_of_late();
            self.turn_of_run();
            let is_drained = self.position == self.store.records(0).len();
            if self.run.is_done() && self.late.is_none() && is_drained {
                return;
            }
        }
        panic!("it does not come to an end");
    }
}

fn apply_write(store: &SimStore, act: &Act) {
    match *act {
        Act::Put { job: n, project, status, hours } => {
            let status = ["Open", "Busy", "Done", "Mislaid"][status];
            store.put(job(n, &format!("p{project}"), status, &hours.to_string())).unwrap();
        }
        Act::Delete { job } => store.delete(&job_key(job)),
        _ => {}
    }
}

/// A table is kept for a while; then records are lost, the model changes, and a run begins beside everybody. `after` is what
/// is done when all have come to an end.
fn play(
    view: StreamView,
    (first, lost, acts): (&[Act], &[Act], &[Act]),
    changed: impl FnOnce(&mut Model),
    after: impl FnOnce(&World),
) {
    let mut world = World::new();
    world.store.set_view(view);
    let former = world.engine.clone();
    let mut scene = Scene::new(&world.store, &former, &former, OldImages::Trusted, 0);
    first.iter().for_each(|act| scene.act(act));
    scene.finish();
    check_exact(&world);
    lost.iter().for_each(|act| apply_write(&world.store, act));
    let horizon = world.store.records(0).len();
    change(&mut world, "model-2", changed);
    let mut scene = Scene::new(&world.store, &world.engine, &former, OldImages::NotTrusted, horizon);
    acts.iter().for_each(|act| scene.act(act));
    scene.finish();
    after(&world);
    check_exact(&world);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    /// One run is enough, once the stream is drained.
    #[test]
    fn one_run_beside_everybody_leaves_exact_tables(
        first in vec(act(), 0..20),
        lost in vec(write(), 0..6),
        acts in vec(act(), 1..60),
    ) {
        play(StreamView::NewAndOldImages, (&first, &lost, &acts), |_| {}, |_| {});
    }

    /// The same where the model changes. A worker under the former one may have been the last at an item or at an aggregate,
    /// so there are a second run and a write of each group when it is gone.
    #[test]
    fn runs_under_another_model_leave_exact_tables(
        first in vec(act(), 0..15),
        lost in vec(write(), 0..6),
        acts in vec(act(), 1..40),
        which in 0..5usize,
    ) {
        let changed = |model: &mut Model| match which {
            0 => {
                model.aggregates.remove(0);
            }
            1 => model.aggregates[0].name = "jobs_of_project".to_owned(),
            2 => {
                model.aggregates[0].name = "by_user".to_owned();
                model.aggregates[1].name = "by_project".to_owned();
            }
            3 => model.listings[0].sort = Some(Template::parse("{job}#{user}").unwrap()),
            _ => model.entities[0].attributes[1].one_of = vec!["p0".to_owned()],
        };
        play(StreamView::NewAndOldImages, (&first, &lost, &acts), changed, |world| {
            reconciled(world);
            world.store.put(job(JOBS, "p0", "Open", "1")).unwrap();
            world.store.put(job(JOBS + 1, "p1", "Open", "1")).unwrap();
            reconciled(world);
        });
    }

    /// The same from a stream that carries keys only.
    #[test]
    fn keys_only_streams_come_to_the_same_end(
        first in vec(act(), 0..12),
        lost in vec(write(), 0..6),
        acts in vec(act(), 1..40),
    ) {
        play(StreamView::KeysOnly, (&first, &lost, &acts), |_| {}, |_| {});
    }
}
