//! One story from its beginning to its end.

use std::time::Duration;

use chrono::{DateTime, TimeDelta};

use super::Script;
use super::actors::{Actor, Hands, Parts, Role, last_worker, meddler, reconciler, repairer, worker};
use super::application::Application;
use super::auditor::Auditor;
use super::lines::{Rates, StoreLine, StreamLine, Weather};
use super::mapping::{Mapping, function};
use super::models::{Models, models};
use super::tally::{Failure, Log, Tally};
use crate::adapters::sim::auditor::audit;
use crate::adapters::sim::clock::SimClock;
use crate::adapters::sim::random::Random;
use crate::adapters::sim::store::{Happening, SimStore, StreamView};
use crate::adapters::sim::stream::{Manners, SimStream};
use crate::engine::leases::LeaseSettings;
use crate::engine::ports::Clock;
use crate::engine::verify::verify;
use crate::model::value::Item;

/// 1 March 2026.
const BEGIN: i64 = 1_772_323_200;
/// Turns after which the end of a story is not in sight.
const TURNS_MAX: usize = 200_000;

/// Who is on stage in a story, and what may happen.
#[derive(Debug, Clone, Copy)]
struct Cast {
    workers: usize,
    functions: usize,
    /// Records may be lost: only where workers see it.
    losses: bool,
    model_changes: bool,
    /// Those under the old model may live on beside the new ones for a while.
    lingering: bool,
    /// In a thousand steps, how many more reconciliations begin.
    reconciles: usize,
    /// In a thousand steps, how many more may lose records.
    perils: usize,
    /// The workers share the shards; else each reads them all.
    leases: bool,
    /// People edit aggregates by hand.
    hands: Option<Hands>,
    /// In a thousand steps, how many such edits.
    edits: usize,
}

impl Cast {
    fn drawn(random: &mut Random) -> Cast {
        let (workers, functions) = match random.below(6) {
            0..3 => (1 + random.below(3), 0),
            3..5 => (0, 1 + random.below(3)),
            _ => (1, 1),
        };
        let losses = workers > 0 && random.chance(500);
        let (model_changes, lingering) = (random.chance(250), random.chance(300));
        Cast {
            workers,
            functions,
            losses,
            model_changes,
            lingering,
            reconciles: 0,
            perils: 0,
            leases: false,
            hands: None,
            edits: 0,
        }
    }

    /// The circumstances in which a mistake shows soon.
    #[cfg(test)]
    fn suit(&mut self, mistake: super::mistakes::Mistake, manners: &mut Manners) {
        use super::mistakes::Mistake;
        match mistake {
            Mistake::ItemReadBeforeLedger => self.reconciles = 30,
            Mistake::TrimmedInSilence => {
                (self.workers, self.functions, self.losses, self.perils) = (1, 0, true, 20);
            }
            Mistake::RepairWithoutCondition => {
                (self.workers, self.hands, self.edits) = (2, Some(Hands::Counts), 60);
            }
            Mistake::ChildBesideParent | Mistake::LatestForChildren => {
                (self.workers, self.functions) = (2, 0);
                manners.low_numbers = 1000;
            }
            _ => {}
        }
    }
}

/// A story on its way.
pub(super) struct Stage {
    steps: usize,
    step: usize,
    random: Random,
    cast: Cast,
    store: SimStore,
    stream: SimStream,
    clock: SimClock,
    weather: Weather,
    mapping: Mapping,
    application: Application,
    auditor: Auditor,
    models: Models,
    /// Index of the model that new actors work under.
    model: usize,
    /// Somebody worked under the old model while others had the new one: only a reconciliation takes that back.
    mixed: bool,
    actors: Vec<Actor>,
    names: usize,
    log: Log,
    #[cfg(test)]
    mistake: Option<super::mistakes::Mistake>,
}

