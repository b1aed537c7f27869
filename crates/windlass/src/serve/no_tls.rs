//! Servers without TLS.

use std::convert::Infallible;

use tokio::net::TcpStream;

use crate::client::Client;

/// There are no certificates.
#[derive(Debug, Clone)]
pub(crate) enum Tls {}

impl Tls {
    pub(crate) fn counted(self, _client: &Client) -> Self {
        self
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> std::io::Result<TcpStream> {
        Ok(stream)
    }

    pub(super) async fn follow(&self) -> Infallible {
        match *self {}
    }
}
