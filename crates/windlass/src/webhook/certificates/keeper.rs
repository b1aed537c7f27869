//! The leader's work: keeps the Secret and publishes its CAs.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use tokio::time::Instant;
use windlass_manifests::Model;

use super::bundle::{self, Target};
use super::changes::Changes;
use super::material::{Facts, Material};
use super::{Published, Times};
use crate::cache::Key;
use crate::client::Client;
use crate::clock::Clock;
use crate::error::{Error, Result, ResultExt};
use crate::manager::RunContext;

/// The pause after a step that failed, and between the steps of a rotation.
const RETRY: Duration = Duration::from_secs(5);
/// The pause between two steps that changes of others lead to.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The label of a Secret that this module may overwrite.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "windlass");

/// What is called how.
#[derive(Debug, Clone)]
pub(in crate::webhook) struct Names {
    /// The Secret.
    pub(in crate::webhook) secret: Key,
    /// The name of the service, in the namespace of the Secret.
    pub(in crate::webhook) service: String,
    /// The objects that name the webhooks.
    pub(in crate::webhook) targets: Vec<Target>,
}

/// Keeps one Secret.
pub(super) struct Keeper {
    client: Client,
    clock: Clock,
    names: Names,
    times: Times,
    /// What the Secret contained last, in case somebody deletes it.
    known: Option<Material>,
    /// The newest CA and since when it is in all bundles.
    trusted: Option<(String, Instant)>,
}

/// Runs until the manager stops.
pub(super) async fn run(
    cx: RunContext,
    names: Names,
    times: Times,
    published: Published,
) -> Result<()> {
    let mut changes = Changes::of(&cx.client, &names.targets);
    let mut keeper = Keeper::new(cx.client.clone(), cx.clock.clone(), names, times);
    published.pending("it has just become the leader");
    // Another replica publishes it after this one.
    let _reset = Reset(published.clone());
    loop {
        let began = Instant::now();
        let pause = match keeper.step().await {
            Ok(pause) => {
                published.done();
                pause
            }
            Err(error) => {
                let error = error.chain();
                if keeper.trusted.is_none() {
                    published.pending(&error);
                }
                tracing::warn!(error, "the certificate of the webhooks could not be kept");
                RETRY
            }
        };
        tokio::select! {
            biased;
            () = cx.stopping() => return Ok(()),
            () = changed(&mut changes, began) => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Waits for a change of an object that names the webhooks, at least for a while after the last step
/// began: somebody else may remove what is published again and again.
async fn changed(changes: &mut Changes, began: Instant) {
    changes.next().await;
    tokio::time::sleep_until(began + PAUSE_MIN).await;
}

/// Ends the wait for a publication that this replica will not do.
struct Reset(Published);

impl Drop for Reset {
    fn drop(&mut self) {
        self.0.done();
    }
}

/// Fails if a Secret has content that somebody else made: it is neither served nor overwritten.
pub(super) fn check_owner(secret: &Secret, key: &Key) -> Result<()> {
    let label = secret.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY.0));
    let is_ours = label.is_some_and(|label| label == MANAGED_BY.1);
    if is_ours || secret.data.as_ref().is_none_or(BTreeMap::is_empty) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "Secret {key} was not made by this operator; delete it, or mount it and set --webhook-cert-path"
    )))
}

// === impl Names ===

impl Names {
    /// The names of an operator that runs in a namespace.
    pub(in crate::webhook) fn of(model: &Model, namespace: &str) -> Self {
        Self {
            secret: Key::namespaced(namespace, &model.webhook_secret()),
            service: model.webhook_service(),
            targets: Target::all(model),
        }
    }

    /// The names that API servers and people call.
    pub(super) fn hosts(&self) -> Vec<String> {
        let (service, namespace) = (&self.service, self.namespace());
        let full = format!("{service}.{namespace}.svc");
        vec![full.clone(), format!("{service}.{namespace}"), format!("{full}.cluster.local")]
    }

    pub(super) fn namespace(&self) -> &str {
        self.secret.namespace().unwrap_or_default()
    }

    /// What the CAs of this operator are recognized by.
    fn owner(&self) -> String {
        format!("windlass {}", self.secret)
    }
}

// === impl Keeper ===

impl Keeper {
    pub(super) fn new(client: Client, clock: Clock, names: Names, times: Times) -> Self {
        Self { client, clock, names, times, known: None, trusted: None }
    }

    /// Does what is due, and returns when to look again.
    pub(super) async fn step(&mut self) -> Result<Duration> {
        let stored = self.client.api::<Secret>().get(&self.names.secret).await?;
        let (now, hosts, owner) = (self.clock.now(), self.names.hosts(), self.names.owner());
        let trusted_for = self.trusted.as_ref().map(|(_, since)| since.elapsed());
        let facts = Facts { now, trusted_for, hosts: &hosts, owner: &owner };
        let current = match &stored {
            Some(secret) => self.read(secret)?,
            None => None,
        };
        let had = current.is_some();
        let wanted = match current.clone().or_else(|| self.known.clone()) {
            Some(material) => material.next(&facts, &self.times)?,
            None => Material::generate(&facts, &self.times)?,
        };
        if current.as_ref() != Some(&wanted) {
            self.write(stored.as_deref(), &wanted).await?;
            if !had && self.known.is_some() {
                let secret = &self.names.secret;
                tracing::warn!(%secret, "the Secret of the webhooks was lost, and is restored");
            }
        }
        let newest = wanted.newest().subject.clone();
        let rotating = wanted.is_rotating();
        let settled = wanted.is_settled(now, &self.times);
        self.known = Some(wanted.clone());
        for target in &self.names.targets {
            let own = bundle::Own { names: &self.names, owner: &owner };
            own.publish(&self.client, target, wanted.authorities(), settled).await?;
        }
        if self.trusted.as_ref().is_none_or(|(subject, _)| *subject != newest) {
            self.trusted = Some((newest, Instant::now()));
        }
        Ok(if rotating { RETRY.min(self.times.check) } else { self.times.check })
    }

    /// Reads a Secret; `None` if it is empty or damaged.
    fn read(&self, secret: &Secret) -> Result<Option<Material>> {
        check_owner(secret, &self.names.secret)?;
        let data = secret.data.clone().unwrap_or_default();
        let material = Material::read(&data);
        if material.is_none() && !data.is_empty() {
            let secret = &self.names.secret;
            tracing::warn!(%secret, "the Secret of the webhooks is damaged, and is written again");
        }
        Ok(material)
    }

    /// Writes the Secret, unless somebody else has written it since it was read.
    async fn write(&self, stored: Option<&Secret>, material: &Material) -> Result<()> {
        let secrets = self.client.api::<Secret>();
        let mut secret = stored.cloned().unwrap_or_default();
        secret.metadata.name = Some(self.names.secret.name().to_owned());
        secret.metadata.namespace = Some(self.names.namespace().to_owned());
        let labels = secret.metadata.labels.get_or_insert_default();
        labels.insert(MANAGED_BY.0.into(), MANAGED_BY.1.into());
        secret.data = Some(material.data());
        if stored.is_some() {
            secrets.update(&secret).await?;
            return Ok(());
        }
        secret.type_ = Some("kubernetes.io/tls".into());
        match secrets.create(&secret).await.ignore_already_exists()? {
            Some(_) => Ok(()),
            None => Err(Error::from("somebody else has just made the Secret of the webhooks")),
        }
    }
}
