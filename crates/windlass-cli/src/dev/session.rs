//! Builds, installs and restarts the operator as its files change.
//!
//! **Invariant:** an operator runs until the next one is built and its definitions and roles are
//! installed: a typo never stops it.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;
use windlass::manifests::rbac::Rule;
use windlass_apiserver::{User, pki};

use super::operator::{Account, Operator};
use super::sources::Sources;
use super::view::{Record, Tag};
use super::webhooks::Webhooks;
use crate::builder::{BuildError, Built, build};
use crate::cluster::Running;
use crate::failure::Failure;
use crate::objects::{FIELD_MANAGER, Objects, Outcome, builtin, reference};
use crate::private_file::write_private;
use crate::program::{Installation, Program};
use crate::project::Project;

/// The user of everything that this command applies.
pub const USER: &str = "windlass";

/// The pause before an operator that has ended is started again; it doubles up to the maximum.
const RESTART: Duration = Duration::from_secs(1);
const RESTART_MAX: Duration = Duration::from_secs(30);

/// How long samples wait for the webhooks of the operator, and how often they are looked for.
const WEBHOOKS_MAX: Duration = Duration::from_secs(10);
const WEBHOOKS_EVERY: Duration = Duration::from_millis(50);

/// An operator that ran for this long starts again after the shortest pause.
const STABLE: Duration = Duration::from_secs(60);

/// One session of development.
pub struct Session {
    project: Project,
    sources: Sources,
    client: kube::Client,
    objects: Objects,
    records: Sender<Record>,
    args: Vec<String>,
    /// What a kubeconfig of the cluster is made of.
    server: String,
    ca: String,
    /// The newest binary that was installed.
    built: Option<Built>,
    builds: usize,
    account: Option<Account>,
    webhooks: Webhooks,
    operator: Option<Operator>,
    started: Instant,
    pause: Duration,
}

// === impl Session ===

impl Session {
    /// Prepares a session on a cluster; [`run`](Self::run) starts it.
    pub fn new(
        project: Project,
        running: &Running,
        records: Sender<Record>,
        args: Vec<String>,
    ) -> Self {
        let client = running.server.client_as(User::admin(USER));
        Self {
            sources: Sources::new(&project),
            project,
            objects: Objects::new(client.clone()).keep_local_conversion(true),
            client,
            records,
            args,
            server: running.url.clone(),
            ca: running.ca.clone(),
            built: None,
            builds: 0,
            account: None,
            webhooks: Webhooks::default(),
            operator: None,
            started: Instant::now(),
            pause: RESTART,
        }
    }

    /// Builds and runs the operator, over and over.
    ///
    /// # Errors
    ///
    /// If cargo cannot be run. Whatever else goes wrong is shown, and the next change tries again.
    pub async fn run(&mut self) -> Result<Infallible, Failure> {
        let files = self.sources.count();
        self.say(Tag::Build, format!("watching {files} files")).await;
        self.rebuild(Instant::now()).await?;
        loop {
            let running = self.operator.is_some();
            tokio::select! {
                biased;
                changes = self.sources.changed() => {
                    let changed = Instant::now();
                    if changes.code {
                        self.rebuild(changed).await?;
                    }
                    if self.built.is_some() {
                        self.apply_samples(&changes.samples).await;
                    }
                }
                how = ended(&mut self.operator), if running => {
                    self.operator = None;
                    if self.started.elapsed() > STABLE {
                        self.pause = RESTART;
                    }
                    let seconds = self.pause.as_secs();
                    let text = format!("ended ({how}); it is started again in {seconds} s");
                    self.say(Tag::Error, text).await;
                }
                () = tokio::time::sleep(self.pause), if !running && self.built.is_some() => {
                    self.pause = (self.pause * 2).min(RESTART_MAX);
                    self.restart(None).await;
                }
            }
        }
    }

    /// Ends the operator.
    pub async fn stop(&mut self) {
        if let Some(operator) = self.operator.take() {
            operator.stop().await;
        }
    }

