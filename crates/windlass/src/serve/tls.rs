//! Certificates of the endpoints that are served over TLS.
//!
//! A certificate that was read from a directory is read again every ten seconds, so that a renewed
//! one is served without a restart. A self-signed certificate can be generated instead: clients
//! cannot verify it, but the connection is encrypted.
//!
//! **Invariant:** files that cannot be used never replace a certificate that can.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::metrics::Metrics;

/// How often the files are read.
const READ_EVERY: Duration = Duration::from_secs(10);
/// How long reading the files may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// A certificate and its private key.
///
/// # Examples
///
/// ```
/// use windlass::serve::Tls;
/// let generated = Tls::self_signed(&["localhost", "127.0.0.1"])?;
///
/// // A mounted Secret of type kubernetes.io/tls; renewed files are served without a restart.
/// let missing = Tls::from_dir("/no/such/directory").unwrap_err();
/// assert!(missing.to_string().starts_with("cannot read /no/such/directory/tls.crt: "));
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    served: Arc<Served>,
    files: Option<Files>,
    metrics: Option<Metrics>,
}

/// Where a certificate was read from.
#[derive(Clone)]
struct Files {
    paths: Paths,
    /// The content that is served.
    content: Content,
}

/// The files of a certificate chain and of its private key.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

/// The content of both files.
#[derive(Clone, PartialEq, Eq)]
struct Content {
    chain: Vec<u8>,
    key: Vec<u8>,
}

/// The certificate that is being served; without one, no handshake succeeds.
#[derive(Debug)]
struct Served(ArcSwapOption<CertifiedKey>);

impl ResolvesServerCert for Served {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

// === impl Tls ===

impl Tls {
    /// Reads `tls.crt` and `tls.key` from a directory, such as a mounted Secret of type
    /// `kubernetes.io/tls`. The server reads the files again every ten seconds.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or contains no certificate or key.
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Self> {
        Self::from_files(Paths::below(dir.as_ref()))
    }

    /// Reads two files, and reads them again every ten seconds.
    pub(crate) fn from_files(paths: Paths) -> Result<Self> {
        let content = paths.read()?;
        let mut tls = Self::from_pem(&content.chain, &content.key)?;
        tls.files = Some(Files { paths, content });
        Ok(tls)
    }

    /// Uses a certificate chain and its private key in PEM format.
    ///
    /// # Errors
    ///
    /// Fails if there is no certificate or key, or if they do not belong together.
    pub(crate) fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self> {
        let certificate = certified(chain, key)?;
        let tls = Self::empty()?;
        tls.served.0.store(Some(Arc::new(certificate)));
        Ok(tls)
    }

    /// Serves nothing until a certificate is loaded.
    pub(crate) fn empty() -> Result<Self> {
        let served = Arc::new(Served(ArcSwapOption::empty()));
        let mut config = ServerConfig::builder_with_provider(provider()?)
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong("TLS setup", &e))?
            .with_no_client_auth()
            .with_cert_resolver(served.clone());
        // HTTP/2 stays off, as in the usual scaffold: fewer ways to be flooded.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), served, files: None, metrics: None })
    }

    /// Serves this certificate to new connections.
    #[cfg(feature = "webhook")]
    pub(crate) fn load(&self, chain: &[u8], key: &[u8]) -> Result<()> {
        let loaded = certified(chain, key);
        if let Some(metrics) = &self.metrics {
            metrics.certificate_read(loaded.is_ok());
        }
        self.served.0.store(Some(Arc::new(loaded?)));
        Ok(())
    }

