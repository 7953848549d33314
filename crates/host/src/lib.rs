//! What each program here takes from the machine that it runs on, and how it speaks to a terminal.
//!
//! It knows nothing of HTTP, of stores or of the engine.
//!
//! # Layout
//! - [`clock`]: the only place that tells the time; [`dice`]: the only one that throws
//! - [`process`]: files and signals of the process; [`disk`]: the room of a file system
//! - [`command`]: what a command writes to, and why it fails
//! - [`table`]: text in columns; [`words`]: numbers as people say them

pub mod clock;
pub mod command;
pub mod dice;
pub mod disk;
pub mod process;
pub mod table;
pub mod words;
