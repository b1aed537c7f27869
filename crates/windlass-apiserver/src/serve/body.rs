//! Bodies on the wire: a request's, which must arrive in time, and an answer's, which must end.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::BoxError;
use super::stall::ProgressEntry;

/// The body of a request; fails when it does not arrive in time.
pub struct RequestBody {
    inner: Incoming,
    timeout: Duration,
    /// Set at the first wait: a body that is there costs no timer.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// The body of an answer; one of unknown length ends when the server does.
pub struct AnswerBody<B> {
    inner: B,
    end: CancellationToken,
    ended: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    progress: ProgressEntry,
}

// === impl RequestBody ===

impl RequestBody {
    pub(super) fn new(inner: Incoming, timeout: Duration) -> Self {
        Self { inner, timeout, deadline: None }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)));
        }
        let timeout = self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(deadline.as_mut().poll(cx));
        let why = "the body of the request did not arrive in time";
        Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, why))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

// === impl AnswerBody ===

impl<B> AnswerBody<B> {
    pub(super) fn new(inner: B, end: CancellationToken, progress: ProgressEntry) -> Self {
        Self { inner, end, ended: None, progress }
    }
}

impl<B> Body for AnswerBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.progress.asked();
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            if frame.is_some() {
                self.progress.given();
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)));
        }
        // A body of known length may not end early; it is short and comes to its end by itself.
        if self.inner.size_hint().exact().is_some() {
            return Poll::Pending;
        }
        let end = self.end.clone();
        let ended = self.ended.get_or_insert_with(|| Box::pin(end.cancelled_owned()));
        ready!(ended.as_mut().poll(cx));
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