impl Stage {
    pub fn new(seed: u64, script: &Script) -> Stage {
        let mut random = Random::new(seed);
        let models = models();
        let table = &models[0].table;
        let store = SimStore::new(table);
        store.remember();
        let views =
            [StreamView::NewAndOldImages, StreamView::NewAndOldImages, StreamView::NewImage, StreamView::KeysOnly];
        let view = *random.pick(&views);
        store.set_view(view);
        let clock = SimClock::driven(DateTime::from_timestamp(BEGIN, 0).unwrap_or_default(), random.draw());
        #[cfg_attr(not(test), allow(unused_mut, reason = "tests see to it that mistakes have an occasion"))]
        let mut manners = Manners::drawn(&mut random);
        let rates = Rates::drawn(&mut random);
        let mut cast = Cast::drawn(&mut random);
        #[cfg(test)]
        script.mistake.iter().for_each(|mistake| cast.suit(*mistake, &mut manners));
        #[cfg(test)]
        if script.perils > 0 {
            cast = Cast { workers: 2, functions: 1, losses: true, perils: script.perils, ..cast };
        }
        #[cfg(test)]
        if script.edits > 0 {
            let hands = if seed.is_multiple_of(2) { Hands::Counts } else { Hands::All };
            cast = Cast { workers: cast.workers.max(1), hands: Some(hands), edits: script.edits, ..cast };
        }
        let stream = SimStream::new(&store, &clock, 1 + random.below(4), manners, random.draw());
        let false_trims = cast.workers > 0;
        let weather =
            Weather::new(random.fork(), Rates { false_trim: if false_trims { rates.false_trim } else { 0 }, ..rates });
        // Keys alone do not say what an item was under the old model, so both models would have to agree on what is read.
        cast.lingering &= cast.model_changes;
        cast.leases = cast.workers > 0 && seed.is_multiple_of(3);
        cast.hands = cast.hands.or(match seed % 10 {
            4 => Some(Hands::Counts),
            9 => Some(Hands::All),
            _ => None,
        });
        if cast.hands.is_some() {
            cast.edits = cast.edits.max(7);
        }
        let mut application = Application::new(store.clone(), table.key_names(), random.fork());
        application.modest = cast.hands == Some(Hands::All);
        Stage {
            steps: script.steps,
            step: 0,
            application,
            auditor: Auditor::new(models.clone(), stream.clone(), view == StreamView::NewAndOldImages),
            mapping: Mapping::new(random.fork()),
            random,
            cast,
            store,
            stream,
            clock,
            weather,
            models,
            model: 0,
            mixed: false,
            actors: Vec::new(),
            names: 0,
            log: Log::new(script.lines),
            #[cfg(test)]
            mistake: script.mistake,
        }
    }

    /// Plays it; the violations that ended it.
    pub fn play(&mut self) -> Result<(), Vec<String>> {
        self.log.line(0, format!("{:?}", self.cast));
        for _ in 0..self.random.below(6) {
            self.act();
        }
        for _ in 0..self.cast.workers {
            self.begin(Role::Worker);
        }
        for _ in 0..self.cast.functions {
            self.begin(Role::Function);
        }
        while self.step < self.steps {
            self.step += 1;
            self.next_step();
            self.look()?;
        }
        self.end()
    }

    pub fn tally(&self) -> Tally {
        let quarantined = self.auditor.given_up() as u64;
        let commits = self.store.counters().commits as u64;
        Tally { seeds: 1, steps: self.step as u64, commits, quarantined, ..self.weather.tally() }
    }

    pub fn failure(self, seed: u64, violations: Vec<String>) -> Failure {
        Failure { seed, steps: self.steps, step: self.step, violations, schedule: self.log.lines() }
    }

    fn next_step(&mut self) {
        match self.random.below(1000) {
            0..120 => self.act(),
            120..132 => self.crash(),
            132..142 => self.pause(),
            142..152 => self.divide(),
            152..155 => self.begin(Role::Reconciler),
            at if at >= 1000 - self.cast.reconciles => self.begin(Role::Reconciler),
            at if at >= 1000 - self.cast.reconciles - self.cast.perils => self.lose(),
            155..175 => self.pass_time(),
            175..177 => self.lose(),
            177..180 => self.change_model(),
            180..183 => self.break_down(),
            at if (183..183 + self.cast.edits).contains(&at) => self.meddle(),
            _ => self.turn(),
        }
    }

    fn act(&mut self) {
        let done = self.application.act();
        self.log.line(self.step, done);
    }

    fn parts(&mut self) -> Parts {
        let skew = TimeDelta::seconds(self.random.below(600) as i64 - 300);
        let parts = Parts {
            model: self.models[self.model].clone(),
            store: StoreLine::new(self.store.clone(), self.weather.clone(), self.clock.clone()),
            stream: StreamLine::new(self.stream.clone(), self.weather.clone()),
            clock: self.clock.skewed(skew),
            weather: self.weather.clone(),
        };
        #[cfg(test)]
        let parts = parts.mistaken(self.mistake);
        parts
    }

