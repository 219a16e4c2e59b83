//! Reads that are tried again: a request that may succeed later is given a few chances with growing pauses.

use std::future::Future;
use std::time::Duration;

use super::checkpoint::backoff;
use super::ports::{Clock, StoreError};

const ATTEMPTS_MAX: u32 = 6;
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Repeats `request` while it fails for passing reasons.
///
/// # Errors
/// The last attempt's, or at once one that no repetition helps.
pub async fn read<C, T, F>(clock: &C, request: impl Fn() -> F) -> Result<T, StoreError>
where
    C: Clock,
    F: Future<Output = Result<T, StoreError>>,
{
    let mut attempt = 0;
    loop {
        match request().await {
            Err(error) if error.can_retry() && attempt + 1 < ATTEMPTS_MAX => pause(clock, attempt).await,
            result => return result,
        }
        attempt += 1;
    }
}

/// The pause after the attempt of that number, counted from 0.
pub async fn pause<C: Clock>(clock: &C, attempt: u32) {
    clock.sleep(backoff(PAUSE_FIRST, attempt, PAUSE_MAX, clock.jitter())).await;
}
