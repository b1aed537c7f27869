//! `windlass demo`: the Memcached operator on an embedded cluster, from nothing.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::CustomResourceExt;
use memcached_operator::{Memcached, MemcachedSpec};
use serde_json::json;
use windlass::client::Patch;
use windlass::{Client, Key, Manager, condition};
use windlass_cluster::Cluster;

use crate::cluster::{ClusterArgs, Running, block_on};
use crate::failure::Failure;
use crate::private_file::{check_writable, write_private};
use crate::signals::Signals;

const NAME: &str = "memcached-sample";
/// Nothing in the tour takes this long unless something is broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// How to show the tour.
#[derive(Args)]
pub struct DemoArgs {
    /// End after the tour instead of staying up.
    #[arg(long)]
    once: bool,

    /// Write the kubeconfig here when staying up.
    #[arg(long, value_name = "FILE", default_value = "windlass.kubeconfig")]
    kubeconfig: PathBuf,
}

/// Shows the tour, then stays up until a signal.
pub fn run(args: DemoArgs) -> Result<(), Failure> {
    block_on(async move {
        let mut signals = Signals::listen()?;
        if !args.once {
            check_writable(&args.kubeconfig)?;
        }
        let stage = Stage::new();
        let cluster_args = ClusterArgs::with_kubeconfig(args.kubeconfig.clone());
        let start = stage.begin("starting a cluster");
        let running = Running::start(&cluster_args).await?;
        let count = Cluster::controllers().len();
        let text = format!("a cluster is up: API server, {count} controllers, 1 node");
        stage.done(start, text);
        let toured = tokio::select! {
            biased;
            () = signals.wait() => return running.stop().await,
            toured = tour(&running, &stage) => toured,
        };
        let operator = toured?;
        if !args.once {
            write_private(&args.kubeconfig, &running.kubeconfig)?;
            stage.farewell(&args.kubeconfig);
            signals.wait().await;
        }
        operator.stop().await.map_err(|error| Failure::other(format!("{error:?}")))?;
        running.stop().await
    })
}

async fn tour(running: &Running, stage: &Stage) -> Result<windlass::manager::Running, Failure> {
    let client = Client::new(running.server.client());
    let failed = |error: windlass::Error| Failure::other(format!("{error:?}"));

    let start = stage.begin("installing the Memcached API");
    client.api().create(&Memcached::crd()).await.map_err(failed)?;
    stage.done(start, format!("the API {} is served", Memcached::crd_name()));

    let start = stage.begin("starting the operator");
    let operator = Manager::new(running.server.client())
        .name("memcached-operator")
        .add(memcached_operator::controller())
        .spawn()
        .map_err(failed)?;
    operator.ready().await;
    stage.done(start, "the Memcached operator runs");

    let start = stage.begin("creating memcached-sample with size 3");
    let mut sample = Memcached::new(NAME, MemcachedSpec { size: 3 });
    sample.metadata.namespace = Some("default".into());
    client.api().create(&sample).await.map_err(failed)?;
    let nodes = settled(&client, 3).await?;
    stage.done(start, format!("{NAME} with size 3 is available; its status names the pods"));
    nodes.iter().for_each(|node| stage.detail(node));

    let victim = nodes.first().cloned().unwrap_or_default();
    let start = stage.begin(&format!("deleting pod {victim}"));
    client.api::<Pod>().delete(&key(&victim)).await.map_err(failed)?;
    let healed = changed(&client, 3, &victim).await?;
    let heir = healed.difference(&nodes).next().cloned().unwrap_or_default();
    stage.done(start, format!("deleted pod {victim}: it came back as"));
    stage.detail(heir);

    let start = stage.begin("scaling to 5");
    resize(&client, 5).await.map_err(failed)?;
    let five = settled(&client, 5).await?;
    stage.done(start, "scaled to 5: two more pods");
    five.difference(&healed).for_each(|node| stage.detail(node));

    let start = stage.begin("asking for size 9");
    let answer = match resize(&client, 9).await {
        Ok(()) => return Err(Failure::other("size 9 was taken, the definition allows up to 5")),
        Err(error) => error.status().map_or_else(|| format!("{error:?}"), |s| s.message.clone()),
    };
    stage.done(start, "asked for size 9: the API server refuses");
    stage.detail(answer);
    Ok(operator)
}

fn key(name: &str) -> Key {
    Key::namespaced("default", name)
}

async fn resize(client: &Client, size: i32) -> windlass::Result<()> {
    let patch = Patch::Merge(json!({"spec": {"size": size}}));
    client.api::<Memcached>().patch(&key(NAME), &patch).await.map(drop)
}

/// The names in the status once all pods are available.
async fn settled(client: &Client, size: usize) -> Result<BTreeSet<String>, Failure> {
    wait(client, |nodes, available| nodes.len() == size && available).await
}

/// The same once one of them is another.
async fn changed(client: &Client, size: usize, old: &str) -> Result<BTreeSet<String>, Failure> {
    wait(client, |nodes, available| nodes.len() == size && available && !nodes.contains(old)).await
}

async fn wait(
    client: &Client,
    holds: impl Fn(&BTreeSet<String>, bool) -> bool,
) -> Result<BTreeSet<String>, Failure> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let found = client.api::<Memcached>().get(&key(NAME)).await;
        let found = found.map_err(|error| Failure::other(format!("{error:?}")))?;
        let status = found.and_then(|found| found.status.clone()).unwrap_or_default();
        let nodes: BTreeSet<String> = status.nodes.into_iter().collect();
        if holds(&nodes, condition::is_true(&status.conditions, "Available")) {
            return Ok(nodes);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Err(Failure::other(format!("{NAME} did not settle within {} s", PATIENCE.as_secs())))
}

/// Where the tour is shown: live on a terminal, in plain lines elsewhere.
struct Stage {
    live: bool,
}

// === impl Stage ===

impl Stage {
    fn new() -> Self {
        let live = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        if live {
            say!("\n\x1b[1mwindlass demo\x1b[0m  a Memcached operator, from nothing\n");
        }
        Self { live }
    }

    /// Shows what is under way until it is done.
    fn begin(&self, text: &str) -> Instant {
        if self.live {
            let mut out = std::io::stdout();
            // A terminal that was closed shows nothing; the demo continues.
            let _ = write!(out, "  \x1b[33m…\x1b[0m {text}").and_then(|()| out.flush());
        }
        Instant::now()
    }

    fn done(&self, start: Instant, text: impl Display) {
        let took = start.elapsed().as_millis();
        if self.live {
            say!("\r\x1b[2K  \x1b[32m✓\x1b[0m {text} \x1b[2m{took} ms\x1b[0m");
        } else {
            say!("ok: {text} ({took} ms)");
        }
    }

    fn detail(&self, text: impl Display) {
        if self.live {
            say!("      \x1b[36m{text}\x1b[0m");
        } else {
            say!("    {text}");
        }
    }

    fn farewell(&self, kubeconfig: &std::path::Path) {
        say!("\nThe cluster stays up. In another terminal:\n");
        say!("  export KUBECONFIG={}", kubeconfig.display());
        say!("  kubectl get memcacheds,deployments,pods");
        say!("  kubectl patch memcached {NAME} --type=merge -p '{{\"spec\":{{\"size\":2}}}}'");
        say!("\nCtrl-C ends it.");
    }
}
