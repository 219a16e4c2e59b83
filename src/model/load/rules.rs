//! The faults that a model file can have: one constant a rule, one array of all.
//!
//! `explain` prints them from [`RULES`]; the reader and the lints name the constants, so that a fault without documentation cannot
//! be written.

use crate::model::reader::{Grammar, fault_rules};

/// How the reader's own faults are numbered here.
pub(super) const GRAMMAR: Grammar = Grammar {
    file: "a model file",
    syntax: SYNTAX,
    unknown_key: UNKNOWN_KEY,
    missing_key: MISSING_KEY,
    wrong_type: WRONG_TYPE,
    unknown_value: UNKNOWN_VALUE,
    range: RANGE,
    duplicate: DUPLICATE,
};

fault_rules! {
    SYNTAX = "C101" "syntax" Error
        "The file is not TOML: nothing else of it can be judged. Mend the place that is named; quotes, brackets and keys \
         given twice are the usual causes.";
    UNKNOWN_KEY = "C102" "unknown-key" Error
        "A key that the model file does not know, often a misspelling. It would be ignored, and what you meant by it would \
         silently not happen. Write the key that the message names.";
    MISSING_KEY = "C103" "missing-key" Error
        "A key without which the part means nothing, for example an entity without `key`. Add it.";
    WRONG_TYPE = "C104" "wrong-type" Error
        "A value of another TOML type than the key takes, for example a number where text belongs. Write the type that the \
         message names.";
    UNKNOWN_VALUE = "C105" "unknown-value" Error
        "A word that is none of those the key takes: a type, a format, a severity, a rule's code or a report. Write one of them.";
    UNKNOWN_ZONE = "C106" "unknown-zone" Error
        "`zone` is not a name of the IANA time zone database. Dates end with the civil day there, so a guess would make every \
         alert a few hours wrong. Write a name such as `Europe/Berlin` or `UTC`.";
    VERSION = "C107" "version" Error
        "The file's `version` is not one that this release reads. Write `version = 1`.";
    NAME = "C108" "name" Error
        "A name that cannot be used where it is needed: in keys, markers, attribute names, report columns or at AWS. Use \
         letters, digits, `_` and `-`, and begin with a letter; tables and indexes take 3 to 255 of `a-z A-Z 0-9 _ . -`.";
    RANGE = "C109" "range" Error
        "A number or a list outside its limits: a table has 20 indexes at most, an index takes 1 to 4 partition and 0 to 4 sort \
         attributes, a number has at most 38 digits, `min` is not above `max`. Stay within the limit that the message names.";
    DUPLICATE = "C110" "duplicate" Error
        "The same thing is declared twice, for example one value twice in `one_of`, one alias of two attributes, a bucket or a \
         summed attribute twice. Two measures would have one name. Keep one.";
    TEMPLATE = "C111" "template" Error
        "A text that is not a key template. Variables stand in braces, `WO#{wo}`; formats follow a colon, `{n:010}`; a literal \
         brace is written twice.";
    SEPARATOR = "C112" "separator" Error
        "`delimiter` or `prefix` is empty, holds a brace, or the prefix contains the delimiter. Keys could not be told apart. \
         Write for example `#` and `KEEPER`.";
    RESERVED = "C113" "reserved" Error
        "A name or key that belongs to Tablekeeper: the attribute `_keeper`, an aggregate called `findings`, a bucket called \
         `Other`, keys that begin with the reserved prefix. Choose another, or set `prefix`.";
    UNKNOWN_ENTITY = "C120" "unknown-entity" Error
        "`of` or `to` names an entity that the file does not declare. Declare it, or write the name that the message suggests.";
    UNKNOWN_INDEX = "C121" "unknown-index" Error
        "An entity fills an index that `[table.index]` does not declare. Declare the index, or mend its name.";
    UNKNOWN_ATTRIBUTE = "C122" "unknown-attribute" Error
        "An attribute is named that the entity neither declares nor, where that would do, carries in its keys. Declare it as \
         `attribute.<name>`, or mend its name.";
    UNKNOWN_VARIABLE = "C123" "unknown-variable" Error
        "A template of an aggregate, listing, expiry or reference uses a variable that is neither an attribute of the entity nor \
         a variable of its keys: no item could give it a value. Use one that the message lists.";
    NOT_GROUPED = "C124" "not-grouped" Error
        "An aggregate's key uses a variable that is not in `group_by`. Items of one group would write to several places, and no \
         count would be whole. Add it to `group_by`.";
    GROUP_NOT_IN_KEY = "C125" "group-not-in-key" Error
        "A name in `group_by` does not occur in the aggregate's key, so that two groups would share one item and their counts \
         would mix. Put it into the key, or take it out of `group_by`.";
    OPTION_MISPLACED = "C126" "option-misplaced" Error
        "An option that does not go with the attribute's type: `format = \"date\"` on a number, `min` on a text, `one_of` on a \
         map; or with another option: `values = \"show\"` with `keys = \"hash\"`. Change the type or drop the option.";
    TYPE_UNFIT = "C127" "type-unfit" Error
        "An attribute of a type that cannot be used there: a sum of texts, a group by a list, a map in a key, zeros in front of \
         what is no number, `ordinal` of an attribute without `one_of`. Use a fitting attribute.";
    OVERLAP = "C130" "overlap" Error
        "One key could belong to two entities: their templates can give the same text, or the shorter prefix swallows the \
         longer because it lacks the delimiter (`USER{x}` and `USERSKILL#{y}`; `USER#` and `USERSKILL#` are fine). Change a \
         template, or tell them apart by `match` with values that differ.";
    OPTIONAL_IN_KEY = "C131" "optional-in-key" Error
        "A primary key is made from an attribute that is not required. An item without it has a key that nobody can check or \
         make again. Set `required = true`, or use a variable that is no attribute.";
    AMBIGUOUS = "C132" "ambiguous-template" Error
        "Two variables stand side by side, so that `ab` + `c` and `a` + `bc` are the same key. Put a literal, best the \
         delimiter, between them.";
    UNREACHABLE = "C133" "unreachable-entity" Error
        "`match` asks for a value that the attribute cannot have by its own declaration, so no item can ever be of this entity. \
         Mend the value or the declaration.";
    KEY_TYPE = "C134" "key-type" Error
        "A key attribute's type and what is written into it do not agree: a number key needs one bare variable of type N, and \
         one attribute has one type in the table and all indexes. Mend the type or the template.";
    PAD_RANGE = "C135" "padding-range" Error
        "A padded key cannot hold the numbers that the attribute allows: negatives have no place in it, and `max` has more \
         digits than the padding. Set `min = 0` and a fitting `max`, or pad wider.";
    PAD_UNBOUNDED = "C136" "padding-unbounded" Warning
        "A padded key of a number without `min`: a negative value could not be written. Declare `min = 0` if there are none.";
    UNPADDED = "C140" "unpadded-number" Error
        "A number without padding in a listing's sort key, with more of the key behind it: 10 sorts before 9, and what follows \
         is torn apart. Pad it, for example `{Years:03.1}`.";
    UNPADDED_LAST = "C141" "unpadded-last-number" Warning
        "A number without padding at the end of a listing's sort key: 10 sorts before 9 among otherwise equal keys. Pad it.";
    TEXT_ORDER = "C142" "text-order" Warning
        "An attribute with a declared set, or a time of no fixed width, stands as text in a listing's sort key. Alphabetical order \
         is seldom the set's order: Advanced < Beginner < Expert. Write `{Level:ordinal}`; the entry's `Group` map still holds \
         the text. Times in UTC sort where their fraction has one width: `format = \"timestamp-utc.3\"`.";
    NOT_UNIQUE = "C143" "listing-not-unique" Error
        "A listing's key lacks a variable of its entity's primary key: two items would fight for one entry, and the loser would \
         be missing. Add the variable, best at the end of the sort key.";
    SOURCE_PARTITION = "C144" "source-partition" Error
        "A derived item would live in a partition that the application's own items use; its queries would find rows it does not \
         know. Choose another partition, or say `allow_in_source_partition = true`.";
    DERIVED_OVERLAP = "C145" "derived-overlap" Error
        "Two aggregates or listings can write to the same key. Only one of them would win. Make a literal of one key differ.";
    TEXT_KEYS = "C146" "text-keys" Error
        "The model derives items, which have text keys, in a table whose keys are not of type S: none could be stored. Keep \
         aggregates, listings and expiries out of such a model; items can still be audited.";
    TOO_MANY = "C147" "too-many-derived" Error
        "More than 12 aggregates or 24 derived things of one entity. One item's change is one transaction of at most 100 writes, \
         and it must always fit. Drop some, or split the entity.";
    NO_BUCKETS = "C148" "no-buckets" Error
        "`count_by` an attribute without a declared set. Dirty data could then grow the aggregate item without limit. Declare \
         `one_of` for the attribute, or `buckets` for the aggregate.";
    NAME_IN_INDEX = "C149" "derived-name-in-index" Error
        "An index is keyed by an attribute that derived items carry (`Total`, `Group`, `Due`, …): they would appear in the index, or \
         be refused by it because of their type. Rename the index's attribute.";
    LEAD_DAYS = "C150" "lead-days" Error
        "`lead_days` are not descending, or hold a number twice. They are read from the farthest to the nearest. Sort them.";
    NOT_A_DATE = "C151" "not-a-date" Error
        "An expiry's `date` is an attribute without a time format, so that nobody can say when it is due. Declare \
         `format = \"date\"` or another format for it.";
    NEVER_TRUE = "C152" "never-true" Error
        "A condition in `when` asks for a value that the attribute cannot have by its own declaration: it would never hold. Mend \
         the value or the declaration.";
    FINDINGS_UNSTORED = "C153" "findings-unstored" Warning
        "The table's keys are not of type S, so findings cannot be stored in it; they are only printed by `audit`.";
    REFERENCE_KEY = "C160" "reference-key" Error
        "A reference's key that no item of an entity in `to` can have: its templates and the entity's never give the same text, so \
         every reference would be a finding. Mend the template, or take the entity out of `to`.";
    REFERENCE_OPTION = "C161" "reference-option" Error
        "What a reference says of the other item's key does not fit together: `with` stands beside `key`, `with` gives a value to \
         what is no variable of that key, or `copies` is there though `key` lacks the sort key, so that there is no one master to \
         copy from. Drop the one or the other.";
    COPY_TYPE = "C162" "copy-type" Error
        "A copied attribute and its master are declared with different types: they could never be equal. Declare one type for both.";
}
