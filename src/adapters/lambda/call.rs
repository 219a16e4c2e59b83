//! A call by the clock: which task, as of when; and what the function is told by its environment.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde::Deserialize;

use super::settings::{Deployment, SettingFault, Variables};

const TOPIC: &str = "TABLEKEEPER_TOPIC_ARN";
const BUCKET: &str = "TABLEKEEPER_REPORT_BUCKET";
const PREFIX: &str = "TABLEKEEPER_REPORT_PREFIX";
const MAX_READ_UNITS: &str = "TABLEKEEPER_MAX_READ_UNITS";
const WINDOW_SECONDS: &str = "TABLEKEEPER_WINDOW_SECONDS";
/// Where the prefix is not set.
const PREFIX_DEFAULT: &str = "reports/";
/// Seconds; as in the deployment template.
const WINDOW_DEFAULT: u32 = 5;
/// How far a call's instant may be ahead: clocks differ, and a mistyped year would tell everybody that all is overdue.
const AHEAD_MAX: TimeDelta = TimeDelta::hours(1);

/// The schedule function's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleSettings {
    pub deployment: Deployment,
    /// `TABLEKEEPER_TOPIC_ARN`: the SNS topic that is told what falls due.
    pub topic_arn: String,
    /// `TABLEKEEPER_REPORT_BUCKET`: the S3 bucket that reports go to.
    pub bucket: String,
    /// `TABLEKEEPER_REPORT_PREFIX`: what their keys begin with; default `reports/`.
    pub prefix: String,
    /// `TABLEKEEPER_MAX_READ_UNITS`: most read units a second of a reconcile; none: as fast as it goes.
    pub max_read_units: Option<u32>,
    /// `TABLEKEEPER_WINDOW_SECONDS`: how long the stream function's mapping collects records (default 5). So long a change may not be
    /// applied though nothing is wrong.
    pub window: Duration,
}

impl ScheduleSettings {
    /// Reads the settings through `variable`, which answers with a variable's value; an empty one counts as absent.
    ///
    /// # Errors
    /// All that are missing or not understood.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<ScheduleSettings, Vec<SettingFault>> {
        let mut variables = Variables::new(variable);
        let deployment = variables.deployment();
        let topic_arn = variables.need(TOPIC, "the topic that is told what falls due");
        let bucket = variables.need(BUCKET, "the bucket that reports go to");
        let prefix = variables.get(PREFIX).unwrap_or_else(|| PREFIX_DEFAULT.to_owned());
        let max_read_units =
            variables.number(MAX_READ_UNITS, 1..=u32::MAX, "a whole number from 1 on, or leave it out");
        let window = variables.number(WINDOW_SECONDS, 0..=300, "a whole number from 0 to 300");
        let window = Duration::from_secs(window.unwrap_or(WINDOW_DEFAULT).into());
        variables.end(ScheduleSettings { deployment, topic_arn, bucket, prefix, max_read_units, window })
    }
}

/// What there is to do by the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Sweep,
    Report,
    Reconcile,
    Verify,
}

impl Task {
    pub const ALL: [Task; 4] = [Task::Sweep, Task::Report, Task::Reconcile, Task::Verify];

    pub fn name(self) -> &'static str {
        match self {
            Task::Sweep => "sweep",
            Task::Report => "report",
            Task::Reconcile => "reconcile",
            Task::Verify => "verify",
        }
    }
}

/// One call: `{"task": "sweep", "at": "2026-03-01T06:00:00Z"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub task: Task,
    /// When it was to be done; now, where the event does not say.
    pub at: DateTime<Utc>,
}

/// Why an event is no call; nothing has been done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFault {
    #[error(
        "the event is not a call by the clock: {0}; send `{{\"task\": \"sweep\", \"at\": \"2026-03-01T06:00:00Z\"}}`"
    )]
    NotACall(String),
    #[error("`{0}` is not a task; use `sweep`, `report`, `reconcile` or `verify`")]
    UnknownTask(String),
    #[error("`at` is `{0}`; write an instant like `2026-03-01T06:00:00Z`, or leave it out")]
    At(String),
    #[error("`at` is {at}, which has not come yet; it is {now}")]
    Ahead { at: String, now: String },
}

