//! The pure path of one Lambda event of 1,000 records: decode, derive, compare with the ledger, plan; beside the bare
//! decoding of the same bytes into the event type of `aws_lambda_events`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;
use tablekeeper::adapters::lambda::StreamEvent;
use tablekeeper::derive::decode::{Decoded, decode};
use tablekeeper::derive::derive;
use tablekeeper::model::value::Item;
use tablekeeper::plan::delta::diff;
use tablekeeper::plan::ledger::{Applied, LedgerRow};
use tablekeeper::plan::pack::pack;
use tablekeeper::plan::standing::Standing;

use crate::workload::{model, orders};
use crate::{Figure, milliseconds};

const ROUNDS: usize = 30;

#[allow(clippy::disallowed_methods, reason = "a bench measures time")]
fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            work();
            begin.elapsed()
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}

pub fn run() -> Vec<Figure> {
    let model = model();
    let orders = orders(7);
    let event = event(&orders);
    let now = chrono::DateTime::UNIX_EPOCH;
    let names = model.table.key_names();
    let ledger: std::collections::BTreeMap<_, _> = orders
        .iter()
        .map(|(before, _)| {
            let key = tablekeeper::model::key::TableKey::of(before, &names).expect("an order has a key");
            let derived = derive(&model, &key, before);
            let row = LedgerRow {
                source: key.clone(),
                sequence: "1".parse().ok(),
                revision: 1,
                entity: derived.entity.clone(),
                applied: Applied::of(&derived),
                model: model.hash.clone(),
                deleted: false,
                expires_at: None,
                quarantined: None,
                left_out: None,
            };
            (key, row)
        })
        .collect();
    let bare = median(|| {
        let event: aws_lambda_events::event::dynamodb::Event = serde_json::from_str(&event).expect("an event");
        black_box(event.records.len());
    });
    let whole = median(|| {
        let event = StreamEvent::parse(&event).expect("an event");
        let mut deltas = Vec::new();
        for raw in &event.records {
            let Decoded::Change(change) = decode(&model, raw) else { panic!("every record is a change") };
            let derived = change.new.as_ref().map(|item| derive(&model, &change.key, item));
            let before = ledger.get(&change.key);
            let delta = diff(&model, before, &change.key, derived.as_ref(), Some(&change.sequence), now);
            deltas.push(delta.expect("no sums here"));
        }
        black_box(pack(&model, deltas, &Standing::default(), now).len());
    });
    vec![
        Figure::new("event of 1,000 records", format!("{} kB", event.len() / 1000)),
        Figure::new("bare decoding into the event type", milliseconds(bare)),
        Figure::new("decode, derive, compare, plan", milliseconds(whole)),
        Figure::new("ratio", format!("{:.2} x", whole.as_secs_f64() / bare.as_secs_f64())),
    ]
}

fn event(orders: &[(Item, Item)]) -> String {
    let records: Vec<_> = orders
        .iter()
        .enumerate()
        .map(|(number, (old, new))| {
            json!({
                "eventID": format!("{number:032x}"), "eventName": "MODIFY", "eventVersion": "1.1",
                "eventSource": "aws:dynamodb", "awsRegion": "eu-central-1",
                "eventSourceARN": "arn:aws:dynamodb:eu-central-1:123456789012:table/quality/stream/2026-01-01T00:00:00.000",
                "dynamodb": {
                    "ApproximateCreationDateTime": 1_767_225_600.0,
                    "Keys": {"PK": new.get("PK"), "SK": new.get("SK")},
                    "NewImage": new, "OldImage": old,
                    "SequenceNumber": format!("{}", 100_000_000_000_000_000_000_000_u128 + number as u128),
                    "SizeBytes": 500, "StreamViewType": "NEW_AND_OLD_IMAGES"
                }
            })
        })
        .collect();
    json!({ "Records": records }).to_string()
}
