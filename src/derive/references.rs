//! What one item says of others: the keys that its references name, and the values that it has copied.
//!
//! Whether the other items are there, and what they say, one item cannot tell: `engine::cross` brings both sides together.

use sha2::{Digest, Sha256};

use crate::model::key::TableKey;
use crate::model::spec::{Entity, Model, Reference};
use crate::model::value::{Item, Text, Value};

use super::findings::shown;
use super::recognise::{Recognised, recognise};
use super::render::RenderFault;
use super::scope::{self, Scope};
use super::{identity, with_key};

/// What an item's reference names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// The item with this key; without a sort key in a table that has one, some item of that partition.
    Key(TableKey),
    /// The item has no value, or a declared "none", for it.
    Nothing,
    /// The key cannot be written: the item's own key or a value in it is wrong, which is a finding of its own.
    Unknown,
}

/// One reference of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// Its place among the entity's references.
    pub reference: usize,
    pub names: Names,
    /// What the item carries of the copied attributes; one that it does not carry is left out.
    pub copies: Vec<Copied>,
}

/// A copied attribute as an item carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Its place among the reference's copies.
    pub copy: usize,
    /// The spelling under which the item carries it.
    pub at: Text,
    pub held: Held,
}

/// A value of any size, as far as comparing and showing it needs: at most about 300 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Held {
    /// Of the typed value; `None` for a declared "none".
    digest: Option<(u64, u64)>,
    pub shown: Text,
}

