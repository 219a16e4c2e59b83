//! What is set up once: tables, indexes, the stream, the time to live.
//!
//! In production the owner's templates make the tables; here they are made for laptops, tests and a first try. Making a table
//! that is there already changes nothing and says so.

use std::time::Duration;

use aws_sdk_dynamodb::error::{BuildError, ProvideErrorMetadata};
use aws_sdk_dynamodb::operation::create_table::CreateTableInput;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
    ScalarAttributeType, StreamSpecification, StreamViewType, TableDescription, TableStatus, TimeToLiveSpecification,
    TimeToLiveStatus,
};
use tracing::{info, warn};

use super::connection::Connection;
use super::errors::{at, store_error};
use crate::engine::ports::StoreError;
use crate::model::spec::{KeyAttribute, Table};
use crate::model::value::Kind;
use crate::plan::state;

const POLL_PAUSE: Duration = Duration::from_millis(500);
/// How often a new table is asked whether it is ready: two minutes in all; AWS takes 10 to 30 seconds.
const POLLS_MAX: u32 = 240;

/// Whether a table had to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    Now,
    /// It was there before and was left as it is.
    Before,
}

/// A table as the database describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    pub name: String,
    /// `ACTIVE` when it can be used.
    pub status: String,
    pub partition_key: KeyAttribute,
    pub sort_key: Option<KeyAttribute>,
    pub indexes: Vec<IndexInfo>,
    pub arn: String,
    /// ARN of the enabled stream; `None` also where one was disabled.
    pub stream_arn: Option<String>,
    /// `NEW_AND_OLD_IMAGES`, `KEYS_ONLY`, … of the enabled stream.
    pub stream_view: Option<String>,
    /// As the database last counted: on AWS up to six hours old.
    pub items: u64,
}

/// A global secondary index as the database describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexInfo {
    pub name: String,
    pub partition: Vec<KeyAttribute>,
    pub sort: Vec<KeyAttribute>,
}

impl Connection {
    /// Makes the user's table with its indexes (all attributes projected) and a stream of new and old images, on demand, and
    /// waits until it can be used.
    pub async fn create_table(&self, table: &Table) -> Result<Created, StoreError> {
        let keys = [Some(&table.partition_key), table.sort_key.as_ref()];
        let indexed = table.indexes.iter().flat_map(|index| index.attributes());
        let stream = StreamSpecification::builder()
            .stream_enabled(true)
            .stream_view_type(StreamViewType::NewAndOldImages)
            .build()
            .map_err(not_buildable)?;
        let indexes = table.indexes.iter().map(|index| {
            GlobalSecondaryIndex::builder()
                .index_name(&index.name)
                .set_key_schema(Some(key_schema(&index.partition, &index.sort)?))
                .projection(Projection::builder().projection_type(ProjectionType::All).build())
                .build()
                .map_err(not_buildable)
        });
        let indexes = indexes.collect::<Result<Vec<_>, StoreError>>()?;
        let input = CreateTableInput::builder()
            .table_name(&table.name)
            .set_attribute_definitions(Some(definitions(keys.into_iter().flatten().chain(indexed))?))
            .set_key_schema(Some(key_schema([&table.partition_key], &table.sort_key)?))
            .set_global_secondary_indexes((!indexes.is_empty()).then_some(indexes))
            .stream_specification(stream);
        let created = self.create(&table.name, input).await?;
        if let Some(attribute) = &table.ttl {
            self.enable_ttl(&table.name, attribute).await;
        }
        Ok(created)
    }

    /// Makes the state table if there is none, waits until it can be used, and has DynamoDB remove what has expired.
    pub async fn ensure_state_table(&self, name: &str) -> Result<Created, StoreError> {
        let key = |name: &str| KeyAttribute { name: name.to_owned(), kind: Kind::S };
        let (partition, sort) = (key(state::PARTITION), key(state::SORT));
        let created = match self.describe_table(name).await {
            Ok(info) => {
                if info.partition_key != partition || info.sort_key.as_ref() != Some(&sort) {
                    return Err(StoreError::Refused(format!(
                        "table `{name}` is no state table: its keys are not `{}` and `{}` of type S; name another one in the model",
                        state::PARTITION,
                        state::SORT,
                    )));
                }
                self.wait_until_active(name).await?;
                Created::Before
            }
            Err(StoreError::NoTable(_)) => {
                let input = CreateTableInput::builder()
                    .table_name(name)
                    .set_attribute_definitions(Some(definitions([&partition, &sort])?))
                    .set_key_schema(Some(key_schema([&partition], [&sort])?));
                self.create(name, input).await?
            }
            Err(other) => return Err(other),
        };
        self.enable_ttl(name, state::TTL).await;
        Ok(created)
    }

