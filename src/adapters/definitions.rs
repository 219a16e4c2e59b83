//! Report definitions by name: shipped ones, and files.
//!
//! A model names its reports as they lie beside it, so that a folder, or a function's package, can be moved as a whole. Where there is no
//! such file the name is one from the folder that the program runs in.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use crate::report::builtin::BUILTIN;

/// The text of a definition, not parsed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The report's name: a shipped one's, or the file's without folders and ending.
    pub name: String,
    /// Where it lies, for messages.
    pub place: String,
    pub text: String,
}

/// Why there is no definition.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the report `{name}`{}; give a file, or a shipped report: {}", looked(.places), shipped_names())]
pub struct Unreadable {
    pub name: String,
    /// Files that were looked for.
    pub places: Vec<PathBuf>,
    pub source: Error,
}

fn looked(places: &[PathBuf]) -> String {
    let shown: Vec<String> = places.iter().map(|place| format!("`{}`", place.display())).collect();
    if shown.len() < 2 { String::new() } else { format!(", looked for as {}", shown.join(" and ")) }
}

/// Names of the shipped reports, for messages.
pub fn shipped_names() -> String {
    BUILTIN.map(|(name, _)| name).join(", ")
}

/// The definition of that name. `model`: how the model that names it was itself named, a file or a shipped one.
///
/// # Errors
/// [`Unreadable`]: it is neither shipped nor a file that can be read.
pub fn find(name: &str, model: Option<&str>) -> Result<Found, Unreadable> {
    if let Some((_, text)) = BUILTIN.iter().find(|(shipped, _)| *shipped == name) {
        return Ok(Found { name: name.to_owned(), place: format!("reports/{name}.toml"), text: (*text).to_owned() });
    }
    let mut places: Vec<PathBuf> = model.map(|model| Path::new(model).with_file_name(name)).into_iter().collect();
    places.push(PathBuf::from(name));
    places.dedup();
    let mut missing = Error::from(ErrorKind::NotFound);
    for place in &places {
        match std::fs::read_to_string(place) {
            Ok(text) => {
                let name = place.file_stem().map_or(name.into(), |stem| stem.to_string_lossy()).into_owned();
                return Ok(Found { name, place: place.to_string_lossy().into_owned(), text });
            }
            Err(error) => {
                let absent = error.kind() == ErrorKind::NotFound;
                missing = error;
                // One that is there and cannot be read is the one that was meant.
                if !absent {
                    break;
                }
            }
        }
    }
    Err(Unreadable { name: name.to_owned(), places, source: missing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_looked_for_beside_its_model_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("mine.toml"), "beside").unwrap();
        let model = path("model.toml");
        let found = find("mine.toml", Some(&model)).unwrap();
        assert_eq!(found, Found { name: "mine".to_owned(), place: path("mine.toml"), text: "beside".to_owned() });
        assert_eq!(find(&path("mine.toml"), None).unwrap(), found);
        assert_eq!(find(&path("mine.toml"), Some("quality")).unwrap(), found);
        // Tests run in the folder of the sources.
        let found = find("reports/skills.toml", Some(&model)).unwrap();
        assert_eq!((found.name.as_str(), found.place.as_str()), ("skills", "reports/skills.toml"));
        assert_eq!(find("skills", Some(&model)).unwrap(), found, "a shipped one");
    }

    #[test]
    fn what_is_not_there_says_where_it_was_looked_for() {
        let text = find("none.toml", Some("models/quality.toml")).unwrap_err().to_string();
        assert!(text.contains("`none.toml`, looked for as `models/none.toml` and `none.toml`; give a file"), "{text}");
        let text = find("none.toml", Some("quality")).unwrap_err().to_string();
        assert!(text.contains("`none.toml`; give a file, or a shipped report: quality-weekly"), "{text}");
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("reports")).unwrap();
        let model = folder.path().join("model.toml");
        let unreadable = find("reports", model.to_str()).unwrap_err();
        assert_ne!(unreadable.source.kind(), ErrorKind::NotFound, "a folder that is there is not passed over");
    }
}
