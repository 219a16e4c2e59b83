//! `init`: what to begin with, and what the owner knows beforehand.

use std::path::PathBuf;

use clap::Args;
use tablekeeper::derive::propose::AskedIndex;
use tablekeeper::model::shipped::SHIPPED;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tablekeeper init                                      a small example
  tablekeeper init --name orders --out orders           the same under a name
  tablekeeper init --from-model quality --name plant-7  a shipped model
  tablekeeper init --from-table orders --out orders.toml
                                                        a model for a table that is there
  tablekeeper init --from-items items.jsonl --out orders.toml
                                                        the same from a file of its items
  tablekeeper init --from-items items.jsonl --index BySkill=Category,Skill+Level+Years
                                                        an index that names alone do not tell
  tablekeeper init --from-schema schema.json --usage usage_data.json --out orders.toml

With --out FILE.toml only the model is written, else three files in that folder. Nothing is overwritten.")]
pub struct InitArgs {
    #[command(flatten)]
    pub from: InitFrom,
    /// Name of the model and of its table: 3 to 64 of letters, digits, `_`, `-`; default: that of what the model is begun with
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Where to write: a folder, or with a name that ends in .toml the model alone
    #[arg(long, value_name = "DIR|MODEL", default_value = ".")]
    pub out: PathBuf,
    #[command(flatten)]
    pub sampled: SampleArgs,
    /// Of a schema with several tables the one to begin with
    #[arg(long, value_name = "NAME", requires = "from_schema")]
    pub table: Option<String>,
    /// The schema's file of sample values, which tell how times are written
    #[arg(long, value_name = "FILE", requires = "from_schema")]
    pub usage: Option<PathBuf>,
}

/// What to begin with; by default a small example.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct InitFrom {
    /// Begin with a copy of a shipped model
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(SHIPPED.map(|model| model.name)))]
    pub from_model: Option<String>,
    /// Propose a model for this table, from its description and a sample of its items
    #[arg(long, value_name = "TABLE")]
    pub from_table: Option<String>,
    /// Propose a model for the table of these items; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub from_items: Option<PathBuf>,
    /// Bring over a table design of AWS's DynamoDB MCP server (schema.json)
    #[arg(long, value_name = "FILE")]
    pub from_schema: Option<PathBuf>,
}

/// How a sample is taken, and what the owner says about it.
#[derive(Debug, Args)]
pub struct SampleArgs {
    /// Look at so many items at most; of a file's items each has the same chance
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub sample: u32,
    /// Read no more than this of the table in a second, in read units (4 KB each)
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_read_units: u32,
    /// The items' partition key, where its name does not tell
    #[arg(long, value_name = "NAME", requires = "from_items")]
    pub partition_key: Option<String>,
    /// The items' sort key
    #[arg(long, value_name = "NAME", requires = "partition_key")]
    pub sort_key: Option<String>,
    /// An index by its attributes, several joined by `+`
    #[arg(long, value_name = "NAME=PK,SK", requires = "from_items", value_parser = parse_index)]
    pub index: Vec<AskedIndex>,
    /// The attribute that names an item's entity, where its name does not tell
    #[arg(long, value_name = "NAME")]
    pub type_attribute: Option<String>,
    /// What separates the parts of the keys; default: what most keys have
    #[arg(long, value_name = "SIGN")]
    pub delimiter: Option<String>,
    /// Another endpoint than the SDK would choose (also AWS_ENDPOINT_URL)
    #[arg(long, value_name = "URL", requires = "from_table", conflicts_with = "data_dir")]
    pub endpoint: Option<String>,
    /// The table is in the embedded database kept in this directory
    #[arg(long, value_name = "DIR", requires = "from_table")]
    pub data_dir: Option<PathBuf>,
}

/// `BySkill=Category,SkillName+Level`.
fn parse_index(text: &str) -> Result<AskedIndex, String> {
    let form = || format!("`{text}` is no index; write NAME=PARTITION,SORT, several attributes joined by `+`");
    let (name, keys) = text.split_once('=').ok_or_else(form)?;
    let (partition, sort) = keys.split_once(',').map_or((keys, None), |(partition, sort)| (partition, Some(sort)));
    let list = |keys: &str| keys.split('+').map(str::to_owned).collect::<Vec<String>>();
    let (partition, sort) = (list(partition), sort.map(list).unwrap_or_default());
    let is_empty = |key: &String| key.trim().is_empty() || key.contains(',');
    if name.is_empty() || partition.iter().chain(&sort).any(is_empty) || partition.len() > 4 || sort.len() > 4 {
        return Err(form());
    }
    Ok(AskedIndex { name: name.to_owned(), partition, sort })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_its_name_and_its_attributes() {
        let index = parse_index("BySkill=Category,SkillName+Level").unwrap();
        assert_eq!((index.name.as_str(), index.partition), ("BySkill", vec!["Category".to_owned()]));
        assert_eq!(index.sort, ["SkillName", "Level"]);
        assert_eq!(parse_index("ByEmail=Email").unwrap().sort, Vec::<String>::new());
        for wrong in ["", "x", "=a", "x=", "x=a,", "x=a,b,c", "x=a+,b", "x=a+b+c+d+e"] {
            assert!(parse_index(wrong).is_err_and(|error| error.contains("NAME=PARTITION,SORT")), "{wrong}");
        }
    }
}
