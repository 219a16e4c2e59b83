//! Bytes that nobody meant, at everything that reads: decoders, key templates, the loader of models. Whatever comes, there is an answer.
//!
//! The bytes are good ones, spoiled: cut, doubled, swapped, overwritten, crossed with others, with words of the format strewn in. A
//! short run is part of the tests. `TABLEKEEPER_FUZZ_SECONDS=600 cargo test --release --test it fuzz:: -- --nocapture --test-threads 1`
//! spends ten minutes on each target; `TABLEKEEPER_FUZZ_SEED` begins elsewhere, or once more where something was found.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tablekeeper::adapters::clock::SystemClock;
use tablekeeper::adapters::files::{Source, SourceFormat, Watch, parse_item};
use tablekeeper::adapters::schema;
use tablekeeper::adapters::sim::random::Random;
use tablekeeper::derive::{self, decode};
use tablekeeper::engine::ports::Clock as _;
use tablekeeper::model::discarded::DiscardedBatch;
use tablekeeper::model::event::StreamEvent;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::load::load;
use tablekeeper::model::shipped::SHIPPED;
use tablekeeper::model::spec::Model;
use tablekeeper::model::template::Template;
use tablekeeper::model::value::{Item, Value};

const SECONDS: &str = "TABLEKEEPER_FUZZ_SECONDS";
const SEED: &str = "TABLEKEEPER_FUZZ_SEED";
/// Rounds of a run without a time.
const ROUNDS: u64 = 300;
/// Longest input, in bytes: enough for any shape, and many rounds a second.
const LENGTH_MAX: usize = 8 * 1024;

/// Runs `target` on spoiled `seeds` for as long as was asked for; what makes it panic is printed before the test fails.
fn fuzz(name: &str, seeds: &[Vec<u8>], words: &[&str], target: impl Fn(&[u8])) {
    let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = number(SECONDS);
    let until = seconds.map(|seconds| now() + Duration::from_secs(seconds));
    let begin = number(SEED).unwrap_or_else(|| now().timestamp_micros().unsigned_abs());
    let mut rounds = 0;
    loop {
        let seed = begin + rounds;
        let input = spoiled(&mut Random::new(seed), seeds, words);
        if catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() {
            panic!("{name}: seed {seed} panics: {:?}", String::from_utf8_lossy(&input));
        }
        rounds += 1;
        let is_over = until.map_or(rounds >= ROUNDS, |until| rounds % 64 == 0 && now() >= until);
        if is_over {
            break;
        }
    }
    println!("{name}: {rounds} inputs from seed {begin}, no panic");
}

fn now() -> DateTime<Utc> {
    SystemClock::new().now()
}

