//! The streaming list: a watch that begins with the existing objects.
//!
//! A proxy between the server and this process may swallow bookmarks, cut long answers or delay
//! them. Then a streaming list never ends although plain lists work. So a streaming list has to
//! make progress, and it may be cut only once.

use tokio::time::timeout;

use super::{Delta, Failure, Next, Reflector, Stop, WatchStream, read_bookmark};

/// Cuts in a row after which a plain list is tried.
const CUTS_MAX: u32 = 2;

/// Additions that count as progress after the first one. Fewer within the deadline are ordinary
/// changes after a list whose end got lost.
const PROGRESS: u32 = 16;

/// The result of a streaming list.
pub(super) enum Outcome {
    /// Everything was received, and the watch continues.
    Synced(WatchStream),
    /// The server does not serve it this time.
    Refused,
    /// The server began it, and its end never arrived.
    Unfinished(&'static str),
}

enum Initial {
    Complete(String),
    Ended,
    Silent,
}

impl Reflector {
    /// Fetches the whole scope with a streaming list.
    pub(super) async fn streaming_list(&mut self) -> Result<Outcome, Stop> {
        loop {
            let progress = self.rules.progress;
            let Ok(opened) = timeout(progress, self.open(true)).await else {
                return Ok(Outcome::Unfinished("no answer"));
            };
            let mut stream = match opened {
                Ok(stream) => stream,
                Err(failure) => match self.refusal(failure).await {
                    true => continue,
                    false => return Ok(Outcome::Refused),
                },
            };
            match self.initial(&mut stream).await {
                Ok(Initial::Complete(version)) => {
                    self.cuts = 0;
                    self.replaced(version);
                    self.healed();
                    return Ok(Outcome::Synced(stream));
                }
                Ok(Initial::Silent) => return Ok(Outcome::Unfinished("its end does not arrive")),
                Ok(Initial::Ended) => {
                    self.cuts += 1;
                    if self.cuts >= CUTS_MAX {
                        return Ok(Outcome::Unfinished("cut before the end"));
                    }
                    let failure = Failure::new("streaming list ended before it was complete");
                    self.wait_out(&failure).await;
                }
                Err(Stop::MetadataOnly) => return Err(Stop::MetadataOnly),
                Err(Stop::Failed(failure)) => {
                    if !self.refusal(failure).await {
                        return Ok(Outcome::Refused);
                    }
                }
            }
        }
    }

    /// Handles a failure. Returns `true` if a streaming list should be tried again.
    async fn refusal(&mut self, failure: Failure) -> bool {
        if failure.passing() {
            self.wait_out(&failure).await;
            return true;
        }
        if (failure.expired() || failure.ahead()) && !self.version_lost {
            self.version_lost = true;
            return true;
        }
        tracing::debug!(reason = failure.message, "streaming list refused, using a list");
        false
    }

    /// Passes on the initial events until the bookmark that ends them.
    async fn initial(&mut self, stream: &mut WatchStream) -> Result<Initial, Stop> {
        self.batch.push(Delta::Begin);
        let mut until = self.silence();
        let mut added = 0;
        loop {
            let line = match stream.next(Some(until)).await? {
                Next::Line(line) => line,
                Next::End => return Ok(Initial::Ended),
                Next::Silence => return Ok(Initial::Silent),
            };
            let event = stream.event(&line)?;
            match &*event.kind {
                "ERROR" => return Err(Failure::event(event.object).into()),
                "BOOKMARK" => {
                    // A bookmark that does not end the list is not progress.
                    let (version, ends) = read_bookmark(event.object)?;
                    if ends {
                        return Ok(Initial::Complete(version));
                    }
                }
                "ADDED" | "MODIFIED" | "DELETED" => {
                    // The list consists of additions; other changes are not progress.
                    added += u32::from(event.kind == "ADDED");
                    if event.kind == "ADDED" && added % PROGRESS == 1 {
                        until = self.silence();
                    }
                    let deleted = event.kind == "DELETED";
                    let delta = match self.read_event(event.object)? {
                        Some((entry, _)) if deleted => Delta::Unlisted(entry.key().clone()),
                        Some((entry, _)) => Delta::Listed(entry),
                        None => {
                            let key = self.identity(event.object).map(|identity| identity.key);
                            let delta = match deleted {
                                true => key.map(Delta::Unlisted),
                                false => key.and_then(|key| self.kept(key)),
                            };
                            let Some(delta) = delta else { continue };
                            delta
                        }
                    };
                    self.batch.push(delta);
                }
                other => tracing::warn!(kind = other, "watch event of unknown type, skipped"),
            }
        }
    }
}
