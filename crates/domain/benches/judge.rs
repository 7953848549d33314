//! What one decision costs.

fn main() {}
