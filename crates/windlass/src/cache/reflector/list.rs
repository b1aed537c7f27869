//! The plain list: in pages, each split into objects as it arrives.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use tokio::time::timeout;
use windlass_protobuf::ListReader;

use super::{Delta, Failure, Query, Reflector, Stop};
use crate::cache::Key;
use crate::cache::outline::key_of_part;
use crate::cache::wire::ListScanner;

const PAGE_SIZE: usize = 500;

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

// === impl ListMeta ===

impl ListMeta {
    /// Fails if this is not a list. If whatever a proxy answers counted as an empty list, all known
    /// objects would seem to be deleted.
    fn of_list(self, kind: &str) -> Result<Self, Failure> {
        let unversioned = self.resource_version.is_empty() && !kind.ends_with("List");
        if kind == "Status" || unversioned {
            return Err(Failure::new(format!("answer is not a list: its kind is {kind:?}")));
        }
        Ok(self)
    }
}

// === impl Reflector ===

impl Reflector {
    /// Lists the whole scope into the store.
    pub(super) async fn list(&mut self) -> Result<(), Stop> {
        // The first list asks for the most recent state. With version "0" a server could answer
        // from a cache that is behind what this process saw before it was restarted.
        let mut version = match self.version_lost {
            true => String::new(),
            false => self.version.clone(),
        };
        loop {
            match self.list_at(&version).await {
                Err(Stop::Failed(failure))
                    if !version.is_empty() && (failure.expired() || failure.ahead()) =>
                {
                    // This version cannot be served; the most recent state always can.
                    self.version_lost = true;
                    version.clear();
                }
                done => return done,
            }
        }
    }

    async fn list_at(&mut self, version: &str) -> Result<(), Stop> {
        let mut limit = match self.rules.page_size {
            Some(size) => size,
            // Pages would bypass the server's cache.
            None if !version.is_empty() => 0,
            None => PAGE_SIZE,
        };
        self.batch.push(Delta::Begin);
        let mut next = String::new();
        loop {
            let page = self.page(&Query { version, limit, next: &next, ..Query::default() }).await;
            let meta = match page {
                Ok(meta) => meta,
                Err(Stop::Failed(failure)) if failure.expired() && !next.is_empty() => {
                    // The remaining pages have expired: list again, in one piece.
                    self.batch.push(Delta::Begin);
                    next.clear();
                    limit = 0;
                    continue;
                }
                Err(stop) => return Err(stop),
            };
            if meta.next.is_empty() {
                self.replaced(meta.resource_version);
                return Ok(());
            }
            if meta.next == next {
                return Err(Failure::new("server sends the same page repeatedly").into());
            }
            next = meta.next;
        }
    }

    async fn page(&mut self, query: &Query<'_>) -> Result<ListMeta, Stop> {
        self.stats.lists.fetch_add(1, Ordering::Relaxed);
        let answer = self.send(query).await?;
        let mut body = answer.body;
        if answer.protobuf {
            return self.protobuf_page(body).await;
        }
        let mut scanner = ListScanner::new(self.rules.object_max);
        while let Some(chunk) = self.chunk(&mut body).await? {
            tokio::task::consume_budget().await;
            let mut found = Vec::new();
            scanner
                .feed(&chunk, &mut |item| found.extend(self.listed(item)))
                .map_err(|err| Failure::new(err.to_string()))?;
            for delta in found {
                self.batch.push(delta);
            }
            for head in scanner.take_oversized() {
                self.oversized(key_of_part(&head));
            }
        }
        if !scanner.complete() {
            return Err(Failure::new("list ended in the middle").into());
        }
        let meta = scanner.field("metadata").unwrap_or(b"{}");
        let meta: ListMeta = serde_json::from_slice(meta)
            .map_err(|err| Failure::new(format!("list has invalid metadata: {err}")))?;
        let kind = scanner.field("kind").unwrap_or_default();
        let kind = serde_json::from_slice::<String>(kind).unwrap_or_default();
        Ok(meta.of_list(&kind)?)
    }

    /// Reads a page in protobuf.
    async fn protobuf_page(&mut self, mut body: Body) -> Result<ListMeta, Stop> {
        let mut reader = ListReader::new(self.rules.object_max);
        let wrong = |err: windlass_protobuf::Error| Failure::new(err.to_string());
        while let Some(chunk) = self.chunk(&mut body).await? {
            tokio::task::consume_budget().await;
            let mut found = Vec::new();
            reader
                .feed(&chunk, &mut |item| found.extend(self.listed_message(item)))
                .map_err(wrong)?;
            self.check_known()?;
            for delta in found {
                self.batch.push(delta);
            }
            for [namespace, name] in reader.take_oversized() {
                let key = Key::new(Some(&namespace), &name);
                self.oversized(Some(key).filter(|_| !name.is_empty()));
            }
        }
        if !reader.is_complete() {
            return Err(Failure::new("list ended in the middle").into());
        }
        let (resource_version, next) = reader.version().map_err(wrong)?;
        let (_, kind) = reader.types().map_err(wrong)?;
        Ok(ListMeta { resource_version, next }.of_list(&kind)?)
    }

    /// Returns the next bytes of a list; `None` at its end.
    async fn chunk(&self, body: &mut Body) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = timeout(self.rules.answer, body.frame()).await;
            let frame =
                frame.map_err(|_| Failure::new("server stopped in the middle of a list"))?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|err| Failure::connection(&err))?;
            if let Ok(chunk) = frame.into_data() {
                return Ok(Some(chunk));
            }
        }
    }
}
