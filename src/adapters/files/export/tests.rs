//! Exports that are whole, and each way in which a copy is not.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::adapters::files::Source;
use crate::model::value::Item;

const LINES: [&str; 3] = [
    r#"{"Item":{"PK":{"S":"a"},"Age":{"N":"7"}}}"#,
    r#"{"Item":{"PK":{"S":"b"}}}"#,
    r#"{"Item":{"PK":{"S":"c"},"Tags":{"SS":["x","y"]}}}"#,
];

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// An export in a folder: `AWSDynamoDB/01-a`, its data there or, if incremental, in `AWSDynamoDB/data`.
struct Made {
    root: TempDir,
    summary: serde_json::Value,
    files: Vec<serde_json::Value>,
    incremental: bool,
}

impl Made {
    fn new(incremental: bool) -> Made {
        let summary = json!({"version": "2023-08-01", "itemCount": 0, "outputFormat": "DYNAMODB_JSON",
            "exportType": if incremental { "INCREMENTAL_EXPORT" } else { "FULL_EXPORT" }});
        Made { root: tempfile::tempdir().unwrap(), summary, files: Vec::new(), incremental }
    }

    fn manifests(&self) -> PathBuf {
        self.root.path().join("AWSDynamoDB/01-a")
    }

    fn file(&self, number: usize) -> PathBuf {
        let data = if self.incremental { "../data" } else { "data" };
        self.manifests().join(data).join(format!("{number}.json.gz"))
    }

    fn with(mut self, lines: &[&str]) -> Made {
        let bytes = gzip(&lines.iter().map(|line| format!("{line}\n")).collect::<String>());
        let path = self.file(self.files.len());
        std::fs::create_dir_all(self.manifests()).unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &bytes).unwrap();
        let folder = if self.incremental { "AWSDynamoDB/data" } else { "AWSDynamoDB/01-a/data" };
        self.files.push(json!({"itemCount": lines.len(), "md5Checksum": BASE64.encode(md5::compute(&bytes).0),
            "etag": "x-1", "dataFileS3Key": format!("some/prefix/{folder}/{}.json.gz", self.files.len())}));
        self.summary["itemCount"] = (self.summary["itemCount"].as_u64().unwrap() + lines.len() as u64).into();
        self
    }

    /// The entries, decoded: items by their `PK`, deletions as `-`, faults in full.
    fn read(&self, below: &str) -> Result<Vec<Result<String, String>>, String> {
        let manifest: String = self.files.iter().map(|file| format!("{file}\n")).collect();
        std::fs::write(self.manifests().join(FILES), manifest).unwrap();
        std::fs::write(self.manifests().join(SUMMARY), self.summary.to_string()).unwrap();
        let source = Source::of(&self.root.path().join(below), None).map_err(|error| error.to_string())?;
        let watch: Watch = Arc::new(|input| input);
        let name = |item: &Item| item.text("PK").unwrap_or_default().to_owned();
        let shown = |entry: Entry| match entry.content.and_then(Content::decode) {
            Ok(Held::Item(item)) => Ok(name(&item)),
            Ok(Held::Deletion) => Ok("-".to_owned()),
            Err(fault) => Err(format!("{}: {fault}", entry.place)),
        };
        Ok(source.entries("any", &watch).map_err(|error| error.to_string())?.map(shown).collect())
    }

    fn all(&self) -> Vec<Result<String, String>> {
        self.read("").unwrap()
    }
}

fn ok(names: &[&str]) -> Vec<Result<String, String>> {
    names.iter().map(|name| Ok((*name).to_owned())).collect()
}

#[test]
fn a_full_export_is_found_from_any_folder_above_it_and_read_in_order() {
    let made = Made::new(false).with(&LINES[..2]).with(&[]).with(&LINES[2..]);
    for below in ["", "AWSDynamoDB", "AWSDynamoDB/01-a", "AWSDynamoDB/01-a/manifest-summary.json"] {
        assert_eq!(made.read(below).unwrap(), ok(&["a", "b", "c"]), "{below}");
    }
    let source = Source::of(made.root.path(), None).unwrap();
    let packed: u64 = (0..3).map(|number| std::fs::metadata(made.file(number)).unwrap().len()).sum();
    assert_eq!((source.size(), source.may_repeat_keys()), (Some(packed), false));
}

#[test]
fn a_data_file_that_is_named_twice_is_read_once_and_told() {
    let mut made = Made::new(false).with(&LINES[..2]).with(&LINES[2..]);
    made.files.push(made.files[0].clone());
    made.summary["itemCount"] = 5.into();
    let all = made.all();
    assert_eq!(all.iter().filter(|entry| entry.is_ok()).count(), 3, "{all:?}");
    let faults: Vec<&String> = all.iter().filter_map(|entry| entry.as_ref().err()).collect();
    assert!(faults.len() == 1 && faults[0].contains("0.json.gz: manifest-files.json names it twice"), "{faults:?}");
}