    fn begin(&mut self, role: Role) {
        self.names += 1;
        let name = format!("{role:?} {}", self.names).to_lowercase();
        let (parts, random) = (self.parts(), self.random.fork());
        let leases = self.cast.leases.then(|| LeaseSettings::new(&name));
        let actor = |future| Actor::new(name.clone(), role, future);
        let future: std::pin::Pin<Box<dyn Future<Output = ()>>> = match role {
            Role::Worker => Box::pin(worker(parts, leases, random)),
            Role::Reconciler => Box::pin(reconciler(parts)),
            Role::Meddler => Box::pin(meddler(parts, self.cast.hands.unwrap_or(Hands::Counts), random)),
            Role::Repairer => Box::pin(repairer(parts)),
            Role::Function => {
                let (mapping, stream) = (self.mapping.clone(), self.stream.clone());
                Box::pin(function(mapping, stream, parts.applier(), parts.clock.clone(), parts.weather.clone()))
            }
        };
        self.actors.push(actor(future));
        self.log.line(self.step, format!("{name} begins under model {}", self.model));
    }

    /// One at a time: a repair is not for tables that somebody goes on editing.
    fn meddle(&mut self) {
        if !self.actors.iter().any(|actor| actor.role == Role::Meddler) {
            self.begin(Role::Meddler);
        }
    }

    /// An actor ends where it stands, whatever it was waiting for, and another one takes its place.
    fn crash(&mut self) {
        if self.actors.is_empty() {
            return;
        }
        let at = self.random.below(self.actors.len());
        let actor = self.actors.swap_remove(at);
        self.weather.count(|tally| tally.crashes += 1);
        self.log.line(self.step, format!("{} crashes", actor.name));
        self.begin(actor.role);
    }

    fn pause(&mut self) {
        let now = self.clock.now();
        let seconds = *self.random.pick(&[2, 60, 3600, 10 * 3600]);
        if self.actors.is_empty() {
            return;
        }
        let at = self.random.below(self.actors.len());
        self.actors[at].pause(now, seconds);
        self.weather.count(|tally| tally.pauses += 1);
        self.log.line(self.step, format!("{} stands still for {seconds} s", self.actors[at].name));
        // Where all stand still, nothing happens.
        if self.actors.iter().all(|actor| actor.still_until.is_some_and(|until| until > now)) {
            self.actors[at].still_until = None;
        }
    }

    fn divide(&mut self) {
        let in_two = self.random.chance(600);
        self.stream.divide(in_two);
        self.weather.count(|tally| tally.shard_changes += 1);
        self.log.line(self.step, if in_two { "a shard splits" } else { "a shard rolls over" });
    }

    fn pass_time(&mut self) {
        let seconds = *self.random.pick(&[1, 1, 1, 20, 20, 120, 1000]);
        self.advance(Duration::from_secs(seconds));
        self.log.line(self.step, format!("{seconds} s pass"));
    }

    fn break_down(&mut self) {
        let requests = 1 + self.random.below(40);
        self.weather.break_down(requests);
        self.log.line(self.step, format!("the next {requests} requests to the tables fail"));
    }

    /// What records are lost by: more time than they are kept, or a stream that is switched off and on.
    fn lose(&mut self) {
        if !self.cast.losses {
            return;
        }
        if self.random.chance(300) {
            self.stream.replace();
            self.weather.count(|tally| tally.shard_changes += 1);
            self.log.line(self.step, "the stream is switched off and on");
            return;
        }
        let hours = 20 + self.random.below(40) as u64;
        self.advance(Duration::from_secs(hours * 3600));
        self.log.line(self.step, format!("{hours} h pass"));
    }

    fn change_model(&mut self) {
        if !self.cast.model_changes || self.model == 1 {
            return;
        }
        self.model = 1;
        self.weather.count(|tally| tally.model_changes += 1);
        self.log.line(self.step, "the model changes");
        let roles: Vec<Role> = self.actors.iter().map(|actor| actor.role).collect();
        if self.cast.lingering {
            self.mixed = true;
        } else {
            self.actors.clear();
        }
        for role in roles {
            self.begin(role);
        }
        if self.cast.workers == 0 {
            // Nothing tells functions that the model is another one: the operator does.
            self.mixed = true;
        }
    }

    fn advance(&mut self, duration: Duration) {
        self.stream.pull();
        self.clock.advance(duration);
    }

