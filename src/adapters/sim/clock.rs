//! Virtual time: it stands still unless somebody sleeps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::executor::yield_now;
use crate::engine::ports::Clock;

/// A clock whose sleepers do not wait: a sleep moves the time on and gives others a turn. Clones share the time.
#[derive(Debug, Clone)]
pub struct SimClock {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    now: DateTime<Utc>,
    seed: u64,
    slept: Duration,
}

impl SimClock {
    /// A clock at `now`; `seed` decides all jitter to come.
    pub fn new(now: DateTime<Utc>, seed: u64) -> SimClock {
        SimClock { state: Arc::new(Mutex::new(State { now, seed, slept: Duration::ZERO })) }
    }

    /// Moves the time on.
    pub fn advance(&self, duration: Duration) {
        let mut state = self.lock();
        state.now += TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX);
    }

    /// How long all sleepers together have slept.
    pub fn slept(&self) -> Duration {
        self.lock().slept
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimClock {
    fn now(&self) -> DateTime<Utc> {
        self.lock().now
    }

    async fn sleep(&self, duration: Duration) {
        self.advance(duration);
        self.lock().slept += duration;
        yield_now().await;
    }

    /// SplitMix64 over the seed: even, and the same in each run.
    fn jitter(&self) -> f64 {
        let mut state = self.lock();
        state.seed = state.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}
