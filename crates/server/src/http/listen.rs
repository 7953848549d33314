//! Beginning to listen, with what to do where that is not possible.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use tokio::net::TcpListener;

/// Begins to listen at the address of a setting.
///
/// # Errors
/// Says why that is not possible, and what to do.
pub(crate) async fn listen(setting: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| anyhow::anyhow!(refusal(setting, address, &error)))
}

fn refusal(setting: &str, address: SocketAddr, error: &io::Error) -> String {
    let port = address.port();
    let advice = if error.kind() == ErrorKind::AddrInUse {
        format!(
            "another program uses port {port}, maybe another Redial; end it, or choose another port"
        )
    } else if error.kind() == ErrorKind::PermissionDenied {
        format!(
            "this user may not use port {port}; choose one from 1024 on, or give the server the \
             capability CAP_NET_BIND_SERVICE"
        )
    } else if error.kind() == ErrorKind::AddrNotAvailable {
        format!(
            "no interface of this machine has this address; write 127.0.0.1:{port} for this machine \
             alone, or 0.0.0.0:{port} for every network"
        )
    } else {
        format!("{error}; choose another address")
    };
    format!("{setting}: cannot listen on {address}: {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_cannot_be_listened_at_says_what_to_do() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let held = listen("listen", taken).await.unwrap();
        let text = listen("listen", taken).await.unwrap_err().to_string();
        assert!(text.starts_with(&format!("listen: cannot listen on {taken}: another")), "{text}");
        drop(held);
        // Reserved for documentation: nobody has it.
        let elsewhere = "192.0.2.1:8071".parse().unwrap();
        let text = listen("metrics.listen", elsewhere).await.unwrap_err().to_string();
        assert!(text.contains("0.0.0.0:8071 for every network"), "{text}");
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        let text = refusal("listen", "127.0.0.1:80".parse().unwrap(), &denied);
        assert!(text.contains("port 80; choose one from 1024 on"), "{text}");
    }
}
