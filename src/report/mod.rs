//! Floor 1: what a report is: definitions, data sets and pictures. Pure.
