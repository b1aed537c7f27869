//! `windlass dev`: an embedded cluster whose state stays, and this project's operator on it, rebuilt
//! and restarted on change.
//!
//! One process is the cluster, another one the operator, as in production: a crash of the operator
//! leaves the cluster alone. [`session`] builds, installs and restarts; [`view`] prints what happens.

mod history;
mod operator;
mod operator_log;
mod rights;
mod session;
pub mod sources;
mod view;
mod webhooks;

use std::fs;

use clap::Args;
use tokio::sync::mpsc;

use crate::cluster::{ClusterArgs, Running, block_on};
use crate::failure::Failure;
use crate::private_file::{create_private_dir, write_private};
use crate::project::{Project, ProjectArgs};
use crate::signals::Signals;
use session::Session;
use view::{Record, View};

/// How many records may wait to be shown; the rest is counted.
const RECORDS_MAX: usize = 10_000;

/// How to develop.
#[derive(Args)]
pub struct DevArgs {
    #[command(flatten)]
    project: ProjectArgs,

    /// Forget the state of the cluster and start with an empty one.
    #[arg(long)]
    fresh: bool,

    /// Simulate this many nodes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: usize,

    /// Flags of the operator.
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

/// Runs until a signal.
pub fn run(args: DevArgs) -> Result<(), Failure> {
    block_on(develop(args))
}

async fn develop(args: DevArgs) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let project = Project::find(&args.project).await?;
    let state = project.state();
    create_private_dir(&state)?;
    let data = state.join("data");
    if args.fresh {
        forget(&data)?;
    }
    let cluster_args = ClusterArgs::embedded(Some(data), args.nodes);
    let running = Running::start(&cluster_args).await?;
    let kubeconfig = state.join("kubeconfig");
    write_private(&kubeconfig, &running.kubeconfig)?;

    let (records, received) = mpsc::channel(RECORDS_MAX);
    let mut view = View::to_stdout(running.server.clone());
    view.header(&running.url, &kubeconfig);
    let sink = records.clone();
    running.server.request_log().set_sink(Box::new(move |entry| {
        if entry.written.is_some() || entry.code == 403 {
            // A view that is too slow must not stop the cluster.
            let _ = sink.try_send(Record::Request(Box::new(entry.clone())));
        }
    }));
    let shown = tokio::spawn(view.run(received));

    let mut session = Session::new(project, &running, records, args.args);
    let ended = tokio::select! {
        biased;
        () = signals.wait() => Ok(()),
        failed = session.run() => failed.map(|never| match never {}),
    };
    session.stop().await;
    let _ = fs::remove_file(&kubeconfig);
    running.server.request_log().set_sink(Box::new(|_| {}));
    drop(session);
    let _ = shown.await;
    running.stop().await?;
    ended
}

/// Removes the state of a cluster that does not run.
fn forget(data: &std::path::Path) -> Result<(), Failure> {
    // Opening it fails while another process uses it.
    drop(windlass_apiserver::store::Journal::open(data).map_err(|error| Failure::of(&error))?);
    fs::remove_dir_all(data)
        .map_err(|error| Failure::other(format!("cannot remove {}: {error}", data.display())))
}
