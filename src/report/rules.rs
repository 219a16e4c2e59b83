//! The faults that a report definition can have: one constant a rule, one array of all.
//!
//! They are listed in `reports/README.md`, and `explain` prints them.

use crate::model::reader::{Grammar, fault_rules};

/// How the reader's own faults are numbered here.
pub(super) const GRAMMAR: Grammar = Grammar {
    file: "a report",
    syntax: SYNTAX,
    unknown_key: UNKNOWN_KEY,
    missing_key: MISSING,
    wrong_type: WRONG_TYPE,
    unknown_value: UNKNOWN_VALUE,
    range: RANGE,
    duplicate: DUPLICATE,
};

fault_rules! {
    SYNTAX = "C201" "report-syntax" Error
        "The file is not TOML: nothing else of it can be judged. Mend the place that is named; quotes, brackets and keys \
         given twice are the usual causes.";
    VERSION = "C202" "report-version" Error
        "`version` is not one that this release reads. Write `version = 1`.";
    UNKNOWN_KEY = "C203" "report-unknown-key" Error
        "A key that a report does not know, often a misspelling. It would be ignored, and what you meant by it would silently \
         not happen. Write the key that the message names.";
    MISSING = "C204" "report-missing" Error
        "Something is absent or empty without which the part means nothing, for example a section without `sql`. Add it.";
    WRONG_TYPE = "C205" "report-wrong-type" Error
        "A value of another TOML type than the key takes, for example a number where text belongs. Write the type that the \
         message names.";
    UNKNOWN_VALUE = "C206" "report-unknown-value" Error
        "A word that is none of those the key takes: a format, a tone, a kind of chart, an order, an id that cannot name a file. \
         Write one of them.";
    DUPLICATE = "C207" "report-duplicate" Error
        "A name is used twice: two sections with one id would write one file, a column shown twice says nothing more. Keep one.";
    OUTER_ORDER = "C208" "report-outer-order" Error
        "The query orders or cuts its own rows, so that ties would come out differently in each run. Take ORDER BY and LIMIT from \
         its end and write `order` and `limit` beside `sql`.";
    PARAMETER = "C209" "report-parameter" Error
        "The query uses a parameter that is not known. Write `:as_of`, or put the value into the query.";
    CHART = "C210" "report-chart" Error
        "A chart's columns do not fit its kind: it needs at least one column in `y`, and exactly one beside `series`. Name them.";
    NOT_SELECT = "C211" "report-not-select" Error
        "The query is not a SELECT. A report only reads. Begin the query with SELECT or WITH.";
    RANGE = "C212" "report-range" Error
        "A number outside its limits, for example `limit = 0`. Stay within those that the message names.";
    SCHEDULE = "C213" "report-schedule" Error
        "The schedule is not five fields of cron, or never comes: minute, hour, day of month, month, weekday. Write for example \
         `\"0 7 * * 1\"`, Mondays at seven by the clock of the model's time zone.";
}
