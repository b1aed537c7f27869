//! What every namespace has: the account `default` and the root certificate; and the tokens of
//! secrets that ask for one.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use kube::core::ObjectMeta;
use windlass::cache::{Cache, Change};
use windlass::client::Deletion;
use windlass::controller::{Context, Controller, Next, Watch};
use windlass::{Key, Kind, Manager, Object, Result, ResultExt};
use windlass_apiserver::ApiServer;

use crate::controllers::Shared;
use crate::controllers::pod;

const ROOT_CA: &str = "kube-root-ca.crt";
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver \
    when using internal endpoints such as the internal service IP or kubernetes.default.svc. No \
    other usage is guaranteed across distributions of Kubernetes clusters.";

/// Adds the controller that makes the account `default`.
pub fn add_accounts(builder: Manager, _: &Shared) -> Manager {
    let controller = Controller::<Namespace>::builder("serviceaccount-controller")
        .watch(Watch::map(namespace_of::<ServiceAccount>))
        .build(|cx: Context<Namespace>| async move {
            if !active(&cx) || account(&cx)?.is_some() {
                return Ok(Next::Done);
            }
            let account =
                ServiceAccount { metadata: meta(cx.name(), "default"), ..Default::default() };
            settled(cx.client().api().create(&account).await)
        });
    builder.add(controller)
}

/// Adds the controller that publishes the root certificate.
pub fn add_root_ca(builder: Manager, shared: &Shared) -> Manager {
    let ca = shared.settings.root_ca.clone();
    let controller = Controller::<Namespace>::builder("root-ca-certificate-publisher")
        .watch(Watch::map(namespace_of::<ConfigMap>))
        .build(move |cx: Context<Namespace>| {
            let ca = ca.clone();
            async move { publish(&cx, &ca).await }
        });
    builder.add(controller)
}

/// Adds the controller that fills secrets of type `kubernetes.io/service-account-token`.
pub fn add_tokens(builder: Manager, shared: &Shared) -> Manager {
    let (server, ca) = (shared.server.clone(), shared.settings.root_ca.clone());
    let controller = Controller::<Secret>::builder("tokens-controller")
        .watch(Watch::changes(Kind::of::<ServiceAccount>(), tokens_of))
        .build(move |cx: Context<Secret>| {
            let (server, ca) = (server.clone(), ca.clone());
            async move { fill(&cx, &server, &ca).await }
        });
    builder.add(controller)
}

fn namespace_of<K: Object>(object: &K) -> Vec<Key> {
    object.meta().namespace.iter().map(|name| Key::cluster(name)).collect()
}

fn active(cx: &Context<Namespace>) -> bool {
    cx.object().is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none())
}

fn account(cx: &Context<Namespace>) -> Result<Option<Arc<ServiceAccount>>> {
    cx.client().cached().get::<ServiceAccount>(&Key::namespaced(cx.name(), "default"))
}

fn meta(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some(namespace.into()),
        ..ObjectMeta::default()
    }
}

/// A namespace that ends, or one that has the object already, wants nothing more.
fn settled<T>(outcome: Result<T>) -> Result<Next> {
    match outcome.ignore_already_exists().map(|_| ()) {
        Err(error) if pod::namespace_is_terminating(&error) || error.is_not_found() => {
            Ok(Next::Done)
        }
        other => other.map(|()| Next::Done),
    }
}

async fn publish(cx: &Context<Namespace>, ca: &str) -> Result<Next> {
    if !active(cx) {
        return Ok(Next::Done);
    }
    let data = BTreeMap::from([("ca.crt".to_string(), ca.to_string())]);
    let note = ("kubernetes.io/description".to_string(), DESCRIPTION.to_string());
    match cx.client().cached().get::<ConfigMap>(&Key::namespaced(cx.name(), ROOT_CA))? {
        None => {
            let mut metadata = meta(cx.name(), ROOT_CA);
            metadata.annotations = Some([note].into());
            let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
            settled(cx.client().api().create(&map).await)
        }
        Some(map) => {
            let annotations = map.metadata.annotations.clone().unwrap_or_default();
            if map.data.as_ref() == Some(&data) && annotations.get(&note.0) == Some(&note.1) {
                return Ok(Next::Done);
            }
            let mut map = (*map).clone();
            map.metadata.annotations.get_or_insert_default().insert(note.0, note.1);
            map.data = Some(data);
            settled(cx.client().api().update(&map).await)
        }
    }
}

fn account_name(secret: &Secret) -> Option<&str> {
    let annotations = secret.metadata.annotations.as_ref()?;
    let name = annotations.get(ACCOUNT_NAME).map(String::as_str);
    name.filter(|_| secret.type_.as_deref() == Some(TOKEN_TYPE))
}

/// The token secrets of a changed account.
fn tokens_of(change: &Change, cache: &Cache) -> Vec<Key> {
    let account = change.key().clone();
    let all = cache.list::<Secret>().namespace(account.namespace().unwrap_or_default());
    let secrets = all.items().unwrap_or_default();
    let of_account = secrets.iter().filter(|s| account_name(s) == Some(account.name()));
    of_account.map(|secret| Key::of(&**secret)).collect()
}

async fn fill(cx: &Context<Secret>, server: &ApiServer, ca: &str) -> Result<Next> {
    let Some(secret) = cx.object() else { return Ok(Next::Done) };
    let Some(name) = account_name(&secret) else { return Ok(Next::Done) };
    if secret.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Done);
    }
    let namespace = cx.namespace().unwrap_or_default();
    let account =
        cx.client().api::<ServiceAccount>().get(&Key::namespaced(namespace, name)).await?;
    let account = account.and_then(|account| account.metadata.uid.clone());
    let noted = secret.metadata.annotations.as_ref().and_then(|a| a.get(ACCOUNT_UID));
    let Some(uid) = account.filter(|uid| noted.is_none_or(|noted| noted == uid)) else {
        cx.client().api::<Secret>().delete(Deletion::only(&*secret)).await?;
        return Ok(Next::Done);
    };
    let mut wanted = (*secret).clone();
    let data = wanted.data.get_or_insert_default();
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    data.insert("ca.crt".into(), bytes(ca));
    data.entry("namespace".into()).or_insert_with(|| bytes(namespace));
    let token = data.get("token").is_none_or(|token| token.0.is_empty());
    if token {
        let signed = server.signer().sign_secret(namespace, name, &uid, cx.name());
        data.insert("token".into(), bytes(&signed));
    }
    wanted.metadata.annotations.get_or_insert_default().insert(ACCOUNT_UID.into(), uid);
    if wanted != *secret {
        cx.client().api().update(&wanted).await.ignore_not_found()?;
    }
    Ok(Next::Done)
}
