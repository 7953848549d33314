//! An admin token that has changed since the last start: programs that use the one before are refused, and
//! find nothing wrong with themselves.

use crate::app::App;
use crate::app::tokens::AdminToken;

/// Tells the operator of it, and how to get in.
pub(super) async fn tell(app: &App) -> anyhow::Result<()> {
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