impl Held {
    fn value(value: &Value) -> Held {
        // A value of the model always has a JSON form; without one it would equal only itself shown.
        let json = serde_json::to_vec(value).unwrap_or_else(|_| shown(value).into_bytes());
        let hash: [u8; 32] = Sha256::digest(&json).into();
        let half = |at: usize| hash[at..at + 8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Held { digest: Some((half(0), half(8))), shown: shown(value).into() }
    }

    /// True if both are one value; "none" is what is not there.
    pub fn is_same(copy: &Held, master: Option<&Held>) -> bool {
        copy.digest == master.and_then(|master| master.digest)
    }
}

/// What an item of the entity says of others. References whose `when` does not hold are left out.
pub fn mentions(model: &Model, entity: &Entity, key: &TableKey, item: &Item) -> Vec<Mention> {
    if entity.references.is_empty() {
        return Vec::new();
    }
    let item = with_key(model, key, item);
    let scope = identity::scope(model, entity, key, &item);
    let mention = |(number, reference): (usize, &Reference)| match &scope {
        None => Some(Mention { reference: number, names: Names::Unknown, copies: Vec::new() }),
        Some(scope) if scope.holds(&reference.when) => {
            let (names, copies) = (names(scope, reference), copies(entity, reference, &item));
            Some(Mention { reference: number, names, copies })
        }
        Some(_) => None,
    };
    entity.references.iter().enumerate().filter_map(mention).collect()
}

fn names(scope: &Scope<'_>, reference: &Reference) -> Names {
    let table = &scope.model.table;
    let key = || {
        let partition = scope.expected(&reference.partition, table.partition_key.kind)?;
        let sort = match (&reference.sort, &table.sort_key) {
            (Some(template), Some(key)) => Some(scope.expected(template, key.kind)?),
            _ => None,
        };
        Ok(TableKey { partition, sort })
    };
    match key() {
        Ok(key) => Names::Key(key),
        Err(RenderFault::Absent { .. } | RenderFault::Unbound { .. }) => Names::Nothing,
        Err(RenderFault::NotPlain { .. } | RenderFault::Format { .. }) => Names::Unknown,
    }
}

fn copies(entity: &Entity, reference: &Reference, item: &Item) -> Vec<Copied> {
    let copied = |(copy, declared): (usize, &crate::model::spec::Copy)| {
        let attribute = entity.attribute(&declared.own)?;
        let (at, value) = scope::carried(attribute, item)?;
        let held = match scope::is_none(attribute, value) {
            true => Held { digest: None, shown: shown(value).into() },
            false => Held::value(value),
        };
        Some(Copied { copy, at: at.into(), held })
    };
    reference.copies.iter().enumerate().filter_map(copied).collect()
}

/// What an item holds of an attribute that others copy; absent, and declared "none", are `None`.
pub fn master(entity: &Entity, attribute: &str, item: &Item) -> Option<Held> {
    entity.attribute(attribute).and_then(|attribute| scope::present(attribute, item)).map(Held::value)
}

/// True if an item without an entity is without one because several claim it.
pub fn is_claimed_by_several(model: &Model, key: &TableKey, item: &Item) -> bool {
    matches!(recognise(model, key, &with_key(model, key, item)), Recognised::Several(_))
}

/// The attribute that says what a reference names: the first declared one in its key, else the key attribute that the first
/// variable is read from; `None` for a key without variables.
pub fn place<'m>(model: &'m Model, entity: &'m Entity, reference: &Reference) -> Option<&'m str> {
    let templates = || std::iter::once(&reference.partition).chain(&reference.sort);
    let declared = templates().flat_map(|template| template.variables()).find_map(|v| entity.attribute(&v.name));
    if let Some(attribute) = declared {
        return Some(&attribute.name);
    }
    let variable = templates().find_map(|template| template.variables().next())?;
    let table = &model.table;
    let sort = table.sort_key.as_ref().map(|key| key.name.as_str()).zip(entity.sort.as_ref());
    let own = std::iter::once((table.partition_key.name.as_str(), &entity.partition)).chain(sort);
    let indexes = entity.indexes.iter().flat_map(|index| &index.keys);
    let mut keys = own.chain(indexes.map(|(name, template)| (name.as_str(), template)));
    keys.find(|(_, template)| template.variables().any(|other| other.name == variable.name)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::{attribute, entity, entity_index, index, item, model, n, template};
    use crate::model::spec::Copy;
    use crate::model::value::Kind;

    fn reference(partition: &str, sort: Option<&str>) -> Reference {
        Reference {
            name: "boss".into(),
            to: vec!["User".into()],
            partition: template(partition),
            sort: sort.map(template),
            copies: vec![Copy { own: "Grade".into(), master: "Level".into() }],
            required: false,
            when: Vec::new(),
        }
    }

    fn staff(reference: Reference) -> Model {
        let mut model = model("PK", "SK");
        model.table.indexes = vec![index("GSI1", &["GSI1PK"], &[])];
        let mut staff = entity("Staff", "USER#{username}", "USER#{username}");
        staff.indexes = vec![entity_index("GSI1", &[("GSI1PK", "USER#{boss}")])];
        staff.attributes = vec![attribute("Deputy", Kind::S), attribute("Grade", Kind::S)];
        staff.attributes[0].none = vec!["N/A".into()];
        staff.attributes[1].none = vec!["N/A".into()];
        staff.attributes[1].aliases = vec!["grade".into()];
        staff.references = vec![reference];
        model.entities = vec![staff];
        model
    }

    fn mention(model: &Model, more: &[(&str, &str)]) -> Mention {
        let mut ann = item([("PK", "USER#ann"), ("SK", "USER#ann")]);
        more.iter().for_each(|(name, text)| ann.insert(*name, Value::text(*text)));
        let mut all = mentions(model, &model.entities[0], &TableKey::text("USER#ann", "USER#ann"), &ann);
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn variables_come_from_the_item_s_own_keys_indexes_included() {
        let model = staff(reference("USER#{boss}", Some("USER#{boss}")));
        let named = mention(&model, &[("GSI1PK", "USER#bob")]).names;
        assert_eq!(named, Names::Key(TableKey::text("USER#bob", "USER#bob")));
        assert_eq!(mention(&model, &[]).names, Names::Nothing);
        assert_eq!(mention(&model, &[("GSI1PK", "bob")]).names, Names::Nothing);
        assert_eq!(place(&model, &model.entities[0], &model.entities[0].references[0]), Some("GSI1PK"));
    }

    #[test]
    fn attributes_that_are_absent_or_none_name_nothing_and_bad_ones_are_unknown() {
        let model = staff(reference("USER#{Deputy}", None));
        let key = |partition: &str| Names::Key(TableKey { partition: Value::text(partition), sort: None });
        assert_eq!(mention(&model, &[("Deputy", "bob")]).names, key("USER#bob"));
        assert_eq!(mention(&model, &[("Deputy", "N/A")]).names, Names::Nothing);
        assert_eq!(mention(&model, &[]).names, Names::Nothing);
        assert_eq!(place(&model, &model.entities[0], &model.entities[0].references[0]), Some("Deputy"));
        let list = item([("PK", "USER#ann"), ("SK", "USER#ann")]).with("Deputy", Value::L(Vec::new()));
        let key = TableKey::text("USER#ann", "USER#ann");
        assert_eq!(mentions(&model, &model.entities[0], &key, &list)[0].names, Names::Unknown);
        let broken = mentions(&model, &model.entities[0], &TableKey::text("USER#ann", "USER#bob"), &Item::new());
        assert_eq!(broken[0].names, Names::Unknown);
    }

    #[test]
    fn copies_are_what_is_carried_and_compared_by_type() {
        let model = staff(reference("USER#{Deputy}", None));
        assert_eq!(mention(&model, &[]).copies, []);
        let copies = mention(&model, &[("grade", "7")]).copies;
        assert_eq!((copies[0].at.as_str(), copies[0].held.shown.as_str()), ("grade", "7"));
        let master = |value: Value| super::master(&model.entities[0], "Grade", &Item::new().with("Grade", value));
        let held = &copies[0].held;
        assert!(Held::is_same(held, master(Value::text("7")).as_ref()));
        assert!(!Held::is_same(held, master(n("7")).as_ref()));
        assert!(!Held::is_same(held, None));
        let none = mention(&model, &[("Grade", "N/A")]).copies;
        assert!(
            Held::is_same(&none[0].held, None) && Held::is_same(&none[0].held, master(Value::text("N/A")).as_ref())
        );
        assert!(!Held::is_same(&none[0].held, master(Value::text("7")).as_ref()));
    }

    #[test]
    fn values_that_look_alike_when_cut_are_told_apart() {
        let long = |last: &str| Held::value(&Value::text("x".repeat(1_000) + last));
        assert_eq!(long("a").shown, long("b").shown);
        assert!(!Held::is_same(&long("a"), Some(&long("b"))) && Held::is_same(&long("a"), Some(&long("a"))));
    }
}
