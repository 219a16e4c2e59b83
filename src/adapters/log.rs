//! What a worker does, as log lines.
//!
//! The contract: fields have the names of [`LOG_FIELDS`](crate::engine::telemetry::LOG_FIELDS); levels say who must act:
//! - `error`: records may be lost, or the table stays wrong until someone acts;
//! - `warn`: something failed and is tried again, or an item was given up and has a finding;
//! - `info`: what an operator wants to see on a good day; `debug`: batches that bring nothing new.
//!
//! Values of items are not logged. A key is a value too: an item is named by the digest of its key, and by the key itself only where
//! the operator asks for it.

use tracing::{debug, error, info, warn};

use crate::engine::batch::{BatchReport, GivenUp};
use crate::engine::checkpoint::ShardKey;
use crate::engine::ports::ShardStart;
use crate::engine::shards::{Gap, GapCause, Notice};
use crate::engine::telemetry::explain;
use crate::engine::worker::{Observer, Progress};

/// Most given-up records of one batch that get a line each: a batch of nothing but poison must not drown the log.
const GIVEN_UP_MAX: usize = 20;

/// Writes what happens to the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Log {
    /// Name items by their keys, too.
    pub keys: bool,
}

impl Observer<BatchReport> for Log {
    fn progress(&self, progress: Progress<'_, BatchReport>) {
        match progress {
            Progress::Started { arn, shards, resumed } => info!(arn, shards, resumed, "reading the stream"),
            Progress::Notice(notice) => self.notice(notice),
            Progress::Batch { shard, report, .. } => self.batch(Some(shard), report),
            Progress::BatchFailed { shard, attempt, error } => {
                let error = explain(error, self.keys);
                warn!(shard = %shard.shard, attempt, error, "batch failed, it is tried again");
            }
            Progress::GapClosed => info!("the table is reconciled, the gap is closed"),
            Progress::RepairPostponed => error!("the gap stays open: run `tablekeeper reconcile`"),
            Progress::RepairFailed(reason) => error!(error = reason, "reconciling failed, it is tried again"),
            Progress::CheckpointFailed(reason) => {
                warn!(error = reason, "a checkpoint was not stored, it is tried again");
            }
            Progress::ShardTaken { shard, from } => info!(shard = %shard.shard, from, "shard taken"),
            Progress::ShardLost(shard) => info!(shard = %shard.shard, "shard is another worker's now"),
            Progress::Shares { owned, workers } => info!(owned, workers, "shards are shared"),
            Progress::LeasesFailed(reason) => warn!(error = reason, "leases were not renewed, it is tried again"),
            Progress::Stopping => info!("stopping: the batch at hand is finished first"),
            Progress::Turn { .. } | Progress::Listed { .. } | Progress::Read { .. } => {}
        }
    }
}

impl Log {
    fn notice(&self, notice: &Notice) {
        match notice {
            Notice::Opened(key, start) => {
                let start = match start {
                    ShardStart::TrimHorizon => "its oldest record".to_owned(),
                    ShardStart::After(number) => format!("after {number}"),
                    ShardStart::At(number) => format!("at {number}"),
                };
                info!(shard = %key.shard, start, "shard opened");
            }
            Notice::Finished(key) => info!(shard = %key.shard, "shard read to its end"),
            Notice::Gap(gap) => self.gap(gap),
            Notice::Trouble { shard, error, failures } => {
                let shard = shard.as_ref().map(|key| &*key.shard);
                let what = if shard.is_some() { "reading a shard failed" } else { "listing the shards failed" };
                warn!(shard, error = %error, failures, "{what}, it is tried again");
            }
        }
    }

    fn gap(&self, gap: &Gap) {
        let (shard, cause) = (gap.shard.as_ref().map(|key| &*key.shard), gap.cause.name());
        match gap.cause {
            _ if gap.is_loss() => error!(shard, cause, "gap, records may be lost: {gap}"),
            GapCause::FirstStart => info!(cause, "first start, a gap until the table is reconciled: {gap}"),
            _ => warn!(shard, cause, "gap until the table is reconciled: {gap}"),
        }
    }

    /// A batch that is durable, and what of it was given up. The shard is unknown where somebody else reads the stream.
    pub fn batch(&self, shard: Option<&ShardKey>, report: &BatchReport) {
        let shard = shard.map(|key| &*key.shard);
        for given_up in report.given_up.iter().take(GIVEN_UP_MAX) {
            self.given_up(shard, given_up);
        }
        if let more @ 1.. = report.given_up.len().saturating_sub(GIVEN_UP_MAX) {
            warn!(shard, more, "more of this batch is in quarantine");
        }
        let records = report.records;
        if report.ours == records {
            debug!(shard, records, "batch of derived items passed over");
            return;
        }
        info!(
            shard,
            records,
            applied = report.applied,
            already_applied = report.already_applied,
            reconciled = report.reconciled,
            superseded = report.superseded,
            skipped = report.skipped,
            ours = report.ours,
            quarantined = report.quarantined,
            malformed = report.malformed,
            transactions = report.transactions,
            retries = report.retries,
            "batch applied"
        );
    }