    /// Returns the certificate that is served, as DER.
    #[cfg(feature = "webhook")]
    pub(crate) fn served(&self) -> Option<CertificateDer<'static>> {
        self.served.0.load().as_ref()?.cert.first().cloned()
    }

    /// Generates a self-signed certificate for these host names and IP addresses.
    ///
    /// # Errors
    ///
    /// Fails if a name is not a valid host name.
    #[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
    pub fn self_signed(hosts: &[&str]) -> Result<Self> {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let made = rcgen::generate_simple_self_signed(hosts).map_err(|e| wrong("host name", &e))?;
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        Self::from_pem(chain.as_bytes(), key.as_bytes())
    }

    /// Counts reads of the certificate in the metrics of a client.
    pub(crate) fn counted(mut self, client: &Client) -> Self {
        if self.files.is_some() {
            client.metrics().certificate_read(true);
        }
        self.metrics = Some(client.metrics().clone());
        self
    }

    /// Does the handshake with a client.
    pub(super) async fn accept<S>(&self, stream: S) -> std::io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        TlsAcceptor::from(self.config.clone()).accept(stream).await
    }

    /// Serves renewed certificates; never completes.
    pub(super) async fn follow(&self) -> Infallible {
        let Some(Files { paths, mut content }) = self.files.clone() else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(READ_EVERY).await;
            let renewed = match read_within(&paths, READ_TIMEOUT).await {
                Ok(same) if same == content => continue,
                Ok(new) => certified(&new.chain, &new.key).map(|certificate| {
                    self.served.0.store(Some(Arc::new(certificate)));
                    content = new;
                }),
                Err(error) => Err(error),
            };
            if let Some(metrics) = &self.metrics {
                metrics.certificate_read(renewed.is_ok());
            }
            match renewed {
                Ok(()) => tracing::info!("Updated current TLS certificate"),
                Err(error) => {
                    let error = error.chain();
                    tracing::error!(error, "TLS certificate not renewed, keeping the previous one");
                }
            }
        }
    }
}

/// Reads the files on a thread that may block: a mount that hangs must not stop the runtime.
async fn read_within(paths: &Paths, timeout: Duration) -> Result<Content> {
    let files = paths.clone();
    let reading = tokio::task::spawn_blocking(move || files.read());
    match tokio::time::timeout(timeout, reading).await {
        Ok(Ok(content)) => content,
        Ok(Err(panic)) => Err(Error::Panic(panic.to_string())),
        Err(_) => {
            let (file, seconds) = (paths.chain.display(), timeout.as_secs_f32());
            Err(Error::Other(format!("{file} was not read within {seconds} s").into()))
        }
    }
}

// === impl Paths ===

impl Paths {
    /// The names that a Secret of type `kubernetes.io/tls` has.
    pub(crate) fn below(dir: &Path) -> Self {
        Self { chain: dir.join("tls.crt"), key: dir.join("tls.key") }
    }

    fn read(&self) -> Result<Content> {
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|e| Error::Other(format!("cannot read {}: {e}", path.display()).into()))
        };
        Ok(Content { chain: read(&self.chain)?, key: read(&self.key)? })
    }
}

