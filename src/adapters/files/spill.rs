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
