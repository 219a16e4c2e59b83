//! Whether a worker lives and whether it does its work.
//!
//! Two questions, because the answers call for different acts. A process that is not *live* is stuck and should be replaced; one that
//! is live and not *ready* waits for something outside, and replacing it would help nobody. The contract:
//! - live: the worker's loop has come round within [`STALLED_AFTER`], or the process is younger than that;
//! - ready: the stream has been described, something has been read from it (or applied) within [`SILENT_AFTER`], and the last batch
//!   did not fail. A worker that stops is not ready. An open gap does not count: the worker reads on, and the gap has a metric.
//!
//! Pure: the time is an argument. Reasons name no item.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::engine::worker::{Progress, TURN_MAX};

/// Three turns of the loop that should have been there.
pub const STALLED_AFTER: Duration = Duration::from_secs(3 * TURN_MAX.as_secs());
/// Longer than the longest pause after failures and than the longest time between two descriptions.
pub const SILENT_AFTER: Duration = Duration::from_secs(60);

/// What is remembered of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// When the loop last came round; at first, when the process began.
    turned_at: DateTime<Utc>,
    started: bool,
    /// When the stream last answered, or a batch was last applied: a shard is not read while its batch is under way.
    answered_at: Option<DateTime<Utc>>,
    /// The last batch failed so many times.
    failed_attempts: u32,
    stopping: bool,
    reached: Option<DateTime<Utc>>,
}

impl Health {
    pub fn new(now: DateTime<Utc>) -> Health {
        Health { turned_at: now, started: false, answered_at: None, failed_attempts: 0, stopping: false, reached: None }
    }

    pub fn on<R>(&mut self, progress: &Progress<'_, R>, now: DateTime<Utc>) {
        match progress {
            Progress::Started { .. } => self.started = true,
            Progress::Turn { reached, .. } => {
                self.turned_at = now;
                self.reached = *reached;
            }
            Progress::Read { .. } | Progress::Listed { .. } => self.answered_at = Some(now),
            Progress::Batch { .. } => {
                self.answered_at = Some(now);
                self.failed_attempts = 0;
            }
            Progress::BatchFailed { attempt, .. } => self.failed_attempts = *attempt,
            Progress::Stopping => self.stopping = true,
            _ => {}
        }
    }

    /// How far the derived items are behind; `None` while no shard is read.
    pub fn lag(&self, now: DateTime<Utc>) -> Option<Duration> {
        self.reached.map(|reached| (now - reached).to_std().unwrap_or_default())
    }

    /// # Errors
    /// Why the process should be replaced.
    pub fn live(&self, now: DateTime<Utc>) -> Result<(), String> {
        match past(Some(self.turned_at), STALLED_AFTER, now) {
            Some(seconds) => Err(format!("the worker's loop has not moved for {seconds} s; restart the process")),
            None => Ok(()),
        }
    }

    /// # Errors
    /// Why the work is not being done.
    pub fn ready(&self, now: DateTime<Utc>) -> Result<(), String> {
        self.live(now)?;
        if self.stopping {
            return Err("stopping".to_owned());
        }
        if !self.started {
            return Err("the stream has not been described yet; see the log if this stays".to_owned());
        }
        if self.failed_attempts > 0 {
            let times = self.failed_attempts;
            return Err(format!("the last batch failed {times} times in a row and is tried again; see the log"));
        }
        if self.answered_at.is_none() {
            return Err("nothing has been read from the stream yet; see the log if this stays".to_owned());
        }
        match past(self.answered_at, SILENT_AFTER, now) {
            Some(seconds) => Err(format!("nothing could be read from the stream for {seconds} s; see the log")),
            None => Ok(()),
        }
    }
}

/// The seconds since `at`, if they are more than `allowed`.
fn past(at: Option<DateTime<Utc>>, allowed: Duration, now: DateTime<Utc>) -> Option<i64> {
    let since = now - at?;
    TimeDelta::from_std(allowed).is_ok_and(|allowed| since > allowed).then_some(since.num_seconds())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::checkpoint::ShardKey;

    struct Driver {
        health: Health,
        now: DateTime<Utc>,
    }

    impl Driver {
        fn new() -> Driver {
            let now = "2026-03-01T10:00:00Z".parse().unwrap();
            Driver { health: Health::new(now), now }
        }

        fn after(&mut self, seconds: i64, progress: Progress<'_, ()>) -> &mut Driver {
            self.now += TimeDelta::seconds(seconds);
            self.health.on(&progress, self.now);
            self
        }

        fn ready(&self) -> bool {
            self.health.ready(self.now).is_ok()
        }
    }

    const STARTED: Progress<'static, ()> = Progress::Started { arn: "arn", shards: 1, resumed: 0 };
    const TURN: Progress<'static, ()> = Progress::Turn { owned: 1, reached: None };
    const READ: Progress<'static, ()> = Progress::Read { records: 0 };

    fn shard() -> ShardKey {
        ShardKey { arn: "arn".into(), shard: "shardId-1".into() }
    }

    #[test]
    fn ready_once_the_stream_is_read() {
        let mut driver = Driver::new();
        assert!(driver.health.live(driver.now).is_ok() && !driver.ready());
        assert!(!driver.after(1, STARTED).after(0, TURN).ready());
        assert!(driver.after(1, READ).ready());
        // Turns alone do not make it ready: something must be read.
        driver.after(40, TURN).after(40, TURN);
        assert!(!driver.ready() && driver.health.live(driver.now).is_ok());
        assert!(
            driver.after(0, Progress::Listed { shards: 0 }).ready(),
            "no shard may be ours: listing them is enough"
        );
        assert!(!driver.after(0, Progress::Stopping).ready());
    }

    #[test]
    fn not_ready_from_a_failed_batch_to_one_that_is_applied() {
        let (mut driver, shard) = (Driver::new(), shard());
        driver.after(0, STARTED).after(0, TURN).after(0, READ);
        let error = std::io::Error::other("x");
        driver.after(1, Progress::BatchFailed { shard: &shard, attempt: 1, error: &error }).after(1, READ);
        assert_eq!(
            driver.health.ready(driver.now).unwrap_err().split(" times").next(),
            Some("the last batch failed 1")
        );
        assert!(driver.after(1, Progress::Batch { shard: &shard, records: 1, report: &() }).ready());
    }

    #[test]
    fn a_loop_that_stands_still_is_neither_live_nor_ready() {
        let mut driver = Driver::new();
        driver.after(0, STARTED).after(0, TURN).after(50, READ);
        assert!(driver.ready());
        driver.after(11, READ);
        assert!(!driver.ready() && driver.health.live(driver.now).is_err());
        assert!(driver.after(0, TURN).ready());
        // A clock that is set back is no reason to restart anything.
        assert!(driver.after(-10_000, READ).ready());
    }

    #[test]
    fn lag_grows_by_itself() {
        let mut driver = Driver::new();
        assert_eq!(driver.health.lag(driver.now), None);
        let reached = Some(driver.now - TimeDelta::seconds(3));
        driver.after(0, Progress::Turn { owned: 1, reached });
        assert_eq!(driver.health.lag(driver.now), Some(Duration::from_secs(3)));
        assert_eq!(driver.health.lag(driver.now + TimeDelta::seconds(4)), Some(Duration::from_secs(7)));
        assert_eq!(driver.health.lag(driver.now - TimeDelta::days(1)), Some(Duration::ZERO));
    }
}
