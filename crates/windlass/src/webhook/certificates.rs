//! Where the webhook server has its certificate from.
//!
//! | source | who makes it | who publishes its CA |
//! |---|---|---|
//! | [`managed`](Certificates::managed) | the leader, in a Secret | the leader, in webhook configurations and definitions |
//! | [`from_dir`](Certificates::from_dir) | cert-manager, OLM, the service CA of OpenShift | the same |
//! | [`local`](Certificates::local) | the process, in memory | the process, with its URL |
//!
//! A managed CA is replaced at two thirds of its lifetime, without a call that fails: the new CA is
//! published next to the old one, API servers get two minutes to notice, then the leaf is signed
//! by the new CA, every replica loads it within ten seconds, and ten minutes later the old CA is
//! removed.
//!
//! **Invariant:** a bundle contains the CA of every leaf that a replica may serve.
//! **Invariant:** keys appear in the Secret and in memory, and nowhere else.

mod bundle;
mod changes;
mod follow;
mod issue;
mod keeper;
mod material;

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use windlass_manifests::Model;

use super::local;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::manager::RunContext;
use crate::serve::Tls;

pub(super) use bundle::Target;
pub(super) use issue::{authority, leaf};

/// The source of the certificate that webhooks are served with.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass::webhook::{Certificates, Findings, Webhook, Webhooks};
/// use windlass::{Manager, manifests::Model};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let server = windlass_apiserver::ApiServer::start();
/// # let client = server.client();
/// let webhook = Webhook::<ConfigMap>::new().validate(|_| async { Ok(Findings::new()) });
/// let handle = Manager::new(client)
///     .webhooks(Webhooks::new().add(webhook))
///     .webhook_server("127.0.0.1:0", Certificates::managed(&Model::new("map-operator")))
///     .spawn()?;
/// handle.ready().await;
/// assert!(handle.webhook_address().is_some());
/// # handle.abort();
/// # Ok(())
/// # }
/// ```
pub struct Certificates(Source);

enum Source {
    Directory(Tls),
    Managed(Box<Model>),
    Local(Box<Model>, Option<String>),
}

/// How long certificates live, and how long each step of a rotation lasts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) authority: Duration,
    pub(super) leaf: Duration,
    /// How long API servers get to notice a CA before it signs what is served.
    pub(super) propagation: Duration,
    /// How long the previous CA stays trusted after the leaf was replaced.
    pub(super) overlap: Duration,
    /// How often the leader looks at the Secret and the bundles if no change leads it there.
    pub(super) check: Duration,
}

/// A task next to the server: whether only the leader runs it, its name, and what it does.
pub(crate) struct Task {
    pub(crate) leader: bool,
    pub(crate) name: &'static str,
    pub(crate) run: Box<dyn FnOnce(RunContext) -> BoxFuture<'static, Result<()>> + Send>,
}

/// What a server needs to serve with a certificate.
pub(crate) struct Serving {
    pub(crate) tls: Tls,
    pub(crate) published: Published,
    pub(crate) tasks: Vec<Task>,
}

/// Whether this replica has to publish the CA first, and why it has not done so.
///
/// Until the CA is published, the API server refuses the certificate.
#[derive(Clone, Default)]
pub(crate) struct Published(Arc<Mutex<Option<String>>>);

// === impl Published ===

impl Published {
    /// # Errors
    ///
    /// Fails if the CA is not published yet.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.0.lock() {
            Some(why) => {
                Err(Error::from(format!("the CA of the webhooks is not published: {why}")))
            }
            None => Ok(()),
        }
    }

    fn pending(&self, why: &str) {
        *self.0.lock() = Some(why.to_owned());
    }

    fn done(&self) {
        *self.0.lock() = None;
    }
}

// === impl Times ===

impl Default for Times {
    fn default() -> Self {
        let day = 86_400;
        Self {
            authority: Duration::from_secs(365 * day),
            leaf: Duration::from_secs(90 * day),
            propagation: Duration::from_secs(120),
            overlap: Duration::from_secs(600),
            check: Duration::from_secs(30),
        }
    }
}

