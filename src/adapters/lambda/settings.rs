//! What the functions are told by their environment, all faults at once.

use std::ops::RangeInclusive;
use std::path::Path;

use super::answer::Reporting;
use crate::model::load::{Loaded, load};
use crate::model::position::Fault;
use crate::model::shipped::shipped;

const MODEL: &str = "TABLEKEEPER_MODEL";
const TABLE: &str = "TABLEKEEPER_TABLE";
const STATE_TABLE: &str = "TABLEKEEPER_STATE_TABLE";
const REPORTING: &str = "TABLEKEEPER_REPORTING";
const OLD_IMAGES: &str = "TABLEKEEPER_OLD_IMAGES";

/// Which tables are kept, and by which model: what all functions are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// `TABLEKEEPER_MODEL`: a shipped model's name, or a model file's path inside the deployment package.
    pub model: String,
    /// `TABLEKEEPER_TABLE`: the table's name, where it is not the model's (stacks make up names).
    pub table: Option<String>,
    /// `TABLEKEEPER_STATE_TABLE`: likewise.
    pub state_table: Option<String>,
}

/// The stream function's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub deployment: Deployment,
    /// `TABLEKEEPER_REPORTING`: `item-failures` (default) or `whole-batch`.
    pub reporting: Reporting,
    /// `TABLEKEEPER_OLD_IMAGES`: `trusted` or `not-trusted` (default). A mapping may drop old records and cannot tell the function,
    /// so skipping by old images is right only for mappings that never do (no maximum age, no maximum of retries).
    pub trust_old_images: bool,
}

/// A setting that is missing or not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingFault {
    #[error("{name} is not set; name {wanted}")]
    Missing { name: &'static str, wanted: &'static str },
    #[error("{name} is `{value}`; use {allowed}")]
    Value { name: &'static str, value: String, allowed: &'static str },
}

/// Why there is no model to begin with.
#[derive(Debug, thiserror::Error)]
pub enum ModelFault {
    #[error("`{name}` is neither a shipped model nor a file that can be read: {source}")]
    Unreadable { name: String, source: std::io::Error },
    #[error("the model `{name}` is at fault:\n{}", lines(.faults))]
    Faults { name: String, faults: Vec<Fault> },
    #[error("the state table `{0}` is the table itself; give it a name of its own")]
    SameTable(String),
}

fn lines(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Variables by name, of which an empty one counts as absent, and what is wrong with them.
pub(super) struct Variables<V> {
    variable: V,
    faults: Vec<SettingFault>,
}

impl<V: Fn(&str) -> Option<String>> Variables<V> {
    pub fn new(variable: V) -> Variables<V> {
        Variables { variable, faults: Vec::new() }
    }

    pub fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// One that must be there; the empty text stands in for it.
    pub fn need(&mut self, name: &'static str, wanted: &'static str) -> String {
        self.get(name).unwrap_or_else(|| {
            self.faults.push(SettingFault::Missing { name, wanted });
            String::new()
        })
    }

    /// A number within a range; `None` where it is not set.
    pub fn number(&mut self, name: &'static str, range: RangeInclusive<u32>, allowed: &'static str) -> Option<u32> {
        let value = self.get(name)?;
        let number = value.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            self.fault(name, value, allowed);
        }
        number
    }

    fn fault(&mut self, name: &'static str, value: String, allowed: &'static str) {
        self.faults.push(SettingFault::Value { name, value, allowed });
    }

    /// True for the second of two words; the first is the default.
    fn choice(&mut self, name: &'static str, allowed: &'static str, first: &str, second: &str) -> bool {
        match self.get(name) {
            Some(value) if value == second => true,
            Some(value) if value != first => {
                self.fault(name, value, allowed);
                false
            }
            _ => false,
        }
    }

    pub fn deployment(&mut self) -> Deployment {
        let model = self.need(MODEL, "a shipped model or the path of a model file");
        Deployment { model, table: self.get(TABLE), state_table: self.get(STATE_TABLE) }
    }

    /// The settings, unless anything was wrong.
    pub fn end<T>(self, settings: T) -> Result<T, Vec<SettingFault>> {
        if self.faults.is_empty() { Ok(settings) } else { Err(self.faults) }
    }
}

