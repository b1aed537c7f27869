//! Peers that do not read: a connection whose peer takes nothing for too long is cut.
//!
//! [`StallTimeout`] watches the socket. On HTTP/2 a peer may read the socket and still let one
//! answer wait for ever; [`Progress`] watches answers.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream that fails when its peer does not read for too long.
pub(super) struct StallTimeout<I> {
    inner: I,
    timeout: Duration,
    /// Set while a write waits for the peer.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// The answers of one connection that wait for their peer, and since when.
#[derive(Clone, Default)]
pub(super) struct Progress {
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    since: BTreeMap<u64, Instant>,
}

/// One answer in a [`Progress`].
pub(super) struct ProgressEntry {
    progress: Progress,
    id: u64,
}

// === impl StallTimeout ===

impl<I> StallTimeout<I> {
    pub(super) fn new(inner: I, timeout: Duration) -> Self {
        Self { inner, timeout, deadline: None }
    }

    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.deadline = None;
            return outcome;
        }
        let timeout = self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        match deadline.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let why = "the peer did not read for too long";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
            }
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for StallTimeout<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for StallTimeout<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(cx, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.watch(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

// === impl Progress ===

impl Progress {
    pub(super) fn entry(&self) -> ProgressEntry {
        let mut waiting = self.waiting.lock();
        waiting.next += 1;
        ProgressEntry { progress: self.clone(), id: waiting.next }
    }

    /// Completes when an answer has waited for its peer for `timeout`.
    pub(super) async fn stalled(&self, timeout: Duration) {
        loop {
            let oldest = self.waiting.lock().since.values().min().copied();
            let wake = match oldest {
                Some(since) if since.elapsed() >= timeout => return,
                Some(since) => since + timeout,
                None => Instant::now() + timeout,
            };
            tokio::time::sleep_until(wake).await;
        }
    }
}

// === impl ProgressEntry ===

impl ProgressEntry {
    /// The answer gave a piece away, and waits until it is asked for the next one.
    pub(super) fn given(&self) {
        self.progress.waiting.lock().since.insert(self.id, Instant::now());
    }

    /// The answer is asked for its next piece.
    pub(super) fn asked(&self) {
        self.progress.waiting.lock().since.remove(&self.id);
    }
}

impl Drop for ProgressEntry {
    fn drop(&mut self) {
        self.asked();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_write_to_a_peer_that_does_not_read_fails() {
        let (near, far) = tokio::io::duplex(16);
        let mut near = StallTimeout::new(near, TIMEOUT);
        let begin = Instant::now();
        let error = near.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!((error.kind(), begin.elapsed()), (io::ErrorKind::TimedOut, TIMEOUT));
        drop(far);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_slowly_is_served() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = StallTimeout::new(near, TIMEOUT);
        let reader = async {
            let mut read = [0; 16];
            for _ in 0..10 {
                sleep(Duration::from_secs(50)).await;
                far.read_exact(&mut read).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(near.write_all(&[0; 160]), reader);
        written.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_asked_for_its_next_piece_stalls() {
        let progress = Progress::default();
        let (idle, busy) = (progress.entry(), progress.entry());
        let begin = Instant::now();
        idle.given();
        idle.asked();
        sleep(Duration::from_secs(100)).await;
        busy.given();
        progress.stalled(TIMEOUT).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(160));
    }
}