fn spoiled(random: &mut Random, seeds: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut input = random.pick(seeds).clone();
    for _ in 0..=random.below(6) {
        let (from, to) = (random.below(input.len() + 1), random.below(input.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        match random.below(8) {
            0 => drop(input.drain(from..to.min(from + 64))),
            1 => {
                let part = input[from..to.min(from + 256)].to_vec();
                input.splice(to..to, part);
            }
            2 => input.truncate(to),
            3 if !input.is_empty() => {
                let at = random.below(input.len());
                input[at] = random.below(256) as u8;
            }
            4 if !input.is_empty() => {
                let at = random.below(input.len());
                input[at] ^= 1 << random.below(8);
            }
            5 => {
                let other = random.pick(seeds);
                let cut = random.below(other.len() + 1);
                input.splice(from..to, other[cut..].iter().copied().take(512));
            }
            6 => drop(input.splice(from..from, [0xff, 0, b'\n', 0xc3])),
            _ => {
                let word = random.pick(words).as_bytes().to_vec();
                input.splice(from..to.min(from + 8), word);
            }
        }
    }
    input.truncate(LENGTH_MAX);
    input
}

fn models() -> Vec<Model> {
    SHIPPED.iter().map(|shipped| load(shipped.source, shipped.name).expect("shipped models load").model).collect()
}

/// What a decoded item goes through.
fn derived(models: &[Model], item: &Item) {
    for model in models {
        if let Some(key) = TableKey::of(item, &model.table.key_names()) {
            let derived = derive::derive(model, &key, item);
            let _ = derive::patch::suggest(model, &key, item, &derived.findings);
        }
    }
}

const JSON_WORDS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "null",
    "true",
    "1e999",
    "-0",
    "1E-130",
    "123456789012345678901234567890123456789",
    "{\"N\":\"x\"}",
    "{\"M\":{",
    "{\"L\":[",
    "{\"SS\":[]}",
    "{\"B\":\"=\"}",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\"PK\"",
    "\"SK\"",
    "\"Item\"",
    "\"NewImage\"",
];

fn lines_of_items() -> Vec<Vec<u8>> {
    let plain = SHIPPED.iter().flat_map(|shipped| shipped.items.lines()).filter(|line| !line.is_empty());
    let typed = [
        r#"{"Item":{"PK":{"S":"USER#a"},"SK":{"S":"USER#a"},"N":{"N":"1.50"},"B":{"B":"AQI="},"L":{"L":[{"NULL":true}]},"M":{"M":{"x":{"NS":["1","2"]}}}}}"#,
        r#"{"PK":{"S":"WO#1"},"SK":{"S":"USER#t"},"Type":{"S":"WorkOrder"},"Status":{"S":"Pending"},"F":{"BOOL":false}}"#,
    ];
    plain.chain(typed).map(|line| line.as_bytes().to_vec()).collect()
}

#[test]
fn items_in_json_are_read_or_refused() {
    let models = models();
    fuzz("items", &lines_of_items(), &JSON_WORDS, |input| {
        let text = String::from_utf8_lossy(input);
        if let Ok(item) = parse_item(&text) {
            derived(&models, &item);
        }
    });
}

#[test]
fn events_are_read_or_refused() {
    let event = r#"{"Records":[{"eventID":"1","eventName":"MODIFY","eventVersion":"1.1","eventSource":"aws:dynamodb","awsRegion":"eu-central-1","dynamodb":{"ApproximateCreationDateTime":1764460800.5,"Keys":{"PK":{"S":"WO#1"},"SK":{"S":"USER#t"}},"NewImage":{"PK":{"S":"WO#1"},"SK":{"S":"USER#t"},"Type":{"S":"WorkOrder"},"Status":{"S":"Pending"},"ProjectID":{"S":"P1"}},"OldImage":{"PK":{"S":"WO#1"},"SK":{"S":"USER#t"}},"SequenceNumber":"100000000000000000001","SizeBytes":59,"StreamViewType":"NEW_AND_OLD_IMAGES"},"userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},"eventSourceARN":"arn:aws:dynamodb:eu-central-1:123456789012:table/t/stream/2026-01-01T00:00:00.000"}],"window":{"start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:05:00Z"},"state":{"1":"2"},"shardId":"shardId-000000001","isFinalInvokeForWindow":false}"#;
    let letter = r#"{"requestContext":{"requestId":"a","functionArn":"arn:aws:lambda:eu-central-1:123456789012:function:f","condition":"RetryAttemptsExhausted","approximateInvokeCount":3},"version":"1.0","timestamp":"2026-01-01T00:00:00.000Z","DDBStreamBatchInfo":{"shardId":"shardId-1","startSequenceNumber":"1","endSequenceNumber":"9","approximateArrivalOfFirstRecord":"2026-01-01T00:00:00Z","approximateArrivalOfLastRecord":"2026-01-01T00:00:00Z","batchSize":5,"streamArn":"arn:aws:dynamodb:eu-central-1:123456789012:table/t/stream/2026-01-01T00:00:00.000"},"payload":"{\"Records\":[]}"}"#;
    let models = models();
    fuzz("events", &[event.into(), letter.into()], &JSON_WORDS, |input| {
        let text = String::from_utf8_lossy(input);
        let _ = DiscardedBatch::parse(&text);
        if let Ok(event) = StreamEvent::parse(&text) {
            for model in &models {
                for record in &event.records {
                    let _ = decode::decode(model, record);
                }
            }
        }
    });
}

#[test]
fn schemas_are_read_or_refused() {
    let whole = r#"{"tables":[{"table_config":{"table_name":"Shop","partition_key":"pk","sort_key":"sk"},"gsi_list":[{"name":"ByDay","partition_key":["day","kind"],"sort_key":"sk1","projection":"ALL"}],"entities":{"Order":{"entity_type":"ORDER","pk_template":"CUSTOMER#{customer}","sk_template":"ORDER#{order}","gsi_mappings":[{"name":"ByDay","pk_template":["{day}","X#{order}"],"sk_template":"{customer}"}],"fields":[{"name":"order","type":"string","required":true},{"name":"total","type":"decimal","required":false},{"name":"tags","type":"array","item_type":"string","required":false}],"access_patterns":[]}}}]}"#;
    let words = [&JSON_WORDS[..], &["{x}", "pk_template", "sort_key", "\"type\"", "entities", "#"]].concat();
    fuzz("schemas", &[whole.into()], &words, |input| {
        let text = String::from_utf8_lossy(input);
        let _ = schema::read(&text, None, None);
        let _ = schema::read(whole, Some(&text), None);
    });
}

#[test]
fn files_are_read_or_refused() {
    let csv = "PK,SK,Type,Age:N,Flag:BOOL\nUSER#a,USER#a,Manager,7,true\n\"WO#1\",\"USER#\"\"t\"\"\",WorkOrder,,\n";
    let workbench = r#"{"ModelName":"m","DataModel":[{"TableName":"quality","KeyAttributes":{"PartitionKey":{"AttributeName":"PK","AttributeType":"S"},"SortKey":{"AttributeName":"SK","AttributeType":"S"}},"TableData":[{"PK":{"S":"USER#a"},"SK":{"S":"USER#a"}}]}]}"#;
    let mut seeds = lines_of_items();
    seeds.extend([csv.into(), workbench.into()]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("items");
    let words = [&JSON_WORDS[..], &[":N", ":SS", "\u{feff}", "\r\n", ",,", "TableData", "\x1f\u{8b}"]].concat();
    fuzz("files", &seeds, &words, |input| {
        std::fs::write(&path, input).expect("a file can be written");
        for format in [None, Some(SourceFormat::Csv), Some(SourceFormat::Workbench)] {
            read(&path, format);
        }
    });
}

fn read(path: &Path, format: Option<SourceFormat>) {
    let watch: Watch = std::sync::Arc::new(|input| input);
    let Ok(source) = Source::of(path, format) else { return };
    let Ok(entries) = source.entries("quality", &watch) else { return };
    for entry in entries {
        let _ = entry.content.and_then(|content| content.decode());
    }
}

#[test]
fn key_templates_are_read_or_refused_and_judge_any_key() {
    let seeds: Vec<Vec<u8>> = [
        "USER#{username}",
        "WO#{wo}",
        "MEASUREMENT#{Parameter}#{TakenAt}#{n:04}",
        "{Level:ordinal}",
        "{Years:03.1}",
        "{{x}}#{y}",
        "A#{b:lower}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    let words = [
        "{", "}", "{{", "}}", "#", ":", "{x}", ":03", ":03.1", ":ordinal", ":lower", "é", "e\u{301}", "\u{0}", "WO#",
        "USER#",
    ];
    fuzz("templates", &seeds, &words, |input| {
        let text = String::from_utf8_lossy(input);
        if Template::parse(&text).is_err() {
            return;
        }
        // The template as an entity's key, and keys nearly like it.
        let quoted = toml::Value::from(text.as_ref());
        let model = format!(
            "version = 1\n[table]\nname = \"fuzz\"\npartition_key = \"PK\"\nsort_key = \"SK\"\n[entity.A]\nkey = {{ PK = {quoted}, SK = \"A\" }}\n\
             attribute.x = {{ type = \"N\", min = 0, max = 9, required = true }}\n"
        );
        let Ok(loaded) = load(&model, "fuzz") else { return };
        let mut random = Random::new(input.len() as u64);
        for _ in 0..4 {
            let key = String::from_utf8_lossy(&spoiled(&mut random, &[input.to_vec()], &words)).replace(['{', '}'], "");
            let item =
                Item::new().with("PK", Value::text(&key)).with("SK", Value::text("A")).with("x", Value::N(7.into()));
            derived(std::slice::from_ref(&loaded.model), &item);
        }
    });
}

#[test]
fn models_are_read_or_refused() {
    let seeds: Vec<Vec<u8>> = SHIPPED
        .iter()
        .flat_map(|shipped| shipped.source.split("\n\n").map(move |part| format!("version = 1\n{part}\n").into_bytes()))
        .chain(SHIPPED.iter().map(|shipped| shipped.source.as_bytes().iter().copied().filter(u8::is_ascii).collect()))
        .collect();
    let words = [
        "[entity.A]",
        "[aggregate.b]",
        "[listing.c]",
        "[expiry.d]",
        "[table.index.I]",
        "key = ",
        "{ PK = \"A#{x}\" }",
        "\"{\"",
        "one_of = [\"a\", \"a\"]",
        "format = \"date\"",
        "type = \"N\"",
        "min = -1",
        "1e999",
        "inf",
        "0x7fffffffffffffffff",
        "\"\"\"",
        "'''",
        "lead_days = [1, 2]",
        "zone = \"X\"",
        "reference.r = { to = \"A\" }",
        "severity.A303 = \"info\"",
    ];
    let items: Vec<Item> = SHIPPED
        .iter()
        .flat_map(|shipped| shipped.items.lines().take(6))
        .filter_map(|line| parse_item(line).ok())
        .collect();
    fuzz("models", &seeds, &words, |input| {
        if let Ok(loaded) = load(&String::from_utf8_lossy(input), "fuzz") {
            items.iter().for_each(|item| derived(std::slice::from_ref(&loaded.model), item));
        }
    });
}
