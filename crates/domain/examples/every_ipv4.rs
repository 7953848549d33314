//! Compares the guard with the tests' oracle on every IPv4 address there is.
//!
//! `cargo run --release -p redial-domain --example every_ipv4` prints how many are denied and
//! allowed, and fails if the two disagree about any.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::thread;

use domain::address::{Guard, Settings};
use domain::ids::ApplicationId;

#[expect(clippy::unwrap_used, reason = "a list that cannot be read must stop the comparison")]
#[path = "../tests/domain/address/oracle/ipv4.rs"]
mod oracle;

#[derive(Default)]
struct Count {
    allowed: u64,
    denied: u64,
    mismatches: u64,
}

#[expect(clippy::print_stdout, reason = "an example reports to whoever ran it")]
fn main() -> ExitCode {
    const MIDDLE: u32 = 1 << 31;
    let (low, high) = thread::scope(|scope| {
        let low = scope.spawn(|| compare(0, MIDDLE - 1));
        let high = compare(MIDDLE, u32::MAX);
        (low.join().unwrap_or_default(), high)
    });
    let allowed = low.allowed + high.allowed;
    let denied = low.denied + high.denied;
    let mismatches = low.mismatches + high.mismatches;
    println!("{denied} denied, {allowed} allowed, {mismatches} mismatches");
    // A thread that panicked has counted nothing, which must not pass for agreement.
    if mismatches == 0 && allowed + denied == 1 << 32 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn compare(first: u32, last: u32) -> Count {
    let guard = Guard::new(Settings::default());
    let oracle = oracle::Oracle::new();
    let application = ApplicationId::from_bytes([1; 20]);
    let mut count = Count::default();
    for bits in first..=last {
        let address = SocketAddr::new(Ipv4Addr::from_bits(bits).into(), 443);
        let allowed = guard.vet_address(address, application).is_ok();
        count.allowed += u64::from(allowed);
        count.denied += u64::from(!allowed);
        count.mismatches += u64::from(allowed != oracle.allows(bits));
    }
    count
}