    /// One turn of an actor who has something to do; where nobody has, time passes until somebody has.
    fn turn(&mut self) {
        let now = self.clock.now();
        let ready: Vec<usize> = (0..self.actors.len()).filter(|at| self.actors[*at].is_ready(now)).collect();
        if ready.is_empty() {
            let still = self.actors.iter().filter_map(|actor| actor.still_until).filter(|until| *until > now).min();
            let next = [self.clock.next_deadline(), still].into_iter().flatten().min();
            let pause = next.map_or(TimeDelta::seconds(1), |next| next - now).max(TimeDelta::milliseconds(1));
            self.advance(pause.to_std().unwrap_or_default());
            return;
        }
        let at = *self.random.pick(&ready);
        let is_done = self.actors[at].turn();
        self.log.turn(self.step, &self.actors[at].name);
        if is_done {
            let actor = self.actors.swap_remove(at);
            self.log.line(self.step, format!("{} is done", actor.name));
        }
    }

    /// Has the auditor look at what has happened.
    fn look(&mut self) -> Result<(), Vec<String>> {
        let happenings = self.store.happenings();
        for happening in &happenings {
            match happening {
                Happening::Application { .. } => self.weather.count(|tally| tally.writes += 1),
                Happening::Commit(writes) => self.log.commit(self.step, writes),
                Happening::Hand { key, before, after } => {
                    let shown =
                        |item: &Option<Item>| item.as_ref().map_or("nothing".to_owned(), |item| format!("{item:?}"));
                    self.log.line(self.step, format!("{key} is edited from {} to {}", shown(before), shown(after)));
                }
            }
        }
        self.stream.pull();
        let mut faults = self.auditor.look(happenings, self.stream.routed());
        for (shard, upto) in self.mapping.vouched() {
            // Who loses records in silence cannot vouch for the later ones either.
            if !self.cast.losses {
                self.auditor.vouch(&shard, upto, &mut faults);
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// The weather clears up, everything is read, the books are balanced.
    fn end(&mut self) -> Result<(), Vec<String>> {
        self.log.line(self.step, "the weather clears up");
        self.weather.clear_up();
        self.mapping.clear_up();
        // Whoever reads until nothing is left may judge too early where a child is not listed yet; that is said in its contract.
        self.stream.clear_up();
        // Those who are on stage go on for a while, or everybody is gone at once.
        let linger = self.random.below(300);
        for actor in &mut self.actors {
            actor.still_until = None;
        }
        for _ in 0..linger {
            self.turn();
            self.look()?;
        }
        self.actors.clear();
        if self.cast.hands.is_some() {
            // What was begun is perhaps not done; and without its aggregates nobody reconciles a table.
            self.begin(Role::Repairer);
            self.play_out()?;
        }
        if self.mixed {
            self.begin(Role::Reconciler);
            self.play_out()?;
        }
        // Twice: what the first reader writes is in the stream, too.
        for _ in 0..2 {
            match self.cast.workers {
                0 => self.hand_over()?,
                _ => self.read_out()?,
            }
        }
        let mut faults = self.auditor.settled(self.model);
        faults.extend(audit(&self.store));
        if faults.is_empty() {
            faults.extend(self.verified());
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// Until those on stage are done.
    fn play_out(&mut self) -> Result<(), Vec<String>> {
        for _ in 0..TURNS_MAX {
            if self.actors.is_empty() {
                return Ok(());
            }
            self.turn();
            self.look()?;
        }
        Err(vec!["the end is not in sight".to_owned()])
    }

    fn read_out(&mut self) -> Result<(), Vec<String>> {
        let parts = self.parts();
        let parts = Parts { clock: self.clock.clone(), ..parts };
        let ended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let said = ended.clone();
        let future = async move {
            let closed = last_worker(parts).await;
            said.store(closed, std::sync::atomic::Ordering::Relaxed);
        };
        self.actors.push(Actor::new("last worker".to_owned(), Role::Worker, future));
        self.play_out()?;
        match ended.load(std::sync::atomic::Ordering::Relaxed) {
            true => Ok(()),
            false => Err(vec!["I5: a worker in fair weather ends with an error or an open gap".to_owned()]),
        }
    }

    fn hand_over(&mut self) -> Result<(), Vec<String>> {
        self.begin(Role::Function);
        for _ in 0..TURNS_MAX {
            if self.mapping.is_done(&self.stream) {
                self.actors.clear();
                return self.look();
            }
            self.turn();
            self.look()?;
        }
        Err(vec!["the end is not in sight".to_owned()])
    }

    /// What the product's own proof says, which must be the same.
    fn verified(&self) -> Vec<String> {
        let clock = SimClock::new(self.clock.now(), 0);
        let verified = verify(&self.models[self.model], &self.store, &clock);
        match crate::adapters::sim::block_on(verified) {
            Ok(report) => report.differences.iter().map(|difference| format!("verify: {difference:?}")).collect(),
            Err(error) => vec![format!("verify: {error}")],
        }
    }
}