#[derive(Deserialize)]
struct Event {
    task: String,
    at: Option<String>,
}

impl Call {
    /// Reads an event's payload.
    ///
    /// # Errors
    /// [`CallFault`].
    pub fn parse(payload: &str, now: DateTime<Utc>) -> Result<Call, CallFault> {
        let Event { task, at } =
            serde_json::from_str(payload).map_err(|error| CallFault::NotACall(error.to_string()))?;
        let Some(task) = Task::ALL.into_iter().find(|known| known.name() == task) else {
            return Err(CallFault::UnknownTask(task));
        };
        let at = match at {
            None => now,
            Some(text) => DateTime::parse_from_rfc3339(&text).map_err(|_| CallFault::At(text))?.to_utc(),
        };
        if at > now + AHEAD_MAX {
            let shown = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Secs, true);
            return Err(CallFault::Ahead { at: shown(at), now: shown(now) });
        }
        Ok(Call { task, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        "2026-03-01T06:00:10Z".parse().unwrap()
    }

    #[test]
    fn a_call_names_a_task_and_perhaps_an_instant() {
        let call = |json: &str| Call::parse(json, now()).unwrap();
        let at = "2026-03-01T06:00:00Z".parse().unwrap();
        assert_eq!(call(r#"{"task":"sweep","at":"2026-03-01T07:00:00+01:00"}"#), Call { task: Task::Sweep, at });
        for task in Task::ALL {
            assert_eq!(call(&format!("{{\"task\":\"{}\",\"other\":1}}", task.name())), Call { task, at: now() });
        }
        assert_eq!(call(r#"{"task":"report","at":"2026-03-01T06:59:00Z"}"#).task, Task::Report, "clocks differ");
    }

    #[test]
    fn what_is_no_call_is_refused_and_says_what_would_be() {
        for (json, said) in [
            ("{}", "`task`"),
            ("[]", "not a call"),
            (r#"{"Records":[]}"#, "not a call"),
            (r#"{"task":"swep"}"#, "`swep` is not a task"),
            (r#"{"task":"sweep","at":"<aws.scheduler.scheduled-time>"}"#, "`<aws.scheduler.scheduled-time>`"),
            (r#"{"task":"sweep","at":""}"#, "write an instant"),
            (r#"{"task":"sweep","at":"2062-03-01T06:00:00Z"}"#, "has not come yet; it is 2026-03-01T06:00:10Z"),
        ] {
            let text = Call::parse(json, now()).unwrap_err().to_string();
            assert!(text.contains(said), "{json}: {text}");
        }
    }

    #[test]
    fn settings_are_read_and_all_faults_come_at_once() {
        let read = |pairs: &[(&str, &str)]| {
            let find = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            ScheduleSettings::read(find)
        };
        let needed = [("TABLEKEEPER_MODEL", "quality"), (TOPIC, "arn:t"), (BUCKET, "b")];
        let settings = read(&needed).unwrap();
        assert_eq!((settings.prefix.as_str(), settings.max_read_units), ("reports/", None));
        assert_eq!(settings.window, Duration::from_secs(5));
        let all = [&needed[..], &[(PREFIX, "r/"), (MAX_READ_UNITS, "7"), (WINDOW_SECONDS, "0")]].concat();
        let settings = read(&all).unwrap();
        assert_eq!((settings.prefix.as_str(), settings.max_read_units), ("r/", Some(7)));
        assert_eq!(settings.window, Duration::ZERO);
        let faults = read(&[(MAX_READ_UNITS, "0"), (WINDOW_SECONDS, "soon")]).unwrap_err();
        let text = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        for name in [
            "TABLEKEEPER_MODEL is not set",
            "TOPIC_ARN is not set",
            "BUCKET is not set",
            "UNITS is `0`",
            "SECONDS is `soon`",
        ] {
            assert!(text.contains(name), "{name}: {text}");
        }
    }
}
