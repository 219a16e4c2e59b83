//! The rules of the house, as tests: floors, sizes, leftovers, docs.
//!
//! Each rule is a function from one source file to its violations, so that each has a counter-proof beside it: a small bad
//! text which it must catch. A rule that finds nothing anywhere proves nothing.

mod peers;
pub mod source;

use source::{Source, code_only, files, functions, without_tests};

const FILE_LINES_MAX: usize = 520;
const FUNCTION_LINES_MAX: usize = 70;

/// The rooms of the library and their floors; a file imports only from floors below its own.
const FLOORS: [(&str, usize); 6] =
    [("model", 0), ("derive", 1), ("plan", 1), ("report", 1), ("engine", 2), ("adapters", 3)];

/// What sees everything: the library's root and the programs.
const TOP: [&str; 4] = ["src/lib.rs", "src/main.rs", "src/bin/", "src/cli/"];

fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

/// Paths without `.rs` of the files below `src` that are test modules declared by another file.
fn test_stems(sources: &[Source]) -> Vec<String> {
    let declared = |file: &Source| {
        let (_, names) = without_tests(&code_only(&file.text));
        let folder = file.path.trim_end_matches(".rs").trim_end_matches("/mod").to_owned();
        names.into_iter().map(move |name| format!("{folder}/{name}"))
    };
    sources.iter().flat_map(declared).collect()
}