    /// Builds the newest state of the files, and replaces the operator if its binary changed.
    async fn rebuild(&mut self, changed: Instant) -> Result<(), Failure> {
        let start = Instant::now();
        let built = match self.build_newest().await {
            Ok(built) => built,
            Err(BuildError::Cargo(failure)) => return Err(failure),
            Err(BuildError::Code) => {
                let text = match self.operator {
                    Some(_) => "failed; the previous operator keeps running",
                    None => "failed; waiting for a change",
                };
                self.say(Tag::Error, format!("build {text}")).await;
                return Ok(());
            }
        };
        if self.built.as_ref() == Some(&built) {
            return Ok(());
        }
        let first = self.built.is_none();
        let program = Program::new(built.executable.clone());
        if let Err(failure) = self.install(&program).await {
            let text = match self.operator {
                Some(_) => "; the previous operator keeps running",
                None => "; waiting for a change",
            };
            self.say(Tag::Error, format!("{failure}{text}")).await;
            return Ok(());
        }
        self.builds += 1;
        let (number, took) = (self.builds, start.elapsed().as_secs_f64());
        self.say(Tag::Build, format!("build {number} took {took:.1} s")).await;
        self.built = Some(built);
        self.pause = RESTART;
        self.restart(Some(changed)).await;
        if first {
            self.wait_for_webhooks().await;
            self.apply_samples(&self.sources.samples()).await;
        }
        Ok(())
    }

