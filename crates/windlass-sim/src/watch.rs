//! The events of a watch on their way to a replica: one by one, late, held back or cut off.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde::Deserialize;
use tokio::time::sleep;
use tower::BoxError;
use windlass_apiserver::response;

use crate::kernel::{Actor, Head, Kernel, Release};
use crate::layer::Body;
use crate::plan::Fault;
use crate::site::Site;
use crate::trace::What;

/// How long an event is on its way.
const LATENCY: Duration = Duration::from_millis(1);

struct Events {
    kernel: Arc<Kernel>,
    actor: Actor,
    resource: String,
    inner: response::Body,
    /// What was read and not passed on yet: whole lines, and the beginning of the next one.
    lines: VecDeque<Bytes>,
    rest: BytesMut,
    /// The watch still sends the objects that existed when it began.
    initial: bool,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    object: Head,
}

/// The body of a watch as a replica gets it.
pub(crate) fn body(
    kernel: Arc<Kernel>,
    actor: Actor,
    resource: String,
    initial: bool,
    inner: response::Body,
) -> Body {
    let (lines, rest) = (VecDeque::new(), BytesMut::new());
    let events = Events { kernel, actor, resource, inner, lines, rest, initial };
    let frames = stream::unfold(events, |mut events| async move {
        events.next().await.map(|line| (Ok::<_, BoxError>(Frame::data(line)), events))
    });
    StreamBody::new(frames).boxed_unsync()
}

// === impl Events ===

impl Events {
    /// The next line that the replica gets; `None` if the watch ends.
    async fn next(&mut self) -> Option<Bytes> {
        let line = self.line().await?;
        let Ok(event) = serde_json::from_slice::<Line>(&line) else { return Some(line) };
        if event.kind == "BOOKMARK" || event.kind == "ERROR" {
            self.initial = false;
            self.kernel.released(&self.actor, &self.resource).await;
            self.kernel.gate(&self.actor).await;
            return Some(line);
        }
        let background = self.kernel.is_background(&self.resource);
        if self.initial || background {
            self.kernel.show(&self.actor, &self.resource, &event.object);
            return Some(line);
        }
        let meta = &event.object.metadata;
        let name = self.kernel.canonical(&self.resource, meta);
        let mut site = Site {
            replica: self.actor.name.to_string(),
            verb: "event".into(),
            resource: self.resource.clone(),
            subresource: event.kind,
            object: crate::site::object(&meta.namespace, &name),
            occurrence: 0,
        };
        let fault = self.kernel.arrive(&mut site);
        if let Some(fault) = fault {
            self.kernel.record(&self.actor, What::Fault(fault, site.clone()));
        }
        let hold = |release| self.kernel.hold(&self.actor, &self.resource, release);
        match fault {
            Some(Fault::HoldOnce) => hold(Release::Reconciled),
            Some(Fault::HoldLong) => hold(Release::After(crate::HOLD)),
            Some(Fault::HoldUntilHealed) => hold(Release::Healed),
            Some(Fault::Drop) => return None,
            Some(Fault::Expire) => {
                self.kernel.expire(&self.actor, &self.resource);
                return None;
            }
            _ => {}
        }
        self.kernel.released(&self.actor, &self.resource).await;
        sleep(LATENCY).await;
        self.kernel.gate(&self.actor).await;
        self.kernel.show(&self.actor, &self.resource, &event.object);
        let revision = meta.revision().unwrap_or_default();
        self.kernel.record(&self.actor, What::Event { site, revision });
        self.kernel.touch();
        Some(line)
    }

    /// The next line that the server sent.
    async fn line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            let Some(Ok(frame)) = self.inner.frame().await else {
                return Some(self.rest.split().freeze()).filter(|rest| !rest.is_empty());
            };
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
                while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                    self.lines.push_back(self.rest.split_to(end + 1).freeze());
                }
            }
        }
    }
}