fn is_test_file(file: &Source, stems: &[String]) -> bool {
    let beside = |stem: &String| {
        file.path.strip_prefix(stem.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    file.path.starts_with("tests/") || stems.iter().any(beside)
}

fn all_sources() -> Vec<Source> {
    [files("src", &[".rs"]), files("tests", &[".rs"])].into_iter().flatten().collect()
}

/// Applies a rule to all sources and fails with every violation at once.
fn assert_clean(sources: &[Source], rule: impl Fn(&Source) -> Vec<String>) {
    assert!(sources.len() > 10, "only {} files were found: the rule would prove nothing", sources.len());
    let violations: Vec<String> = sources.iter().flat_map(rule).collect();
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

/// Each match of `needle` in `text` that does not go on from a word, with its line.
fn places<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.lines().enumerate().flat_map(move |(at, line)| {
        let found =
            line.match_indices(needle).filter(move |(i, _)| !line[..*i].chars().next_back().is_some_and(is_word));
        found.map(move |(i, _)| (at + 1, &line[i..]))
    })
}

fn is_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

// ---- floors -------------------------------------------------------------------------------------------------------

/// `src/derive/rules/key.rs` is the module `["derive", "rules", "key"]`.
fn module_path(path: &str) -> Vec<String> {
    let inside = path.trim_start_matches("src/").trim_end_matches(".rs");
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    inside.split('/').map(str::to_owned).collect()
}

fn floor_of(room: &str) -> Option<usize> {
    FLOORS.iter().find(|(name, _)| *name == room).map(|(_, floor)| *floor)
}

/// Every module path that the code mentions, from the crate's root, with its line: `crate::a::b`, `crate::{a::b, c}` and
/// paths by `super` that leave the room.
fn mentioned(module: &[String], code: &str) -> Vec<(usize, Vec<String>)> {
    let line_of = |offset: usize| code[..offset].matches('\n').count() + 1;
    let mut paths = Vec::new();
    for (start, word) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        // Only the first of a chain of supers, and no longer word that ends so.
        let before = code[..start].chars().next_back().unwrap_or(' ');
        if is_identifier(before) || before == ':' {
            continue;
        }
        let (mut base, mut rest) = (Vec::new(), &code[start + word.len()..]);
        if word == "super::" {
            let mut depth = 1;
            while let Some(further) = rest.strip_prefix("super::") {
                (depth, rest) = (depth + 1, further);
            }
            base = module[..module.len().saturating_sub(depth)].to_vec();
        }
        for tail in alternatives(rest) {
            let path: Vec<String> = base.iter().cloned().chain(tail).collect();
            paths.push((line_of(start), path));
        }
    }
    paths
}

/// The first two segments of each path in `a::b`, or in `{a::b, c}` with its first braces opened.
fn alternatives(rest: &str) -> Vec<Vec<String>> {
    let head = |path: &str| -> Vec<String> {
        let whole: String = path.trim().chars().take_while(|c| is_identifier(*c) || *c == ':').collect();
        whole.split("::").filter(|part| !part.is_empty()).take(2).map(str::to_owned).collect()
    };
    let trimmed = rest.trim_start();
    let Some(group) = trimmed.strip_prefix('{') else {
        let first = head(trimmed);
        // `crate::adapters::{a, b}`: which of the room's modules is inside the braces.
        let after = trimmed.trim_start_matches(|c| is_identifier(c) || c == ':');
        return match (first.len(), after.strip_prefix('{')) {
            (1, Some(group)) => split_group(group).iter().map(|part| [first.clone(), head(part)].concat()).collect(),
            _ => vec![first],
        };
    };
    split_group(group).into_iter().flat_map(|part| alternatives(&part)).collect()
}

/// The parts of a brace group (text after its `{`), split at its own commas.
fn split_group(group: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        parts.last_mut().expect("never empty").push(c);
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn floor_violations(file: &Source) -> Vec<String> {
    let Source { path, text } = file;
    if TOP.iter().any(|top| path.starts_with(top)) {
        return Vec::new();
    }
    let module = module_path(path);
    let Some(floor) = floor_of(&module[0]) else {
        return vec![format!("{path}: `{}` is on no floor; the code map has {FLOORS:?}", module[0])];
    };
    let (code, _) = without_tests(&code_only(text));
    let judge = |(line, target): (usize, Vec<String>)| {
        let room = target.first()?;
        let target_floor = floor_of(room)?;
        if *room != module[0] {
            return (target_floor >= floor).then(|| format!("{path}:{line}: `{}` imports from `{room}`", module[0]));
        }
        let other =
            target.get(1).filter(|other| room == "adapters" && module.get(1).is_some_and(|own| own != *other))?;
        Some(format!("{path}:{line}: adapters do not import each other, here `{other}`"))
    };
    mentioned(&module, &code).into_iter().filter_map(judge).collect()
}

#[test]
fn files_import_only_from_floors_below() {
    let sources = files("src", &[".rs"]);
    let tests = test_stems(&sources);
    assert_clean(&sources, |file| if is_test_file(file, &tests) { Vec::new() } else { floor_violations(file) });
}

#[test]
fn an_import_from_above_or_beside_is_caught() {
    let caught = |path: &str, text: &str| !floor_violations(&source(path, text)).is_empty();
    assert!(caught("src/model/key.rs", "use crate::engine::ports::Store;"));
    assert!(caught("src/derive/mod.rs", "use crate::plan::write::Write;"));
    assert!(caught("src/derive/rules/key.rs", "fn f() { crate::adapters::sim::run() }"));
    assert!(caught("src/derive/rules/key.rs", "use super::super::super::plan::pack;"));
    assert!(caught("src/plan/pack.rs", "use crate::{\n    model::{key, value},\n    engine::batch,\n};"));
    assert!(caught("src/adapters/files.rs", "use crate::adapters::sim;"));
    assert!(caught("src/adapters/files/read.rs", "use crate::adapters::{files, page};"));
    assert!(caught("src/adapters/files/read.rs", "use super::super::page;"));
    assert!(caught("src/attic/old.rs", ""));

    assert!(!caught("src/engine/batch.rs", "use crate::{model::key, plan::pack, derive, report};\nuse super::ports;"));
    assert!(!caught(
        "src/adapters/files/read.rs",
        "use super::decode;\nuse crate::adapters::files::x;\nuse crate::model::value;"
    ));
    assert!(!caught(
        "src/engine/batch.rs",
        "/// See [`crate::adapters`].\nfn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::adapters::sim;\n}"
    ));
    assert!(!caught("src/main.rs", "use crate::adapters::files;"));
}

#[test]
fn a_test_module_in_a_file_of_its_own_is_known_by_its_declaration() {
    let parent = source("src/engine/shards.rs", "mod state;\n#[cfg(test)]\nmod tests;");
    let stems = test_stems(&[parent]);
    assert_eq!(stems, ["src/engine/shards/tests"]);
    let is_test = |path: &str| is_test_file(&source(path, ""), &stems);
    assert!(
        is_test("src/engine/shards/tests.rs") && is_test("src/engine/shards/tests/late.rs") && is_test("tests/it/x.rs")
    );
    assert!(!is_test("src/engine/shards/state.rs") && !is_test("src/engine/shards/tests_of.rs"));
}

// ---- sizes --------------------------------------------------------------------------------------------------------

fn size_violations(file: &Source) -> Vec<String> {
    let Source { path, text } = file;
    let lines = text.lines().count();
    let mut violations = Vec::new();
    if lines > FILE_LINES_MAX {
        violations.push(format!("{path}: {lines} lines; split it, {FILE_LINES_MAX} is the most"));
    }
    for function in functions(&code_only(text)).into_iter().filter(|function| function.length > FUNCTION_LINES_MAX) {
        let (line, name, length) = (function.line, function.name, function.length);
        violations.push(format!("{path}:{line}: `{name}` has {length} lines; {FUNCTION_LINES_MAX} is the most"));
    }
    violations
}

#[test]
fn files_and_functions_stay_short() {
    assert_clean(&all_sources(), size_violations);
}

#[test]
fn a_long_file_and_a_long_function_are_caught() {
    let function = |body: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(body));
    let violations = |text: &str| size_violations(&source("src/x.rs", text)).len();
    assert_eq!(violations(&function(FUNCTION_LINES_MAX - 2)), 0);
    assert_eq!(violations(&function(FUNCTION_LINES_MAX - 1)), 1);
    // A brace at the margin inside a text does not end a function.
    assert_eq!(violations(&function(FUNCTION_LINES_MAX).replacen("g();", "\"\n}\n\";", 1)), 1);
    assert_eq!(violations(&"\n".repeat(FILE_LINES_MAX)), 0);
    assert_eq!(violations(&"\n".repeat(FILE_LINES_MAX + 1)), 1);
}

// ---- leftovers ----------------------------------------------------------------------------------------------------

/// In code, tests or not.
const NEVER: [(&str, &str); 4] = [
    ("todo!", "what is not there is not offered"),
    ("unimplemented!", "what is not there is not offered"),
    ("dbg!", "log through tracing"),
    ("#[ignore]", "a test that does not run is no test; give the reason"),
];

/// In code outside tests: the program goes on, whatever its input.
const NEVER_OUTSIDE_TESTS: [(&str, &str); 2] =
    [(".unwrap()", "return the error, or `expect` with the reason why it cannot fail"), ("panic!", "return an error")];

/// Anywhere, comments included. In two parts, or this file would be found.
const NEVER_IN_TEXT: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:"), concat!("(to ", "come)")];

/// In the core (floors 0 to 2).
const NEVER_IN_CORE: [(&str, &str); 4] = [
    ("serde_json::Value", "it holds numbers as floats; use model::value"),
    ("SystemTime", "time is a parameter; see engine::ports::Clock"),
    ("Utc::now", "time is a parameter; see engine::ports::Clock"),
    ("Instant::now", "time is a parameter; see engine::ports::Clock"),
];

fn leftover_violations(file: &Source, is_test: bool) -> Vec<String> {
    let Source { path, text } = file;
    let code = code_only(text);
    let (product, _) = without_tests(&code);
    let core = module_path(path).first().and_then(|room| floor_of(room)).is_some_and(|floor| floor < 3);
    let mut rules: Vec<(&str, &str, &str)> = Vec::new();
    rules.extend(NEVER.map(|(needle, remedy)| (code.as_str(), needle, remedy)));
    rules.extend(NEVER_IN_TEXT.map(|needle| (text.as_str(), needle, "do it, or file it and say nothing here")));
    if !is_test {
        rules.extend(NEVER_OUTSIDE_TESTS.map(|(needle, remedy)| (product.as_str(), needle, remedy)));
    }
    if core && !is_test {
        rules.extend(NEVER_IN_CORE.map(|(needle, remedy)| (product.as_str(), needle, remedy)));
    }
    let found = |(text, needle, remedy): (&str, &str, &str)| -> Vec<String> {
        places(text, needle).map(|(line, _)| format!("{path}:{line}: `{needle}`: {remedy}")).collect()
    };
    rules.into_iter().flat_map(found).collect()
}

#[test]
fn nothing_is_left_over() {
    let sources = all_sources();
    let tests = test_stems(&sources);
    assert_clean(&sources, |file| leftover_violations(file, is_test_file(file, &tests)));
}

#[test]
fn each_leftover_is_caught() {
    let caught =
        |path: &str, text: &str| !leftover_violations(&source(path, text), path.starts_with("tests/")).is_empty();
    for (needle, _) in NEVER {
        assert!(caught("tests/it/x.rs", &format!("fn f() {{ {needle} }}")), "{needle}");
    }
    for needle in NEVER_IN_TEXT {
        assert!(caught("tests/it/x.rs", &format!("// {needle} this")), "{needle}");
    }
    for (needle, _) in NEVER_OUTSIDE_TESTS {
        let test = format!("#[cfg(test)]\nmod tests {{\n    fn f() {{ x{needle}; {needle} }}\n}}");
        assert!(caught("src/main.rs", &format!("fn f() {{ x {needle}; {needle} }}")), "{needle}");
        assert!(!caught("src/main.rs", &test), "{needle}");
    }
    for (needle, _) in NEVER_IN_CORE {
        assert!(caught("src/engine/x.rs", &format!("fn f() {{ {needle}() }}")), "{needle}");
        assert!(!caught("src/adapters/x.rs", &format!("fn f() {{ {needle}() }}")), "{needle}");
    }
    assert!(!caught("src/model/x.rs", "/// Never calls `todo!`.\nfn f() { g(\"dbg!\") }"));
}

// ---- machine paths ------------------------------------------------------------------------------------------------

/// Folders that exist on somebody's machine only. In two parts, or this file would be found.
const MACHINE_PATHS: [&str; 5] = [
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("C:", "\\Users"),
];

fn machine_path_violations(file: &Source) -> Vec<String> {
    let found = |needle: &'static str| {
        places(&file.text, needle)
            .map(move |(line, _)| format!("{}:{line}: `{needle}` is a path of one machine", file.path))
    };
    MACHINE_PATHS.into_iter().flat_map(found).collect()
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let endings = [".rs", ".md", ".toml", ".sh", ".yaml", ".yml", ".json", ".jsonl", ".html", ".txt", ".ci/run"];
    assert_clean(&files("", &endings), machine_path_violations);
}

