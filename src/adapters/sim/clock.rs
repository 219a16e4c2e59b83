//! Virtual time: it stands still unless somebody moves it.
//!
//! There are two ways to use it. [`SimClock::new`]: a sleep moves the time on by itself and gives others a turn, which is all that
//! one future needs. [`SimClock::driven`]: sleepers wait until the driver moves the time, which is what several actors
//! need whose pauses overlap.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::executor::yield_now;
use super::random::Random;
use crate::engine::ports::Clock;

/// A clock in a simulation. Clones share the time, but not the error of a skewed one.
#[derive(Debug, Clone)]
pub struct SimClock {
    state: Arc<Mutex<State>>,
    /// How far this handle's clock goes wrong.
    skew: TimeDelta,
}

#[derive(Debug)]
struct State {
    now: DateTime<Utc>,
    random: Random,
    slept: Duration,
    driven: bool,
    /// Who waits for which instant, by that and a count.
    sleepers: BTreeMap<(DateTime<Utc>, u64), Waker>,
    sleeps: u64,
}

impl SimClock {
    /// A clock at `now` that every sleep moves on; `seed` decides all jitter to come.
    pub fn new(now: DateTime<Utc>, seed: u64) -> SimClock {
        SimClock::make(now, seed, false)
    }

    /// A clock at `now` that moves when the driver says so.
    pub fn driven(now: DateTime<Utc>, seed: u64) -> SimClock {
        SimClock::make(now, seed, true)
    }

    fn make(now: DateTime<Utc>, seed: u64, driven: bool) -> SimClock {
        let random = Random::new(seed);
        let state = State { now, random, slept: Duration::ZERO, driven, sleepers: BTreeMap::new(), sleeps: 0 };
        SimClock { state: Arc::new(Mutex::new(state)), skew: TimeDelta::zero() }
    }

    /// The same time, shown wrong by so much.
    pub fn skewed(&self, skew: TimeDelta) -> SimClock {
        SimClock { state: self.state.clone(), skew }
    }

    /// Moves the time on and wakes whose time has come.
    pub fn advance(&self, duration: Duration) {
        let mut state = self.lock();
        state.now += TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX);
        let now = state.now;
        let later = state.sleepers.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut state.sleepers, later);
        drop(state);
        due.into_values().for_each(Waker::wake);
    }

    /// The next instant that somebody waits for.
    pub fn next_deadline(&self) -> Option<DateTime<Utc>> {
        self.lock().sleepers.keys().next().map(|(deadline, _)| *deadline)
    }

    /// How long all sleepers together have slept on a clock that is not driven.
    pub fn slept(&self) -> Duration {
        self.lock().slept
    }

    /// The place of a new sleeper in the queue of a driven clock.
    fn deadline(&self, duration: Duration) -> Option<(DateTime<Utc>, u64)> {
        let mut state = self.lock();
        state.sleeps += 1;
        let deadline = state.now + TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX);
        state.driven.then_some((deadline, state.sleeps))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimClock {
    fn now(&self) -> DateTime<Utc> {
        self.lock().now + self.skew
    }

    async fn sleep(&self, duration: Duration) {
        if let Some(id) = self.deadline(duration) {
            return Sleep { clock: self, id }.await;
        }
        self.lock().slept += duration;
        self.advance(duration);
        yield_now().await;
    }

    fn jitter(&self) -> f64 {
        self.lock().random.fraction()
    }
}

/// One sleep on a driven clock; whoever stops waiting leaves no trace.
struct Sleep<'a> {
    clock: &'a SimClock,
    id: (DateTime<Utc>, u64),
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.lock();
        if state.now >= self.id.0 {
            return Poll::Ready(());
        }
        state.sleepers.insert(self.id, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.clock.lock().sleepers.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::super::executor::Stepper;
    use super::*;

    #[test]
    fn a_driven_clock_wakes_whose_time_has_come() {
        let clock = SimClock::driven(DateTime::UNIX_EPOCH, 1);
        let late = clock.skewed(TimeDelta::seconds(30));
        let mut short = Stepper::new(clock.sleep(Duration::from_secs(1)));
        let mut long = Stepper::new(late.sleep(Duration::from_secs(2)));
        assert!(short.step().is_none() && long.step().is_none());
        assert_eq!(clock.next_deadline(), Some(DateTime::UNIX_EPOCH + TimeDelta::seconds(1)));
        clock.advance(Duration::from_secs(1));
        assert!(short.step().is_some() && long.step().is_none());
        assert_eq!(clock.next_deadline(), Some(DateTime::UNIX_EPOCH + TimeDelta::seconds(2)));
        drop(long);
        assert_eq!(clock.next_deadline(), None, "nobody waits any more");
        assert_eq!(late.now() - clock.now(), TimeDelta::seconds(30));
    }
}
