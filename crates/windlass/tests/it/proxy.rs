//! What may stand between an operator and the API server, and a log to look into.

use std::io;
use std::sync::{Arc, OnceLock};

use futures::StreamExt;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt;
use windlass_apiserver::ApiServer;

/// What happens to a request instead of its answer.
#[derive(Clone, Debug)]
pub enum Meddle {
    /// The connection is refused.
    Away,
    /// No answer ever comes.
    Hang,
    /// This status, type and body.
    Answer(u16, &'static str, Vec<u8>),
    /// This body as JSON, and then nothing more, without an end.
    Stall(&'static str),
}

/// The bytes of an answer as they come.
type Stream = UnsyncBoxBody<bytes::Bytes, io::Error>;

type Rule = Arc<dyn Fn(&Request<Body>) -> Option<Meddle> + Send + Sync>;

/// A proxy that forwards everything, unless a test sets something else.
#[derive(Clone)]
pub struct Proxy {
    upstream: kube::Client,
    rule: Arc<Mutex<Option<Rule>>>,
    cut: Arc<Mutex<CancellationToken>>,
}

impl Proxy {
    pub fn new(server: &ApiServer) -> Self {
        Self { upstream: server.client(), rule: Arc::default(), cut: Arc::default() }
    }

    pub fn client(&self) -> kube::Client {
        let proxy = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let proxy = proxy.clone();
            async move { proxy.answer(request).await }
        });
        kube::Client::new(service, "default")
    }

    /// Ends all connections, and meddles with requests from now on.
    pub fn meddle(&self, rule: impl Fn(&Request<Body>) -> Option<Meddle> + Send + Sync + 'static) {
        *self.rule.lock() = Some(Arc::new(rule));
        std::mem::take(&mut *self.cut.lock()).cancel();
    }

    /// Lets everything pass again.
    pub fn heal(&self) {
        *self.rule.lock() = None;
        std::mem::take(&mut *self.cut.lock()).cancel();
    }

    async fn answer(&self, request: Request<Body>) -> io::Result<Response<Stream>> {
        let rule = self.rule.lock().clone();
        let cut = self.cut.lock().clone();
        let Some(meddle) = rule.and_then(|rule| rule(&request)) else {
            let answer = self.upstream.send(request).await.map_err(io::Error::other)?;
            let (head, body) = answer.into_parts();
            let body = BodyStream::new(body).take_until(cut.cancelled_owned());
            let body = StreamBody::new(body).map_err(io::Error::other);
            return Ok(Response::from_parts(head, body.boxed_unsync()));
        };
        let (code, media, body) = match meddle {
            Meddle::Away => return Err(io::ErrorKind::ConnectionRefused.into()),
            Meddle::Hang => {
                cut.cancelled().await;
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Meddle::Answer(code, media, body) => {
                let body = Full::new(body.into()).map_err(|never| match never {});
                (code, media, body.boxed_unsync())
            }
            Meddle::Stall(text) => {
                let text = http_body::Frame::data(text.into());
                let text = futures::stream::iter([io::Result::Ok(text)]);
                let body = text.chain(futures::stream::pending());
                let body = StreamBody::new(body.take_until(cut.cancelled_owned()));
                (200, "application/json", body.boxed_unsync())
            }
        };
        let answer = Response::builder().status(code).header("content-type", media);
        let answer = answer.header("retry-after", "2").body(body);
        answer.map_err(io::Error::other)
    }
}

/// Lines of the log, warnings and worse, as long as the guard that comes with it lives.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        // While a process has a single subscriber, tracing asks only the thread that comes to a line
        // first whether anybody wants it, and that may be the thread of another test.
        static SECOND: OnceLock<tracing::Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| {
            let filter = tracing_subscriber::EnvFilter::new("windlass=info");
            tracing::Dispatch::new(tracing_subscriber::Registry::default().with(filter))
        });
        let log = Self::default();
        let writer = log.clone();
        let layer = windlass::log::json(move || writer.clone());
        let filter = tracing_subscriber::EnvFilter::new("windlass=info");
        let subscriber = tracing_subscriber::Registry::default().with(filter).with(layer);
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines that hold all of these texts.
    pub fn lines(&self, texts: &[&str]) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0.lock()).into_owned();
        let lines = text.lines().filter(|line| texts.iter().all(|text| line.contains(text)));
        lines.map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
