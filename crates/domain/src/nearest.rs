//! The valid word nearest to what somebody typed, for error messages that help.

/// The most bytes of a word that is compared. No name is so long, and to compare a megabyte takes a while.
const LONGEST: usize = 64;

/// Returns the candidate that differs least from `word`, unless all differ too much to be meant.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    let limit = (word.chars().count() / 2).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Counts the insertions, deletions and substitutions that turn one word into the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (column, other) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_word() {
        let names = ["redial", "recuro", "stripe", "standard-webhooks"];
        assert_eq!(nearest("redail", names), Some("redial"));
        assert_eq!(nearest("Stripe", names), Some("stripe"));
        assert_eq!(nearest("strip", names), Some("stripe"));
        assert_eq!(nearest("standard-webhook", names), Some("standard-webhooks"));
    }

    #[test]
    fn a_word_unlike_all_others_gets_no_suggestion() {
        assert_eq!(nearest("kafka", ["redial", "recuro"]), None);
        assert_eq!(nearest("", ["redial"]), None);
        assert_eq!(nearest(&"redial".repeat(11), ["redial".repeat(11).as_str()]), None);
    }

    #[test]
    fn the_distance_counts_single_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
