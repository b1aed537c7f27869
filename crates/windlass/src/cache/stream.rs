//! A watch response, read event by event.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};
use windlass_protobuf::{Frames, WatchFrame};

use super::failure::Failure;
use super::malformed::redacted;
use super::protobuf;
use super::wire::Lines;

/// How long the rest of an event may take. A server sends an event in one piece.
const REST_WITHIN: Duration = Duration::from_secs(30);

/// A successful answer whose body has not been read yet.
pub(super) struct Answer {
    pub(super) body: Body,
    pub(super) protobuf: bool,
}

/// An open watch.
pub(super) struct WatchStream {
    body: Body,
    cut: Cut,
    opened: Instant,
    /// The server should have ended the watch by now.
    deadline: Instant,
    ended: bool,
    /// How the connection broke, if it did.
    broke: Option<String>,
    /// The connection broke within an event.
    torn: bool,
}

/// Splits the bytes of a watch into events.
enum Cut {
    Lines(Lines),
    Frames(Frames),
}

/// The bytes that are left when a watch ends.
enum Rest {
    Nothing,
    /// A complete event without a newline.
    Whole(Bytes),
    Part,
}

/// The next thing that a watch delivers.
pub(super) enum Next {
    /// A line of JSON or a frame of protobuf.
    Line(Bytes),
    /// The server ended the watch.
    End,
    /// Nothing arrived before the given time.
    Silence,
}

/// One event of a watch.
pub(super) struct WatchEvent<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) object: &'a [u8],
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

// === impl WatchStream ===

impl WatchStream {
    pub(super) fn new(answer: Answer, timeout: Duration, object_max: usize) -> Self {
        let opened = Instant::now();
        let deadline = opened + timeout;
        let cut = match answer.protobuf {
            true => Cut::Frames(Frames::new(object_max)),
            false => Cut::Lines(Lines::new(object_max)),
        };
        Self { body: answer.body, cut, opened, deadline, ended: false, broke: None, torn: false }
    }

    /// Parses a line or a frame.
    pub(super) fn event<'a>(&self, line: &'a [u8]) -> Result<WatchEvent<'a>, Failure> {
        match self.cut {
            Cut::Lines(_) => WatchEvent::read(line),
            Cut::Frames(_) => WatchEvent::read_frame(line),
        }
    }

    /// Returns the next event if all of it has arrived already.
    pub(super) fn at_hand(&mut self) -> Result<Option<Bytes>, Failure> {
        self.cut.next()
    }

    /// Waits for the next event, at most until the given time.
    pub(super) async fn next(&mut self, until: Option<Instant>) -> Result<Next, Failure> {
        let until = until.map_or(self.deadline, |until| until.min(self.deadline));
        loop {
            tokio::task::consume_budget().await;
            if let Some(line) = self.at_hand()? {
                return Ok(Next::Line(line));
            }
            if self.ended {
                return Ok(Next::End);
            }
            let half = self.cut.within_event().then(|| Instant::now() + REST_WITHIN);
            match timeout_at(half.map_or(until, |half| half.min(until)), self.body.frame()).await {
                Err(_) if half.is_some_and(|half| half < until) => {
                    self.broke = Some("the rest of an event did not arrive".to_owned());
                    (self.ended, self.torn) = (true, true);
                }
                Err(_) if until == self.deadline => self.ended = true,
                Err(_) => return Ok(Next::Silence),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.cut.push(data);
                    }
                }
                // A broken connection is handled like a clean end: the watch is renewed from the
                // last version and delivers the incomplete event again.
                Ok(Some(Err(error))) => {
                    self.broke = Some(error.to_string());
                    (self.ended, self.torn) = (true, half.is_some());
                }
                Ok(None) => {
                    self.ended = true;
                    match self.cut.rest() {
                        Rest::Nothing => {}
                        Rest::Whole(line) => return Ok(Next::Line(line)),
                        Rest::Part => {
                            self.broke = Some("the watch ended within an event".to_owned());
                            self.torn = true;
                        }
                    }
                }
            }
        }
    }

    /// Returns how the connection broke, if it did.
    pub(super) fn broke(&self) -> Option<&str> {
        self.broke.as_deref()
    }

    /// Returns `true` if a watch without anything new counts as failed: it ended at once, or within
    /// an event.
    pub(super) fn futile(&self) -> bool {
        self.torn || self.opened.elapsed() < Duration::from_secs(1)
    }
}

// === impl Cut ===

impl Cut {
    fn push(&mut self, chunk: Bytes) {
        match self {
            Self::Lines(lines) => lines.push(chunk),
            Self::Frames(frames) => frames.push(chunk),
        }
    }

    fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        match self {
            Self::Lines(lines) => lines.next_line().map_err(|err| Failure::new(err.to_string())),
            Self::Frames(frames) => {
                frames.next_frame().map_err(|err| Failure::new(err.to_string()))
            }
        }
    }

    /// Returns `true` if an event has arrived in part.
    fn within_event(&self) -> bool {
        match self {
            Self::Lines(lines) => lines.within_line(),
            Self::Frames(frames) => !frames.is_empty(),
        }
    }

    /// Returns what is left at the end. The last line may lack its newline.
    fn rest(&mut self) -> Rest {
        match self {
            Self::Lines(lines) => match lines.rest() {
                None => Rest::Nothing,
                Some(line) if whole(&line) => Rest::Whole(line),
                Some(_) => Rest::Part,
            },
            Self::Frames(frames) if frames.is_empty() => Rest::Nothing,
            Self::Frames(_) => Rest::Part,
        }
    }
}

// === impl WatchEvent ===

impl<'a> WatchEvent<'a> {
    /// Parses a line.
    pub(super) fn read(line: &'a [u8]) -> Result<Self, Failure> {
        if let Some(event) = Self::read_fast(line) {
            return Ok(event);
        }
        // The line itself is not shown: it may contain a secret.
        let envelope: Envelope<'_> = serde_json::from_slice(line).map_err(|err| {
            let (err, len) = (redacted(&err), line.len());
            Failure::new(format!("server sent {len} bytes that are not a watch event: {err}"))
        })?;
        Ok(Self { kind: envelope.kind, object: envelope.object.get().as_bytes() })
    }

    /// Parses a frame, whose object stays in its envelope.
    fn read_frame(frame: &'a [u8]) -> Result<Self, Failure> {
        let event = WatchFrame::read(frame).map_err(|err| {
            let len = frame.len();
            Failure::new(format!("server sent {len} bytes that are not a watch event: {err}"))
        })?;
        Ok(Self { kind: Cow::Borrowed(event.kind), object: event.object })
    }

    /// Parses a line in the format of API servers without scanning all of it.
    fn read_fast(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_prefix(b"{\"type\":\"")?;
        let end = rest.iter().take(16).position(|b| *b == b'"')?;
        let kind = std::str::from_utf8(&rest[..end]).ok().filter(|kind| !kind.contains('\\'))?;
        let object = rest[end..].strip_prefix(b"\",\"object\":")?;
        let object = object.trim_ascii_end().strip_suffix(b"}")?;
        Some(Self { kind: Cow::Borrowed(kind), object })
    }
}

/// Reads a bookmark: its version, and whether it ends the initial events.
pub(super) fn read_bookmark(object: &[u8]) -> Result<(String, bool), Failure> {
    let bookmark: Bookmark = serde_json::from_slice(&protobuf::as_json(object))
        .map_err(|err| Failure::new(format!("server sent an invalid bookmark: {err}")))?;
    let annotations = bookmark.metadata.annotations.unwrap_or_default();
    let ends = annotations.get("k8s.io/initial-events-end").is_some_and(|value| value == "true");
    Ok((bookmark.metadata.resource_version, ends))
}

/// Returns `true` if the bytes are one complete JSON value.
pub(super) fn whole(json: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_parsed_however_it_is_formatted() {
        for line in [
            r#"{"type":"ADDED","object":{"a":"}"}}"#,
            r#"{ "object" : {"a":"}"}, "type" : "ADDED" }"#,
            "{\"type\":\"ADDED\",\"object\":{\"a\":\"}\"}}\r",
        ] {
            let event = WatchEvent::read(line.as_bytes()).unwrap();
            assert_eq!((&*event.kind, event.object), ("ADDED", &br#"{"a":"}"}"#[..]), "{line}");
        }
        assert!(WatchEvent::read(b"<html>").is_err());
    }

    #[test]
    fn only_the_true_annotation_ends_the_initial_events() {
        let bookmark = |value: &str| {
            let json = format!(
                r#"{{"metadata":{{"resourceVersion":"7","annotations":{{
                "k8s.io/initial-events-end":"{value}"}}}}}}"#
            );
            read_bookmark(json.as_bytes()).unwrap()
        };
        assert_eq!(bookmark("true"), ("7".to_owned(), true));
        assert_eq!(bookmark("false"), ("7".to_owned(), false));
        assert!(!read_bookmark(br#"{"metadata":{"annotations":null}}"#).unwrap().1);
    }
}
