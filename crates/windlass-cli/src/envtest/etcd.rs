//! `etcd` as envtest starts it: only its health endpoint is served.
//!
//! The embedded API server keeps its own state, so nothing is stored here.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use windlass_apiserver::serve::{self, RequestBody};

use super::flags::Flags;
use crate::cluster::{bind, block_on};
use crate::failure::Failure;
use crate::signals::Signals;

/// The flags that envtest looks for, or passes.
const HELP: &str = "\
etcd of windlass: answers health checks; the embedded API server keeps its own state.

Usage:
  etcd [flags]

Flags:
  --listen-client-urls 'http://localhost:2379'
    URLs to serve the health endpoint on.
  --advertise-client-urls, --listen-peer-urls, --data-dir
    Accepted and ignored.
  --unsafe-no-fsync 'false'
    Accepted and ignored.
";

/// Runs until a signal ends it.
pub fn run(args: Vec<String>) -> Result<(), Failure> {
    let flags = Flags::parse(args);
    if flags.get("help").is_some() || flags.get("h").is_some() {
        say!("{HELP}");
        return Ok(());
    }
    if flags.get("version").is_some() {
        say!("etcd Version: 3.6.0 (windlass {})", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    let mut urls = flags.list("listen-client-urls");
    if urls.is_empty() {
        urls.push("http://localhost:2379");
    }
    let addresses = urls.into_iter().map(address_of).collect::<Result<Vec<_>, _>>()?;
    block_on(serve_health(addresses))
}

async fn serve_health(addresses: Vec<SocketAddr>) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let mut tasks = tokio::task::JoinSet::new();
    for address in addresses {
        let listener = bind(address).await?;
        let service = tower::service_fn(answer);
        tasks.spawn(serve::serve(listener, None, service, std::future::pending()));
    }
    signals.wait().await;
    Ok(())
}

async fn answer(request: Request<RequestBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (code, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/health" | "/livez" | "/readyz") => {
            (200, r#"{"health":"true","reason":""}"#)
        }
        (&Method::GET | &Method::HEAD, "/version") => {
            (200, r#"{"etcdserver":"3.6.0","etcdcluster":"3.6.0","storage":"3.6.0"}"#)
        }
        _ => (501, "this etcd only answers health checks; the API server keeps its own state\n"),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    Ok(response)
}

/// Returns the address of a client URL.
fn address_of(url: &str) -> Result<SocketAddr, Failure> {
    let wrong = |why: &str| Failure::usage(format!("--listen-client-urls {url}: {why}"));
    if url.starts_with("https://") {
        return Err(wrong("TLS is not supported; use http://"));
    }
    let rest = url.strip_prefix("http://").ok_or_else(|| wrong("expected http://HOST:PORT"))?;
    let rest = rest.trim_end_matches('/');
    let rest = match rest.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => rest.to_owned(),
    };
    rest.parse().map_err(|_| wrong("expected an IP address or localhost, and a port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_urls_name_an_address_or_say_what_is_wrong() {
        assert_eq!(address_of("http://127.0.0.1:2379").unwrap().port(), 2379);
        assert_eq!(address_of("http://localhost:80/").unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(address_of("http://[::1]:80").unwrap().to_string(), "[::1]:80");
        for url in
            ["https://127.0.0.1:1", "127.0.0.1:1", "http://example.com:1", "http://127.0.0.1"]
        {
            let failure = address_of(url).unwrap_err();
            assert!(failure.to_string().contains(url), "{failure}");
            assert_eq!(failure.code, 2);
        }
    }
}
