//! Feeds queries of any kind to the readers of parameters. Nothing may panic, and the normal form
//! of a normal form is itself.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| redial::fuzzing::query(text));