fn certified(chain: &[u8], key: &[u8]) -> Result<CertifiedKey> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|e| wrong("certificate", &e))?;
    if chain.is_empty() {
        return Err(wrong("certificate", &"the file holds none"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| wrong("key", &e))?;
    CertifiedKey::from_der(chain, key, &*provider()?).map_err(|e| wrong("certificate", &e))
}

/// The provider that the process has installed, or that of the feature `ring` or `aws-lc-rs`.
fn provider() -> Result<Arc<CryptoProvider>> {
    if let Some(installed) = CryptoProvider::get_default() {
        return Ok(installed.clone());
    }
    #[cfg(feature = "ring")]
    return Ok(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
    return Ok(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
    Err(Error::Invalid(
        "TLS needs a crypto provider: install one of rustls, or enable the feature ring or \
         aws-lc-rs"
            .into(),
    ))
}

fn wrong(what: &str, error: &dyn fmt::Display) -> Error {
    Error::Other(format!("the {what} cannot be used: {error}").into())
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.files.as_ref().map(|files| &files.paths);
        f.debug_struct("Tls").field("paths", &paths).finish_non_exhaustive()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_that_hang_block_neither_the_runtime_nor_the_reader() {
        let dir = std::env::temp_dir().join(format!("windlass-fifo-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("created");
        let pipe = dir.join("tls.crt");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("runs");
        assert!(made.success());
        // Nobody writes into the pipe, so reading it does not return.
        let read = read_within(&Paths::below(&dir), Duration::from_millis(20)).await;
        let error = read.err().expect("too late").to_string();
        assert_eq!(error, format!("{} was not read within 0.02 s", pipe.display()));
        // Lets the thread end.
        let release = pipe.clone();
        tokio::task::spawn_blocking(move || drop(std::fs::write(release, "")))
            .await
            .expect("written");
        std::fs::remove_dir_all(&dir).expect("removed");
    }

    /// A certificate for `localhost` that ends after some days from now, and its key.
    fn pair(days: i64) -> (String, String) {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).expect("a name");
        let now = std::time::SystemTime::from(crate::clock::Clock::default().now());
        let day = Duration::from_secs(86_400);
        let away = day * u32::try_from(days.abs()).expect("few days");
        let end = if days < 0 { now - away } else { now + away };
        params.not_before = (now - day * 100).into();
        params.not_after = end.into();
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed");
        (certificate.pem(), key.serialize_pem())
    }

    /// A directory as kubelet mounts a Secret: `tls.crt` and `tls.key` lead over the link `..data` to
    /// a directory with one state of the Secret.
    struct Mount {
        dir: PathBuf,
        states: usize,
    }

    impl Mount {
        fn new(name: &str, pair: &(String, String)) -> Self {
            let dir = std::env::temp_dir().join(format!("windlass-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).expect("created");
            for file in ["tls.crt", "tls.key"] {
                let target = Path::new("..data").join(file);
                std::os::unix::fs::symlink(target, dir.join(file)).expect("linked");
            }
            let mut mount = Self { dir, states: 0 };
            mount.swap(pair);
            mount
        }

        /// Replaces both files in one step.
        fn swap(&mut self, (chain, key): &(String, String)) {
            self.states += 1;
            let state = format!("..state-{}", self.states);
            std::fs::create_dir_all(self.dir.join(&state)).expect("created");
            std::fs::write(self.dir.join(&state).join("tls.crt"), chain).expect("written");
            std::fs::write(self.dir.join(&state).join("tls.key"), key).expect("written");
            std::os::unix::fs::symlink(&state, self.dir.join("..data_tmp")).expect("linked");
            std::fs::rename(self.dir.join("..data_tmp"), self.dir.join("..data")).expect("swapped");
        }

        fn write(&self, file: &str, content: &str) {
            std::fs::write(self.dir.join("..data").join(file), content).expect("written");
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }

    /// Follows the files for long enough to see a change.
    async fn follow(tls: &Tls) -> Option<CertificateDer<'static>> {
        tokio::select! {
            biased;
            never = tls.follow() => match never {},
            () = tokio::time::sleep(READ_EVERY + READ_EVERY / 2) => {}
        }
        tls.served()
    }

    fn der(pair: &(String, String)) -> Option<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(pair.0.as_bytes()).ok()
    }

    #[tokio::test(start_paused = true)]
    async fn files_that_are_swapped_as_kubelet_does_are_served() {
        let (first, second) = (pair(90), pair(90));
        let mut mount = Mount::new("swapped", &first);
        let tls = Tls::from_dir(&mount.dir).expect("usable");
        assert_eq!(follow(&tls).await, der(&first));
        mount.swap(&second);
        assert_eq!(follow(&tls).await, der(&second));
    }

    #[tokio::test(start_paused = true)]
    async fn half_written_files_never_replace_a_certificate() {
        let (first, second) = (pair(90), pair(90));
        let mount = Mount::new("halves", &first);
        let tls = Tls::from_dir(&mount.dir).expect("usable");
        mount.write("tls.crt", &second.0[..second.0.len() / 2]);
        assert_eq!(follow(&tls).await, der(&first), "a certificate without an end");
        mount.write("tls.crt", "");
        assert_eq!(follow(&tls).await, der(&first), "an empty file");
        mount.write("tls.crt", &second.0);
        assert_eq!(follow(&tls).await, der(&first), "the key belongs to the other one");
        mount.write("tls.key", &second.1);
        assert_eq!(follow(&tls).await, der(&second));
        std::fs::remove_file(mount.dir.join("..data")).expect("removed");
        assert_eq!(follow(&tls).await, der(&second), "the mount is gone");
    }

    #[cfg(feature = "webhook")]
    #[tokio::test(start_paused = true)]
    async fn files_with_an_expired_certificate_make_the_pod_unready_until_they_are_renewed() {
        use crate::webhook::check_served;

        let (valid, expired) = (pair(90), pair(-1));
        let mut mount = Mount::new("expired", &expired);
        let tls = Tls::from_dir(&mount.dir).expect("usable");
        let now = crate::clock::Clock::default().now();
        let check = |served: Option<CertificateDer<'_>>| check_served(served.as_deref(), now);
        let error = check(tls.served()).expect_err("has expired").to_string();
        assert!(error.starts_with("the certificate expired at "), "{error}");
        mount.swap(&valid);
        check(follow(&tls).await).expect("is valid");
    }
}
