//! What the function is told by its environment, all faults at once.

use super::answer::Reporting;

const MODEL: &str = "TABLEKEEPER_MODEL";
const TABLE: &str = "TABLEKEEPER_TABLE";
const STATE_TABLE: &str = "TABLEKEEPER_STATE_TABLE";
const REPORTING: &str = "TABLEKEEPER_REPORTING";
const OLD_IMAGES: &str = "TABLEKEEPER_OLD_IMAGES";

/// The function's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `TABLEKEEPER_MODEL`: a shipped model's name, or a model file's path inside the deployment package.
    pub model: String,
    /// `TABLEKEEPER_TABLE`: the table's name, where it is not the model's (stacks make up names).
    pub table: Option<String>,
    /// `TABLEKEEPER_STATE_TABLE`: likewise.
    pub state_table: Option<String>,
    /// `TABLEKEEPER_REPORTING`: `item-failures` (default) or `whole-batch`.
    pub reporting: Reporting,
    /// `TABLEKEEPER_OLD_IMAGES`: `trusted` or `not-trusted` (default). A mapping may drop old records and cannot tell the function,
    /// so skipping by old images is right only for mappings that never do (no maximum age, no maximum of retries).
    pub trust_old_images: bool,
}

/// A setting that is missing or not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingFault {
    #[error("{0} is not set; name a shipped model or the path of a model file")]
    Missing(&'static str),
    #[error("{name} is `{value}`; use {allowed}")]
    Value { name: &'static str, value: String, allowed: &'static str },
}

impl Settings {
    /// Reads the settings through `variable`, which answers with a variable's value; an empty one counts as absent.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Settings, Vec<SettingFault>> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut faults = Vec::new();
        let mut choice = |name, allowed, first: &str, second: &str| match variable(name) {
            Some(value) if value == second => true,
            Some(value) if value != first => {
                faults.push(SettingFault::Value { name, value, allowed });
                false
            }
            _ => false,
        };
        let whole_batch = choice(REPORTING, "`item-failures` or `whole-batch`", "item-failures", "whole-batch");
        let trust_old_images = choice(OLD_IMAGES, "`trusted` or `not-trusted`", "not-trusted", "trusted");
        let model = variable(MODEL);
        if model.is_none() {
            faults.push(SettingFault::Missing(MODEL));
        }
        let reporting = if whole_batch { Reporting::WholeBatch } else { Reporting::ItemFailures };
        match model {
            Some(model) if faults.is_empty() => {
                let (table, state_table) = (variable(TABLE), variable(STATE_TABLE));
                Ok(Settings { model, table, state_table, reporting, trust_old_images })
            }
            _ => Err(faults),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, Vec<SettingFault>> {
        Settings::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn defaults_are_the_careful_ones() {
        let settings = read(&[(MODEL, "quality"), (TABLE, "")]).unwrap();
        assert_eq!(settings.reporting, Reporting::ItemFailures);
        assert!(!settings.trust_old_images);
        assert_eq!((settings.model.as_str(), settings.table), ("quality", None));
    }

    #[test]
    fn every_setting_is_heard() {
        let all =
            [(MODEL, "m.toml"), (TABLE, "t"), (STATE_TABLE, "s"), (REPORTING, "whole-batch"), (OLD_IMAGES, "trusted")];
        let settings = read(&all).unwrap();
        assert_eq!(settings.reporting, Reporting::WholeBatch);
        assert!(settings.trust_old_images);
        assert_eq!((settings.table.as_deref(), settings.state_table.as_deref()), (Some("t"), Some("s")));
    }

    #[test]
    fn all_faults_come_at_once() {
        let faults = read(&[(REPORTING, "yes"), (OLD_IMAGES, "no")]).unwrap_err();
        assert_eq!(faults.len(), 3);
        let text: Vec<String> = faults.iter().map(ToString::to_string).collect();
        for part in ["TABLEKEEPER_REPORTING is `yes`", "TABLEKEEPER_OLD_IMAGES is `no`", "TABLEKEEPER_MODEL is not set"]
        {
            assert!(text.iter().any(|message| message.contains(part)), "{part}");
        }
    }
}
