//! Certificates over streams of this process, in virtual time.

use std::collections::BTreeSet;
use std::io::{Error as IoError, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass_apiserver::fault::Fault;
use windlass_apiserver::{ApiServer, Options, Status};
use windlass_manifests::model;

use super::issue::Pair;
use super::keeper::Names;
use super::*;
use crate::cache::Key;
use crate::clock::Clock;
use crate::kind::Kind;
use crate::lease::LeaseOptions;
use crate::manager::{Manager, Running};
use crate::serve::{Busy, Pages, Server};
use crate::webhook::{Findings, Webhook, Webhooks};

mod clients;

const MINUTE: Duration = Duration::from_secs(60);

/// How many clients write at the same time.
const WRITERS: usize = 8;
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
        let mut model = Model::new("map-operator");
        model.namespace = "ops".into();
        model.webhooks.extend(webhooks(policy).entries().cloned());
        model.apis.push(model::Api::new(definition(&model.webhook_service())));
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("ops".into());
        client.api().create(&namespace).await.expect("created");
        for configuration in model.webhook_configurations() {
            let kind = configuration["kind"].as_str().expect("a kind");
            create(&client, &Target::configuration(kind, "").kind, &configuration).await;
        }
        create(&client, &Target::definition("").kind, &model.apis[0].definition).await;
        let lamp = json!({"apiVersion": "example.com/v2", "kind": "Lamp",
            "metadata": {"name": "a", "namespace": "default"}, "spec": {"watts": 60}});
        create(&client, &lamps("v2"), &lamp).await;
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
        let pages = Pages::Webhooks(webhooks("Fail"));
        let server = Arc::new(Server::new("webhook", "", pages).secure(Some(tls), None));
        self.replicas.lock().push(server.clone());
        server
    }

    /// Starts a replica of the operator, which may lead.
    fn start(&self, replica: &str) -> (Running, Arc<Server>) {
        let (running, server, _) = self.start_published(replica);
        (running, server)
    }

    /// The same, and whether its CA is published.
    fn start_published(&self, replica: &str) -> (Running, Arc<Server>, Published) {
        let serving = managed(self.names(), TIMES, &self.client).expect("prepared");
        let Serving { tls, published, tasks } = serving;
        let lease = LeaseOptions::new("map-operator").namespace("ops");
        let mut manager = Manager::new(self.server.client()).replica(replica).lease(lease);
        for task in tasks {
            manager = match task.leader {
                true => manager.runnable(task.name, task.run),
                false => manager.runnable_everywhere(task.name, task.run),
            };
        }
        (manager.spawn().expect("starts"), self.serve(tls), published)
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

    /// Reads a lamp, which is stored as v2, in the version v1.
    async fn read_converted(&self) -> Result<()> {
        let lamps = self.client.api_of::<DynamicObject>(&lamps("v1")).list().items().await?;
        assert_eq!(lamps.len(), 1);
        assert_eq!(lamps[0].types.as_ref().expect("has types").api_version, "example.com/v1");
        Ok(())
    }

    /// Every ten seconds, a client writes and one reads what has to be converted. Fails at the first
    /// request that fails.
    async fn write_for(&self, time: Duration) {
        self.load_for(time, 1).await;
    }

    /// The same with several clients at a time. Each call of a webhook is a connection of its own.
    async fn load_for(&self, time: Duration, writers: usize) {
        let end = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < end {
            let writes = futures::future::join_all((0..writers).map(|_| self.write()));
            let (written, read) = tokio::join!(writes, self.read_converted());
            for done in written.into_iter().map(|write| write.map(drop)).chain([read]) {
                if let Err(error) = done {
                    panic!("{}: {}", Clock::default().now(), error.chain());
                }
            }
            tokio::time::sleep(SAMPLE).await;
        }
    }

    /// An object that names the webhooks.
    async fn target(&self, target: &Target) -> Value {
        let api = self.client.api_of::<DynamicObject>(&target.kind);
        let found = api.get(&Key::cluster(&target.name)).await.expect("answered");
        found.expect("exists").data.clone()
    }

    /// The CAs that the API server trusts in each place.
    async fn bundles(&self) -> Vec<Vec<issue::Certificate>> {
        let mut all = Vec::new();
        for target in &self.names().targets {
            for (_, config) in bundle::entries(&self.target(target).await) {
                let text = config["caBundle"].as_str().unwrap_or_default();
                let pem = STANDARD.decode(text).expect("base64");
                all.push(issue::read(&String::from_utf8(pem).expect("PEM")));
            }
        }
        assert_eq!(all.len(), 3, "a mutating and a validating webhook, and one for conversion");
        all
    }

    /// The CAs that the API server trusts when it validates.
    async fn trusted(&self) -> Vec<issue::Certificate> {
        self.bundles().await.remove(1)
    }

    async fn trust_also(&self, pem: &str) {
        let value = STANDARD.encode(pem);
        for target in &self.names().targets {
            let found = self.target(target).await;
            let add = bundle::entries(&found).into_iter().map(|(path, _)| {
                json!({"op": "add", "path": format!("{path}/caBundle"), "value": value})
            });
            let patch = crate::client::Patch::Json(add.collect());
            let api = self.client.api_of::<DynamicObject>(&target.kind);
            api.patch(&Key::cluster(&target.name), &patch).await.expect("patched");
        }
    }
}