    /// Builds; a newer change of the code begins anew.
    async fn build_newest(&mut self) -> Result<Built, BuildError> {
        let mut samples = Vec::new();
        let built = 'newest: loop {
            let mut building = pin!(build(&self.project));
            loop {
                tokio::select! {
                    biased;
                    built = &mut building => break 'newest built,
                    changes = self.sources.changed() => {
                        samples.extend(changes.samples);
                        if changes.code {
                            break;
                        }
                    }
                }
            }
        };
        if self.built.is_some() {
            self.apply_samples(&samples).await;
        }
        built
    }

    /// Installs the definitions and the roles of a program.
    async fn install(&mut self, program: &Program) -> Result<(), Failure> {
        let definitions = program.definitions().await?;
        let mut access = program.access().await?;
        let account = Account::of(&access)?;
        let installation = program.installation(&Installation::default()).await?;
        let mut webhooks = Webhooks::of(&installation, &definitions);
        access.extend(webhooks.access(&account));
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": account.namespace},
        });
        // One that exists may have labels of its own.
        if self.objects.get(&namespace).await?.is_none() {
            self.apply(&namespace).await?;
        }
        for definition in definitions {
            self.apply(&definition).await?;
        }
        if self.operator.is_none() {
            webhooks.prepare(&mut self.objects).await?;
        }
        let mut changed = 0;
        for object in &access {
            changed += usize::from(self.objects.apply(object).await? != Outcome::Unchanged);
        }
        if changed > 0 {
            let text = format!("{changed} objects that give {} its rights", account.user());
            self.say(Tag::Apply, text).await;
        }
        self.remove_old_bindings(&account, &access).await?;
        let rules = access.iter().filter_map(|object| object["rules"].as_array()).flatten();
        let rules: Vec<Rule> =
            rules.filter_map(|rule| serde_json::from_value(rule.clone()).ok()).collect();
        let _ = self.records.send(Record::Access { user: account.user(), rules }).await;
        (self.account, self.webhooks) = (Some(account), webhooks);
        Ok(())
    }

    /// Removes bindings that an earlier build had: the operator has exactly the rights of this one.
    async fn remove_old_bindings(
        &mut self,
        account: &Account,
        access: &[Value],
    ) -> Result<(), Failure> {
        let group = "rbac.authorization.k8s.io";
        let kinds =
            [("ClusterRoleBinding", "clusterrolebindings"), ("RoleBinding", "rolebindings")];
        for (kind, plural) in kinds {
            let found = self.objects.list(&builtin(group, "v1", kind, plural), None, "").await?;
            for binding in found {
                let wanted = access.iter().any(|object| {
                    let same =
                        |field: &str| object["metadata"][field] == binding["metadata"][field];
                    object["kind"] == kind && same("name") && same("namespace")
                });
                if !wanted && account.is_bound_by(&binding) && is_ours(&binding) {
                    self.objects.delete(&binding).await?;
                    self.say(Tag::Apply, format!("{} deleted", reference(&binding))).await;
                }
            }
        }
        Ok(())
    }

    /// Ends the operator that runs and starts the newest one.
    async fn restart(&mut self, changed: Option<Instant>) {
        self.stop().await;
        if let Err(failure) = self.start(changed).await {
            self.say(Tag::Error, failure.to_string()).await;
        }
    }

    async fn start(&mut self, changed: Option<Instant>) -> Result<(), Failure> {
        let (Some(built), Some(account)) = (&self.built, &self.account) else { return Ok(()) };
        let kubeconfig = self.project.state().join("operator.kubeconfig");
        let token = account.token(&self.client).await?;
        write_private(&kubeconfig, &pki::kubeconfig(&self.server, Some(&self.ca), &token, None))?;
        let program = Program::new(built.executable.clone());
        let operator = Operator::start(&program, &self.args, &kubeconfig, &self.records)?;
        let build = self.builds;
        let id = operator.id().unwrap_or_default();
        self.operator = Some(operator);
        self.started = Instant::now();
        let _ = self.records.send(Record::Started { build, changed }).await;
        self.say(Tag::Operator, format!("build {build} runs as process {id}")).await;
        Ok(())
    }

    /// Waits until the cluster calls the webhooks of the operator, so that samples pass them.
    async fn wait_for_webhooks(&mut self) {
        let start = Instant::now();
        while self.operator.is_some() && start.elapsed() < WEBHOOKS_MAX {
            if self.webhooks.installed(&mut self.objects).await.unwrap_or(false) {
                return;
            }
            let ended = ended(&mut self.operator);
            if tokio::time::timeout(WEBHOOKS_EVERY, ended).await.is_ok() {
                return;
            }
        }
    }

    /// Applies what is in some samples; a sample that is wrong is shown and left out.
    async fn apply_samples(&mut self, files: &[PathBuf]) {
        for file in files {
            if let Err(failure) = self.apply_sample(file).await {
                let shown = file.strip_prefix(&self.project.root).unwrap_or(file).display();
                self.say(Tag::Error, format!("{shown}: {failure}")).await;
            }
        }
    }

    async fn apply_sample(&mut self, file: &Path) -> Result<(), Failure> {
        let text = tokio::fs::read_to_string(file).await.map_err(|error| Failure::of(&error))?;
        for object in windlass_manifests::yaml::read(&text).map_err(Failure::other)? {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            // The list of the samples, for kustomize.
            if !version.starts_with("kustomize.config.k8s.io/") {
                self.apply(&object).await?;
            }
        }
        Ok(())
    }

    async fn apply(&mut self, object: &Value) -> Result<(), Failure> {
        let outcome = self.objects.apply(object).await?;
        if outcome != Outcome::Unchanged {
            self.say(Tag::Apply, format!("{} {}", reference(object), outcome.word())).await;
        }
        Ok(())
    }

    async fn say(&self, tag: Tag, text: String) {
        let _ = self.records.send(Record::Line(tag, text)).await;
    }
}

// === impl Account ===

impl Account {
    fn is_bound_by(&self, binding: &Value) -> bool {
        binding["subjects"].as_array().into_iter().flatten().any(|subject| {
            subject["kind"] == "ServiceAccount"
                && subject["name"] == self.name
                && subject["namespace"] == self.namespace
        })
    }
}

/// Returns `true` if this command applied the object.
fn is_ours(object: &Value) -> bool {
    let managed = object["metadata"]["managedFields"].as_array();
    managed.into_iter().flatten().any(|fields| fields["manager"] == FIELD_MANAGER)
}

/// Waits for the end of the operator, if there is one.
async fn ended(operator: &mut Option<Operator>) -> String {
    match operator {
        Some(operator) => operator.ended().await,
        None => std::future::pending().await,
    }
}
