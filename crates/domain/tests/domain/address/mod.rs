//! Where requests may go: rules against an independent oracle, spellings against a list, and the
//! operator's settings against their promises.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use domain::ids::ApplicationId;

mod forms;
mod opening;
mod oracle;
mod redirecting;
mod routing;
mod sweep;

const FIRST: ApplicationId = ApplicationId::from_bytes([1; 20]);
const SECOND: ApplicationId = ApplicationId::from_bytes([2; 20]);
