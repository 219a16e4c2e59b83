//! Denominators, samples and totals.