#[test]
fn a_machine_path_is_caught() {
    for needle in MACHINE_PATHS {
        assert_eq!(machine_path_violations(&source("README.md", &format!("a\nsee {needle}x"))).len(), 1, "{needle}");
    }
    assert!(machine_path_violations(&source("README.md", "https://example.org/network/x")).is_empty());
}

// ---- docs ---------------------------------------------------------------------------------------------------------

fn doc_violations(file: &Source) -> Vec<String> {
    let first = file.text.lines().next().unwrap_or_default();
    let documented = first.strip_prefix("//! ").is_some_and(|doc| doc.trim().len() > 10);
    if documented {
        Vec::new()
    } else {
        vec![format!("{}: begins without a `//!` line that says what it is for", file.path)]
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    let sources = all_sources();
    let tests = test_stems(&sources);
    let in_tests = |file: &Source| file.path.starts_with("src/") && is_test_file(file, &tests);
    assert_clean(&sources, |file| if in_tests(file) { Vec::new() } else { doc_violations(file) });
}

#[test]
fn a_file_without_docs_is_caught() {
    for text in ["", "fn main() {}", "//! x", "// A comment is no documentation.\n//! This comes late."] {
        assert_eq!(doc_violations(&source("src/x.rs", text)).len(), 1, "{text:?}");
    }
    assert!(doc_violations(&source("src/x.rs", "//! Items in files.")).is_empty());
}
