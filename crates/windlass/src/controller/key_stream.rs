//! Streams of keys as sources of a controller.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use tokio_util::sync::CancellationToken;

use super::key_sink::KeySink;
use super::worker::panic_text;
use crate::cache::Key;
use crate::queue::Add;

/// Forwards streams of keys to the queue of one controller.
#[derive(Clone)]
pub(super) struct KeyStreams {
    pub(super) name: Arc<str>,
    pub(super) sink: KeySink,
    pub(super) panics: Arc<AtomicU64>,
}

// === impl KeyStreams ===

impl KeyStreams {
    /// Queues every key of a stream until the stream ends or `stop`.
    pub(super) async fn forward(self, mut keys: BoxStream<'static, Key>, stop: CancellationToken) {
        // One future for all keys, because creating it registers it with the token.
        let stopped = stop.cancelled();
        tokio::pin!(stopped);
        loop {
            // A stream that always has another key must not keep other tasks from running.
            tokio::task::consume_budget().await;
            let key = tokio::select! {
                biased;
                () = &mut stopped => return,
                key = AssertUnwindSafe(keys.next()).catch_unwind() => key,
            };
            match key {
                Ok(Some(key)) => drop(self.sink.request(key, Add::default())),
                Ok(None) => return,
                Err(panic) => {
                    self.panics.fetch_add(1, Ordering::Relaxed);
                    let panic = panic_text(&*panic);
                    tracing::error!(
                        controller = %self.name,
                        panic,
                        "a source of keys panicked and has ended"
                    );
                    return;
                }
            }
        }
    }
}
