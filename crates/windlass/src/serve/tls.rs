//! Certificates for the endpoints that are served over TLS.
//!
//! A certificate read from a directory is looked at again every ten seconds, so that one that is
//! renewed there is served without a restart. Without a certificate one can be made here: nobody
//! can check who signed it, but nobody can listen in either.
//!
//! **Invariant:** files that cannot be used never replace a certificate that can.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::metrics::Metrics;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A certificate and its key, ready to serve.
///
/// # Examples
///
/// ```
/// use windlass::serve::Tls;
/// let made = Tls::self_signed(&["localhost", "127.0.0.1"])?;
///
/// // A Secret of type kubernetes.io/tls, mounted; renewed files are served without a restart.
/// let missing = Tls::from_dir("/no/such/directory").unwrap_err();
/// assert!(missing.to_string().starts_with("cannot read /no/such/directory/tls.crt: "));
/// let empty = Tls::from_pem(b"", b"").unwrap_err();
/// assert_eq!(empty.to_string(), "the certificate cannot be used: the file holds none");
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    served: Arc<Served>,
    files: Option<PathBuf>,
    metrics: Option<Metrics>,
}

/// The certificate that is served now.
#[derive(Debug)]
struct Served(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Served {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

// === impl Tls ===

impl Tls {
    /// Reads `tls.crt` and `tls.key` from a directory, the layout of certificate Secrets.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or holds no certificate or key.
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Self> {
        let (chain, key) = read(dir.as_ref())?;
        let mut tls = Self::from_pem(&chain, &key)?;
        tls.files = Some(dir.as_ref().to_path_buf());
        Ok(tls)
    }

    /// Takes a certificate chain and its key as PEM.
    ///
    /// # Errors
    ///
    /// Fails if there is no certificate or key, or if they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self> {
        let served = Arc::new(Served(ArcSwap::from_pointee(certified(chain, key)?)));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong("TLS setup", &e))?
            .with_no_client_auth()
            .with_cert_resolver(served.clone());
        // HTTP/2 stays off, as in the usual scaffold: fewer ways to be flooded.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), served, files: None, metrics: None })
    }

    /// Makes a certificate for these host names and addresses that nobody signed.
    ///
    /// # Errors
    ///
    /// Fails if a name is none.
    pub fn self_signed(hosts: &[&str]) -> Result<Self> {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let made = rcgen::generate_simple_self_signed(hosts).map_err(|e| wrong("host name", &e))?;
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        Self::from_pem(chain.as_bytes(), key.as_bytes())
    }

    /// Counts how often the certificate is read among the metrics of a client.
    pub(crate) fn counted(mut self, client: &Client) -> Self {
        if self.files.is_some() {
            client.metrics().certificate_read(true);
        }
        self.metrics = Some(client.metrics().clone());
        self
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }

    /// Looks after the files until `stop`; never ends before for a certificate without files.
    pub(super) async fn follow(&self, stop: CancellationToken) {
        let Some(dir) = &self.files else { return stop.cancelled().await };
        let mut last = read(dir).ok();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let now = read(dir);
            if now.as_ref().ok() == last.as_ref() && now.is_ok() {
                continue;
            }
            let renewed = now.and_then(|(chain, key)| {
                let served = certified(&chain, &key)?;
                self.served.0.store(Arc::new(served));
                last = Some((chain, key));
                Ok(())
            });
            if let Some(metrics) = &self.metrics {
                metrics.certificate_read(renewed.is_ok());
            }
            match renewed {
                Ok(()) => tracing::info!("Updated current TLS certificate"),
                Err(error) => {
                    tracing::error!(
                        error = error.chain(),
                        "certificate not renewed, keeping the old"
                    );
                }
            }
        }
    }
}

fn read(dir: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    let read = |name: &str| {
        let path = dir.join(name);
        std::fs::read(&path)
            .map_err(|e| Error::Other(format!("cannot read {}: {e}", path.display()).into()))
    };
    Ok((read("tls.crt")?, read("tls.key")?))
}

fn certified(chain: &[u8], key: &[u8]) -> Result<CertifiedKey> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|e| wrong("certificate", &e))?;
    if chain.is_empty() {
        return Err(wrong("certificate", &"the file holds none"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| wrong("key", &e))?;
    let provider = rustls::crypto::ring::default_provider();
    CertifiedKey::from_der(chain, key, &provider).map_err(|e| wrong("certificate", &e))
}

fn wrong(what: &str, error: &dyn fmt::Display) -> Error {
    Error::Other(format!("the {what} cannot be used: {error}").into())
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}
