//! WATCH: what exists, then what changes, as lines of JSON or frames of protobuf.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use windlass_protobuf::Envelope;

use super::list_options::{ListOptions, parse_version};
use super::{Answer, Call};
use crate::response::{AnswerShape, Encoding};
use crate::status::{Result, Status};
use crate::store::{Entry, Event, EventKind, EventLog, Gone, NewsSubscription};

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// No watch lasts longer; far times do not fit into an `Instant`.
const TIMEOUT_SECONDS_MAX: u64 = 1 << 28;
const BATCH_EVENTS: usize = 256;
const INITIAL_BATCH: usize = 512;
/// From so many watches of a resource on, each one sends at most once per [`PACE`].
const PACED_FROM: usize = 16;
/// Under load a wake-up and a write per watch and event cost more than all else: what comes in
/// this time is sent together. The first event after a pause is never held back.
const PACE: Duration = Duration::from_millis(1);

/// One watch: a cursor in the event log.
struct Watcher {
    call: Arc<Call>,
    options: ListOptions,
    log: Arc<EventLog>,
    news: NewsSubscription,
    /// Events up to this revision were sent or do not matter.
    cursor: u64,
    initial: VecDeque<Arc<Entry>>,
    /// The revision of the initial state, until its end has been sent.
    initial_end: Option<u64>,
    deadline: Instant,
    bookmark_at: Option<Instant>,
    /// Whether the next table event carries the column definitions.
    columns_due: bool,
    end: CancellationToken,
    definition: CancellationToken,
    /// What is waited for, again and again: it is set up once.
    ended: [Pin<Box<WaitForCancellationFutureOwned>>; 2],
    timer: Pin<Box<Sleep>>,
    /// When events were sent last.
    sent: Option<Instant>,
    /// Whether the cursor is at a state that this watch has read itself.
    joined: bool,
    events_left: Option<usize>,
    /// Whether the watch ends with the events that are there.
    over: bool,
    done: bool,
}

impl Call {
    pub(super) async fn watch(&self) -> Result<Answer> {
        let mut options = self.list_options()?;
        if self.info.watch_path && !self.info.name.is_empty() {
            options.filter.name = Some(self.info.name.clone());
        }
        let watcher = self.watcher(options).await?;
        let lines = futures::stream::unfold(watcher, |mut watcher| async move {
            watcher.next().await.map(|chunk| (chunk, watcher))
        });
        let content_type = match self.form.encoding {
            Encoding::Protobuf => windlass_protobuf::WATCH_MEDIA_TYPE,
            _ => "application/json",
        };
        Ok(Answer::Ready(crate::response::stream(content_type, lines)))
    }

    async fn watcher(&self, options: ListOptions) -> Result<Watcher> {
        let server = &self.server;
        let log = server.store.log(&self.storage);
        let news = log.subscribe();
        let world = server.store.world();
        let unset = options.version.is_empty() || options.version == "0";
        let wanted = match unset {
            true => 0,
            false => parse_version(&options.version).map_err(Status::untyped)?,
        };
        let initial = options.send_initial_events.unwrap_or(unset);
        // Without a version and without what exists, a watch starts now.
        let wanted = if unset && !initial { world.revision } else { wanted };
        let (end, definition) = (server.shutdown.clone(), server.definition_token(&self.storage));
        let deadline = Instant::now() + self.watch_timeout(&options);
        let mut watcher = Watcher {
            call: Arc::new(self.detached()),
            log,
            news,
            cursor: wanted,
            initial: VecDeque::new(),
            initial_end: None,
            deadline,
            bookmark_at: options.bookmarks.then(|| Instant::now() + BOOKMARK_EVERY),
            columns_due: true,
            ended: [&end, &definition].map(|token| Box::pin(token.clone().cancelled_owned())),
            timer: Box::pin(sleep_until(deadline)),
            sent: None,
            end,
            definition,
            joined: initial,
            events_left: self.fault.watch_events_max,
            over: false,
            done: false,
            options,
        };
        if initial {
            if wanted > world.revision {
                server.wait_for_revision(wanted).await?;
            }
            let world = server.store.world();
            let table = world.table(&self.storage);
            let namespace = watcher.options.filter.namespace.clone();
            let entries = table.range(namespace.as_deref(), None);
            let filter = &watcher.options.filter;
            watcher.initial = match self.selects_by_objects(filter) {
                true => self.select(filter, entries.cloned().collect()).await?.into(),
                false => entries.filter(|entry| filter.matches(entry)).cloned().collect(),
            };
            watcher.cursor = world.revision;
            if watcher.options.bookmarks && watcher.options.send_initial_events.is_some() {
                watcher.initial_end = Some(world.revision);
            }
        }
        Ok(watcher)
    }

