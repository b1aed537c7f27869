//! A manager without HTTP servers.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::RwLock;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Manager;
use crate::client::Client;
use crate::error::Result;

/// Nothing is served.
#[derive(Debug, Default)]
pub(super) struct Serving;

/// There are no servers.
pub(crate) enum Server {}

impl Manager {
    pub(super) fn probe_server(&self) -> Option<Server> {
        None
    }

    pub(super) fn metrics_server(&mut self, _client: &Client) -> Option<Server> {
        None
    }

    pub(super) fn webhook_servers(&mut self, _client: &Client) -> Result<Option<Server>> {
        Ok(None)
    }

    pub(super) fn serves_diagnostics(&self) -> bool {
        false
    }
}

impl Server {
    pub(crate) fn serve_diagnostics(&mut self, _read: Box<dyn Fn() -> Value + Send + Sync>) {
        match *self {}
    }

    pub(crate) fn name(&self) -> &'static str {
        match *self {}
    }

    pub(crate) fn bound(&self) -> Arc<RwLock<Option<SocketAddr>>> {
        match *self {}
    }

    pub(crate) async fn listen(
        self,
    ) -> Result<fn(CancellationToken) -> BoxFuture<'static, Result<()>>> {
        match self {}
    }
}
