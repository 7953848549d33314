//! The room that the store's files have.

use super::{Finding, State, found};
use crate::cli::serve;
use crate::config::Configuration;
use crate::disk::{Room, room};
use crate::words::sized;

/// Where less is free than this, and less than a tenth of all, it is time to do something.
const LITTLE: u64 = 1 << 30;

/// Looks how much is free where the store's files are, or will be; a database has its files elsewhere.
pub(super) fn examine(configuration: &Configuration) -> Option<Finding> {
    let disk = serve::disk(configuration)?;
    let place = disk.directory.display().to_string();
    Some(match room(&disk.directory) {
        Ok(room) => judged(&place, room, disk.least),
        Err(error) => {
            found("disk", State::Doubtful, format!("{place} cannot be looked at: {error}"))
        }
    })
}

fn judged(place: &str, room: Room, least: u64) -> Finding {
    let Room { free, total, read_only } = room;
    let what = format!("{} of {} are free for {place}", sized(free), sized(total));
    let advice = "delete what that file system need not hold, make it larger, or shorten \
                  retention.messages";
    if read_only {
        let text =
            format!("{place} is on a file system that is mounted read-only; mount it for writing");
        return found("disk", State::Bad, text);
    }
    if free < least {
        let text = format!(
            "{what}, and a message may need {}: messages are refused until there is room, and then \
             taken again; {advice}",
            sized(least)
        );
        return found("disk", State::Bad, text);
    }
    if free < LITTLE && free < total / 10 {
        return found("disk", State::Doubtful, format!("only {what}; {advice}"));
    }
    found("disk", State::Good, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_is_told_before_there_is_none() {
        let (mib, gib) = (1 << 20, 1 << 30);
        let table = [
            (50 * gib, 100 * gib, false, State::Good),
            (2 * gib, 100 * gib, false, State::Good),
            (gib - 1, 100 * gib, false, State::Doubtful),
            (500 * mib, gib, false, State::Good),
            (mib, gib, false, State::Doubtful),
            (mib - 1, gib, false, State::Bad),
            (0, gib, false, State::Bad),
            (gib, gib, true, State::Bad),
        ];
        for (free, total, read_only, state) in table {
            let finding = judged("/data", Room { free, total, read_only }, mib);
            assert_eq!(finding.state, state, "{finding:?}");
            assert!(finding.text.contains("/data"), "{finding:?}");
        }
        let full = judged("/data", Room { free: 512, total: gib, read_only: false }, mib);
        assert!(full.text.starts_with("512 bytes of 1.0 GiB are free for /data"), "{full:?}");
        assert!(full.text.contains("delete what"), "{full:?}");
    }
}
