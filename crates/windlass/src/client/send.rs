//! How the client sends a request: deadline, fence, warnings, metrics, and waiting for a busy
//! server.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use tokio::time::{Instant, timeout_at};

use super::Client;
use super::transport::{ApiRequest, ApiResponse, ExchangeError, exchange};
use crate::error::{Error, Result};
use crate::fence::Closed;

/// How often a request is sent again because the server is busy.
const BUSY_RETRIES_MAX: u32 = 5;
/// The longest wait that a busy server can ask for.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(10);

impl Client {
    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(&self, request: ApiRequest) -> Result<Bytes> {
        if let Some(paused) = self.options.paused.filter(|_| request.mutates_more_than_status()) {
            return Err(paused.error(&request.action));
        }
        super::requests::note(&request.action);
        let after = self.options.timeout;
        let deadline = crate::clock::after(after);
        let mut tries = 0;
        loop {
            let error = match self.attempt(&request, deadline).await? {
                Ok(response) => match self.read(&request, response, deadline).await? {
                    Some(bytes) => return Ok(bytes),
                    None => ExchangeError::Timeout,
                },
                Err(error) => error,
            };
            let action = request.action.clone();
            let (status, retry_after) = match error {
                ExchangeError::Refused { status, retry_after } => (status, retry_after),
                ExchangeError::Timeout => return Err(Error::Timeout { action, after }),
                ExchangeError::Connection(source) => {
                    return Err(Error::Transport { action, source });
                }
                foreign @ ExchangeError::Foreign { .. } => {
                    let source = foreign.to_string().into();
                    return Err(Error::Transport { action, source });
                }
            };
            let busy = status.code == 429 || status.code >= 500;
            let wait = retry_after.filter(|_| busy && tries < BUSY_RETRIES_MAX);
            let wait = wait.map(|wait| wait.min(BUSY_WAIT_MAX));
            let Some(wait) = wait.filter(|wait| Instant::now() + *wait < deadline) else {
                return Err(Error::Api { action, status });
            };
            tries += 1;
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends a request once. The outer result is that of the fence.
    async fn attempt(
        &self,
        request: &ApiRequest,
        deadline: Instant,
    ) -> Result<Result<ApiResponse, ExchangeError>> {
        let shared = &self.shared;
        let fenced = |closed: Closed| closed.error(request.action.clone());
        let fence = Some(&shared.fence)
            .filter(|fence| fence.armed() && !self.options.unfenced && request.mutates());
        if let Some(fence) = fence {
            fence.check().map_err(fenced)?;
        }
        let exchange = exchange(&shared.kube, request, deadline, |response, took| {
            let code = response.map(|response| response.status().as_u16());
            shared.metrics.request(request.method.as_str(), &shared.host, code, took);
            if let Some(response) = response {
                shared.warnings.log(response, &request.action);
            }
        });
        let Some(fence) = fence else { return Ok(exchange.await) };
        tokio::select! {
            biased;
            closed = fence.closed() => Err(fenced(closed)),
            answer = exchange => Ok(answer),
        }
    }

    /// Reads the body of an answer; `None` if it did not arrive before the deadline.
    async fn read(
        &self,
        request: &ApiRequest,
        response: ApiResponse,
        deadline: Instant,
    ) -> Result<Option<Bytes>> {
        let body = Limited::new(response.body, self.options.answer_max).collect();
        match timeout_at(deadline, body).await {
            Err(_) => Ok(None),
            Ok(Ok(body)) => Ok(Some(body.to_bytes())),
            Ok(Err(source)) => Err(Error::Transport { action: request.action.clone(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::StreamExt;
    use http::{Request, Response};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;

    use super::*;
    use crate::cache::Key;

    #[tokio::test(start_paused = true)]
    async fn an_answer_without_end_is_given_up_at_its_limit() {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = sent.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            let count = count.clone();
            let endless = futures::stream::repeat_with(move || {
                count.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b' '; 4096])))
            });
            async move { Ok::<_, Infallible>(Response::new(StreamBody::new(endless.boxed()))) }
        });
        let client = Client::new(kube::Client::new(service, "default")).answer_max(1 << 20);
        let key = Key::namespaced("default", "a");
        let error = client.api::<ConfigMap>().get(&key).await.expect_err("too large");
        assert!(error.chain().contains("length limit exceeded"), "{}", error.chain());
        assert!(sent.load(Ordering::SeqCst) <= 258, "{}", sent.load(Ordering::SeqCst));
    }
}
