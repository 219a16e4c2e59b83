//! `infra`: the deployment template with a model's table in place.
//!
//! `infra/template.yaml` is what this prints for the shipped model `quality`, held by a test. So the template that people read is the one
//! that is printed, and its table cannot drift from the model: what a model decides stands between `#< name` and `#>`, and is
//! written anew each time.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use tablekeeper::model::spec::{KeyAttribute, Model, Table};
use tablekeeper::model::value::{Kind, MARKER};
use tablekeeper::plan::state;

use super::args::{InfraArgs, OutputFormat};
use super::context::{Exit, Outcome, load_model, usage};
use super::output::{GOOD, json, line, paint};

const TEMPLATE: &str = include_str!("../../infra/template.yaml");
const BEGIN: &str = "#< ";
const END: &str = "#>";

pub fn run(args: &InfraArgs, format: OutputFormat) -> Outcome {
    let model = load_model(&args.model)?;
    let tables = Tables::of(&model.table);
    let Some(out) = &args.out else {
        match format {
            OutputFormat::Json => json(&tables)?,
            OutputFormat::Text => line(template(&args.model.model, &model)?.trim_end()),
        }
        return Ok(Exit::Fine);
    };
    let written = Written { template: out };
    match format {
        OutputFormat::Json => {
            replace(out, &(serde_json::to_string_pretty(&tables)? + "\n")).map_err(usage)?;
            json(&written)?;
        }
        OutputFormat::Text => {
            replace(out, &template(&args.model.model, &model)?).map_err(usage)?;
            line(format_args!("{} {}", paint(GOOD, "wrote"), out.display()));
        }
    }
    Ok(Exit::Fine)
}

#[derive(Serialize)]
struct Written<'w> {
    template: &'w Path,
}

/// Writes a file whole or not at all: beside its place, and then into it.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let shown = path.display();
    let name = path.file_name().with_context(|| format!("`{shown}` names no file; give --out a file"))?;
    let mut new = std::ffi::OsString::from(".");
    new.push(name);
    new.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(new);
    std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path)).with_context(|| {
        let _ = std::fs::remove_file(&new);
        format!("cannot write `{shown}`; it is as it was")
    })
}

// ---- the tables as CloudFormation has them ------------------------------------------------------------------------

