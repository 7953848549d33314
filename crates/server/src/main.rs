//! The `redial` binary.

fn main() {}
