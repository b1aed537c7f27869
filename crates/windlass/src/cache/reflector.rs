//! Lists and watches one kind and scope, for ever.
//!
//! A cycle brings the whole scope, as a streaming list where the server can or as a list in
//! pages, and then follows the watch from there. What ends a watch decides how to go on: a
//! clean end is watched on at once, a refusal that passes is waited out, everything else ends
//! the cycle, and the next one begins after a wait.
//!
//! **Invariant:** the version to go on from is only ever one whose events were all passed on.
//! **Invariant:** nothing that a server sends ends the reflector.

mod list;
mod report;
mod streaming;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::backoff::{Backoff, Dice};
use super::entry::{EntryReader, Malformed, parse_version};
use super::failure::Failure;
use super::fifo::{Delta, Fifo};
use super::protobuf::{self, ProtobufReader, Unread};
use super::skim::{Identity, Skim};
use super::stream::{Answer, Next, WatchStream, read_bookmark, whole};
use super::target::{Query, Target};
use super::transform::{self, Transform};
use super::{Entry, Key, skim};
use crate::clock;

/// Figures of a watch, counted since its start.
#[derive(Debug, Default)]
pub struct WatchStats {
    pub(super) lists: AtomicU64,
    pub(super) watches: AtomicU64,
    pub(super) events: AtomicU64,
    pub(super) bookmarks: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) skipped: AtomicU64,
    pub(super) fallbacks: AtomicU64,
    pub(super) observer_panics: AtomicU64,
    pub(super) breaks: AtomicU64,
}

/// How a reflector works; the same for all of a cache.
#[derive(Clone)]
pub(super) struct Rules {
    pub(super) streaming: bool,
    pub(super) protobuf: bool,
    pub(super) page_size: Option<usize>,
    pub(super) progress: Duration,
    pub(super) answer: Duration,
    pub(super) object_max: usize,
    pub(super) transform: Option<Transform>,
    /// Told of every request: its status, if there was one, and how long it took.
    pub(super) observe: Option<Observe>,
    /// Set once a streaming list came to no end where a plain list did.
    pub(super) no_streaming: Arc<AtomicBool>,
    /// Turns true when more than metadata is wanted.
    pub(super) whole: watch::Receiver<bool>,
}

/// Told of every list and watch: the status, if there was an answer, and the time until it came.
pub type Observe = Arc<dyn Fn(Option<u16>, Duration) + Send + Sync>;

/// The longest wait before a kind that is forbidden or missing is tried again, without jitter:
/// somebody may just be giving the right or installing the definition.
const BLOCKED_WAIT: Duration = Duration::from_millis(2500);
/// Servers that send bookmarks send them every minute; after so long the connection is dead.
const BOOKMARKS_WITHIN: Duration = Duration::from_secs(180);

pub(super) struct Reflector {
    client: Client,
    target: Target,
    rules: Rules,
    fifo: Fifo,
    stats: Arc<WatchStats>,
    entries: EntryReader,
    /// Reads protobuf, as long as that is asked for.
    protobuf: Option<ProtobufReader>,
    /// The object that was made JSON last.
    json: Vec<u8>,
    dice: Dice,
    backoff: Backoff,
    /// The version everything was passed on up to; empty before the first list.
    version: String,
    /// The server could not serve from `version`, so the newest is asked for.
    version_lost: bool,
    /// The first list came in pages, so the server does not answer from its cache.
    paginated: bool,
    synced: bool,
    /// A failure was reported that nothing has made good since.
    failing: bool,
    /// The failure that was logged last, so that the same one is not logged again and again.
    told: String,
    /// When a connection that broke was logged last.
    told_break: Option<Instant>,
    /// Streaming lists in a row that were cut before their end.
    cuts: u32,
    /// The server sends bookmarks, so that its silence means something.
    bookmarks: bool,
}

/// Why a cycle ended.
pub(super) enum Stop {
    Failed(Failure),
    /// More than metadata is wanted by now.
    Narrow,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

// === impl Reflector ===

impl Reflector {
    pub(super) fn new(
        client: Client,
        target: Target,
        rules: Rules,
        fifo: Fifo,
        stats: Arc<WatchStats>,
        entries: EntryReader,
        seed: u64,
    ) -> Self {
        let keep = entries.keep_managed_fields;
        let protobuf = rules.protobuf.then(|| ProtobufReader::of(&target, keep)).flatten();
        Self {
            client,
            target,
            rules,
            fifo,
            stats,
            entries,
            protobuf,
            json: Vec::new(),
            dice: Dice::new(seed),
            backoff: Backoff::new(),
            version: String::new(),
            version_lost: false,
            paginated: false,
            synced: false,
            failing: false,
            told: String::new(),
            told_break: None,
            cuts: 0,
            bookmarks: false,
        }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            self.adjust();
            match self.cycle().await {
                Stop::Narrow => {}
                Stop::Failed(failure) => self.wait_out(&failure).await,
            }
        }
    }

