//! Pages of a list: by id, in both directions, never by offset.

/// Which part of a list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<Id> {
    /// Where the page begins.
    pub from: From<Id>,
    /// The most entries it may have.
    pub limit: u32,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From<Id> {
    /// At the beginning of the list.
    Start,
    /// Behind this entry.
    After(Id),
    /// So that it ends just before this entry.
    Before(Id),
}

/// A page. Its entries are in the list's natural order, whichever way it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T, Id> {
    /// The entries.
    pub entries: Vec<T>,
    /// How far the walk got: where the next page in the same direction begins. With filters, a
    /// page may be short or even empty and still not be the last.
    pub reached: Option<Id>,
    /// Whether the list ends here, in the direction of the walk.
    pub done: bool,
}

/// The natural order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Smallest id first.
    Ascending,
    /// Largest id first.
    Descending,
}

impl Direction {
    /// Tells whether a walk for a page goes from smaller ids to larger ones.
    pub(crate) fn is_upwards<Id>(self, from: &From<Id>) -> bool {
        let backwards = matches!(from, From::Before(_));
        (self == Self::Ascending) != backwards
    }
}

/// Writes the way of a walk into its statement, for `{compare}` and `{direction}`.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn direct(statement: &str, upwards: bool) -> String {
    let (compare, direction) = if upwards { (">", "asc") } else { ("<", "desc") };
    statement.replace("{compare}", compare).replace("{direction}", direction)
}