impl Settings {
    /// Reads the settings through `variable`, which answers with a variable's value; an empty one counts as absent.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Settings, Vec<SettingFault>> {
        let mut variables = Variables::new(variable);
        let whole_batch =
            variables.choice(REPORTING, "`item-failures` or `whole-batch`", "item-failures", "whole-batch");
        let trust_old_images = variables.choice(OLD_IMAGES, "`trusted` or `not-trusted`", "not-trusted", "trusted");
        let reporting = if whole_batch { Reporting::WholeBatch } else { Reporting::ItemFailures };
        let deployment = variables.deployment();
        variables.end(Settings { deployment, reporting, trust_old_images })
    }
}

impl Deployment {
    /// The model that is named, with the tables' names as they are deployed, and the warnings about it.
    ///
    /// # Errors
    /// [`ModelFault`].
    pub fn load(&self) -> Result<Loaded, ModelFault> {
        let name = self.model.as_str();
        let source = match shipped(name) {
            Some(model) => model.source.to_owned(),
            None => std::fs::read_to_string(name)
                .map_err(|source| ModelFault::Unreadable { name: name.to_owned(), source })?,
        };
        let stem = Path::new(name).file_stem().map_or(name.into(), |stem| stem.to_string_lossy());
        let mut loaded = load(&source, &stem).map_err(|faults| ModelFault::Faults { name: name.to_owned(), faults })?;
        let table = &mut loaded.model.table;
        if let Some(deployed) = &self.table {
            // The state table is named after the table, unless the model or a setting names it.
            if table.state_table == format!("{}-keeper", table.name) {
                table.state_table = format!("{deployed}-keeper");
            }
            table.name.clone_from(deployed);
        }
        if let Some(deployed) = &self.state_table {
            table.state_table.clone_from(deployed);
        }
        if table.state_table == table.name {
            return Err(ModelFault::SameTable(table.name.clone()));
        }
        Ok(loaded)
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
        assert_eq!((settings.deployment.model.as_str(), settings.deployment.table), ("quality", None));
    }

    #[test]
    fn every_setting_is_heard() {
        let all =
            [(MODEL, "m.toml"), (TABLE, "t"), (STATE_TABLE, "s"), (REPORTING, "whole-batch"), (OLD_IMAGES, "trusted")];
        let settings = read(&all).unwrap();
        assert_eq!(settings.reporting, Reporting::WholeBatch);
        assert!(settings.trust_old_images);
        let Deployment { table, state_table, .. } = settings.deployment;
        assert_eq!((table.as_deref(), state_table.as_deref()), (Some("t"), Some("s")));
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

    #[test]
    fn the_model_gets_the_names_of_the_tables_as_they_are_deployed() {
        let tables = |table: Option<&str>, state_table: Option<&str>| {
            let owned = |name: Option<&str>| name.map(str::to_owned);
            let model = "quality".to_owned();
            let deployment = Deployment { model, table: owned(table), state_table: owned(state_table) };
            deployment.load().map(|loaded| (loaded.model.table.name, loaded.model.table.state_table))
        };
        let named = |name: &str, state: &str| (name.to_owned(), state.to_owned());
        assert_eq!(tables(None, None).unwrap(), named("quality", "quality-keeper"));
        assert_eq!(tables(Some("t"), None).unwrap(), named("t", "t-keeper"));
        assert_eq!(tables(Some("t"), Some("s")).unwrap(), named("t", "s"));
        assert!(matches!(tables(Some("t"), Some("t")), Err(ModelFault::SameTable(_))));
    }

    #[test]
    fn a_model_that_cannot_be_had_is_named_with_all_faults() {
        let load = |model: &str| {
            let deployment = Deployment { model: model.to_owned(), table: None, state_table: None };
            deployment.load().unwrap_err().to_string()
        };
        assert!(load("no-such").starts_with("`no-such` is neither a shipped model nor a file"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.toml");
        std::fs::write(&path, "version = 2\nnonsense = 1\n").unwrap();
        let text = load(&path.to_string_lossy());
        assert!(text.contains("bad.toml` is at fault:\n1:") && text.lines().count() > 2, "{text}");
    }
}
