//! Published tables that nobody here wrote, each with a model that `init --from-items` proposed and a person mended
//! (`tests/it/corpus/`). The items are not part of this repository: their faults are here as cases with values of our own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::kept::tablekeeper;

/// Beside this package, or two floors up where the package is one of several working copies.
const FOLDERS: [&str; 2] = ["../shared/corpus", "../../shared/corpus"];

/// File of items, model, findings by code, and lines that hold no item.
type Expected = (&'static str, &'static str, &'static [(&'static str, usize)], usize);

/// Numbers and times are texts nearly everywhere, times without a zone; a message's and a treatment's sort key are not what their
/// attributes give; typed values are nested one level too deep, or not typed at all.
const EXPECTED: [Expected; 7] = [
    ("AnOnlineShop_facets__OnlineShop", "online-shop", &[("A302", 15), ("A304", 4)], 0),
    ("ChatSystemSchema__Chat", "chat", &[("K101", 1)], 0),
    ("ConnectedVehiclesSchema__Connected_Vehicle", "vehicles", &[("A302", 2)], 8),
    ("GamePlayerProfilesSchema__game-player-profiles", "game", &[("A302", 4), ("A306", 2)], 12),
    ("Hospital__data", "hospital", &[("A304", 2), ("K101", 1)], 0),
    ("SessionManagementSchema__session_store", "sessions", &[("A304", 3)], 0),
    ("banking__data", "banking", &[("A302", 12), ("A304", 5)], 0),
];

pub fn folder(what: &str) -> Option<PathBuf> {
    let found =
        FOLDERS.iter().map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).find(|path| path.is_dir());
    if found.is_none() {
        eprintln!("skipped: {what}: {} is not there", FOLDERS[0]);
    }
    found
}

fn model(name: &str) -> String {
    format!("tests/it/corpus/{name}.toml")
}

