//! Certificates over streams of this process, in virtual time.

use std::collections::BTreeSet;
use std::io::{Error as IoError, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use parking_lot::Mutex;
use windlass_apiserver::{ApiServer, Options};

use super::issue::Pair;
use super::keeper::Names;
use super::*;
use crate::cache::Key;
use crate::clock::Clock;
use crate::lease::LeaseOptions;
use crate::manager::{Manager, Running};
use crate::serve::{Busy, Pages, Server};
use crate::webhook::{Findings, Webhook, Webhooks};

const MINUTE: Duration = Duration::from_secs(60);

/// How often requests are sent.
const SAMPLE: Duration = Duration::from_secs(10);

/// Lifetimes of half an hour and less, so that a test sees many of them.
const TIMES: Times = Times {
    authority: Duration::from_secs(30 * 60),
    leaf: Duration::from_secs(15 * 60),
    propagation: Duration::from_secs(2 * 60),
    overlap: Duration::from_secs(4 * 60),
    check: Duration::from_secs(30),
};

/// A cluster with the webhook configuration of an operator that is not installed otherwise.
struct World {
    server: ApiServer,
    client: Client,
    model: Model,
    /// The replicas that the service sends connections to.
    replicas: Arc<Mutex<Vec<Arc<Server>>>>,
}

impl World {
    async fn new(policy: &'static str) -> Self {
        Self::of(policy, ApiServer::start()).await
    }

    /// A cluster whose API server has a clock that is ahead by some minutes, or behind.
    async fn with_clock(ahead: i64) -> Self {
        let start = Clock::default().now() + jiff::SignedDuration::from_mins(ahead);
        let options = Options { start_time: Some(start), ..Options::default() };
        Self::of("Fail", ApiServer::with_options(options).expect("starts")).await
    }

    async fn of(policy: &'static str, server: ApiServer) -> Self {
        let client = Client::new(server.client());
        let webhooks = Webhooks::new().add(webhook(policy));
        let mut model = Model::new("map-operator");
        model.namespace = "ops".into();
        model.webhooks.extend(webhooks.entries().cloned());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("ops".into());
        client.api().create(&namespace).await.expect("created");
        for configuration in model.webhook_configurations() {
            let configuration: ValidatingWebhookConfiguration =
                serde_json::from_value(configuration).expect("a configuration");
            client.api().create(&configuration).await.expect("created");
        }
        let replicas: Arc<Mutex<Vec<Arc<Server>>>> = Arc::default();
        let (routed, next) = (replicas.clone(), AtomicUsize::new(0));
        server.connect_service("ops", &model.webhook_service(), move || {
            let all = routed.lock().clone();
            let at = next.fetch_add(1, Ordering::Relaxed);
            async move {
                let refused = || IoError::from(ErrorKind::ConnectionRefused);
                let server = all.get(at % all.len().max(1)).cloned().ok_or_else(refused)?;
                let (ours, theirs) = tokio::io::duplex(64 * 1024);
                tokio::spawn(server.connection(theirs, Busy::default()));
                Ok(ours)
            }
        });
        Self { server, client, model, replicas }
    }

    fn names(&self) -> Names {
        Names::of(&self.model, "ops")
    }

    /// Adds a replica that serves with these settings.
    fn serve(&self, tls: Tls) -> Arc<Server> {
        let pages = Pages::Webhooks(Webhooks::new().add(webhook("Fail")));
        let server = Arc::new(Server::new("webhook", "", pages).secure(Some(tls), None));
        self.replicas.lock().push(server.clone());
        server
    }

    /// Starts a replica of the operator, which may lead.
    fn start(&self, replica: &str) -> (Running, Arc<Server>) {
        let Serving { tls, tasks } = managed(self.names(), TIMES, &self.client).expect("prepared");
        let lease = LeaseOptions::new("map-operator").namespace("ops");
        let mut manager = Manager::new(self.server.client()).replica(replica).lease(lease);
        for task in tasks {
            manager = match task.leader {
                true => manager.runnable(task.name, task.run),
                false => manager.runnable_everywhere(task.name, task.run),
            };
        }
        (manager.spawn().expect("starts"), self.serve(tls))
    }

    /// Sends a request that the webhook has to accept.
    async fn write(&self) -> Result<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".into());
        map.metadata.namespace = Some("default".into());
        self.client.dry_run().api().create(&map).await
    }

    async fn secret(&self) -> Option<Arc<Secret>> {
        self.client.api::<Secret>().get(&self.names().secret).await.expect("answered")
    }

    /// Writes every ten seconds, and fails at the first request that fails.
    async fn write_for(&self, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < end {
            if let Err(error) = self.write().await {
                panic!("{}: {}", Clock::default().now(), error.chain());
            }
            tokio::time::sleep(SAMPLE).await;
        }
    }

    /// The CAs that the API server trusts.
    async fn trusted(&self) -> Vec<issue::Certificate> {
        let key = Key::cluster("map-operator-validating-webhook-configuration");
        let api = self.client.api::<ValidatingWebhookConfiguration>();
        let found = api.get(&key).await.expect("answered").expect("exists");
        let config = &found.webhooks.as_ref().expect("has webhooks")[0].client_config;
        let bundle = config.ca_bundle.as_ref().map(|bytes| bytes.0.clone()).unwrap_or_default();
        issue::read(&String::from_utf8(bundle).expect("PEM"))
    }

    async fn trust_also(&self, pem: &str) {
        let key = Key::cluster("map-operator-validating-webhook-configuration");
        let bundle = STANDARD.encode(pem);
        let patch = serde_json::json!(
            [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
        );
        let api = self.client.api::<ValidatingWebhookConfiguration>();
        api.patch(&key, &crate::client::Patch::Json(patch)).await.expect("patched");
    }
}

fn webhook(policy: &'static str) -> Webhook<ConfigMap> {
    Webhook::new()
        .validate(|_| async { Ok(Findings::new()) })
        .settings(move |entry| entry.failure_policy = Some(policy.into()))
}

fn leaf_of(secret: &Secret) -> Vec<u8> {
    secret.data.as_ref().expect("has data")["tls.crt"].0.clone()
}

/// What was served and trusted at one moment.
struct Sample {
    /// The CA of the leaf in the Secret.
    issuer: String,
    /// The CAs in the configuration.
    trusted: BTreeSet<String>,
}

impl World {
    async fn sample(&self) -> Sample {
        let secret = self.secret().await.expect("exists");
        let leaf = String::from_utf8(leaf_of(&secret)).expect("PEM");
        let issuer = issue::read(&leaf).remove(0).issuer;
        let trusted = self.trusted().await.into_iter().map(|ca| ca.subject).collect();
        Sample { issuer, trusted }
    }
}

#[tokio::test(start_paused = true)]
async fn certificates_rotate_under_load_without_a_failed_request() {
    let world = World::new("Fail").await;
    let (first, server) = world.start("first");
    tokio::time::sleep(MINUTE).await; // so that it leads
    let (second, _) = world.start("second");
    tokio::time::sleep(MINUTE).await;
    let mut first = Some(first);
    let mut samples = Vec::new();
    for round in 0..6 * 60 {
        world.write_for(SAMPLE).await;
        samples.push(world.sample().await);
        if round == 6 * 22 {
            // The first replica, which leads, goes away in the middle of a rotation.
            assert_eq!(world.trusted().await.len(), 2, "both CAs are trusted");
            world.replicas.lock().retain(|other| !Arc::ptr_eq(other, &server));
            first.take().expect("runs").abort();
        }
    }
    let issuers: BTreeSet<&String> = samples.iter().map(|sample| &sample.issuer).collect();
    assert!(issuers.len() >= 3, "{issuers:?}");
    let most = samples.iter().map(|sample| sample.trusted.len()).max();
    assert_eq!(most, Some(2), "the old and the new one");
    // An API server may be late by almost the time of propagation, and a replica by almost the
    // overlap: it trusts what was trusted then, and serves what the Secret contained then.
    let within = |time: Duration| usize::try_from(time.as_secs() / SAMPLE.as_secs()).expect("few");
    for (at, now) in samples.iter().enumerate() {
        let late = at.saturating_sub(within(TIMES.propagation) - 1)..=at;
        assert!(samples[late].iter().all(|then| then.trusted.contains(&now.issuer)), "at {at}");
        let late = at.saturating_sub(within(TIMES.overlap) - 1)..=at;
        assert!(samples[late].iter().all(|then| now.trusted.contains(&then.issuer)), "at {at}");
    }
    second.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn clocks_of_api_servers_may_be_behind_or_ahead() {
    for ahead in [-50, 2] {
        let world = World::with_clock(ahead).await;
        let (running, _) = world.start("first");
        tokio::time::sleep(MINUTE).await;
        // Long enough for the certificate to be replaced.
        world.write_for(16 * MINUTE).await;
        running.stop().await.expect("stops");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_secret_is_restored_as_it_was() {
    let world = World::new("Fail").await;
    let (running, _) = world.start("only");
    tokio::time::sleep(MINUTE).await;
    let before = world.secret().await.expect("made");
    world.client.api::<Secret>().delete(&world.names().secret).await.expect("deleted");
    assert!(world.secret().await.is_none());
    world.write_for(MINUTE).await;
    let after = world.secret().await.expect("restored");
    assert_eq!(before.data, after.data);
    assert_ne!(before.metadata.uid, after.metadata.uid);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_secret_a_new_leader_starts_again_and_cleans_up() {
    let world = World::new("Fail").await;
    let foreign = authority("somebody else", Clock::default().now(), 10 * MINUTE).expect("made");
    world.trust_also(&foreign.certificate).await;
    let (running, _) = world.start("first");
    tokio::time::sleep(MINUTE).await;
    assert_eq!(world.trusted().await.len(), 2, "that of somebody else, and ours");
    running.stop().await.expect("stops");
    world.client.api::<Secret>().delete(&world.names().secret).await.expect("deleted");
    let (running, _) = world.start("second");
    tokio::time::sleep(MINUTE).await;
    assert_eq!(world.trusted().await.len(), 3, "the lost one may still be served");
    world.write().await.expect("served with the new one");
    tokio::time::sleep(TIMES.overlap).await;
    let left: Vec<_> = world.trusted().await.into_iter().map(|ca| ca.organization).collect();
    assert_eq!(left, ["somebody else", "windlass ops/map-operator-webhook-server-cert"]);
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_damaged_secret_is_repaired_and_one_of_somebody_else_is_left_alone() {
    let world = World::new("Fail").await;
    let (running, _) = world.start("only");
    tokio::time::sleep(MINUTE).await;
    let before = world.secret().await.expect("made");
    let mut damaged = Secret::clone(&before);
    damaged.data.as_mut().expect("has data").insert("tls.key".into(), Default::default());
    world.client.api().update(&damaged).await.expect("updated");
    world.write_for(MINUTE).await;
    assert_eq!(world.secret().await.expect("exists").data, before.data);

    let mut foreign = Secret::clone(&world.secret().await.expect("exists"));
    foreign.metadata.labels = None;
    foreign.data.as_mut().expect("has data").insert("tls.key".into(), Default::default());
    world.client.api().update(&foreign).await.expect("updated");
    world.write_for(MINUTE).await;
    let kept = world.secret().await.expect("exists");
    assert_eq!(kept.data, foreign.data);
    running.stop().await.expect("stops");
}

impl World {
    /// Changes the content of the Secret.
    async fn tamper(&self, changes: &[(&str, &str)]) {
        let mut secret = Secret::clone(&self.secret().await.expect("made"));
        for (name, text) in changes {
            let bytes = k8s_openapi::ByteString(text.as_bytes().to_vec());
            secret.data.as_mut().expect("has data").insert((*name).into(), bytes);
        }
        self.client.api().update(&secret).await.expect("updated");
    }

    /// The CA in the Secret.
    async fn authority(&self) -> Pair {
        let secret = self.secret().await.expect("made");
        let data = secret.data.as_ref().expect("has data");
        let text = |name: &str| String::from_utf8(data[name].0.clone()).expect("PEM");
        Pair { certificate: text("ca.crt"), key: text("ca.key") }
    }
}

#[tokio::test(start_paused = true)]
async fn a_ca_whose_key_is_lost_is_replaced_without_a_failed_request() {
    let other = authority("other", Clock::default().now(), 10 * MINUTE).expect("made");
    for key in ["", "not a key", &other.key] {
        let world = World::new("Fail").await;
        let (running, _) = world.start("only");
        tokio::time::sleep(MINUTE).await;
        let before = world.authority().await;
        world.tamper(&[("ca.key", key)]).await;
        // Longer than the leaf lives.
        world.write_for(20 * MINUTE).await;
        assert_ne!(world.authority().await.certificate, before.certificate);
        running.stop().await.expect("stops");
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_for_other_names_is_replaced_at_once() {
    let world = World::new("Fail").await;
    let (running, _) = world.start("only");
    tokio::time::sleep(MINUTE).await;
    let ca = world.authority().await;
    let host = format!("{}.ops.svc", world.model.webhook_service());
    for hosts in [vec!["other.ops.svc".to_owned()], vec![host.clone()]] {
        let pair = leaf(&ca, &hosts, Clock::default().now(), 10 * MINUTE).expect("made");
        world.tamper(&[("tls.crt", &pair.certificate), ("tls.key", &pair.key)]).await;
        tokio::time::sleep(MINUTE).await;
        let served =
            issue::read(&String::from_utf8(leaf_of(&world.secret().await.unwrap())).unwrap());
        assert_eq!(served[0].hosts[0], host);
        assert!(served[0].hosts.len() > 1, "{hosts:?} were kept");
        world.write_for(MINUTE).await;
    }
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_somebody_else_is_not_served() {
    let world = World::new("Fail").await;
    let names = world.names();
    let now = Clock::default().now();
    let ca = authority("somebody else", now, 60 * MINUTE).expect("made");
    let pair = leaf(&ca, &names.hosts(), now, 60 * MINUTE).expect("made");
    let mut secret = Secret::default();
    secret.metadata.name = Some(names.secret.name().to_owned());
    secret.metadata.namespace = Some("ops".into());
    let bytes = |text: &str| k8s_openapi::ByteString(text.as_bytes().to_vec());
    let data = [("tls.crt", &pair.certificate), ("tls.key", &pair.key)];
    secret.data = Some(data.map(|(name, text)| (name.to_owned(), bytes(text))).into());
    world.client.api().create(&secret).await.expect("created");
    world.trust_also(&ca.certificate).await;
    let (running, _) = world.start("only");
    tokio::time::sleep(MINUTE).await;
    assert!(world.write().await.is_err(), "the certificate of somebody else is served");
    world.client.api::<Secret>().delete(&names.secret).await.expect("deleted");
    tokio::time::sleep(MINUTE).await;
    world.write().await.expect("served with a certificate of its own");
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_stale_certificate_and_a_refused_connection_are_failures_of_the_webhook() {
    for (policy, fails) in [("Fail", true), ("Ignore", false)] {
        let world = World::new(policy).await;
        let refused = world.write().await;
        assert_eq!(refused.is_err(), fails);
        if let Err(error) = refused {
            assert!(error.to_string().contains("connect: connection refused"), "{error}");
        }
        let now = Clock::default().now();
        let ca = authority("ours", now, 60 * MINUTE).expect("made");
        let hosts = [format!("{}.ops.svc", world.model.webhook_service())];
        let pair = leaf(&ca, &hosts, now, 10 * MINUTE).expect("made");
        let tls = Tls::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes());
        world.serve(tls.expect("usable"));
        world.trust_also(&ca.certificate).await;
        world.write().await.expect("valid now");
        tokio::time::sleep(11 * MINUTE).await;
        let stale = world.write().await;
        assert_eq!(stale.is_err(), fails);
        if let Err(error) = stale {
            assert!(error.to_string().contains("x509: certificate has expired"), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_served_and_the_pod_is_not_ready_before_a_certificate_is_loaded() {
    let world = World::new("Fail").await;
    let tls = Tls::empty().expect("made");
    world.serve(tls.clone());
    let now = Clock::default().now();
    assert!(check_served(tls.served().as_deref(), now).is_err());
    assert!(world.write().await.is_err());
    let ca = authority("ours", now, 60 * MINUTE).expect("made");
    let hosts = [format!("{}.ops.svc", world.model.webhook_service())];
    let pair = leaf(&ca, &hosts, now, 10 * MINUTE).expect("made");
    tls.load(pair.certificate.as_bytes(), pair.key.as_bytes()).expect("usable");
    world.trust_also(&ca.certificate).await;
    world.write().await.expect("served");
    check_served(tls.served().as_deref(), now).expect("valid");
    let late = now.saturating_add(11 * MINUTE).expect("in range");
    let error = check_served(tls.served().as_deref(), late).expect_err("expired").to_string();
    assert!(error.starts_with("the certificate expired at "), "{error}");
    tls.load(b"", b"").expect_err("not a certificate");
    check_served(tls.served().as_deref(), now).expect("the previous one is kept");
}

#[test]
fn keys_do_not_appear_in_debug_output() {
    let now = "2026-01-01T00:00:00Z".parse().expect("a time");
    let pair = authority("ours", now, MINUTE).expect("made");
    assert!(pair.key.contains("PRIVATE KEY"));
    assert_eq!(format!("{pair:?}"), "Pair");
}
