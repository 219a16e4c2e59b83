//! `explain --page`: the whole catalogue as one page, Markdown or HTML.
//!
//! Generated from the rules themselves, so that it cannot say anything else than they do; the same rules give the same bytes.

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Value, context};
use tablekeeper::model::rule::Rule;

const TITLE: &str = "Rules of Tablekeeper";
const INTRO: &str = "What items, model files and report definitions can break. Codes never change their meaning. Severities of rules \
                     about items are changed in the model, for the table under [severity], for an entity under \
                     [entity.<name>.severity].";
const TEMPLATE: &str = include_str!("../../../reports/rules.html");
const STYLE: &str = include_str!("../../../reports/page.css");

/// Rules of one letter.
pub struct Family {
    /// `G  indexes (GSIs)`.
    pub title: String,
    pub rules: Vec<&'static Rule>,
}

/// A heading, none where a rule's document has none, and what stands under it.
#[derive(Debug, PartialEq, Eq)]
struct Section<'d> {
    title: Option<&'d str>,
    spans: Vec<Span>,
}

/// Running text, or what stands between backticks.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    is_code: bool,
    text: String,
}

/// The page in Markdown. Each rule has an anchor by its code in small letters.
pub fn markdown(families: &[Family]) -> String {
    let mut page = format!("# {TITLE}\n\n{}\n", INTRO.replace('[', "`[").replace(']', "]`"));
    for Family { title, rules } in families {
        page += &format!("\n## {title}\n\n| code | rule | severity |\n|---|---|---|\n");
        for Rule { code, name, severity, .. } in rules {
            page += &format!("| [{code}](#{}) | {name} | {} |\n", code.to_lowercase(), severity.name());
        }
        for Rule { code, name, severity, doc } in rules {
            let anchor = code.to_lowercase();
            page += &format!("\n<a id=\"{anchor}\"></a>\n### {code} {name} ({})\n\n", severity.name());
            // Below the rule's own heading.
            let doc = doc.trim().replace("\n## ", "\n#### ");
            page += &doc.strip_prefix("## ").map_or_else(|| format!("{doc}\n"), |rest| format!("#### {rest}\n"));
        }
    }
    page
}

/// The page in HTML: no script, nothing from outside, every text escaped.
pub fn html(families: &[Family]) -> anyhow::Result<String> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_template("rules.html", TEMPLATE)?;
    let span = |span: Span| context! { is_code => span.is_code, text => span.text };
    let section = |section: Section<'_>| {
        let spans: Vec<Value> = section.spans.into_iter().map(span).collect();
        context! { title => section.title, spans }
    };
    let rule = |rule: &&Rule| {
        let sections: Vec<Value> = sections(rule.doc).into_iter().map(section).collect();
        context! { code => rule.code, name => rule.name, severity => rule.severity.name(), sections }
    };
    let family = |family: &Family| {
        context! { title => family.title.as_str(), rules => family.rules.iter().map(rule).collect::<Vec<Value>>() }
    };
    let page = context! {
        title => TITLE,
        intro => INTRO,
        version => env!("CARGO_PKG_VERSION"),
        // Ours alone, and it must not be escaped.
        style => Value::from_safe_string(STYLE.to_owned()),
        families => families.iter().map(family).collect::<Vec<Value>>(),
    };
    Ok(environment.get_template("rules.html")?.render(page)?)
}

/// The paragraphs of a rule's document, each with the heading above it.
fn sections(doc: &str) -> Vec<Section<'_>> {
    let section = |part| {
        let (title, text) = match str::strip_prefix(part, "## ") {
            Some(section) => section.split_once('\n').map_or((Some(section), ""), |(title, text)| (Some(title), text)),
            None => (None, part),
        };
        Section { title, spans: spans(text) }
    };
    doc.trim().split("\n\n").map(section).collect()
}

/// Every second part between backticks is code; lines are joined.
fn spans(text: &str) -> Vec<Span> {
    let joined = |text: &str| text.replace('\n', " ");
    let parts = text.split('`').enumerate().map(|(at, part)| Span { is_code: at % 2 == 1, text: joined(part) });
    parts.filter(|span| !span.text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_by_its_headings_and_backticks() {
        let doc = "## What\nA key such as `<user>`,\nor none.\n\n## Instead\nWrite one.\n";
        let span = |is_code, text: &str| Span { is_code, text: text.to_owned() };
        let what = vec![span(false, "A key such as "), span(true, "<user>"), span(false, ", or none.")];
        let instead = vec![span(false, "Write one.")];
        let expected =
            [Section { title: Some("What"), spans: what }, Section { title: Some("Instead"), spans: instead }];
        assert_eq!(sections(doc), expected);
        assert_eq!(sections("Plain.")[0].title, None);
    }

    #[test]
    fn every_document_closes_its_backticks() {
        for rule in crate::cli::explain::all() {
            assert!(rule.doc.matches('`').count() % 2 == 0, "{}", rule.code);
        }
    }
}
