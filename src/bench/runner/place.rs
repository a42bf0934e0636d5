//! Whether a server that we did not start is on this machine.

use std::net::UdpSocket;
use std::time::Duration;

use crate::bench::client::Endpoint;
use crate::measure::hardware::ServerPlace;

/// How long the name may take: it was resolved a moment ago, when the requests were sent.
const DEADLINE: Duration = Duration::from_secs(5);

/// Where the server is: here, if one of its addresses is one of this machine's. A tunnel that ends
/// here is taken for the server itself.
pub async fn place(endpoint: &Endpoint) -> ServerPlace {
    let lookup = tokio::net::lookup_host(endpoint.address());
    let found = tokio::time::timeout(DEADLINE, lookup).await;
    let mut addresses = found.into_iter().flatten().flatten();
    // The kernel lets nobody have an address that is another machine's.
    let is_ours = |address: std::net::SocketAddr| UdpSocket::bind((address.ip(), 0)).is_ok();
    if addresses.any(is_ours) { ServerPlace::Here } else { ServerPlace::Elsewhere }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::client::BodyTemplate;

    #[tokio::test]
    async fn this_machines_addresses_are_here_and_others_are_not() {
        let of =
            async |url: &str| place(&Endpoint::new(url, BodyTemplate::new("m", 1)).unwrap()).await;
        for url in ["http://127.0.0.1:8000/v1", "http://127.0.0.53/v1", "http://localhost:8000/v1"]
        {
            assert_eq!(of(url).await, ServerPlace::Here, "{url}");
        }
        // 192.0.2.0/24 is for documents: no machine has an address of it.
        assert_eq!(of("https://192.0.2.7/v1").await, ServerPlace::Elsewhere);
    }
}