    /// Asks for what is wanted by now: metadata, or whole objects.
    fn adjust(&mut self) {
        if self.target.metadata_only && *self.rules.whole.borrow_and_update() {
            self.target.metadata_only = false;
            self.synced = false;
        }
        self.entries.partial = self.target.metadata_only;
        self.fifo.narrow = self.target.metadata_only;
    }

    /// Waits for the next line of a watch, or until more than metadata is wanted.
    async fn next(&mut self, stream: &mut WatchStream) -> Result<Next, Stop> {
        if let Some(line) = stream.at_hand()? {
            tokio::task::consume_budget().await;
            return Ok(Next::Line(line));
        }
        self.fifo.flush();
        let until = self.bookmarks.then(|| clock::after(BOOKMARKS_WITHIN));
        if !self.target.metadata_only {
            return Ok(stream.next(until).await?);
        }
        tokio::select! {
            biased;
            Ok(_) = self.rules.whole.wait_for(|whole| *whole) => Err(Stop::Narrow),
            next = stream.next(until) => Ok(next?),
        }
    }

    async fn cycle(&mut self) -> Stop {
        let stream = match self.sync().await {
            Ok(stream) => stream,
            Err(stop) => return stop,
        };
        match self.watch(stream).await {
            Err(stop) => stop,
            Ok(never) => match never {},
        }
    }

    /// Brings the whole scope; a streaming list leaves its watch open.
    async fn sync(&mut self) -> Result<Option<WatchStream>, Stop> {
        let unfit = self.rules.no_streaming.load(Ordering::Relaxed);
        let mut unfit_because = None;
        if self.rules.streaming && !unfit {
            match self.streaming_list().await? {
                streaming::Outcome::Synced(stream) => return Ok(Some(stream)),
                streaming::Outcome::Refused => {}
                streaming::Outcome::Unfit(why) => unfit_because = Some(why),
            }
            self.stats.fallbacks.fetch_add(1, Ordering::Relaxed);
        }
        self.list().await?;
        if let Some(why) = unfit_because {
            // The server lists but does not end a streaming list; it is not asked again.
            let kind = &self.target.kind.kind;
            tracing::warn!(%kind, why, "streaming lists do not end, using lists");
            self.rules.no_streaming.store(true, Ordering::Relaxed);
        }
        Ok(None)
    }

    /// Follows the watch and renews it as long as that is all it takes.
    async fn watch(&mut self, mut stream: Option<WatchStream>) -> Result<Infallible, Stop> {
        loop {
            let mut open = match stream.take() {
                Some(stream) => stream,
                None => match self.open(false).await {
                    Ok(stream) => stream,
                    Err(failure) if failure.passing() => {
                        self.wait_out(&failure).await;
                        continue;
                    }
                    Err(failure) => return Err(failure.into()),
                },
            };
            if std::mem::take(&mut self.failing) {
                self.fifo.push(Delta::Resumed);
            }
            let before = (self.version.clone(), self.stats.events.load(Ordering::Relaxed));
            match self.follow(&mut open).await {
                // Also one that only repeats what is known: it must not be asked without pause.
                Ok(()) if open.futile() && !self.brought_news(&before) => {
                    let how = open.broke().unwrap_or("server ended it");
                    let text = format!("watch ended without anything new: {how}");
                    return Err(Failure::new(text).into());
                }
                Ok(()) => {}
                Err(Stop::Failed(failure)) if failure.passing() => self.wait_out(&failure).await,
                Err(stop) => return Err(stop),
            }
        }
    }

    /// Tells whether anything new came since the version and the count of events were these.
    fn brought_news(&self, (version, events): &(String, u64)) -> bool {
        // A watch from no particular version has none to move from.
        let nowhere = matches!(version.as_str(), "" | "0");
        let more = self.stats.events.load(Ordering::Relaxed) > *events;
        self.version != *version || (nowhere && more)
    }

