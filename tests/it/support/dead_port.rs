//! A port that nobody listens on, and nobody will.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// The address of a port that is taken, but refuses connections for as long as the socket lives.
pub fn dead_port() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}
