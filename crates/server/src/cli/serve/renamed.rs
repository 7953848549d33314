//! Names that a migration had to change: the operator is told of each, at the first start after it.

use store::Catalog;

/// Tells of all of them. Each is forgotten once it was told, so that one may be told twice, and none
/// never.
pub(super) async fn tell(catalog: &dyn Catalog) -> Result<(), store::Error> {
    let mut told = Vec::new();
    loop {
        told = catalog.renamed(told).await?;
        if told.is_empty() {
            return Ok(());
        }
        for one in &told {
            tracing::warn!(
                id = one.id,
                old = one.old,
                new = one.new,
                "the {} was changed, because it would mean something else in a path",
                one.whose.word()
            );
        }
    }
}