#[test]
fn an_incremental_export_gives_the_new_images_and_says_what_is_deleted() {
    let metadata = r#""Metadata":{"WriteTimestampMicros":{"N":"1680109764000000"}}"#;
    let put =
        format!(r#"{{{metadata},"Keys":{{"PK":{{"S":"a"}}}},"NewImage":{{"PK":{{"S":"a"}},"Age":{{"N":"8"}}}}}}"#);
    let old = r#""OldImage":{"PK":{"S":"b"}}"#;
    let deleted = format!(r#"{{{metadata},"Keys":{{"PK":{{"S":"b"}}}},{old}}}"#);
    let odd = format!(r#"{{{metadata},"Keys":{{"PK":{{"S":"c"}}}},"NewImage":{{"PK":{{"S":"c"}},"Age":{{"N":8}}}}}}"#);
    let made = Made::new(true).with(&[&put, &deleted, &odd, "[]"]);
    let read = made.all();
    assert_eq!(read[..2], ok(&["a", "-"]));
    assert!(read[2].as_ref().unwrap_err().contains("0.json.gz: line 3: attribute `Age`"), "{read:?}");
    assert!(read[3].as_ref().unwrap_err().contains("no line of an incremental export"), "{read:?}");
    assert_eq!(read.len(), 4);
}

#[test]
fn whatever_the_manifest_says_and_is_not_so_is_told_and_the_rest_is_read() {
    let whole = || Made::new(false).with(&LINES[..2]).with(&LINES[2..]);
    let told = |made: &Made, words: &str, items: usize| {
        let read = made.all();
        let faults: Vec<&String> = read.iter().filter_map(|one| one.as_ref().err()).collect();
        assert!(faults.len() == 1 && faults[0].contains(words), "{words}: {read:?}");
        assert_eq!(read.len() - 1, items, "{read:?}");
    };
    let made = whole();
    std::fs::remove_file(made.file(0)).unwrap();
    told(&made, "data/0.json.gz: the data file is not in", 1);

    let mut made = whole();
    made.files[0]["md5Checksum"] = "AAAAAAAAAAAAAAAAAAAAAA==".into();
    told(&made, "the manifest's MD5 is AAAAAAAAAAAAAAAAAAAAAA==", 3);

    let mut made = whole();
    (made.files[1]["itemCount"], made.summary["itemCount"]) = (2.into(), 4.into());
    told(&made, "the manifest counts 2 items, the file has 1", 3);

    let mut made = whole();
    made.summary["itemCount"] = 9.into();
    told(&made, "manifest-summary.json counts 9 items, the files of manifest-files.json 3", 3);

    let made = whole();
    let bytes = std::fs::read(made.file(1)).unwrap();
    std::fs::write(made.file(1), &bytes[..bytes.len() - 9]).unwrap();
    let read = made.all();
    assert!(matches!(read.last(), Some(Err(fault)) if fault.contains("cut off")), "{read:?}");
    assert_eq!(read.iter().filter(|one| one.is_err()).count(), 1, "{read:?}");
}

#[test]
fn what_is_no_export_of_ours_is_refused_at_once() {
    let mut ion = Made::new(false).with(&LINES);
    ion.summary["outputFormat"] = "ION".into();
    assert!(ion.read("").unwrap_err().contains("format is `ION`"));
    let none = tempfile::tempdir().unwrap();
    let refused = |path: &Path| Source::of(path, None).unwrap_err().to_string();
    assert!(refused(none.path()).contains("a folder without manifest-summary.json"));
    let made = Made::new(false).with(&LINES);
    made.all();
    std::fs::write(made.manifests().join(FILES), "{}\n").unwrap();
    assert!(refused(made.root.path()).contains("manifest-files.json: line 1 names no data file"));
    std::fs::remove_file(made.manifests().join(FILES)).unwrap();
    assert!(refused(made.root.path()).contains("manifest-files.json"));
    std::fs::write(made.manifests().join(SUMMARY), "{").unwrap();
    assert!(refused(made.root.path()).contains("no manifest of an export"));
    let other = made.root.path().join("AWSDynamoDB/02-b");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join(SUMMARY), "{}").unwrap();
    assert!(refused(made.root.path()).contains("several exports"));
}

#[test]
fn a_key_does_not_lead_out_of_the_folder() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder(place.path().join("a/b"));
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(place.path().join("secret"), "x").unwrap();
    for key in ["../../secret", "..", "data/..", "secret", ""] {
        assert!(folder.open(key).is_err(), "{key}");
    }
}
