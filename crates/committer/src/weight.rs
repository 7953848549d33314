//! What items cost, roughly: rows of tables and indexes, and bytes.

use engine::commit::Weight;
use store::queue::{Accept, Number, Settle, Upkeep};

pub(super) fn weight_of_accept(accept: &Accept) -> Weight {
    let deliveries = u32::try_from(accept.deliveries.len()).unwrap_or(u32::MAX);
    let own = 2 + u32::from(accept.idempotency.is_some());
    let bytes = u64::try_from(accept.message.payload.len()).unwrap_or(u64::MAX);
    Weight { rows: deliveries.saturating_mul(2).saturating_add(own), bytes: bytes + 256 }
}

pub(super) fn weight_of_settle(settle: &Settle) -> Weight {
    let kept = u64::try_from(settle.attempt.response_body.len()).unwrap_or(u64::MAX);
    Weight { rows: 3, bytes: kept + 512 }
}

pub(super) fn rows_of_upkeep(upkeep: &Upkeep) -> u32 {
    let rows = match upkeep {
        Upkeep::Bury(bury) => bury.deliveries.len(),
        Upkeep::Replay(replay) => {
            let missing = replay.missing.as_ref().map_or(0, |missing| missing.deliveries.len());
            replay.deliveries.len() + missing
        }
        Upkeep::Consume { requests, .. } => requests.len(),
        Upkeep::RollUp { rollups, .. } => rollups.len(),
        Upkeep::Run { .. } | Upkeep::Ask { .. } => 1,
        Upkeep::Number(Number { most, .. })
        | Upkeep::Fold { most, .. }
        | Upkeep::Prune { most, .. } => return *most,
    };
    u32::try_from(rows).unwrap_or(u32::MAX)
}
