//! Time from the system, pauses by tokio.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};

use crate::engine::ports::Clock;

/// The real clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place where time comes from")]
    fn now(&self) -> DateTime<Utc> {
        SystemTime::now().into()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn jitter(&self) -> f64 {
        // The standard library's only source of randomness; 53 bits fill a float.
        let bits = RandomState::new().build_hasher().finish() >> 11;
        bits as f64 / (1u64 << 53) as f64
    }
}
