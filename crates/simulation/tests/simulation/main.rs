//! Histories as tests: a few hundred seeds, the same seed twice, each planted bug, and the seeds
//! that once showed a bug nobody had planted.

mod bugs;
mod seeds;