/// A template of the two tables alone, for those who have one of their own for everything else.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Tables<'m> {
    #[serde(rename = "AWSTemplateFormatVersion")]
    version: &'static str,
    resources: BTreeMap<&'static str, Resource<'m>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Resource<'m> {
    r#type: &'static str,
    deletion_policy: &'static str,
    update_replace_policy: &'static str,
    properties: Properties<'m>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Properties<'m> {
    table_name: &'m str,
    billing_mode: &'static str,
    #[serde(flatten)]
    keys: Keys<'m>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_specification: Option<StreamSpecification>,
    point_in_time_recovery_specification: Recovery,
    #[serde(rename = "SSESpecification")]
    encryption: Encryption,
    deletion_protection_enabled: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct StreamSpecification {
    stream_view_type: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Recovery {
    point_in_time_recovery_enabled: bool,
}

#[derive(Serialize)]
struct Encryption {
    #[serde(rename = "SSEEnabled")]
    enabled: bool,
    #[serde(rename = "SSEType")]
    by: &'static str,
}

/// What a model decides about its table.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Keys<'m> {
    attribute_definitions: Vec<Definition<'m>>,
    key_schema: Vec<Element<'m>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    global_secondary_indexes: Vec<GlobalIndex<'m>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_to_live_specification: Option<TimeToLive<'m>>,
}

#[derive(Serialize, PartialEq)]
#[serde(rename_all = "PascalCase")]
struct Definition<'m> {
    attribute_name: &'m str,
    attribute_type: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Element<'m> {
    attribute_name: &'m str,
    key_type: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct GlobalIndex<'m> {
    index_name: &'m str,
    key_schema: Vec<Element<'m>>,
    projection: Projection,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Projection {
    projection_type: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TimeToLive<'m> {
    attribute_name: &'m str,
    enabled: bool,
}

impl<'m> Tables<'m> {
    fn of(table: &'m Table) -> Tables<'m> {
        let stream = StreamSpecification { stream_view_type: "NEW_AND_OLD_IMAGES" };
        let resource = |table_name, keys, stream_specification| Resource {
            r#type: "AWS::DynamoDB::Table",
            deletion_policy: "Retain",
            update_replace_policy: "Retain",
            properties: Properties {
                table_name,
                billing_mode: "PAY_PER_REQUEST",
                keys,
                stream_specification,
                point_in_time_recovery_specification: Recovery { point_in_time_recovery_enabled: true },
                encryption: Encryption { enabled: true, by: "KMS" },
                deletion_protection_enabled: true,
            },
        };
        let own = resource(table.state_table.as_str(), Keys::of_state(), None);
        let kept = resource(table.name.as_str(), Keys::of(table), Some(stream));
        Tables { version: "2010-09-09", resources: [("Table", kept), ("StateTable", own)].into() }
    }
}

impl<'m> Keys<'m> {
    fn of(table: &'m Table) -> Keys<'m> {
        let sort = table.sort_key.as_slice();
        let indexed = table.indexes.iter().flat_map(|index| index.attributes());
        let mut attribute_definitions: Vec<Definition<'m>> = Vec::new();
        // A table's and several indexes' keys may share some; each is defined once.
        for attribute in std::iter::once(&table.partition_key).chain(sort).chain(indexed) {
            let definition =
                Definition { attribute_name: attribute.name.as_str(), attribute_type: attribute.kind.name() };
            if !attribute_definitions.contains(&definition) {
                attribute_definitions.push(definition);
            }
        }
        let index = |index: &'m tablekeeper::model::spec::Index| GlobalIndex {
            index_name: index.name.as_str(),
            key_schema: schema(&index.partition, &index.sort),
            projection: Projection { projection_type: "ALL" },
        };
        Keys {
            attribute_definitions,
            key_schema: schema(std::slice::from_ref(&table.partition_key), sort),
            global_secondary_indexes: table.indexes.iter().map(index).collect(),
            time_to_live_specification: table.ttl.as_deref().map(time_to_live),
        }
    }

    /// Of the state table, which is the same for every model.
    fn of_state() -> Keys<'static> {
        let names = [(state::PARTITION, "HASH"), (state::SORT, "RANGE")];
        let definition = |(attribute_name, _)| Definition { attribute_name, attribute_type: Kind::S.name() };
        let element = |(attribute_name, key_type)| Element { attribute_name, key_type };
        Keys {
            attribute_definitions: names.map(definition).into(),
            key_schema: names.map(element).into(),
            global_secondary_indexes: Vec::new(),
            time_to_live_specification: Some(time_to_live(state::TTL)),
        }
    }

    /// The same as properties of a YAML mapping, one a line, and one a line of what is in a list.
    fn lines(&self) -> serde_json::Result<Vec<String>> {
        let mut lines = listed("AttributeDefinitions:", &self.attribute_definitions)?;
        lines.extend(listed("KeySchema:", &self.key_schema)?);
        if !self.global_secondary_indexes.is_empty() {
            lines.extend(listed("GlobalSecondaryIndexes:", &self.global_secondary_indexes)?);
        }
        if let Some(time_to_live) = &self.time_to_live_specification {
            lines.push(format!("TimeToLiveSpecification: {}", spaced(time_to_live)?));
        }
        Ok(lines)
    }
}

fn time_to_live(attribute_name: &str) -> TimeToLive<'_> {
    TimeToLive { attribute_name, enabled: true }
}

fn schema<'m>(partition: &'m [KeyAttribute], sort: &'m [KeyAttribute]) -> Vec<Element<'m>> {
    let element = |key_type| move |key: &'m KeyAttribute| Element { attribute_name: key.name.as_str(), key_type };
    partition.iter().map(element("HASH")).chain(sort.iter().map(element("RANGE"))).collect()
}

// ---- the whole template -------------------------------------------------------------------------------------------

/// The template for a model; `named` is how the command line names it. A file is named as it lies in the functions' packages: without
/// folders.
pub fn template(named: &str, model: &Model) -> anyhow::Result<String> {
    let named = Path::new(named).file_name().map_or_else(|| named.into(), |name| name.to_string_lossy());
    let regions = [
        ("heading", heading(&named)),
        ("parameters", parameters(&named, model)?),
        ("table", Keys::of(&model.table).lines()?),
        ("state", Keys::of_state().lines()?),
        ("filters", filters(&model.table)?),
    ];
    fill(TEMPLATE, &regions.into())
}

