//! Sign and verify webhooks.