    /// Passes on what an open watch brings, until it ends.
    async fn follow(&mut self, stream: &mut WatchStream) -> Result<(), Stop> {
        // A watch from no particular version begins with made-up additions in no order.
        let mut ordered = !matches!(self.version.as_str(), "" | "0");
        loop {
            let line = match self.next(stream).await? {
                Next::Line(line) => line,
                Next::End | Next::Silence => {
                    self.broke(stream);
                    return Ok(());
                }
            };
            let event = stream.event(&line)?;
            if event.kind != "ERROR" {
                self.healed();
            }
            match &*event.kind {
                "ERROR" => return Err(Failure::status(0, event.object).into()),
                "BOOKMARK" => {
                    ordered = true;
                    self.bookmarks = true;
                    let (version, _) = read_bookmark(event.object)?;
                    self.bookmark(version);
                }
                "ADDED" | "MODIFIED" | "DELETED" => {
                    let deleted = event.kind == "DELETED";
                    ordered |= event.kind != "ADDED";
                    let (delta, version) = match self.read_event(event.object)? {
                        Some((entry, version)) if deleted => (Delta::Delete(entry), version),
                        Some((entry, version)) => (Delta::Upsert(entry), version),
                        None if !deleted => continue,
                        // What is gone has to go, whether or not its last state can be read.
                        None => match self.identity(event.object) {
                            None => continue,
                            Some(Identity { key, uid, version, .. }) => {
                                let (uid, at) = (uid.into(), parse_version(&version));
                                (Delta::Gone { key, uid, version: at }, version)
                            }
                        },
                    };
                    self.fifo.push(delta);
                    if ordered && !version.is_empty() {
                        self.version = version;
                    }
                }
                other => tracing::warn!(kind = other, "watch event of unknown type, skipped"),
            }
        }
    }

    fn bookmark(&mut self, version: String) {
        self.stats.bookmarks.fetch_add(1, Ordering::Relaxed);
        if !version.is_empty() {
            self.fifo.push(Delta::Bookmark { version: parse_version(&version) });
            self.version = version;
        }
    }

    /// Opens a watch, from the last version or for a streaming list.
    async fn open(&mut self, initial_events: bool) -> Result<WatchStream, Failure> {
        self.stats.watches.fetch_add(1, Ordering::Relaxed);
        let seconds = 300 + (300.0 * self.dice.fraction()) as u64;
        let version = if self.version_lost { "" } else { &self.version };
        let query = Query { version, watch: Some(seconds), initial_events, ..Query::default() };
        let answer = self.send(&query).await?;
        // The server ends a watch by itself; what lives longer is a dead connection.
        let timeout = Duration::from_secs(seconds + 30);
        Ok(WatchStream::new(answer, timeout, self.rules.object_max))
    }