    fn given_up(&self, shard: Option<&str>, given_up: &GivenUp) {
        let GivenUp { code, key, sequence, .. } = given_up;
        match key {
            Some(key) => {
                let shown = self.keys.then(|| key.to_string());
                warn!(shard, code, item = key.digest().as_str(), key = shown, "item given up, it is in quarantine");
            }
            None => warn!(shard, code, sequence, "record that names no item, it is in quarantine"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::subscriber::with_default;
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;
    use crate::engine::batch::ApplyError;
    use crate::engine::commit::CommitError;
    use crate::engine::ports::StreamError;
    use crate::engine::telemetry::LOG_FIELDS;
    use crate::model::key::TableKey;

    /// A level, and the fields with their values.
    type Line = (Level, Vec<(String, String)>);

    /// Keeps every line.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<Line>>>);

    #[derive(Default)]
    struct Fields(Vec<(String, String)>);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            self.0.push((field.name().to_owned(), format!("{value:?}")));
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            self.0.lock().unwrap().push((*event.metadata().level(), fields.0));
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    fn shard() -> ShardKey {
        ShardKey { arn: "arn".into(), shard: "shardId-1".into() }
    }

    fn secret() -> TableKey {
        TableKey::text("USER#secret", "x")
    }

    fn poisoned(count: usize) -> BatchReport {
        let one = GivenUp {
            code: "P902".to_owned(),
            key: Some(secret()),
            sequence: None,
            event_id: None,
            reason: String::new(),
        };
        let mut given_up = vec![one; count];
        given_up.push(GivenUp {
            code: "P901".to_owned(),
            key: None,
            sequence: Some("111".to_owned()),
            event_id: None,
            reason: String::new(),
        });
        given_up.reverse();
        BatchReport {
            records: count + 2,
            ours: 1,
            quarantined: count,
            malformed: 1,
            given_up,
            ..BatchReport::default()
        }
    }

    /// One line of each kind, and the level it has.
    fn lines(log: Log) -> Vec<Line> {
        let lines = Lines::default();
        let at = "2026-03-01T10:00:00Z".parse().unwrap();
        let gap = |cause| Notice::Gap(Gap { cause, shard: Some(shard()), since: at });
        let failure = CommitError::Preempted { key: Box::new(secret()), rounds: 3 };
        let failure = ApplyError { position: 0, sequence: None, report: Box::default(), source: failure };
        let trouble = |shard| Notice::Trouble { shard, error: StreamError::Throttled("x".to_owned()), failures: 2 };
        let notices = [
            Notice::Opened(shard(), ShardStart::TrimHorizon),
            Notice::Finished(shard()),
            gap(GapCause::FirstStart),
            gap(GapCause::ModelChanged),
            gap(GapCause::Trimmed),
            gap(GapCause::StillOpen { cause: "c".to_owned(), loss: true }),
            trouble(None),
            trouble(Some(shard())),
        ];
        let (key, report, quiet) =
            (shard(), poisoned(GIVEN_UP_MAX + 3), BatchReport { records: 7, ours: 7, ..BatchReport::default() });
        with_default(lines.clone(), || {
            log.progress(Progress::Started { arn: "arn", shards: 1, resumed: 1 });
            notices.iter().for_each(|notice| log.progress(Progress::Notice(notice)));
            log.progress(Progress::Batch { shard: &key, shards: 1, records: report.records, report: &report });
            log.progress(Progress::Batch { shard: &key, shards: 1, records: 7, report: &quiet });
            log.progress(Progress::BatchFailed { shard: &key, attempt: 1, error: &failure });
            log.progress(Progress::RepairFailed("r"));
            log.progress(Progress::CheckpointFailed("c"));
            for progress in [Progress::GapClosed, Progress::RepairPostponed, Progress::Stopping] {
                log.progress(progress);
            }
            log.progress(Progress::Turn { owned: 1, reached: None });
        });
        lines.0.lock().unwrap().clone()
    }

    #[test]
    fn fields_are_documented_ones() {
        let documented: BTreeSet<&str> = LOG_FIELDS.iter().map(|(name, _)| *name).chain(["message"]).collect();
        let lines = lines(Log { keys: true });
        let used: BTreeSet<&str> = lines.iter().flat_map(|(_, fields)| fields).map(|(name, _)| name.as_str()).collect();
        assert!(used.is_subset(&documented), "{used:?}");
        assert!(used.contains("key") && used.contains("item"), "{used:?}");
    }

    #[test]
    fn levels_say_who_must_act() {
        let levels: Vec<char> =
            lines(Log::default()).iter().map(|(level, _)| level.as_str().chars().next().unwrap()).collect();
        let given_up = "W".repeat(GIVEN_UP_MAX + 1);
        let expected = format!("IIIIWEEWW{given_up}IDWEWIEI");
        assert_eq!(levels.into_iter().collect::<String>(), expected);
    }

    #[test]
    fn keys_are_shown_only_where_they_were_asked_for() {
        let text = format!("{:?}", lines(Log::default()));
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains(&format!("first with `item {}`", secret().digest())), "{text}");
        let text = format!("{:?}", lines(Log { keys: true }));
        assert!(text.contains("\"key\", \"\\\"USER#secret / x") || text.contains("USER#secret / x"), "{text}");
    }
}