/// Exit code, findings by code, messages, and the number of lines without an item.
async fn audit(model: &str, items: &str) -> (i32, BTreeMap<String, usize>, Vec<String>, usize) {
    let ran = tablekeeper(&["audit", "--model", model, "--items", items, "--format", "json"]).await;
    let said = ran.json();
    let findings = said["findings"].as_array().unwrap_or_else(|| panic!("{}{}", ran.out, ran.err));
    let mut codes = BTreeMap::new();
    for finding in findings {
        *codes.entry(finding["code"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let messages = findings.iter().map(|finding| finding["message"].as_str().unwrap().to_owned()).collect();
    (ran.code, codes, messages, said["unread"].as_array().map_or(0, Vec::len))
}

#[tokio::test]
async fn published_items_have_the_faults_that_were_found_in_them() {
    let Some(folder) = folder("published items") else { return };
    for (file, name, expected, unread) in EXPECTED {
        let items = folder.join(format!("items/{file}.ddb.jsonl"));
        let (code, codes, messages, lines) = audit(&model(name), items.to_str().unwrap()).await;
        let expected: BTreeMap<String, usize> =
            expected.iter().map(|(code, number)| ((*code).to_owned(), *number)).collect();
        assert_eq!((codes, lines), (expected, unread), "{file}: {messages:#?}");
        assert_eq!(code, if unread == 0 { 1 } else { 3 }, "{file}");
    }
    let glad = folder.join("glad/items.ddb.jsonl");
    let (code, codes, messages, unread) = audit("skills", glad.to_str().unwrap()).await;
    assert_eq!((code, codes.len(), unread), (0, 0, 0), "{messages:#?}");
}

/// What is proposed for each of them accuses none of the items it was proposed from.
#[tokio::test]
async fn a_proposal_accuses_none_of_its_own_items() {
    let Some(folder) = folder("proposals for published items") else { return };
    let out = tempfile::tempdir().unwrap();
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder.join("items")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.push(folder.join("glad/items.ddb.jsonl"));
    assert!(files.len() > 7);
    for (number, file) in files.iter().enumerate() {
        let (items, model) = (file.to_str().unwrap(), out.path().join(format!("model{number}.toml")));
        let model = model.to_str().unwrap();
        let ran = tablekeeper(&["init", "--from-items", items, "--out", model]).await;
        assert!([0, 3].contains(&ran.code), "{items}: {}{}", ran.out, ran.err);
        let (_, codes, messages, _) = audit(model, items).await;
        assert!(codes.is_empty(), "{items}: {messages:#?}");
    }
}

/// The same faults with values of our own.
#[tokio::test]
async fn the_faults_are_found_in_other_items_too() {
    let folder = tempfile::tempdir().unwrap();
    let items = folder.path().join("items.jsonl");
    // A model, one line of it, and the code and words of what is wrong with it; without a code the line holds no item.
    let cases = [
        (
            "online-shop",
            r#"{"PK":"o#7","SK":"shp#8","EntityType":"shipmentItem","GSI1-PK":"sh#9","GSI1-SK":"p#4","Quantity":"12"}"#,
            "A302",
            "`Quantity` is 12 of type S",
        ),
        (
            "online-shop",
            r#"{"PK":"o#7","SK":"pmn#3","EntityType":"payment","GSI1-PK":"i#5","GSI1-SK":"pmn#3","Amount":9,"Type":"Cash","Date":"2026-02-03T04:05:06"}"#,
            "A304",
            "`Date` is `2026-02-03T04:05:06`",
        ),
        (
            "chat",
            r#"{"PK":"User:ann","SK":"2026-02-03T09:00:00Z","RoomID":"Tea","Comment":"Hi","CreatedAt":"2026-02-03T08:00:00Z"}"#,
            "K101",
            "give `2026-02-03T08:00:00Z`",
        ),
        (
            "hospital",
            r#"{"PK":"P8","SK":"2026-02-03T08:00:00Z#T3","type":"treatment","timestamp":"2026-02-03T08:00:00Z","treatmentId":"T30","PK1":"D2","SK1":"2026-02-03T08:00:00Z","PK2":"north-T","SK2":"2026-02-03T08:00:00Z"}"#,
            "K101",
            "#T30",
        ),
        (
            "game",
            r##"{"PK":"kim","SK":"#METADATA#kim","Type":"Metadata","CreatedAt":"1790000000"}"##,
            "A306",
            "write the number 1790000000",
        ),
        ("game", r#"{"PK":"kim","SK":"EQUIPMENTS#004EQUIPMENTS#005","Type":"Equipment"}"#, "S401", "004EQUIPMENTS#005"),
        ("vehicles", "{\"PK\":\"ID#kim\",\"SK\":\"F#OFF#HEATING#<part>\",\"user_name\":\"kim\"}", "S402", "<part>"),
        (
            "banking",
            r#"{"PK":"C4","SK":"A9","type":"account","acctType":"savings","balance":5,"dailies":"map","GSI1PK":"C4","GSI1SK":"A9"}"#,
            "A302",
            "`dailies`",
        ),
        (
            "vehicles",
            r#"{"Item":{"PK":{"S":"VIN#Q7"},"SK":{"S":"FEATURE#HORN"},"horn":{"M":{"loud":true}}}}"#,
            "",
            "`horn.loud`",
        ),
        (
            "game",
            r#"{"Item":{"PK":{"S":"kim"},"SK":{"S":"ITEMS#9"},"Type":{"S":"Item"},"Made":{"M":{"M":{"Of":{"N":"3"}}}}}}"#,
            "",
            "`Made.M`",
        ),
    ];
    for (name, line, expected, words) in cases {
        fs::write(&items, line).unwrap();
        if expected.is_empty() {
            let ran = tablekeeper(&["audit", "--model", &model(name), "--items", items.to_str().unwrap()]).await;
            assert!(ran.code == 3 && ran.err.contains(words), "{line}: {}", ran.err);
            continue;
        }
        let (code, codes, messages, unread) = audit(&model(name), items.to_str().unwrap()).await;
        assert_eq!((code, unread, codes), (1, 0, BTreeMap::from([(expected.to_owned(), 1)])), "{line}: {messages:#?}");
        assert!(messages[0].contains(words), "{}", messages[0]);
    }
}
