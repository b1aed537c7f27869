//! What a peer may take.

use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::{BoxError, PING_EVERY};

/// What a peer may take, and how long.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long the headers of a request may take.
    pub header_timeout: Duration,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
    /// How long an answer may wait for a peer that does not read; then the connection is cut.
    pub stall_timeout: Duration,
    /// How long requests under way may take when the server ends.
    pub end_timeout: Duration,
    /// How many bytes of headers a request may have.
    pub header_bytes_max: u32,
    /// How many requests of one HTTP/2 connection may be under way.
    pub streams_max: u32,
    /// How many connections there may be.
    pub connections_max: usize,
    /// How many connections there may be of clients that have not authenticated. The one that
    /// was idle for longest makes room for a new one.
    pub strangers_max: usize,
    /// How long a connection of such a client may be idle.
    pub stranger_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(32),
            body_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(60),
            end_timeout: Duration::from_secs(5),
            header_bytes_max: 64 << 10,
            streams_max: 250,
            connections_max: 20_000,
            strangers_max: 2_000,
            stranger_timeout: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Returns the settings of an HTTP/1.1 connection.
    pub(super) fn http1(&self, keep_alive: bool) -> Result<http1::Builder, BoxError> {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .max_buf_size(usize::try_from(self.header_bytes_max)?.max(8192))
            .keep_alive(keep_alive)
            .half_close(false);
        Ok(builder)
    }

    /// Returns the settings of an HTTP/2 connection.
    pub(super) fn http2(&self) -> http2::Builder<TokioExecutor> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.streams_max)
            .max_header_list_size(self.header_bytes_max)
            .initial_stream_window_size(1 << 18)
            .initial_connection_window_size(1 << 20)
            .keep_alive_interval(PING_EVERY);
        builder
    }
}
