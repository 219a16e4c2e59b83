//! Tests of the loader: the shipped models, every rule by a failing and a passing case, and files that nobody would write.

mod alone;
mod cases;
mod fuzz;
mod references;
mod shipped;

use super::load;
use crate::model::derived::Severity;
use crate::model::position::Fault;

/// The faults of a file, warnings included.
fn faults(source: &str) -> Vec<Fault> {
    match load(source, "test") {
        Ok(loaded) => loaded.warnings,
        Err(faults) => {
            assert!(faults.iter().any(|fault| fault.severity == Severity::Error), "refused without an error: {source}");
            faults
        }
    }
}

/// The faults, one a line, for messages of failing tests.
fn shown(faults: &[Fault]) -> String {
    faults.iter().map(|fault| format!("  {fault}\n")).collect()
}
