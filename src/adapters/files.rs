//! Items in files: JSON lines, CSV, models of NoSQL Workbench and exports to S3 in, plain JSON out; and [`TempFiles`] for what
//! memory does not hold.
//!
//! The problem: people have their items as exports, as hand-written samples and as the output of other tools, and one bad
//! line among a million must neither stop the reading nor be passed over in silence. Nor may a number lose a digit on
//! its way through a float.
//!
//! The contract: [`ItemReader`] yields, line by line, an item or a [`FileFault`] with the line's number, the value and the
//! remedy. A line is one of
//! - a plain item, `{"PK": "USER#1", "Age": 7}`: text is S, numbers are N with every digit, objects are M, arrays are L, `null` is NULL;
//! - a line of a DynamoDB export to S3, `{"Item": {"PK": {"S": "USER#1"}}}`;
//! - the same without the wrapping, `{"PK": {"S": "USER#1"}}`, as `aws dynamodb scan` has it in its `Items`.
//!
//! They may be mixed. The file may be gzip (known by its first bytes; several members are read as one). Blank lines and a
//! byte order mark are skipped. Memory is bounded by [`LINE_SIZE_MAX`], whatever the file holds.
//!
//! [`Source`] is any of the kinds above, known by its path and first bytes, as [entries](Entry) that are not yet decoded; [`audit`](mod@audit)
//! takes them through several threads. An export's objects are asked for by [`Objects`], which is a [`Folder`] here.

pub mod audit;
mod csv;
mod decode;
mod encode;
mod export;
mod keys;
mod lines;
mod read;
mod source;
mod spill;
mod workbench;

pub use decode::{NESTING_MAX, parse_item};
pub use encode::PlainJson;
pub use export::{Folder, Objects};
pub use lines::{Input, LINE_SIZE_MAX};
pub use read::{FileError, FileFault, ItemReader};
pub use source::{Content, Entries, Entry, Held, Place, Source, SourceError, SourceFormat, Watch};
pub use spill::TempFiles;
