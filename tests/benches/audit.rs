//! A full export to S3 of a million items, 1.1 GB unpacked, audited by two threads; beside it, in the same run, what unpacking and
//! parsing the same files as JSON takes at the least. The audit is a process of its own, whose memory is measured.
//!
//! `TABLEKEEPER_AUDIT_ITEMS` chooses another number of items.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::json;
use tablekeeper::adapters::files::audit::{Options, audit};
use tablekeeper::adapters::files::{Source, TempFiles};
use tablekeeper::engine::cross::Onlooker;
use tablekeeper::model::value::{Item, Value};

use crate::memory::peak_kilobytes;
use crate::workload::{Draw, model, pending};
use crate::{Figure, stopwatch};

/// The argument by which the bench runs itself as the audit; the export's folder follows.
pub const CHILD: &str = "as-an-audit";
const ITEMS: usize = 1_000_000;
const FILES: usize = 8;
const THREADS: usize = 2;
/// One item in so many has a stale index key.
const STALE: usize = 1_000;
/// As the program has it.
const CROSS_MEMORY_MAX: usize = 64 * 1024 * 1024;
const MEGABYTES_MAX: f64 = 150.0;
const TIMES_MAX: f64 = 2.5;

/// A work order, or a measurement of one; with notes, so that it has the size of items in the field.
fn item(number: usize) -> Item {
    let mut draw = Draw(number as u64);
    let mut item = match number % 4 {
        0 => measurement(number, &mut draw),
        _ => pending(number),
    };
    if number % STALE == 1 {
        item.insert("GSI2PK", Value::text("PROJECT#gone"));
    }
    for note in 0..15 {
        let words: Vec<String> = (0..6).map(|_| format!("{:06x}", draw.below(1 << 24))).collect();
        item.insert(format!("Note{note:02}"), Value::text(words.join(" ")));
    }
    item
}

fn measurement(number: usize, draw: &mut Draw) -> Item {
    let parameter = ["Load", "Width", "Height"][draw.below(3) as usize];
    let taken = format!("2026-01-02T08:{:02}:{:02}Z", draw.below(60), draw.below(60));
    Item::new()
        .with("PK", Value::text(format!("WO#B{number:07}")))
        .with("SK", Value::text(format!("MEASUREMENT#{parameter}#{taken}#1")))
        .with("Parameter", Value::text(parameter))
        .with("TakenAt", Value::text(taken))
        .with("Username", Value::text(format!("t{:02}", draw.below(50))))
        .with("Value", Value::N(format!("{}.{}", draw.below(100), draw.below(100)).parse().expect("a number")))
}

/// Writes the export, and gives back its size in bytes, unpacked.
fn write(folder: &Path, items: usize) -> usize {
    std::fs::create_dir_all(folder.join("data")).expect("the folder can be made");
    let (mut manifest, mut unpacked) = (String::new(), 0);
    for file in 0..FILES {
        let numbers = items * file / FILES..items * (file + 1) / FILES;
        let count = numbers.len();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        for number in numbers {
            let line = json!({ "Item": item(number) }).to_string() + "\n";
            unpacked += line.len();
            encoder.write_all(line.as_bytes()).expect("memory can be written");
        }
        let bytes = encoder.finish().expect("memory can be written");
        let md5 = BASE64.encode(md5::compute(&bytes).0);
        let key = format!("AWSDynamoDB/0-0/data/{file}.json.gz");
        manifest += &json!({"itemCount": count, "md5Checksum": md5, "etag": "-1", "dataFileS3Key": key}).to_string();
        manifest += "\n";
        std::fs::write(folder.join(format!("data/{file}.json.gz")), bytes).expect("the disk has room");
    }
    let summary = json!({"version": "2020-06-30", "itemCount": items, "outputFormat": "DYNAMODB_JSON"}).to_string();
    std::fs::write(folder.join("manifest-files.json"), manifest).expect("the disk has room");
    std::fs::write(folder.join("manifest-summary.json"), summary).expect("the disk has room");
    unpacked
}

/// Unpacks all files and parses every line, on one thread; how many seconds that takes.
fn bare(folder: &Path) -> f64 {
    let clock = stopwatch();
    let mut lines = 0;
    for file in 0..FILES {
        let packed = File::open(folder.join(format!("data/{file}.json.gz"))).expect("it was written");
        let mut unpacked = BufReader::new(MultiGzDecoder::new(BufReader::new(packed)));
        let mut line = String::new();
        while unpacked.read_line(&mut line).expect("it was written whole") > 0 {
            let value: serde_json::Value = serde_json::from_str(&line).expect("it was written as JSON");
            lines += usize::from(value.is_object());
            line.clear();
        }
    }
    assert!(lines > 0);
    clock.elapsed().as_secs_f64()
}

/// The audit: prints its seconds, its peak of memory, items and findings.
pub fn work(folder: &str) {
    let model = model();
    let clock = stopwatch();
    let source = Source::of(Path::new(folder), None).expect("an export");
    let options = Options { threads: THREADS, ..Options::default() };
    let across = || Onlooker::new(&model, TempFiles::default(), CROSS_MEMORY_MAX);
    let (mut audit, reading, across) = audit(&model, &source, &options, across).expect("the export can be read");
    across.finish(source.sight(), &mut audit).expect("there is room for temporary files");
    let summary = audit.finish();
    let seconds = clock.elapsed().as_secs_f64();
    assert!(reading.faults.is_empty(), "{:?}", reading.faults.iter().next());
    println!("{seconds} {} {} {}", peak_kilobytes().unwrap_or_default(), summary.items(), summary.findings());
}

pub fn run() -> Vec<Figure> {
    let items = std::env::var("TABLEKEEPER_AUDIT_ITEMS").ok().and_then(|text| text.parse().ok()).unwrap_or(ITEMS);
    let place = tempfile::tempdir().expect("a temporary folder");
    let folder: PathBuf = place.path().join("export");
    let gigabytes = write(&folder, items) as f64 / 1e9;
    let bare = bare(&folder);
    let program = std::env::current_exe().expect("a program knows where it is");
    let output = Command::new(program).arg(CHILD).arg(&folder).output().expect("the bench can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [seconds, kilobytes, audited, findings] = numbers.try_into().expect("the audit prints four numbers");
    assert_eq!(audited as usize, items);
    assert!(findings as usize >= items / STALE, "{findings}");
    let megabytes = kilobytes * 1024.0 / 1e6;
    let rate = |seconds: f64| {
        format!("{:.1} s, {:.0} items/s, {:.0} MB/s", seconds, items as f64 / seconds, gigabytes * 1e3 / seconds)
    };
    let times = seconds / bare;
    vec![
        Figure::new(format!("gzip and serde_json alone, {items} items, {gigabytes:.2} GB unpacked"), rate(bare)),
        Figure::new(format!("audit of the same export, {THREADS} threads"), rate(seconds)),
        Figure::new("  times gzip and serde_json", format!("{times:.2}")).target("at most 2.5", times <= TIMES_MAX),
        Figure::new("  memory at most", format!("{megabytes:.0} MB"))
            .target("150 MB or less", kilobytes > 0.0 && megabytes <= MEGABYTES_MAX),
    ]
}