    fn watch_timeout(&self, options: &ListOptions) -> Duration {
        let seconds = options.timeout_seconds.unwrap_or_else(|| {
            1800 + self.server.random.below(1800, &["watch", &self.resource.plural])
        });
        Duration::from_secs(seconds.min(TIMEOUT_SECONDS_MAX))
    }

    /// A copy for a stream that outlives the request.
    fn detached(&self) -> Call {
        let mut call = Call::new(
            self.server.clone(),
            self.info.clone(),
            self.query.clone(),
            self.headers.clone(),
            self.user.clone(),
            self.resource.clone(),
            self.form,
            Bytes::new(),
        );
        call.fault = self.fault.clone();
        call.over_wire = self.over_wire;
        call
    }
}

// === impl Watcher ===

impl Watcher {
    /// The next lines; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.done || self.events_left == Some(0) {
                return None;
            }
            if !self.initial.is_empty() {
                return Some(self.initial_lines().await);
            }
            if let Some(revision) = self.initial_end.take() {
                return Some(self.bookmark(revision, true));
            }
            self.pace().await;
            let newest = self.news.newest();
            match self.batch(BATCH_EVENTS) {
                Err(_) => return Some(self.too_old()),
                Ok(events) if !events.is_empty() => {
                    self.joined = true;
                    self.lag().await;
                    let lines = self.event_lines(&events).await;
                    if !lines.is_empty() {
                        self.sent = Some(Instant::now());
                        return Some(lines);
                    }
                    continue;
                }
                Ok(_) => {
                    self.joined = true;
                    self.cursor = self.cursor.max(newest);
                }
            }
            if self.over {
                return self.last_bookmark();
            }
            if !self.wait().await {
                // Events before the end are still sent.
                self.over = true;
                continue;
            }
            if self.bookmark_at.is_some_and(|at| at <= Instant::now()) {
                self.bookmark_at = Some(Instant::now() + BOOKMARK_EVERY);
                let revision = self.current_revision();
                return Some(self.bookmark(revision, false));
            }
        }
    }

    /// The next events; a watch that has seen everything survives a compaction.
    fn batch(&self, count_max: usize) -> std::result::Result<Vec<Arc<Event>>, Gone> {
        match self.joined {
            true => self.log.follow(self.cursor, count_max),
            false => self.log.batch(self.cursor, count_max),
        }
    }

    /// Waits for news or a bookmark's time; `false` when the watch is over.
    async fn wait(&mut self) -> bool {
        let wake = self.bookmark_at.map_or(self.deadline, |at| at.min(self.deadline));
        if self.timer.deadline() != wake {
            self.timer.as_mut().reset(wake);
        }
        let [end, definition] = &mut self.ended;
        tokio::select! {
            biased;
            () = end => false,
            () = definition => false,
            () = self.news.changed() => true,
            () = &mut self.timer => Instant::now() < self.deadline,
        }
    }

    /// Lets a watch over the wire that is one of many gather events for a while.
    async fn pace(&self) {
        let Some(sent) = self.sent.filter(|_| self.call.over_wire) else { return };
        if self.log.watchers() >= PACED_FROM && sent.elapsed() < PACE {
            sleep_until(sent + PACE).await;
        }
    }

    async fn lag(&self) {
        let lag = self.call.fault.watch_lag;
        if !lag.is_zero() {
            tokio::time::sleep(lag).await;
        }
    }

    fn last_bookmark(&mut self) -> Option<Bytes> {
        let due = self.options.bookmarks && !self.end.is_cancelled() && !self.done;
        self.done = true;
        if !due || self.definition.is_cancelled() {
            return None;
        }
        let revision = self.current_revision();
        Some(self.bookmark(revision, false))
    }

    /// The newest revision up to which everything of this resource was sent.
    fn current_revision(&self) -> u64 {
        let revision = self.call.server.store.revision();
        // An event that came in between is not sent yet: do not run ahead of it.
        match self.batch(1) {
            Ok(events) if events.is_empty() => revision.max(self.cursor),
            _ => self.cursor,
        }
    }

    async fn initial_lines(&mut self) -> Bytes {
        let mut out = Vec::new();
        for _ in 0..INITIAL_BATCH {
            let Some(entry) = self.initial.pop_front() else { break };
            let line = self.line(EventKind::Added, &entry).await;
            out.extend_from_slice(&line);
            self.count();
            if self.events_left == Some(0) {
                break;
            }
        }
        out.into()
    }

    async fn event_lines(&mut self, events: &[Arc<Event>]) -> Bytes {
        let mut out: Vec<Bytes> = Vec::with_capacity(events.len());
        for event in events {
            self.cursor = event.revision;
            let exists = event.kind != EventKind::Deleted;
            let selected = async {
                let now = exists && self.selects(&event.entry).await?;
                let before = match &event.previous {
                    Some(previous) => self.selects(previous).await?,
                    None => false,
                };
                Ok((before, now))
            };
            let (before, now) = match selected.await {
                Ok(selected) => selected,
                Err(status) => {
                    let status: Status = status;
                    self.done = true;
                    out.push(self.call.line_of("ERROR", &status.to_json()));
                    break;
                }
            };
            let kind = match (before, now) {
                (false, false) => continue,
                (false, true) => EventKind::Added,
                (true, true) => EventKind::Modified,
                (true, false) => EventKind::Deleted,
            };
            let left = kind == EventKind::Deleted && event.kind != EventKind::Deleted;
            out.push(match (left, &event.previous) {
                (true, Some(previous)) => self.left_line(previous, event.revision).await,
                _ if self.is_shared(&event.entry) => match self.call.form.encoding {
                    Encoding::Protobuf => self.call.raw_line(kind, &event.entry),
                    _ => event.line(kind, || self.call.raw_line(kind, &event.entry)),
                },
                _ => self.line(kind, &event.entry).await,
            });
            self.count();
            if self.events_left == Some(0) {
                break;
            }
        }
        match out.len() {
            1 => out.remove(0),
            _ => out.concat().into(),
        }
    }

    async fn selects(&self, entry: &Arc<Entry>) -> Result<bool> {
        let filter = &self.options.filter;
        match self.call.selects_by_objects(filter) {
            false => Ok(filter.matches(entry)),
            true => Ok(!self.call.select(filter, vec![entry.clone()]).await?.is_empty()),
        }
    }

    /// Returns `true` if all watchers get the same bytes for an entry: then they are encoded once.
    fn is_shared(&self, entry: &Entry) -> bool {
        let resource = &self.call.resource;
        self.call.form.shape == AnswerShape::Object
            && self.call.server.is_raw(resource, entry)
            && self.call.server.is_main_version(resource)
    }

    fn count(&mut self) {
        if let Some(left) = &mut self.events_left {
            *left = left.saturating_sub(1);
        }
    }

    async fn line(&mut self, kind: EventKind, entry: &Entry) -> Bytes {
        let server = &self.call.server;
        if self.call.form.shape == AnswerShape::Object && server.is_raw(&self.call.resource, entry)
        {
            return self.call.raw_line(kind, entry);
        }
        if let Some(line) = self.call.metadata_line(kind, entry) {
            return line;
        }
        match self.call.object_of(entry).await {
            Ok(object) => self.shown_line(kind, object),
            Err(status) => {
                self.done = true;
                self.call.line_of("ERROR", &status.to_json())
            }
        }
    }

    /// An object that left the selection: its last state that matched, under the event's revision.
    async fn left_line(&mut self, previous: &Entry, revision: u64) -> Bytes {
        match self.call.object_of(previous).await {
            Ok(mut object) => {
                object["metadata"]["resourceVersion"] = revision.to_string().into();
                self.shown_line(EventKind::Deleted, object)
            }
            Err(status) => self.call.line_of("ERROR", &status.to_json()),
        }
    }

    fn shown_line(&mut self, kind: EventKind, object: Value) -> Bytes {
        let shown = match self.call.form.shape {
            AnswerShape::Object => object,
            AnswerShape::Metadata => {
                let mut partial = crate::table::partial_metadata(&object);
                partial["apiVersion"] = self.call.form.meta_version().into();
                partial
            }
            AnswerShape::Table => match self.call.table(&[object]) {
                Ok(mut table) => {
                    if !std::mem::take(&mut self.columns_due) {
                        table["columnDefinitions"] = Value::Null;
                    }
                    table
                }
                Err(status) => status.to_json(),
            },
        };
        self.call.line_of(kind.as_str(), &shown)
    }

    fn bookmark(&self, revision: u64, end: bool) -> Bytes {
        let gvk = &self.call.resource.gvk;
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.call.form.shape {
            AnswerShape::Object => {
                let mut object = crate::merge::empty_object(gvk).into_owned();
                object["metadata"] = metadata;
                object
            }
            AnswerShape::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": self.call.form.meta_version(),
                "metadata": metadata,
            }),
            AnswerShape::Table => json!({
                "kind": "Table", "apiVersion": self.call.form.meta_version(),
                "metadata": {"resourceVersion": revision.to_string()},
                "columnDefinitions": null,
                "rows": [{"cells": null, "object": {
                    "kind": "PartialObjectMetadata", "apiVersion": self.call.form.meta_version(),
                    "metadata": metadata,
                }}],
            }),
        };
        self.call.line_of("BOOKMARK", &object)
    }

    /// The one event of a watch that starts before the history, or fell behind it.
    fn too_old(&mut self) -> Bytes {
        self.done = true;
        let (from, now) = (self.cursor, self.call.server.store.revision());
        let status = Status::expired(format!("too old resource version: {from} ({now})"));
        self.call.line_of("ERROR", &status.to_json())
    }
}

