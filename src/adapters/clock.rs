//! Real time, on tokio's timer.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::engine::ports::Clock;

/// The system's clock. Jitter comes from the keys that the standard library draws for its hash tables: different in each process,
/// and not good for secrets.
#[derive(Debug, Default)]
pub struct SystemClock {
    seed: RandomState,
    drawn: AtomicU64,
}

impl SystemClock {
    pub fn new() -> SystemClock {
        SystemClock::default()
    }
}

/// The clone's jitter goes its own way.
impl Clone for SystemClock {
    fn clone(&self) -> SystemClock {
        SystemClock::default()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place where time comes from")]
    fn now(&self) -> DateTime<Utc> {
        std::time::SystemTime::now().into()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn jitter(&self) -> f64 {
        let mut hasher = self.seed.build_hasher();
        hasher.write_u64(self.drawn.fetch_add(1, Ordering::Relaxed));
        // 53 bits: all that a float in [0, 1) holds evenly.
        (hasher.finish() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn time_passes_and_jitter_spreads() {
        let clock = SystemClock::new();
        let before = clock.now();
        clock.sleep(Duration::from_millis(20)).await;
        assert!(clock.now() - before >= chrono::TimeDelta::milliseconds(20));
        let drawn: Vec<f64> = (0..1000).map(|_| clock.jitter()).collect();
        assert!(drawn.iter().all(|x| (0.0..1.0).contains(x)));
        let mean = drawn.iter().sum::<f64>() / 1000.0;
        assert!((0.4..0.6).contains(&mean), "{mean}");
    }
}
