//! Whatever the file holds, the loader answers, and its places lie within the file.

use proptest::prelude::*;

use super::faults;
use super::shipped::SHIPPED;
use crate::model::load::rules::RULES;
use crate::model::position::{Position, line_starts};

fn check(source: &str) {
    let found = faults(source);
    assert!(found.is_sorted_by_key(|fault| fault.span.start), "faults out of order");
    for fault in found {
        assert!(fault.span.start <= fault.span.end && fault.span.end <= source.len(), "{fault}");
        assert!(source.is_char_boundary(fault.span.start), "{fault}");
        assert_eq!(fault.position, Position::of(source, &line_starts(source), fault.span.start), "{fault}");
        assert!(RULES.iter().any(|rule| rule.code == fault.code && rule.severity == fault.severity), "{fault}");
        assert!(!fault.message.is_empty() && !fault.remedy.is_empty(), "{fault}");
    }
}

/// A piece of a file that means something, so that random texts get past the TOML parser.
fn piece() -> impl Strategy<Value = String> {
    let keys = [
        "version",
        "name",
        "table",
        "entity.A",
        "aggregate.B",
        "key",
        "match",
        "of",
        "index.I",
        "attribute.X",
        "one_of",
    ];
    let keys = proptest::sample::select(keys.to_vec());
    let values = proptest::sample::select(vec![
        "1",
        "-1",
        "1e400",
        "nan",
        "0xffffffffffffffffffffffffffffffffffffffffff",
        "true",
        "\"\"",
        "\"A\"",
        "\"{x}{y}\"",
        "\"{\"",
        "[]",
        "[1, \"a\", []]",
        "{}",
        "{ PK = \"{x:09}\", type = \"N\" }",
        "1979-05-27",
        "\"\"\"\né\"\"\"",
        "\"\\u00e9#{q\"",
    ]);
    (keys, values, any::<bool>())
        .prop_map(|(key, value, header)| if header { format!("[{key}]\n") } else { format!("{key} = {value}\n") })
}

proptest! {
    #[test]
    fn arbitrary_text_is_answered(source in "\\PC{0,200}") {
        check(&source);
    }

    #[test]
    fn arbitrary_toml_is_answered(pieces in proptest::collection::vec(piece(), 0..12)) {
        check(&pieces.concat());
    }

    /// A line lost, doubled or moved, or some bytes overwritten.
    #[test]
    fn mutated_models_are_answered(which in 0..SHIPPED.len(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(), how in 0..4, text in "[\"{}#=\\[\\], a-zA-Z0-9é]{0,6}") {
        let mut lines: Vec<String> = SHIPPED[which].1.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        let (from, to) = (from.index(lines.len()), to.index(lines.len()));
        match how {
            0 => drop(lines.remove(from)),
            1 => lines.insert(to, lines[from].clone()),
            2 => lines.swap(from, to),
            _ => {
                let line = &lines[from];
                let at = line.char_indices().map(|(at, _)| at).nth(to % line.chars().count().max(1)).unwrap_or(0);
                let end = (at + text.len()).min(line.len());
                let tail = line.get(end..).unwrap_or_default();
                lines[from] = format!("{}{text}{tail}", &line[..at]);
            }
        }
        check(&lines.join("\n"));
    }
}
