//! The tests of the `redial` crate, linked once: one binary builds faster than many.

mod tidy;
