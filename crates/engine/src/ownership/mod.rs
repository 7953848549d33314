//! Which partitions a node owns: leases, taking and losing them, finding what waits in them, and giving
//! them back.

pub(crate) mod leases;
mod owning;
pub(crate) mod stopping;
pub(crate) mod unclaimed;
pub(crate) mod walking;
