//! The pure path of one Lambda event of 1,000 records: decode, derive, compare with the ledger, plan; beside the bare
//! decoding of the same bytes into the event type of `aws_lambda_events`.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use serde_json::json;
use tablekeeper::derive::decode::{Decoded, decode};
use tablekeeper::derive::derive;
use tablekeeper::model::change::Change;
use tablekeeper::model::derived::Derived;
use tablekeeper::model::event::StreamEvent;
use tablekeeper::model::key::TableKey;
use tablekeeper::model::spec::Model;
use tablekeeper::model::value::Item;
use tablekeeper::plan::delta::{Delta, diff};
use tablekeeper::plan::ledger::{Applied, LedgerRow};
use tablekeeper::plan::pack::pack;
use tablekeeper::plan::standing::Standing;

use crate::workload::{ORDERS, ledger_row, model, orders};
use crate::{Figure, milliseconds, stopwatch};

const ROUNDS: usize = 40;
const TIMES_MAX: f64 = 2.0;

/// Times of the stages in one round.
type Stages = [Duration; 6];

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    times[times.len() / 2]
}

pub fn run() -> Vec<Figure> {
    let model = model();
    let orders = orders(0..ORDERS);
    let event = event(&orders);
    let ledger = ledger(&model, &orders);
    let mut bare = Vec::new();
    let mut rounds: Vec<Stages> = Vec::new();
    // In turn, so that both see the same machine.
    for _ in 0..ROUNDS {
        let clock = stopwatch();
        let parsed: aws_lambda_events::event::dynamodb::Event = serde_json::from_str(&event).expect("an event");
        black_box(parsed.records.len());
        drop(parsed);
        bare.push(clock.elapsed());
        rounds.push(stages(&model, &event, &ledger));
    }
    let bare = median(bare.into_iter());
    let stage = |at: usize| median(rounds.iter().map(|stages| stages[at]));
    // What the engine does besides: it also derives the old image, to skip what changes nothing.
    let with_old = median(rounds.iter().map(|stages| stages.iter().sum()));
    let whole = median(rounds.iter().map(|stages| stages[..5].iter().sum()));
    let times = |time: Duration| time.as_secs_f64() / bare.as_secs_f64();
    let shown = |time: Duration| format!("{} = {:.2} x", milliseconds(time), times(time));
    let names =
        ["read the event", "decode", "derive", "compare with the ledger", "plan transactions", "derive the old images"];
    let mut figures = vec![
        Figure::new("event of 1,000 records", format!("{} kB", event.len() / 1000)),
        Figure::new("bare decoding into the event type", milliseconds(bare)),
        Figure::new("decode, derive, compare, plan", shown(whole))
            .target(&format!("at most {TIMES_MAX} x"), times(whole) <= TIMES_MAX),
        Figure::new("the same, old images derived too", shown(with_old)),
    ];
    figures.extend(names.into_iter().enumerate().map(|(at, name)| Figure::new(format!("  {name}"), shown(stage(at)))));
    figures
}

fn ledger(model: &Model, orders: &[(Item, Item)]) -> BTreeMap<TableKey, LedgerRow> {
    let row = |(before, _): &(Item, Item)| {
        let row = ledger_row(model, before);
        (row.source.clone(), row)
    };
    orders.iter().map(row).collect()
}

/// One event through the whole of the pure path; each stage's results are dropped within its time.
fn stages(model: &Model, event: &str, ledger: &BTreeMap<TableKey, LedgerRow>) -> Stages {
    let now = chrono::DateTime::UNIX_EPOCH;
    let clock = stopwatch();
    let event = StreamEvent::parse(event).expect("an event");
    let read = clock.elapsed();

    let clock = stopwatch();
    let change = |raw| match decode(model, raw) {
        Decoded::Change(change) => change,
        other => panic!("every record is a change, not {other:?}"),
    };
    let changes: Vec<Change<'_>> = event.records.iter().map(change).collect();
    let decoded = clock.elapsed();

    let clock = stopwatch();
    let of = |change: &Change<'_>, item: Option<&Item>| item.map(|item| derive(model, &change.key, item));
    let derived: Vec<Option<Derived>> = changes.iter().map(|change| of(change, change.new)).collect();
    let deriving = clock.elapsed();

    let clock = stopwatch();
    changes.iter().filter_map(|change| of(change, change.old)).for_each(|old| drop(black_box(Applied::of(&old))));
    let old = clock.elapsed();

    let clock = stopwatch();
    let compared = changes.iter().zip(&derived).map(|(change, derived)| {
        let before = ledger.get(&change.key);
        diff(model, before, &change.key, derived.as_ref(), Some(&change.sequence), now).expect("no sums here")
    });
    let deltas: Vec<Delta> = compared.collect();
    drop((changes, derived));
    drop(event);
    let comparing = clock.elapsed();

    let clock = stopwatch();
    black_box(pack(model, deltas, &Standing::default(), now).len());
    [read, decoded, deriving, comparing, clock.elapsed(), old]
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
