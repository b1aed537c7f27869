//! The operator's process, under its own service account.

use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::mpsc::Sender;

use super::view::Record;
use crate::failure::Failure;
use crate::process::Process;
use crate::program::Program;
use crate::run::free_probe_port;
use crate::tether;
use crate::text::explain;

/// How long the operator may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A token outlives every development session.
const TOKEN_SECONDS: i64 = 365 * 24 * 3600;

/// The longest line of the log that is read in one piece.
const LINE_MAX: u64 = 64 << 10;

/// The log level, unless the user sets another one.
const LEVEL: &str = "info,kube_client=off";

/// What the view of reconciles and their causes is made of.
const TRACED: &str = "windlass::controller::worker=trace,windlass::controller::event_handler=trace";

/// Who the operator is in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The namespace of the service account.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A running operator.
pub struct Operator {
    process: Process,
}

// === impl Account ===

impl Account {
    /// The service account among the objects about access.
    pub fn of(access: &[Value]) -> Result<Self, Failure> {
        let account = access.iter().find(|object| object["kind"] == "ServiceAccount");
        let text = |field: &str| account.and_then(|one| one["metadata"][field].as_str());
        match (text("namespace"), text("name")) {
            (Some(namespace), Some(name)) => {
                Ok(Self { namespace: namespace.into(), name: name.into() })
            }
            _ => Err(Failure::other("the operator's `rbac` prints no service account")),
        }
    }

    /// The user that requests of the account come from.
    pub fn user(&self) -> String {
        windlass_apiserver::auth::service_account_name(&self.namespace, &self.name)
    }

    /// A new token of the account.
    pub async fn token(&self, client: &kube::Client) -> Result<String, Failure> {
        let api: Api<ServiceAccount> = Api::namespaced(client.clone(), &self.namespace);
        let spec = TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let made = api.create_token_request(&self.name, &PostParams::default(), &request).await;
        let made = made.map_err(|error| Failure::other(explain(&error)))?;
        made.status
            .and_then(|status| status.token)
            .ok_or_else(|| Failure::other("the API server returned no token"))
    }
}

// === impl Operator ===

impl Operator {
    /// Starts the operator; its output becomes records.
    pub fn start(
        program: &Program,
        args: &[String],
        kubeconfig: &std::path::Path,
        records: &Sender<Record>,
    ) -> Result<Self, Failure> {
        let mut command = tether::command(program.path().as_os_str());
        command.arg("run").args(args).env("KUBECONFIG", kubeconfig).env("LOG_FORMAT", "json");
        let chosen = |name: &str| std::env::var(name).ok().filter(|level| !level.is_empty());
        let level = chosen("LOG_LEVEL").or_else(|| chosen("RUST_LOG"));
        command.env("LOG_LEVEL", format!("{},{TRACED}", level.as_deref().unwrap_or(LEVEL)));
        free_probe_port(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn(&mut command).map_err(|error| {
            Failure::other(format!("cannot run {}: {error}", program.path().display()))
        })?;
        if let Some(output) = process.stdout() {
            tokio::spawn(forward(output, records.clone()));
        }
        if let Some(output) = process.stderr() {
            tokio::spawn(forward(output, records.clone()));
        }
        Ok(Self { process })
    }

    /// The process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Waits for its end; returns how it ended.
    pub async fn ended(&mut self) -> String {
        match self.process.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Ends it.
    pub async fn stop(mut self) {
        self.process.stop(GRACE).await;
    }
}

/// Sends the lines of an output as records, until its end.
async fn forward(output: impl AsyncRead + Unpin, records: Sender<Record>) {
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if records.send(Record::Output(text)).await.is_err() {
                    return;
                }
            }
        }
    }
}