    pub async fn describe_table(&self, name: &str) -> Result<TableInfo, StoreError> {
        let answer = self.tables.describe_table().table_name(name).send().await;
        let answer = answer.map_err(|error| at(self.config().endpoint_url(), store_error(&error, name)))?;
        answer
            .table
            .and_then(table_info)
            .ok_or_else(|| StoreError::Refused(format!("table `{name}` is described without a partition key")))
    }

    /// The attribute of the table's time to live, if it is in use; who may not ask is told that there is none.
    pub async fn ttl_attribute(&self, name: &str) -> Option<String> {
        let described = self.tables.describe_time_to_live().table_name(name).send().await.ok()?;
        let ttl = described.time_to_live_description?;
        let is_used = matches!(ttl.time_to_live_status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling));
        ttl.attribute_name.filter(|_| is_used)
    }

    /// Removes the table and all of its items; there is no way back. One that is not there is no error.
    pub async fn delete_table(&self, name: &str) -> Result<(), StoreError> {
        match self.tables.delete_table().table_name(name).send().await.map_err(|error| store_error(&error, name)) {
            Ok(_) | Err(StoreError::NoTable(_)) => Ok(()),
            Err(other) => Err(other),
        }
    }

    async fn create(
        &self,
        name: &str,
        input: aws_sdk_dynamodb::operation::create_table::builders::CreateTableInputBuilder,
    ) -> Result<Created, StoreError> {
        let sent = input.billing_mode(BillingMode::PayPerRequest).send_with(&self.tables).await;
        let created = match sent {
            Ok(_) => Created::Now,
            Err(error) if error.code() == Some("ResourceInUseException") => Created::Before,
            Err(error) => return Err(store_error(&error, name)),
        };
        self.wait_until_active(name).await?;
        if created == Created::Now {
            info!(table = name, "table created");
        }
        Ok(created)
    }

    async fn wait_until_active(&self, name: &str) -> Result<(), StoreError> {
        for _ in 0..POLLS_MAX {
            match self.describe_table(name).await {
                // Descriptions are eventually consistent: a table just made may not be known yet.
                Err(StoreError::NoTable(_)) => {}
                Err(error) if error.can_retry() => {}
                Err(error) => return Err(error),
                Ok(info) if info.status == TableStatus::Active.as_str() => return Ok(()),
                Ok(_) => {}
            }
            tokio::time::sleep(POLL_PAUSE).await;
        }
        let waited = POLL_PAUSE * POLLS_MAX;
        Err(StoreError::Unavailable(format!("table `{name}` is not active after {} seconds", waited.as_secs())))
    }

    /// Without it nothing is wrong, only kept for too long: a failure is told and passed over.
    async fn enable_ttl(&self, table: &str, attribute: &str) {
        let described = self.tables.describe_time_to_live().table_name(table).send().await;
        let status = described.ok().and_then(|answer| answer.time_to_live_description?.time_to_live_status);
        if matches!(status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)) {
            return;
        }
        let specification = TimeToLiveSpecification::builder().enabled(true).attribute_name(attribute).build();
        let Ok(specification) = specification else { return };
        let request = self.tables.update_time_to_live().table_name(table).time_to_live_specification(specification);
        if let Err(error) = request.send().await {
            let error = store_error(&error, table);
            warn!(table, attribute, %error, "time to live is not enabled: expired items stay until it is");
        }
    }
}

fn not_buildable(error: BuildError) -> StoreError {
    StoreError::Refused(format!("a request could not be made: {error}"))
}

/// One definition for each distinct attribute: a table's and several indexes' keys may share some.
fn definitions<'a>(
    attributes: impl IntoIterator<Item = &'a KeyAttribute>,
) -> Result<Vec<AttributeDefinition>, StoreError> {
    let mut definitions: Vec<AttributeDefinition> = Vec::new();
    for attribute in attributes {
        if definitions.iter().all(|known| known.attribute_name != attribute.name) {
            let definition = AttributeDefinition::builder()
                .attribute_name(&attribute.name)
                .attribute_type(ScalarAttributeType::from(attribute.kind.name()))
                .build();
            definitions.push(definition.map_err(not_buildable)?);
        }
    }
    Ok(definitions)
}