/// A mutating and a validating webhook, and a conversion that changes the version.
fn webhooks(policy: &'static str) -> Webhooks {
    let webhook = Webhook::<ConfigMap>::new()
        .default(|request| async { Ok(request.object) })
        .validate(|_| async { Ok(Findings::new()) })
        .settings(move |entry| entry.failure_policy = Some(policy.into()));
    Webhooks::new().add(webhook).convert(|review| {
        let request = &review["request"];
        let mut objects = request["objects"].clone();
        for object in objects.as_array_mut().into_iter().flatten() {
            object["apiVersion"] = request["desiredAPIVersion"].clone();
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": request["uid"], "result": {"status": "Success"},
                "convertedObjects": objects},
        })
    })
}

/// A kind with two versions.
fn definition(service: &str) -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {
                "watts": {"type": "integer"}}}}}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Lamp", "plural": "lamps"},
            "versions": [version("v1", false), version("v2", true)],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {
                    "namespace": "ops", "name": service, "path": "/convert", "port": 443}}}},
        },
    })
}

fn lamps(version: &str) -> Kind {
    Kind::new("example.com", version, "Lamp", "lamps")
}

async fn create(client: &Client, kind: &Kind, object: &Value) {
    let object: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    client.api_of::<DynamicObject>(kind).create(&object).await.expect("created");
}

fn leaf_of(secret: &Secret) -> Vec<u8> {
    secret.data.as_ref().expect("has data")["tls.crt"].0.clone()
}

/// What was served and trusted at one moment.
struct Sample {
    /// The CA of the leaf in the Secret.
    issuer: String,
    /// The CAs that every bundle has.
    trusted: BTreeSet<String>,
}

impl World {
    async fn sample(&self) -> Sample {
        let secret = self.secret().await.expect("exists");
        let leaf = String::from_utf8(leaf_of(&secret)).expect("PEM");
        let issuer = issue::read(&leaf).remove(0).issuer;
        let subjects = |bundle: Vec<issue::Certificate>| -> BTreeSet<String> {
            bundle.into_iter().map(|ca| ca.subject).collect()
        };
        let everywhere = self.bundles().await.into_iter().map(subjects);
        let trusted = everywhere.reduce(|one, other| &one & &other).expect("has bundles");
        Sample { issuer, trusted }
    }
}

#[tokio::test(start_paused = true)]
async fn certificates_rotate_under_load_without_a_failed_request() {
    let world = World::new("Fail").await;
    let (first, server) = world.start("first");
    tokio::time::sleep(MINUTE).await; // so that it leads
    let (second, survivor) = world.start("second");
    tokio::time::sleep(MINUTE).await;
    let mut kept = clients::Kept::open(&world, survivor).await;
    let mut first = Some(first);
    let mut samples = Vec::new();
    for round in 0..6 * 60 {
        world.load_for(SAMPLE, if round % 6 == 0 { WRITERS } else { 1 }).await;
        kept.review().await;
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
async fn a_leader_is_not_ready_before_it_has_published_its_ca() {
    let world = World::new("Fail").await;
    world.server.inject(Some(Box::new(|info| {
        let refused = info.verb == "patch" && info.resource == "customresourcedefinitions";
        let fail = refused.then(|| Status::internal("not today"));
        Fault { fail, ..Fault::default() }
    })));
    let (first, _, leads) = world.start_published("first");
    tokio::time::sleep(MINUTE).await;
    let (second, _, follows) = world.start_published("second");
    tokio::time::sleep(MINUTE).await;
    let why = leads.check().expect_err("one bundle is missing").to_string();
    assert!(why.starts_with("the CA of the webhooks is not published: "), "{why}");
    assert!(why.contains("not today"), "{why}");
    follows.check().expect("the leader publishes it");
    world.server.inject(None);
    tokio::time::sleep(SAMPLE).await;
    world.write_for(MINUTE).await;
    leads.check().expect("published");
    // An API server that fails later changes nothing about what is published.
    world.server.inject(Some(Box::new(|info| {
        let fail = (info.resource == "secrets").then(|| Status::internal("not today"));
        Fault { fail, ..Fault::default() }
    })));
    world.write_for(MINUTE).await;
    leads.check().expect("still published");
    world.server.inject(None);
    first.stop().await.expect("stops");
    leads.check().expect("it leads no longer");
    second.stop().await.expect("stops");
}

/// Removes all bundles, and waits until they are published again.
async fn bundles_heal_within(world: &World, time: Duration) {
    world.trust_also("").await;
    tokio::time::sleep(time).await;
    assert!(world.bundles().await.iter().all(|bundle| bundle.len() == 1), "within {time:?}");
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_somebody_removes_is_published_again_at_once() {
    let world = World::new("Fail").await;
    let (running, _) = world.start("only");
    tokio::time::sleep(MINUTE).await;
    world.write_for(SAMPLE).await;
    for _ in 0..3 {
        bundles_heal_within(&world, Duration::from_secs(2)).await;
    }
    world.write_for(MINUTE).await;
    running.stop().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_bundle_is_published_again_although_no_watch_works() {
    let world = World::new("Fail").await;
    world.server.inject(Some(Box::new(|info| {
        let names_webhooks = !info.resource.is_empty() && info.resource != "leases";
        let watched = info.verb == "watch" || info.verb == "list";
        let fail = (watched && names_webhooks).then(|| Status::internal("not today"));
        Fault { fail, ..Fault::default() }
    })));
    let (running, _) = world.start("only");
    tokio::time::sleep(MINUTE).await;
    bundles_heal_within(&world, TIMES.check + SAMPLE).await;
    world.write().await.expect("served and trusted");
    running.stop().await.expect("stops");
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
