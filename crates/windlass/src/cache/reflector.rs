//! Lists and watches one kind in one scope, forever.
//!
//! A cycle fetches the whole scope, as a streaming list if the server supports it or as a list in
//! pages, and then follows the watch from there. How a watch ends decides what happens next: after
//! a clean end the watch is renewed at once, after a temporary refusal it is renewed after a wait,
//! and everything else ends the cycle. The next cycle begins after a wait.
//!
//! **Invariant:** the version to resume from is only ever one whose events were all passed on.
//! **Invariant:** nothing that a server sends ends the reflector.

mod list;
mod read;
mod report;
mod streaming;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube::Client;
use tokio::time::Instant;

use super::backoff::{Backoff, Jitter};
use super::batch::{Batch, Delta};
use super::entry_reader::{EntryReader, parse_version};
use super::failure::Failure;
use super::outline::Identity;
use super::protobuf::ProtobufReader;
use super::stream::{Answer, Next, WatchStream, read_bookmark};
use super::target::{Query, Target};
use super::transform::Transform;
use crate::client::exchange;
use crate::clock;
use crate::ordered_watch;

/// Counters of a watch since its start.
#[derive(Debug, Default)]
pub(super) struct WatchStats {
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

/// The options that all reflectors of a cache share.
#[derive(Clone)]
pub(super) struct Rules {
    pub(super) streaming: bool,
    pub(super) protobuf: bool,
    pub(super) page_size: Option<usize>,
    pub(super) progress: Duration,
    pub(super) answer: Duration,
    pub(super) object_max: usize,
    pub(super) keep_managed_fields: bool,
    /// Whether stored objects are compressed.
    pub(super) pack: bool,
    /// The seed of the jitter.
    pub(super) seed: u64,
    pub(super) transform: Option<Transform>,
    /// Called for every request.
    pub(super) observe: Option<Observe>,
    /// Becomes `true` when whole objects are wanted, and not only their metadata.
    pub(super) full_wanted: ordered_watch::Receiver<bool>,
}

/// Called for every list and watch with the status, if there was an answer, and the time it took.
pub(crate) type Observe = Arc<dyn Fn(Option<u16>, Duration) + Send + Sync>;

/// The longest wait before a kind that is forbidden or missing is tried again, without jitter.
/// Somebody may be granting the permission or installing the definition right now.
const BLOCKED_WAIT: Duration = Duration::from_millis(2500);
/// How long plain lists are used after a streaming list that did not end. The cause may have been
/// a proxy or an overload that is gone by then.
const STREAMING_AGAIN: Duration = Duration::from_secs(600);
/// Servers that send bookmarks send them every minute; after so long the connection is dead.
const BOOKMARKS_WITHIN: Duration = Duration::from_secs(180);

pub(super) struct Reflector {
    client: Client,
    target: Target,
    rules: Rules,
    batch: Batch,
    stats: Arc<WatchStats>,
    entries: EntryReader,
    /// Reads protobuf; `None` if JSON is requested.
    protobuf: Option<ProtobufReader>,
    /// The object that was last converted to JSON; kept for its memory.
    json: Vec<u8>,
    jitter: Jitter,
    backoff: Backoff,
    /// The version up to which everything was passed on; empty before the first list.
    version: String,
    /// The server could not serve `version`, so the most recent state is requested.
    version_lost: bool,
    synced: bool,
    /// A failure was reported, and nothing has succeeded since.
    failing: bool,
    /// The failure that was logged last, so that it is not logged again.
    logged: String,
    /// When a broken connection was last logged.
    break_logged: Option<Instant>,
    /// Streaming lists in a row that were cut before their end.
    cuts: u32,
    /// A streaming list did not end where a plain list did, so none is tried before this time.
    streaming_after: Option<Instant>,
    /// The server sends bookmarks, so its silence means that the connection is dead.
    bookmarks: bool,
}

/// Why a cycle ended.
pub(super) enum Stop {
    Failed(Failure),
    /// Whole objects are wanted by now, and not only their metadata.
    MetadataOnly,
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
        batch: Batch,
        stats: Arc<WatchStats>,
    ) -> Self {
        let keep = rules.keep_managed_fields;
        let entries = EntryReader::new(keep, rules.pack).of(&target.kind);
        let jitter = Jitter::new(rules.seed);
        let protobuf = rules.protobuf.then(|| ProtobufReader::of(&target, keep)).flatten();
        Self {
            client,
            target,
            rules,
            batch,
            stats,
            entries,
            protobuf,
            json: Vec::new(),
            jitter,
            backoff: Backoff::new(),
            version: String::new(),
            version_lost: false,
            synced: false,
            failing: false,
            logged: String::new(),
            break_logged: None,
            cuts: 0,
            streaming_after: None,
            bookmarks: false,
        }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            self.update_target();
            match self.cycle().await {
                Stop::MetadataOnly => {}
                Stop::Failed(failure) => self.wait_out(&failure).await,
            }
        }
    }

    /// Switches to whole objects if they are wanted by now.
    fn update_target(&mut self) {
        if self.target.metadata_only && *self.rules.full_wanted.borrow_and_update() {
            self.target.metadata_only = false;
            self.synced = false;
        }
        self.entries.partial = self.target.metadata_only;
        self.batch.metadata_only = self.target.metadata_only;
    }

    /// Waits for the next line of a watch, or until whole objects are wanted.
    async fn next(&mut self, stream: &mut WatchStream) -> Result<Next, Stop> {
        if let Some(line) = stream.at_hand()? {
            tokio::task::consume_budget().await;
            return Ok(Next::Line(line));
        }
        self.batch.flush();
        let until = self.bookmarks.then(|| clock::after(BOOKMARKS_WITHIN));
        if !self.target.metadata_only {
            return Ok(stream.next(until).await?);
        }
        tokio::select! {
            biased;
            Ok(_) = self.rules.full_wanted.wait_for(|wanted| *wanted) => Err(Stop::MetadataOnly),
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

    /// Fetches the whole scope. A streaming list leaves its watch open.
    async fn sync(&mut self) -> Result<Option<WatchStream>, Stop> {
        let due = self.streaming_after.is_none_or(|after| after <= Instant::now());
        let mut unfinished = None;
        if self.rules.streaming && due {
            match self.streaming_list().await? {
                streaming::Outcome::Synced(stream) => return Ok(Some(stream)),
                streaming::Outcome::Refused => {}
                streaming::Outcome::Unfinished(why) => unfinished = Some(why),
            }
            self.stats.fallbacks.fetch_add(1, Ordering::Relaxed);
        }
        self.list().await?;
        if let Some(why) = unfinished {
            let kind = &self.target.kind.kind;
            tracing::warn!(%kind, why, again = ?STREAMING_AGAIN, "streaming list failed, using lists");
            self.streaming_after = Some(clock::after(STREAMING_AGAIN));
        }
        Ok(None)
    }

    /// Follows the watch, and renews it as long as no new list is needed.
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
                self.batch.push(Delta::Resumed);
            }
            let before = (self.version.clone(), self.stats.events.load(Ordering::Relaxed));
            match self.follow(&mut open).await {
                // Also if it only repeated known events: it must not be renewed without a pause.
                Ok(()) if open.futile() && !self.progressed_since(&before) => {
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

    /// Returns `true` if anything new arrived since this version and number of events.
    fn progressed_since(&self, (version, events): &(String, u64)) -> bool {
        // A watch without a version has none to progress from.
        let nowhere = matches!(version.as_str(), "" | "0");
        let more = self.stats.events.load(Ordering::Relaxed) > *events;
        self.version != *version || (nowhere && more)
    }

    /// Passes on the events of an open watch until it ends.
    async fn follow(&mut self, stream: &mut WatchStream) -> Result<(), Stop> {
        // A watch without a version begins with synthetic additions in no order.
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
                "ERROR" => return Err(Failure::event(event.object).into()),
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
                        // A deletion counts even if the last state of the object cannot be read.
                        None => match self.identity(event.object) {
                            None => continue,
                            Some(Identity { key, uid, version, .. }) => {
                                let (uid, at) = (uid.into(), parse_version(&version));
                                (Delta::Gone { key, uid, version: at }, version)
                            }
                        },
                    };
                    self.batch.push(delta);
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
            self.batch.push(Delta::Bookmark { version: parse_version(&version) });
            self.version = version;
        }
    }

    /// Opens a watch, from the last version or for a streaming list.
    async fn open(&mut self, initial_events: bool) -> Result<WatchStream, Failure> {
        self.stats.watches.fetch_add(1, Ordering::Relaxed);
        let seconds = 300 + (300.0 * self.jitter.fraction()) as u64;
        let version = if self.version_lost { "" } else { &self.version };
        let query = Query { version, watch: Some(seconds), initial_events, ..Query::default() };
        let answer = self.send(&query).await?;
        // The server ends a watch by itself; one that lives longer is a dead connection.
        let timeout = Duration::from_secs(seconds + 30);
        Ok(WatchStream::new(answer, timeout, self.rules.object_max))
    }

    /// Sends a request and returns a successful answer.
    async fn send(&self, query: &Query<'_>) -> Result<Answer, Failure> {
        let request = self.target.request(query, self.protobuf.is_some())?;
        let deadline = clock::after(self.rules.answer);
        let answer = exchange(&self.client, &request, deadline, |response, took| {
            self.observe(response.map(|response| response.status().as_u16()), took);
        });
        let answer = answer.await?;
        let protobuf = answer.media_type == windlass_protobuf::MEDIA_TYPE;
        Ok(Answer { body: answer.body, protobuf })
    }

    /// Records that the whole scope was passed on.
    fn replaced(&mut self, version: String) {
        self.batch.push(Delta::Replace { version: parse_version(&version) });
        self.version = version;
        self.version_lost = false;
        self.synced = true;
        self.failing = false;
    }

    /// Returns the time until which a streaming list has to make progress.
    fn silence(&self) -> Instant {
        clock::after(self.rules.progress)
    }
}
