//! An admin token that has changed since the last start: programs that use the one before are refused, and
//! find nothing wrong with themselves.

use std::sync::Arc;
use std::time::Duration;

use crate::app::App;
use crate::app::tokens::AdminToken;

/// How long a start waits for the comparison, which writes: a disk that hangs must not keep it.
const WAIT: Duration = Duration::from_secs(1);

/// Tells the operator of it, and how to get in.
pub(super) async fn tell(app: &Arc<App>) -> anyhow::Result<()> {
    let app = Arc::clone(app);
    let telling = tokio::spawn(async move { compare(&app).await });
    match tokio::time::timeout(WAIT, telling).await {
        Ok(told) => told?,
        Err(_) => {
            tracing::warn!("the store has not answered within a second; the start goes on");
            Ok(())
        }
    }
}

async fn compare(app: &App) -> anyhow::Result<()> {
    match app.compare_admin_token().await? {
        AdminToken::AsBefore => {}
        AdminToken::Replaced => tracing::warn!(
            "admin_token (REDIAL_ADMIN_TOKEN) is another one than at the last start, or of another node: \
             requests with that one are answered 401; give all of them the same, or tokens that redial \
             token create makes on this machine, which stay whatever admin_token is"
        ),
        AdminToken::Unset => tracing::warn!(
            "admin_token (REDIAL_ADMIN_TOKEN) was set at the last start and is not now: requests with it \
             are answered 401; set it again, or make a token with redial token create on this machine"
        ),
    }
    Ok(())
}