    /// Sends a request and returns a good answer.
    async fn send(&self, query: &Query<'_>) -> Result<Answer, Failure> {
        const ERROR_MAX: usize = 1 << 20;
        let request = self.target.request(query, self.protobuf.is_some());
        let began = Instant::now();
        let answer = timeout(self.rules.answer, self.client.send(request)).await;
        let status = answer.as_ref().ok().and_then(|answer| answer.as_ref().ok());
        self.tell(status.map(|answer| answer.status().as_u16()), began.elapsed());
        let answer = answer.map_err(|_| Failure::new("server does not answer"))?;
        let answer = answer.map_err(|err| Failure::transport(&err))?;
        let status = answer.status();
        if status.is_success() {
            let media = answer.headers().get(http::header::CONTENT_TYPE);
            let media = media.and_then(|media| media.to_str().ok()).unwrap_or_default();
            if media.starts_with("text/") {
                let media = media.split(';').next().unwrap_or_default();
                let text = format!("answer is {media} instead of JSON, as if of a proxy");
                return Err(Failure::new(text));
            }
            let protobuf = media.starts_with(windlass_protobuf::MEDIA_TYPE);
            return Ok(Answer { body: answer.into_body(), protobuf });
        }
        let retry_after = answer.headers().get(http::header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        let body = http_body_util::Limited::new(answer.into_body(), ERROR_MAX).collect();
        let body = timeout(self.rules.answer, body).await;
        let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
        let mut failure = Failure::status(status.as_u16(), &body);
        failure.retry_after = retry_after.map(Duration::from_secs).or(failure.retry_after);
        Err(failure)
    }

    /// Reads an object of a list; of one that cannot be read, what is known stays.
    fn listed(&mut self, item: &[u8]) -> Option<Delta> {
        match self.read(item) {
            Some((entry, _)) => Some(Delta::Listed(entry)),
            None => self.kept(self.identity(item)?.key),
        }
    }

    /// The same for an item of a list in protobuf, which has no envelope.
    fn listed_message(&mut self, message: &[u8]) -> Option<Delta> {
        match self.read_message(message) {
            Some((entry, _)) => Some(Delta::Listed(entry)),
            None => self.kept(self.identity(&self.json)?.key),
        }
    }

    /// What is known of an object stays, unless it is of another form than what is asked for now.
    fn kept(&self, key: Key) -> Option<Delta> {
        self.synced.then_some(Delta::Kept(key))
    }

    /// Reads an object; one that cannot be read is skipped, counted and named.
    fn read(&mut self, bytes: &[u8]) -> Option<(Arc<Entry>, String)> {
        let read = self.try_read(bytes);
        self.known(read)
    }

    /// The same for an item of a list in protobuf, which has no envelope.
    fn read_message(&mut self, message: &[u8]) -> Option<(Arc<Entry>, String)> {
        let read = self.try_read_message(message);
        self.known(read)
    }

    fn known(
        &mut self,
        read: Result<(Arc<Entry>, String), Unread>,
    ) -> Option<(Arc<Entry>, String)> {
        match read {
            Ok(read) => Some(read),
            Err(Unread::Unknown) => {
                self.protobuf = None;
                None
            }
            Err(Unread::Malformed(err)) => {
                self.stats.skipped.fetch_add(1, Ordering::Relaxed);
                let kind = &self.target.kind.kind;
                tracing::warn!(%kind, object = err.name, %err, "object skipped");
                None
            }
        }
    }

    /// Reads the object of an event; bytes that are not even JSON spoil the watch.
    fn read_event(&mut self, bytes: &[u8]) -> Result<Option<(Arc<Entry>, String)>, Failure> {
        self.stats.events.fetch_add(1, Ordering::Relaxed);
        let asked = self.protobuf.is_some();
        let read = self.read(bytes);
        if asked {
            self.check_known()?;
        }
        if read.is_none() && !whole(&protobuf::as_json(bytes)) {
            return Err(Failure::new("server sent an object that is not JSON"));
        }
        Ok(read)
    }

    /// Reads which object of the target's kind this is, if nothing more can be read.
    fn identity(&self, bytes: &[u8]) -> Option<Identity> {
        let identity = skim::identity(&protobuf::as_json(bytes))?;
        Some(identity).filter(|it| !self.target.is_other(&it.api_version, &it.kind))
    }

    /// Fails once protobuf has turned out to be too little: JSON is asked for from then on.
    fn check_known(&self) -> Result<(), Failure> {
        match self.protobuf {
            Some(_) => Ok(()),
            None => Err(Failure::new("server has fields that are only read in JSON")),
        }
    }

    fn try_read(&mut self, bytes: &[u8]) -> Result<(Arc<Entry>, String), Unread> {
        let Some(envelope) = protobuf::envelope(bytes) else {
            let outline = skim::read(bytes)?;
            return Ok(self.try_entry(bytes, &outline)?);
        };
        let envelope = envelope?;
        if self.target.is_other(envelope.api_version, envelope.kind) {
            return Err(other(envelope.kind, envelope.api_version, "").into());
        }
        self.try_read_message(envelope.raw)
    }

    fn try_read_message(&mut self, message: &[u8]) -> Result<(Arc<Entry>, String), Unread> {
        let reader = self.protobuf.as_ref().ok_or(Unread::Unknown)?;
        let mut json = std::mem::take(&mut self.json);
        json.clear();
        let read = reader.read(message, &mut json);
        let read = read.and_then(|outline| Ok(self.try_entry(&json, &outline)?));
        self.json = json;
        read
    }

    fn try_entry(
        &mut self,
        json: &[u8],
        outline: &Skim<'_>,
    ) -> Result<(Arc<Entry>, String), Malformed> {
        let (api_version, kind) = (&*outline.api_version.0, &*outline.kind.0);
        if self.target.is_other(api_version, kind) {
            return Err(other(kind, api_version, &outline.metadata.name.0));
        }
        let version = outline.metadata.resource_version.0.clone().into_owned();
        let Some(transform) = &self.rules.transform else {
            return Ok((Arc::new(self.entries.entry(json, outline)?), version));
        };
        let json = transform::apply(transform, json, &outline.metadata.name.0)?;
        Ok((Arc::new(self.entries.read(&json)?), version))
    }

    /// Notes that the whole scope was passed on.
    fn replaced(&mut self, version: String) {
        self.fifo.push(Delta::Replace { version: parse_version(&version) });
        self.version = version;
        self.version_lost = false;
        self.synced = true;
        self.failing = false;
    }

    fn silence(&self) -> Instant {
        clock::after(self.rules.progress)
    }
}

fn other(kind: &str, api_version: &str, name: &str) -> Malformed {
    Malformed {
        name: name.to_owned(),
        message: format!("object is a {kind} of {api_version}, which was not asked for"),
    }
}