// === impl Certificates ===

impl Certificates {
    /// Reads `tls.crt` and `tls.key` from a directory, such as a mounted Secret that cert-manager
    /// writes. Renewed files are served within ten seconds. The tool that makes them also publishes their
    /// CA.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or contains no certificate or key.
    pub fn from_dir(directory: impl AsRef<Path>) -> Result<Self> {
        Ok(Self(Source::Directory(Tls::from_dir(directory)?)))
    }

    /// Reads a certificate from two files.
    #[cfg(feature = "operator")]
    pub(crate) fn from_files(paths: crate::serve::Paths) -> Result<Self> {
        Ok(Self(Source::Directory(Tls::from_files(paths)?)))
    }

    /// Keeps a CA and a certificate in a Secret in the namespace of the operator, and publishes the CA
    /// in the webhook configurations and definitions of the model. The leader writes them, and
    /// every replica serves them. The manifests of the model allow what this needs.
    pub fn managed(model: &Model) -> Self {
        Self(Source::Managed(Box::new(model.clone())))
    }

    /// Serves on this machine for a cluster on this machine: makes a certificate in memory, and
    /// installs webhook configurations that name the URL of the server, until the manager stops.
    pub fn local(model: &Model) -> Self {
        Self(Source::Local(Box::new(model.clone()), None))
    }

    /// Sets the URL under which the cluster reaches a [`local`](Self::local) server, such as
    /// `https://host.docker.internal:9443`; by default `https://127.0.0.1` and its port.
    pub fn url(mut self, base: &str) -> Self {
        if let Source::Local(_, url) = &mut self.0 {
            *url = Some(base.trim_end_matches('/').to_owned());
        }
        self
    }

    /// Prepares the certificate of a server that will listen on `bound`.
    pub(crate) fn serving(
        self,
        client: &Client,
        bound: Arc<RwLock<Option<SocketAddr>>>,
    ) -> Result<Serving> {
        match self.0 {
            Source::Directory(tls) => Ok(Serving {
                tls: tls.counted(client),
                published: Published::default(),
                tasks: Vec::new(),
            }),
            Source::Managed(model) => {
                let names = keeper::Names::of(&model, client.default_namespace());
                managed(names, Times::default(), client)
            }
            Source::Local(model, url) => local::serving(*model, url, bound),
        }
    }

    /// Returns `true` for those of a process on this machine.
    pub(crate) fn are_local(&self) -> bool {
        matches!(self.0, Source::Local(..))
    }
}

/// Serves what a Secret contains, and lets the leader keep that Secret.
pub(super) fn managed(names: keeper::Names, times: Times, client: &Client) -> Result<Serving> {
    let tls = Tls::empty()?.counted(client);
    let published = Published::default();
    let unpublished = published.clone();
    let (key, loaded) = (names.secret.clone(), tls.clone());
    let follow = Task {
        leader: false,
        name: "webhook certificate",
        run: Box::new(move |cx| Box::pin(follow::run(cx, key, loaded))),
    };
    let keep = Task {
        leader: true,
        name: "webhook certificate rotation",
        run: Box::new(move |cx| Box::pin(keeper::run(cx, names, times, unpublished))),
    };
    Ok(Serving { tls, published, tasks: vec![follow, keep] })
}

/// Checks the certificate that a server has loaded.
pub(crate) fn check_served(der: Option<&[u8]>, now: Timestamp) -> Result<()> {
    let der = der.ok_or_else(|| Error::from("no certificate is loaded yet"))?;
    match issue::Certificate::from_der(der) {
        Some(certificate) if certificate.expires <= now => {
            Err(Error::from(format!("the certificate expired at {}", certificate.expires)))
        }
        Some(_) => Ok(()),
        None => Err(Error::from("the certificate cannot be read")),
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Source::Directory(_) => "Certificates(directory)",
            Source::Managed(_) => "Certificates(managed)",
            Source::Local(..) => "Certificates(local)",
        })
    }
}

#[cfg(test)]
mod tests;
