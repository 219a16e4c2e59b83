//! An audit on the screen: a sample of the findings, how often each rule is broken, and a line that sums it up.

use comfy_table::Cell;
use tablekeeper::engine::audit::RuleCount;

use super::Audited;
use crate::cli::findings::{self, Judged};
use crate::cli::input;
use crate::cli::output::{Grid, count, heading, line, severity_cell};

pub fn print(audited: &Audited<'_>) {
    let summary = &audited.summary;
    heading("Findings");
    findings::print(&summary.sample(), usize::MAX);
    if summary.broken().next().is_some() {
        heading("Rules that are broken");
        rules(summary.broken());
        if summary.broken().any(|rule| (rule.sample.len() as u64) < rule.findings) {
            line("  --samples N shows more of them, --samples all everything");
        }
    }
    let open = summary.rules.iter().filter(|rule| rule.undecidable > 0);
    let open: Vec<String> = open
        .map(|rule| format!("{} {} of {}", rule.code, rule.undecidable, rule.entity.as_deref().unwrap_or("-")))
        .collect();
    if !open.is_empty() {
        line(format_args!(
            "\n  undecidable (what they name was not seen, or their own key is in doubt): {}",
            open.join(", ")
        ));
    }
    for undecided in &summary.undecided {
        line(format_args!("\n  {undecided}"));
    }
    let judged = Judged { checked: &summary.checked, unrecognised: summary.unrecognised, set_aside: summary.set_aside };
    let broken = audited.broken_files;
    let mut unused = input::unused(audited.unread_total.saturating_sub(broken), audited.superseded_total);
    if broken > 0 {
        unused.push_str(&format!("; {} missing or not as the manifest says", count(broken, "file")));
    }
    if audited.deleted > 0 {
        unused.push_str(&format!("; {} deleted in the export's time", audited.deleted));
    }
    line(format_args!("\n{}", findings::summary(&judged, summary.findings(), &unused)));
}

fn rules<'r>(rules: impl Iterator<Item = &'r RuleCount>) {
    let header = ["Severity", "Code", "Rule", "Entity", "Failed", "Checked", "Share", "Undecidable", "Shown above"];
    let mut grid = Grid::new(&header).right(&[4, 5, 6, 7]);
    for rule in rules {
        grid.row([
            severity_cell(rule.severity),
            Cell::new(&rule.code),
            Cell::new(rule.name),
            Cell::new(rule.entity.as_deref().unwrap_or("-")),
            Cell::new(rule.failed),
            Cell::new(rule.checked),
            Cell::new(rule.share()),
            Cell::new(rule.undecidable),
            Cell::new(format!("{} of {}", rule.sample.len(), rule.findings)),
        ]);
    }
    grid.print();
}
