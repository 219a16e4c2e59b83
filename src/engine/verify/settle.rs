//! Settling: which differences stand, on a table that is being written.

use std::collections::BTreeMap;
use std::time::Duration;

use super::compare::Found;
use super::{Difference, DifferenceKind, Pass, VerifyReport, pass};
use crate::engine::ports::{Clock, Store, StoreError};
use crate::model::spec::Model;

/// How long [`settle()`] goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Most readings of both tables. One cannot tell what stands from what is on its way, and reports both.
    pub passes: u32,
    /// Between two of them: what is on its way now should have arrived by then.
    pub pause: Duration,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        VerifyOptions { passes: 3, pause: Duration::from_secs(2) }
    }
}

/// Reads both tables until no difference is left, or each is known to stand, or the passes are used up; see the
/// [module's page](super) for what that proves. `progress` hears of each pass and of the differences in it.
///
/// # Errors
/// Only where a table cannot be read.
pub async fn settle<S: Store, C: Clock>(
    model: &Model,
    store: &S,
    clock: &C,
    options: &VerifyOptions,
    progress: impl FnMut(u32, usize) + Send,
) -> Result<VerifyReport, StoreError> {
    let (mut report, found) = standing(clock, options, progress, || pass(model, store, clock)).await?;
    report.differences = found.into_iter().map(|found| found.difference).collect();
    Ok(report)
}

/// The last pass's report without the differences, and those that stand. `pass` reads all that is looked at, each time anew.
pub(super) async fn standing<C: Clock, F: Future<Output = Result<Pass, StoreError>>>(
    clock: &C,
    options: &VerifyOptions,
    mut progress: impl FnMut(u32, usize) + Send,
    pass: impl Fn() -> F,
) -> Result<(VerifyReport, Vec<Found>), StoreError> {
    let Pass { mut report, mut found } = pass().await?;
    let (mut passes, mut settled) = (1, false);
    progress(passes, found.len());
    while !found.is_empty() && !settled && passes < options.passes {
        clock.sleep(options.pause).await;
        let next = pass().await?;
        passes += 1;
        progress(passes, next.found.len());
        let alike = alike(&found, &next.found);
        settled = alike.iter().all(|alike| *alike);
        report = VerifyReport { passes, ..next.report };
        if settled || passes == options.passes {
            report.unsettled = alike.iter().filter(|alike| !**alike).count() as u64;
            let standing = next.found.into_iter().zip(alike).filter(|(_, alike)| *alike);
            found = standing.map(|(found, _)| found).collect();
        } else {
            found = next.found;
        }
    }
    Ok((report, found))
}

/// For each difference of the second pass, whether the first one found the very same.
fn alike(first: &[Found], second: &[Found]) -> Vec<bool> {
    let place = |found: &Found| -> (DifferenceKind, String, String) {
        let Difference { kind, key, what, .. } = &found.difference;
        (*kind, key.clone(), what.clone())
    };
    let first: BTreeMap<_, &Found> = first.iter().map(|found| (place(found), found)).collect();
    second.iter().map(|found| first.get(&place(found)).is_some_and(|earlier| *earlier == found)).collect()
}