/// Writes each region's lines between its marks, as far to the right as they are.
fn fill(template: &str, regions: &BTreeMap<&str, Vec<String>>) -> anyhow::Result<String> {
    let (mut filled, mut inside) = (String::new(), false);
    for text in template.lines() {
        let mark = text.trim_start();
        inside &= mark != END;
        if inside {
            continue;
        }
        filled.extend([text, "\n"]);
        if let Some(name) = mark.strip_prefix(BEGIN) {
            let lines =
                regions.get(name).with_context(|| format!("the template has a region `{name}` of no meaning"))?;
            let indent = &text[..text.len() - mark.len()];
            lines.iter().for_each(|line| filled.extend([indent, line.as_str(), "\n"]));
            inside = true;
        }
    }
    Ok(filled)
}

fn heading(file: &str) -> Vec<String> {
    vec![
        format!("# Printed by `tablekeeper infra --model {}`. What that model decides stands between `#<` and `#>`:", file.escape_debug()),
        "# change it in the model and print again, which writes all else as the program has it; so keep changes of your own elsewhere, too."
            .to_owned(),
    ]
}

/// The parameters whose defaults a model decides.
fn parameters(file: &str, model: &Model) -> serde_json::Result<Vec<String>> {
    let named_table = r#"AllowedPattern: "[A-Za-z0-9_.-]{3,255}""#;
    let parameters: [(&str, &str, &str, &str); 4] = [
        (
            "Model",
            file,
            "MinLength: 1",
            "A shipped model by name, or a model file's path inside the functions' packages",
        ),
        (
            "TableName",
            &model.table.name,
            named_table,
            "Name of the table that the stack makes; of no use where a table that is there already is kept",
        ),
        (
            "StateTableName",
            &model.table.state_table,
            named_table,
            "Name of Tablekeeper's own table, which the stack makes; each kept table has one of its own",
        ),
        ("Zone", model.zone.name(), "MinLength: 1", "Time zone of the schedules, by its IANA name"),
    ];
    let mut lines = Vec::new();
    for (name, default, rule, description) in parameters {
        lines.extend([
            format!("{name}:"),
            "  Type: String".to_owned(),
            format!("  Default: {}", spaced(&default)?),
            format!("  {rule}"),
            format!("  Description: {description}"),
        ]);
    }
    Ok(lines)
}

/// Patterns that a record of a source item passes, each by itself enough; a record of derived items alone passes none.
fn filters(table: &Table) -> serde_json::Result<Vec<String>> {
    let exists = |exists: bool| serde_json::json!([{ "exists": exists }]);
    let unmarked = serde_json::json!({ MARKER: { "S": exists(false) } });
    let key = &table.partition_key;
    let there = serde_json::json!({ &key.name: { key.kind.name(): exists(true) }, MARKER: { "S": exists(false) } });
    let patterns = [
        serde_json::json!({ "dynamodb": { "NewImage": unmarked, "OldImage": unmarked } }),
        serde_json::json!({ "dynamodb": { "NewImage": there } }),
        serde_json::json!({ "dynamodb": { "OldImage": there } }),
    ];
    // A pattern is a text that holds JSON.
    patterns.iter().map(|pattern| Ok(format!("- Pattern: '{}'", spaced(pattern)?.replace('\'', "''")))).collect()
}

fn listed(property: &str, values: &[impl Serialize]) -> serde_json::Result<Vec<String>> {
    let mut lines = vec![property.to_owned()];
    for value in values {
        lines.push(format!("  - {}", spaced(value)?));
    }
    Ok(lines)
}

/// JSON on one line that is YAML of every version: with a space behind each colon and comma.
fn spaced(value: &impl Serialize) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Spaced))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        CompactFormatter.begin_object_value(writer)?;
        writer.write_all(b" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_filled_as_they_are_indented_and_nothing_else_is_touched() {
        let regions = BTreeMap::from([("a", vec!["x: 1".to_owned(), "y:".to_owned()]), ("b", Vec::new())]);
        let filled = fill("top\n  #< a\n  old\n  older\n  #>\nmid # > no mark\n#< b\n#>\nend\n", &regions).unwrap();
        assert_eq!(filled, "top\n  #< a\n  x: 1\n  y:\n  #>\nmid # > no mark\n#< b\n#>\nend\n");
        assert_eq!(fill(&filled, &regions).unwrap(), filled);
        let error = fill("#< c\n#>\n", &regions).unwrap_err();
        assert!(error.to_string().contains("`c`"), "{error}");
    }

    #[test]
    fn json_on_a_line_is_yaml() {
        let value = serde_json::json!({ "a": [1, { "b": "c: d" }], "e": {} });
        assert_eq!(spaced(&value).unwrap(), r#"{"a": [1, {"b": "c: d"}], "e": {}}"#);
    }
}
