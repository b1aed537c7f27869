//! The lives of a replica: it starts, crashes or ends, and starts again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use windlass::Manager;
use windlass::clock::Clock;
use windlass::manager::Handle;
use windlass::webhook::Webhooks;

use crate::kernel::{Actor, Kernel};
use crate::layer::Layer;
use crate::trace::What;

/// Makes the operator: what `main` runs, on another client, and the webhooks that it serves.
pub(crate) type Factory = Arc<dyn Fn(kube::Client) -> (Manager, Option<Webhooks>) + Send + Sync>;

/// The token of the operator.
pub(crate) const TOKEN: &str = "operator";

/// The time between the end of a replica and its next start.
const RESTART: Duration = Duration::from_secs(2);

/// Keeps a replica running: starts it, and starts it again whenever it ends.
pub(crate) fn keep(kernel: &Arc<Kernel>, factory: &Factory, replica: usize) {
    kernel.state.lock().starting += 1;
    let (kernel, factory) = (kernel.clone(), factory.clone());
    tokio::spawn(async move {
        loop {
            let ended = start(&kernel, &factory, replica);
            kernel.state.lock().starting -= 1;
            kernel.touch();
            ended.await;
            kernel.state.lock().starting += 1;
            sleep(RESTART).await;
        }
    });
}

/// Ends all replicas, which start again.
pub(crate) fn restart_all(kernel: &Kernel) {
    let count = kernel.state.lock().replicas.len();
    for replica in 0..count {
        let name = kernel.replica_name(replica).into();
        let life = kernel.state.lock().replicas[replica].number;
        kernel.crash(&Actor { name, replica: Some(replica), life });
    }
}

/// Starts a life; the future completes when it has ended.
fn start(
    kernel: &Arc<Kernel>,
    factory: &Factory,
    replica: usize,
) -> impl Future<Output = ()> + Send + use<> {
    let life = {
        let mut state = kernel.state.lock();
        let life = &mut state.replicas[replica];
        life.number += 1;
        life.alive = true;
        life.number
    };
    let name = kernel.replica_name(replica).into();
    let actor = Actor { name, replica: Some(replica), life };
    kernel.record(&actor, What::Started);
    let client = Layer::client(kernel, actor.clone(), TOKEN);
    let seed = kernel.seed ^ (u64::from(life) << 32) ^ (replica as u64 + 1);
    let clock = Clock::fixed(kernel.server.clock().now());
    let (manager, webhooks) = factory(client);
    kernel.state.lock().replicas[replica].webhooks = webhooks;
    let built = manager.clock(clock).seed(seed).replica(&actor.name).spawn();
    if let Ok(running) = &built {
        kernel.state.lock().replicas[replica].handle = Some(Handle::clone(running));
    }
    let kernel = kernel.clone();
    async move {
        let end = match built {
            Err(error) => Some(format!("{error:?}")),
            Ok(running) => {
                let ended = running.wait().await;
                let crashed = !kernel.state.lock().replicas[replica].alive;
                match ended {
                    _ if crashed => None,
                    Ok(()) => Some("the manager stopped".to_owned()),
                    Err(error) => Some(format!("{error:?}")),
                }
            }
        };
        if let Some(why) = end {
            // A process that is cut off learns that its lease is lost when it is back; until it has
            // ended, what it was about to send is sent.
            let paused = kernel.state.lock().replicas[replica].paused_until;
            if let Some(until) = paused.filter(|until| *until > Instant::now()) {
                sleep_until(until + Duration::from_millis(100)).await;
            }
            kernel.record(&actor, What::Ended(why));
            kernel.state.lock().replicas[replica].alive = false;
            kernel.touch();
        }
    }
}