// === impl Call, one event ===

impl Call {
    /// An event of a stored object, whose bytes are served as they are.
    fn raw_line(&self, kind: EventKind, entry: &Entry) -> Bytes {
        let gvk = &self.resource.gvk;
        if self.form.encoding != Encoding::Protobuf {
            return raw_json(kind, &self.server.type_prefix(&self.resource), entry);
        }
        let (version, kind_name) = (gvk.api_version(), &*gvk.kind);
        let message = windlass_protobuf::message_of(&version, kind_name);
        if let Some(bytes) = message.and_then(|message| entry.protobuf(message)) {
            let object = Envelope::wrap(&version, kind_name, &bytes);
            return windlass_protobuf::watch_frame(kind.as_str(), &object).into();
        }
        let mut object = entry.object();
        crate::object::set_type(&mut object, &version, kind_name);
        self.line_of(kind.as_str(), &object)
    }

    /// An event of a document.
    pub(super) fn line_of(&self, kind: &str, object: &Value) -> Bytes {
        if self.form.encoding != Encoding::Protobuf {
            return format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into();
        }
        let encoded = windlass_protobuf::from_value(object).map(|bytes| (kind, bytes));
        let (kind, bytes) = encoded.unwrap_or_else(|error| {
            let status = Status::internal(error).to_json();
            ("ERROR", windlass_protobuf::from_value(&status).unwrap_or_default())
        });
        windlass_protobuf::watch_frame(kind, &bytes).into()
    }
}

fn raw_json(kind: EventKind, prefix: &[u8], entry: &Entry) -> Bytes {
    let head: &[u8] = match kind {
        EventKind::Added => b"{\"type\":\"ADDED\",\"object\":",
        EventKind::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
        EventKind::Deleted => b"{\"type\":\"DELETED\",\"object\":",
    };
    [head, prefix, &entry.body[1..], b"}\n"].concat().into()
}
