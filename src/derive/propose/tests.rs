//! Proposals for small tables.
