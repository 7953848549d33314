//! Feeds bodies of any kind to the reader of messages and of batches. Nothing may panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    redial::fuzzing::message(body);
    redial::fuzzing::batch(body);
});
