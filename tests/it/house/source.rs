//! Just enough of Rust's grammar to read our own source: what is code, what is a test, where a function ends.
//!
//! It leans on rustfmt, which CI enforces: an item that opens at some indentation closes on a line of that indentation.

use std::fs;
use std::path::{Path, PathBuf};

/// One source file, its path relative to the package, with `/`.
pub struct Source {
    pub path: String,
    pub text: String,
}

/// The package's files below `dir` whose names end with one of `endings`, in order of their paths.
pub fn files(dir: &str, endings: &[&str]) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    walk(&root.join(dir), &mut found);
    found.sort();
    let relative = |path: PathBuf| {
        let inside = path.strip_prefix(root).expect("walked from the root");
        let parts: Vec<_> = inside.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        let path_text = parts.join("/");
        endings
            .iter()
            .any(|ending| path_text.ends_with(ending))
            .then(|| Source { path: path_text, text: fs::read_to_string(&path).expect("source files are UTF-8 text") })
    };
    found.into_iter().filter_map(relative).collect()
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the package's folders can be read") {
        let path = entry.expect("the package's folders can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && name != ".git" {
            walk(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

/// The text with comments and the insides of literals blanked; lines and columns stay where they are.
pub fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_or_comment_end(&chars, at);
        match end {
            Some(end) => {
                code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
                at = end;
            }
            None => {
                code.push(chars[at]);
                at += 1;
            }
        }
    }
    code
}

/// Where the comment or literal that begins at `at` ends; `None` if none begins there.
fn literal_or_comment_end(chars: &[char], at: usize) -> Option<usize> {
    let next = |n: usize| chars.get(at + n).copied();
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match (chars[at], next(1)) {
        ('/', Some('/')) => Some((at..chars.len()).find(|i| chars[*i] == '\n').unwrap_or(chars.len())),
        ('/', Some('*')) => Some(block_comment_end(chars, at)),
        ('"', _) => Some(text_end(chars, at + 1, '"')),
        ('r', Some('"' | '#')) if !in_word || chars[at - 1] == 'b' => raw_text_end(chars, at + 1),
        // A character, not a lifetime: 'a' or '\n'.
        ('\'', Some('\\')) => Some(text_end(chars, at + 1, '\'')),
        ('\'', Some(_)) if next(2) == Some('\'') => Some(at + 3),
        _ => None,
    }
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn text_end(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

fn raw_text_end(chars: &[char], start: usize) -> Option<usize> {
    let hashes = chars[start..].iter().take_while(|c| **c == '#').count();
    // `r#match` is a raw identifier.
    if chars.get(start + hashes) != Some(&'"') {
        return None;
    }
    let closes = |i: &usize| {
        chars[*i] == '"' && chars[*i + 1..].iter().take_while(|c| **c == '#').take(hashes).count() == hashes
    };
    let close = (start + hashes + 1..chars.len()).find(closes);
    Some(close.map_or(chars.len(), |close| close + 1 + hashes))
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The last line of the item that begins on line `start` (attributes excluded), by rustfmt's indentation.
fn item_end(lines: &[&str], start: usize) -> usize {
    let depth = indentation(lines[start]);
    let closes = |line: &str| {
        let text = line.trim();
        indentation(line) == depth && (text.ends_with(';') || text.starts_with('}') && !text.ends_with('{'))
    };
    let opens_and_closes = |line: &str| line.trim_end().ends_with(';') || line.trim_end().ends_with('}');
    if opens_and_closes(lines[start]) {
        return start;
    }
    (start + 1..lines.len()).find(|at| closes(lines[*at])).unwrap_or(lines.len() - 1)
}

/// Code (as [`code_only`] gives it) with everything under `#[cfg(test)]` blanked, and the test modules that are files of their own.
pub fn without_tests(code: &str) -> (String, Vec<String>) {
    let lines: Vec<&str> = code.lines().collect();
    let (mut kept, mut test_modules) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < lines.len() {
        let attribute = lines[at].trim();
        if attribute != "#[cfg(test)]" && !attribute.starts_with("#[cfg(all(test,") {
            kept.push(lines[at]);
            at += 1;
            continue;
        }
        let item = (at..lines.len()).find(|i| !lines[*i].trim().starts_with("#[")).unwrap_or(lines.len() - 1);
        let declared = lines[item].trim().strip_suffix(';').and_then(|text| text.rsplit_once("mod "));
        test_modules.extend(declared.map(|(_, name)| name.to_owned()));
        let end = item_end(&lines, item);
        kept.extend(std::iter::repeat_n("", end + 1 - at));
        at = end + 1;
    }
    (kept.join("\n"), test_modules)
}

/// A function's name, first line (from 1) and number of lines, signature and closing brace included.
#[derive(Debug, PartialEq)]
pub struct Function {
    pub name: String,
    pub line: usize,
    pub length: usize,
}

/// The functions with a body in code as [`code_only`] gives it.
pub fn functions(code: &str) -> Vec<Function> {
    let lines: Vec<&str> = code.lines().collect();
    let function = |(at, line): (usize, &&str)| {
        let name = function_name(line)?;
        let end = item_end(&lines, at);
        lines[end].trim_end().ends_with('}').then(|| Function { name, line: at + 1, length: end + 1 - at })
    };
    lines.iter().enumerate().filter_map(function).collect()
}

fn function_name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let modifiers = ["pub", "const", "async", "unsafe", "extern", "default"];
    let first = words.find(|word| !modifiers.contains(word) && !word.starts_with("pub("))?;
    let name = (first == "fn").then(|| words.next()).flatten()?;
    Some(name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
}

#[test]
fn comments_and_literals_are_no_code() {
    let text = "a // x {\nb /* y /* z */ { */ c\n\"s \\\" }\" d\nr#\"{ \" \"# e 'f' '\\'' g<'h> br\"}\" r#match";
    let code = code_only(text);
    let words: Vec<&str> = code.split_whitespace().collect();
    assert_eq!(words, ["a", "b", "c", "d", "e", "g<'h>", "b", "r#match"]);
    assert_eq!(code.lines().count(), text.lines().count());
}

#[test]
fn test_code_is_left_out_and_only_that() {
    let text = "use a;\n#[cfg(test)]\nuse b;\nfn c() {\n    d();\n}\n#[cfg(test)]\n#[path = \"x\"]\npub(crate) mod e;\n\
        #[cfg(all(test, x))]\nmod tests {\n    fn f() {\n    }\n}\nuse g;";
    let (kept, modules) = without_tests(text);
    assert_eq!(kept.split_whitespace().collect::<Vec<_>>().join(" "), "use a; fn c() { d(); } use g;");
    assert_eq!(modules, ["e"]);
    assert_eq!(kept.lines().count(), text.lines().count());
}

#[test]
fn functions_are_measured_from_signature_to_brace() {
    let text = "pub(crate) async fn one(\n    x: u8,\n) -> u8\nwhere\n    u8: Copy,\n{\n    {\n    }\n}\n\
        trait T {\n    fn two(&self);\n    fn three(&self) {}\n    fn four(\n        &self,\n    ) -> u8;\n    const fn five() {\n    }\n}";
    let found: Vec<(String, usize)> = functions(text).into_iter().map(|f| (f.name, f.length)).collect();
    let expected = [("one", 9), ("three", 1), ("five", 2)].map(|(name, length)| (name.to_owned(), length));
    assert_eq!(found, expected);
}
