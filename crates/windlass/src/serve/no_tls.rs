//! Servers without TLS.

use std::convert::Infallible;

use crate::client::Client;

/// There are no certificates.
#[derive(Debug, Clone)]
pub(crate) enum Tls {}

impl Tls {
    pub(crate) fn counted(self, _client: &Client) -> Self {
        self
    }

    pub(super) async fn accept<S>(&self, stream: S) -> std::io::Result<S> {
        Ok(stream)
    }

    pub(super) async fn follow(&self) -> Infallible {
        match *self {}
    }
}
