//! Tablekeeper keeps a DynamoDB single table honest.
//!
//! It reads the table's stream and keeps three kinds of derived data true at all times: **aggregates** (counts, sums, sorted
//! listings), **findings** (items that break the table's key conventions) and **expiries** (dates that fall due). From the same
//! data it prints reports. One model file declares all of it; no table's schema is compiled in.
//!
//! This page is the map of the code: the one idea, what must always hold, where a record goes, who may know whom.
//!
//! # The one idea
//!
//! Everything derived is a pure function of ONE source item, [`derive::derive()`]. For each source item a **ledger** row in the
//! state table remembers what has been applied for it: the sequence number and what was derived. So every change is
//! handled in the same five steps, and every repair too:
//!
//! ```text
//! decode  ->  derive (new image)  ->  difference to the ledger  ->  transactions  ->  commit
//! ```
//!
//! A transaction holds, together or not at all: the ledger row, on condition that it is still as it was read; the additions to
//! the aggregates; the rows and findings that come and go.
//!
//! # What always holds
//!
//! Tests, the simulator and comments speak of these by number.
//!
//! - **I1** For every aggregate and group, the stored value is the sum over all ledger rows of that row's counts. At every
//!   commit, whatever crashed.
//! - **I2** The listings, expiries and findings in the table are the union of those of all ledger rows.
//! - **I3** A ledger row never goes back. A change whose sequence number is not greater than the ledger's has been applied
//!   and is skipped. If it nevertheless derives something else, the item itself is read and decides: AWS does not promise that
//!   numbers compare across parent and child shards.
//! - **I4** When the stream has been read to its end, every ledger row is what its item derives now, and nothing is left of
//!   deleted items.
//! - **I5** No record is passed over silently: it is applied, or applied already, or not ours, or in quarantine: an item with a
//!   finding that says why; a record that names no item in a list that `verify` shows. A gap in the stream is an error that someone sees.
//!
//! What follows from them is why the rest is simple: records may come again, in other batches, by two workers at once; a lost
//! record is healed by the next one of its item; backfill, repair and a changed model are one operation,
//! [`engine::reconcile`]; and [`engine::verify`] can prove the result, because it can compute it anew.
//!
//! # The way of a record
//!
//! ```text
//! adapters::dynamodb, model::event            RawRecord   as delivered, damaged or not       model::change
//!     derive::decode                         Change      key, number, images                model::change
//!     derive                                 Derived     counts, rows, findings             model::derived
//!     engine::commit, reading the ledger     Delta       what should be minus what is       plan::delta
//!     plan::pack                             TxPlan      at most 100 writes and 4 MB        plan::pack
//!     engine::ports::Store                   Outcome     who is to blame for a refusal      plan::outcome
//! ```
//!
//! These types hold no AWS type and no JSON value. Numbers are exact decimals of 38 digits ([`model::decimal`]); floats occur
//! only in charts and in the SQL of reports. The other ways begin at the same [`derive::derive()`]: [`derive::fold`] adds up what the
//! items of a file derive, [`engine::audit`] counts what they break, `verify` compares that with the tables, and a report asks it questions.
//! What no item can tell alone, whether what it names is there, [`engine::cross`] finds out.
//!
//! # Floors
//!
//! A file imports only from floors below its own, adapters do not import each other, and only the programs see everything;
//! `tests/it/house.rs` enforces it.
//!
//! | floor | room | what it is | pure |
//! |---|---|---|---|
//! | 0 | [`model`] | values, keys, templates, changes, times; the model file and its loader | yes |
//! | 1 | [`derive`](mod@derive) | item to [`Derived`](model::derived::Derived); one file a rule | yes |
//! | 1 | [`plan`] | differences, transactions, the layout of the state table | yes |
//! | 1 | [`report`] | definitions, typed answers, charts | yes |
//! | 2 | [`engine`] | the ports, and what runs over them: batch, worker, shards, leases, reconcile, slices, verify, sweep, slots, telemetry; audit, cross | over ports |
//! | 3 | [`adapters`] | DynamoDB, Lambda, the embedded database, files, pages, sinks, logs, metrics, clocks, and a simulated DynamoDB for tests | no |
//! | top | `src/main.rs`, `src/cli/`, `src/bin/` | programs: parse, wire, run | no |
//!
//! Time, chance and I/O are parameters: below the adapters nothing reads a clock, and no port knows an async runtime.
//!
//! # Features
//!
//! They add up; without any the library is the pure part and the simulator, and links no runtime, SDK or database.
//!
//! - `worker`: the AWS SDK, the stream reader, sinks;
//! - `cloud`: topics, buckets and queues of AWS;
//! - `lambda`: the stream processor as a Lambda function (`lambda-stream`); it never links polars;
//! - `schedule`: what runs by the clock as a Lambda function (`lambda-schedule`);
//! - `serve`: metrics and health of a worker over HTTP;
//! - `cloud`: buckets and queues of AWS;
//! - `embedded`: a DynamoDB in this process, and the command line;
//! - `reports`: SQL over the items by polars, pages, CSV.
//!
//! # Where to begin
//!
//! - *See it work*: `cargo run -- demo`, then `models/quality.toml`, which is all that the demo knows of its table.
//! - *What is derived*: [`derive::derive()`], then one rule, for example [`derive::rules`] and its `a303`.
//! - *Why the counts are exact*: [`plan::delta`], [`engine::commit`], then the random histories in `src/engine/tests/`, which run
//!   on the [simulated DynamoDB](adapters::sim) and have its [auditor](adapters::sim::auditor) check I1, I2 and I4 after every commit.
//! - *How the stream is read*: [`engine::shards`], a state table without I/O, and [`engine::worker`], which drives it.
//! - *Where a model comes from*: [`derive::propose`], which makes one from a sample of items.
//! - *A new rule*: a file beside its family in `src/derive/rules/`, its line in [`derive::rules::RULES`], its code in
//!   [`model::rule::ITEM_CODES`], a case that breaks it and one that keeps it in `src/derive/tests/catalogue.rs`. *A new adapter*: implement a trait of [`engine::ports`].
//!
//! Each module's own page says which problem it solves and what its callers may rely on.

pub mod adapters;
pub mod derive;
pub mod engine;
pub mod model;
pub mod plan;
pub mod report;
