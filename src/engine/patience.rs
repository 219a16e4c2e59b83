//! Trying again: a request that may succeed later is given a few chances with growing pauses.

use std::future::Future;
use std::time::Duration;

use super::ports::{Clock, StoreError};

/// How often a request is sent, and how long is waited in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    pub attempts_max: u32,
    /// The pause after the first failure; it doubles with each.
    pub pause_min: Duration,
    pub pause_max: Duration,
}

impl Patience {
    /// For reads and for rows of the state table: some three seconds, then the caller decides.
    pub const SHORT: Patience =
        Patience { attempts_max: 6, pause_min: Duration::from_millis(50), pause_max: Duration::from_secs(5) };

    /// Sleeps after the attempt of that number, counted from 0.
    pub async fn pause<C: Clock>(&self, clock: &C, attempt: u32) {
        clock.sleep(backoff(self.pause_min, attempt, self.pause_max, clock.jitter())).await;
    }

    /// Sends `request` until it succeeds, until `can_retry` says no, or until the attempts are used up. `can_retry` is asked
    /// about every failure, also about the last.
    ///
    /// # Errors
    /// The last attempt's.
    pub async fn repeat<C, T, E, F>(
        &self,
        clock: &C,
        mut request: impl FnMut() -> F,
        mut can_retry: impl FnMut(&E) -> bool,
    ) -> Result<T, E>
    where
        C: Clock,
        F: Future<Output = Result<T, E>>,
    {
        let mut attempt = 0;
        loop {
            match request().await {
                Err(error) if can_retry(&error) && attempt + 1 < self.attempts_max => self.pause(clock, attempt).await,
                result => return result,
            }
            attempt += 1;
        }
    }
}

/// Repeats a read while it fails for passing reasons.
///
/// # Errors
/// The last attempt's, or at once one that no repetition helps.
pub async fn read<C, T, F>(clock: &C, request: impl FnMut() -> F) -> Result<T, StoreError>
where
    C: Clock,
    F: Future<Output = Result<T, StoreError>>,
{
    Patience::SHORT.repeat(clock, request, StoreError::can_retry).await
}

/// `first` doubled `attempt` times, at most `max`, of which the upper half is left to chance, so that two writers who met once do
/// not meet again.
pub fn backoff(first: Duration, attempt: u32, max: Duration, jitter: f64) -> Duration {
    let full = first.saturating_mul(1u32 << attempt.min(16)).min(max);
    full.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_limit() {
        let at = |attempt, jitter| backoff(Duration::from_millis(100), attempt, Duration::from_secs(1), jitter);
        assert_eq!(at(0, 1.0), Duration::from_millis(100));
        assert_eq!(at(2, 1.0), Duration::from_millis(400));
        assert_eq!(at(2, 0.0), Duration::from_millis(200));
        assert_eq!(at(u32::MAX, 1.0), Duration::from_secs(1));
    }
}
