//! Temporary files for what memory does not hold.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use crate::engine::ports::Spill;

/// Files without a name in the system's temporary folder (`TMPDIR`) or another: readable by this user only, and gone when they
/// are closed, also if the process is killed.
#[derive(Debug, Clone, Default)]
pub struct TempFiles {
    folder: Option<PathBuf>,
}

impl TempFiles {
    pub fn in_folder(folder: impl Into<PathBuf>) -> TempFiles {
        TempFiles { folder: Some(folder.into()) }
    }
}

impl Spill for TempFiles {
    type File = File;

    fn create(&self) -> io::Result<File> {
        match &self.folder {
            Some(folder) => tempfile::tempfile_in(folder),
            None => tempfile::tempfile(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, Write as _};
    use std::path::Path;

    use super::*;
    use crate::engine::cross::{Cross, Sight};
    use crate::model::load::load;
    use crate::model::shipped;

    fn names_in(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_file_is_read_again_and_has_no_name_to_be_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = TempFiles::in_folder(folder.path()).create().unwrap();
        file.write_all(b"kept").unwrap();
        // So nothing is left either where the process is killed just now.
        assert_eq!(names_in(folder.path()), 0);
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "kept");
        assert!(TempFiles::in_folder(folder.path().join("none")).create().is_err());
    }

    #[test]
    fn a_comparison_leaves_no_file_be_it_finished_or_broken_off() {
        let model = load(shipped::shipped("skills").unwrap().source, "skills").unwrap().model;
        let folder = tempfile::tempdir().unwrap();
        let seen = || {
            // Without memory, each record is a file.
            let mut cross = Cross::new(&model, TempFiles::in_folder(folder.path()), 0);
            for n in 0..100 {
                let item = crate::adapters::files::parse_item(&format!(
                    r#"{{"EntityType":"UserSkill","entity_id":"USERSKILL#u{n}#go","Username":"u{n}","SkillID":"go"}}"#
                ));
                let item = item.unwrap();
                let key = crate::model::key::TableKey::of(&item, &model.table.key_names()).unwrap();
                cross.see(&key, Some("UserSkill"), &item);
            }
            cross
        };
        drop(seen());
        assert_eq!(names_in(folder.path()), 0);
        let mut found = 0;
        seen().finish(Sight::Whole, |_| found += 1).unwrap();
        assert_eq!((found, names_in(folder.path())), (200, 0));
    }
}
