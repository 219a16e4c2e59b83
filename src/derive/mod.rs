//! Floor 1: one item in, everything derived from it out. Pure.