fn key_schema<'a>(
    partition: impl IntoIterator<Item = &'a KeyAttribute>,
    sort: impl IntoIterator<Item = &'a KeyAttribute>,
) -> Result<Vec<KeySchemaElement>, StoreError> {
    let partition = partition.into_iter().map(|attribute| (attribute, KeyType::Hash));
    let sort = sort.into_iter().map(|attribute| (attribute, KeyType::Range));
    let element = |(attribute, key_type): (&KeyAttribute, KeyType)| {
        KeySchemaElement::builder().attribute_name(&attribute.name).key_type(key_type).build().map_err(not_buildable)
    };
    partition.chain(sort).map(element).collect()
}

/// `None` where the description lacks a partition key.
fn table_info(description: TableDescription) -> Option<TableInfo> {
    let kinds = description.attribute_definitions.unwrap_or_default();
    let of_type = |schema: &[KeySchemaElement], key_type: KeyType| -> Vec<KeyAttribute> {
        let elements = schema.iter().filter(|element| element.key_type == key_type);
        let attributes = elements.map(|element| {
            let definition = kinds.iter().find(|kind| kind.attribute_name == element.attribute_name);
            let kind = definition.and_then(|kind| Kind::parse(kind.attribute_type.as_str()));
            KeyAttribute { name: element.attribute_name.clone(), kind: kind.unwrap_or(Kind::S) }
        });
        attributes.collect()
    };
    let schema = description.key_schema.unwrap_or_default();
    let indexes = description.global_secondary_indexes.unwrap_or_default().into_iter().map(|index| {
        let schema = index.key_schema.unwrap_or_default();
        IndexInfo {
            name: index.index_name.unwrap_or_default(),
            partition: of_type(&schema, KeyType::Hash),
            sort: of_type(&schema, KeyType::Range),
        }
    });
    let stream = description.stream_specification.filter(|stream| stream.stream_enabled);
    Some(TableInfo {
        name: description.table_name.unwrap_or_default(),
        status: description.table_status.map(|status| status.as_str().to_owned()).unwrap_or_default(),
        partition_key: of_type(&schema, KeyType::Hash).into_iter().next()?,
        sort_key: of_type(&schema, KeyType::Range).into_iter().next(),
        indexes: indexes.collect(),
        arn: description.table_arn.unwrap_or_default(),
        stream_arn: description.latest_stream_arn.filter(|_| stream.is_some()),
        stream_view: stream.and_then(|stream| stream.stream_view_type).map(|view| view.as_str().to_owned()),
        items: description.item_count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, kind: Kind) -> KeyAttribute {
        KeyAttribute { name: name.to_owned(), kind }
    }

    #[test]
    fn an_attribute_of_several_keys_is_defined_once() {
        let (pk, n) = (attribute("PK", Kind::S), attribute("Years", Kind::N));
        let definitions = definitions([&pk, &n, &pk]).unwrap();
        let shown: Vec<_> =
            definitions.iter().map(|d| (d.attribute_name.as_str(), d.attribute_type.as_str())).collect();
        assert_eq!(shown, [("PK", "S"), ("Years", "N")]);
    }

    #[test]
    fn a_description_is_read_back_as_it_was_made() {
        let (category, level, years) =
            (attribute("Category", Kind::S), attribute("Level", Kind::S), attribute("Years", Kind::N));
        let index = aws_sdk_dynamodb::types::GlobalSecondaryIndexDescription::builder()
            .index_name("BySkill")
            .set_key_schema(Some(key_schema([&category], [&level, &years]).unwrap()))
            .build();
        let description = TableDescription::builder()
            .table_name("t")
            .table_status(TableStatus::Active)
            .set_attribute_definitions(Some(definitions([&category, &level, &years]).unwrap()))
            .set_key_schema(Some(key_schema([&category], None).unwrap()))
            .global_secondary_indexes(index)
            .latest_stream_arn("arn:old");
        let info = table_info(description.build()).unwrap();
        assert_eq!((info.partition_key, info.sort_key), (category.clone(), None));
        assert_eq!(info.indexes[0].partition, [category]);
        assert_eq!(info.indexes[0].sort, [level, years]);
        // A disabled stream keeps its ARN for a while; nothing new comes there.
        assert_eq!(info.stream_arn, None);
    }
}
