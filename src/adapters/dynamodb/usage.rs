//! What the database was asked and what it charged for it.
//!
//! Capacity is a cost that the owner pays, so a claim about it must be counted, not estimated. One [`Usage`] belongs to one
//! connection; it counts operations (the SDK's own repeats of an operation are not seen) and the capacity that the
//! answers report. An operation that fails is counted, its capacity is not known.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::telemetry::readings::Consumption;

/// The kinds of requests that are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// BatchGetItem and GetItem.
    Get,
    /// TransactWriteItems.
    Transact,
    Query,
    Scan,
    /// PutItem, DeleteItem and BatchWriteItem: loads and demonstrations, not the engine.
    Write,
    /// DescribeStream.
    Describe,
    /// GetShardIterator.
    Iterator,
    /// GetRecords.
    Records,
}

const CALLS: usize = Call::ALL.len();

impl Call {
    pub const ALL: [Call; 8] = [
        Call::Get,
        Call::Transact,
        Call::Query,
        Call::Scan,
        Call::Write,
        Call::Describe,
        Call::Iterator,
        Call::Records,
    ];

    /// A stable name, for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Call::Get => "get",
            Call::Transact => "transact",
            Call::Query => "query",
            Call::Scan => "scan",
            Call::Write => "write",
            Call::Describe => "describe",
            Call::Iterator => "iterator",
            Call::Records => "records",
        }
    }
}

/// Counters of one connection; shared by all that use it.
#[derive(Debug, Default)]
pub struct Usage {
    calls: [AtomicU64; CALLS],
    read_half_units: AtomicU64,
    write_half_units: AtomicU64,
}

/// The counters at one moment; subtract two for what happened between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageSnapshot {
    calls: [u64; CALLS],
    /// Halves of a read unit: an eventually consistent read costs one.
    pub read_half_units: u64,
    /// Halves of a write unit.
    pub write_half_units: u64,
}

impl Usage {
    pub fn snapshot(&self) -> UsageSnapshot {
        UsageSnapshot {
            calls: std::array::from_fn(|at| self.calls[at].load(Ordering::Relaxed)),
            read_half_units: self.read_half_units.load(Ordering::Relaxed),
            write_half_units: self.write_half_units.load(Ordering::Relaxed),
        }
    }

    pub(super) fn count(&self, call: Call) {
        self.calls[call as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Adds what an answer says it consumed; `call` tells whether a plain total was read or written.
    pub(super) fn charge(&self, call: Call, units: impl IntoIterator<Item = f64>) {
        let half_units: u64 = units.into_iter().map(|units| (units.max(0.0) * 2.0).round() as u64).sum();
        let counter = match call {
            Call::Transact | Call::Write => &self.write_half_units,
            _ => &self.read_half_units,
        };
        counter.fetch_add(half_units, Ordering::Relaxed);
    }
}

impl UsageSnapshot {
    pub fn calls(&self, call: Call) -> u64 {
        self.calls[call as usize]
    }

    /// Requests to the table, of all kinds; those to the stream are not among them.
    pub fn table_calls(&self) -> u64 {
        [Call::Get, Call::Transact, Call::Query, Call::Scan, Call::Write].into_iter().map(|call| self.calls(call)).sum()
    }

    /// As metrics have it.
    pub fn consumption(&self) -> Consumption {
        Consumption {
            read_units: self.read_half_units as f64 / 2.0,
            write_units: self.write_half_units as f64 / 2.0,
            requests: Call::ALL.iter().map(|call| (call.name(), self.calls(*call))).collect(),
        }
    }

    /// What happened since `earlier`, a snapshot of the same connection.
    pub fn since(&self, earlier: &UsageSnapshot) -> UsageSnapshot {
        UsageSnapshot {
            calls: std::array::from_fn(|at| self.calls[at].saturating_sub(earlier.calls[at])),
            read_half_units: self.read_half_units.saturating_sub(earlier.read_half_units),
            write_half_units: self.write_half_units.saturating_sub(earlier.write_half_units),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_units_are_counted_apart() {
        let usage = Usage::default();
        usage.count(Call::Get);
        usage.charge(Call::Get, [0.5, 1.0]);
        let before = usage.snapshot();
        usage.count(Call::Transact);
        usage.count(Call::Records);
        usage.charge(Call::Transact, [4.0]);
        let spent = usage.snapshot().since(&before);
        assert_eq!((spent.calls(Call::Get), spent.calls(Call::Transact), spent.table_calls()), (0, 1, 1));
        assert_eq!((spent.read_half_units, spent.write_half_units), (0, 8));
        assert_eq!(before.read_half_units, 3);
    }
}
