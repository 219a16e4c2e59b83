//! How `audit` reads the live table.

use std::path::PathBuf;

use clap::Args;
use tablekeeper::engine::reconcile::SEGMENTS_MAX;

/// Parts that are read at once where nobody says more; each holds a page of at most 1 MB.
const SEGMENTS_DEFAULT: u32 = 8;

#[derive(Debug, Args)]
pub struct LiveArgs {
    /// Parts of the live table that are read at once; a run that goes on keeps its number
    #[arg(long, default_value_t = SEGMENTS_DEFAULT, value_name = "N", conflicts_with = "items", value_parser = clap::value_parser!(u32).range(1..=i64::from(SEGMENTS_MAX)))]
    pub segments: u32,
    /// Read no more than this of the live table in a second, in read units (4 KB each); default: as fast as it goes
    #[arg(long, value_name = "N", conflicts_with = "items", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_read_units: Option<u32>,
    /// Keep in this file how far the live table is read, and go on from there if it is there; gone at the end.
    /// It holds keys and findings. References to items that an earlier run read are then not judged
    #[arg(long, value_name = "FILE", conflicts_with_all = ["items", "suggest_patches"])]
    pub resume: Option<PathBuf>,
}
