//! One HTTP/1.1 connection to a server, as cheap as it gets.

use std::fs;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Failure;

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// Where a server is and how to be let in.
#[derive(Clone)]
pub struct Server {
    address: String,
    host: String,
    token: String,
    tls: Option<TlsConnector>,
}

/// One connection.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    token: String,
}

// === impl Server ===

impl Server {
    /// Reads a kubeconfig with one server, one authority and one token.
    pub fn read(path: &str) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let field = |name: &str| {
            let found = text.lines().find_map(|line| line.trim().strip_prefix(name));
            found.map(|value| value.trim().trim_matches('"').to_owned())
        };
        let url = field("server:").ok_or("the kubeconfig names no server")?;
        let (scheme, address) = url.split_once("://").ok_or("the server is no URL")?;
        let address = address.trim_end_matches('/').to_owned();
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).to_owned();
        let inline = field("certificate-authority-data:");
        let tls = match (scheme, inline, field("certificate-authority:")) {
            ("https", Some(authority), _) => Some(connector(&STANDARD.decode(authority)?)?),
            ("https", None, Some(file)) => Some(connector(&fs::read(file)?)?),
            ("https", None, None) => return Err("the kubeconfig has no authority".into()),
            _ => None,
        };
        Ok(Self { address, host, token: field("token:").unwrap_or_default(), tls })
    }

    /// The same server for somebody without credentials.
    pub fn without_token(mut self) -> Self {
        self.token.clear();
        self
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let sender = match &self.tls {
            None => handshake(TokioIo::new(stream)).await?,
            Some(tls) => {
                let name = ServerName::try_from(self.host.clone())?;
                handshake(TokioIo::new(tls.connect(name, stream).await?)).await?
            }
        };
        Ok(Connection { sender, host: self.address.clone(), token: self.token.clone() })
    }
}

fn connector(authority: &[u8]) -> Result<TlsConnector, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        roots.add(certificate?)?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn handshake<I>(io: I) -> Result<SendRequest<Full<Bytes>>, Failure>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(io).await?;
    tokio::spawn(async move {
        // An end of the connection shows in the request that meets it.
        let _ = connection.await;
    });
    Ok(sender)
}

// === impl Connection ===

impl Connection {
    /// Sends a request and returns the answer with its body unread.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        content: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        let accept = match content.contains("protobuf") || content.contains(";as=") {
            true => content,
            false => JSON,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("accept", accept)
            .header("content-type", content);
        if !self.token.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        let request = request.body(Full::new(body))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Forwards a request of somebody else as it is.
    pub async fn forward(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failure> {
        let headers = request.headers_mut();
        headers.insert("host", self.host.parse()?);
        headers.insert("authorization", format!("Bearer {}", self.token).parse()?);
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request, throws the answer away and returns its status and length.
    pub async fn drop_answer(
        &mut self,
        method: Method,
        path: &str,
        content: &str,
        body: Bytes,
    ) -> Result<(StatusCode, usize), Failure> {
        let answer = self.send(method, path, content, body).await?;
        let (status, mut body, mut length) = (answer.status(), answer.into_body(), 0);
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok((status, length))
    }

    /// Sends a request that has to succeed and reads the answer.
    pub async fn json(
        &mut self,
        method: Method,
        path: &str,
        content: &str,
        body: Bytes,
    ) -> Result<Value, Failure> {
        let (status, value) = self.ask(method, path, content, body).await?;
        match status.is_success() {
            true => Ok(value),
            false => Err(format!("{path}: {status}: {}", value["message"]).into()),
        }
    }

    /// Sends a request and reads the answer, whatever it is.
    pub async fn ask(
        &mut self,
        method: Method,
        path: &str,
        content: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Value), Failure> {
        let answer = self.send(method, path, content, body).await?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await?.to_bytes();
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }
}
