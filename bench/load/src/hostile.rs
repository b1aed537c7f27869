//! What strangers and careless clients may cost a server: connections without credentials, and
//! bodies as large as a server reads.

mod case;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench_harness::{Args, NAMESPACE};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::connection::{Connection, JSON, Server};
use crate::write::namespace;
use crate::{Failure, Outcome};

/// How often the other client asks.
const PROBE: Duration = Duration::from_millis(2);

/// Sends one large body after the other while another client asks for a small object, and
/// returns what each cost the server and how long the other client waited.
pub async fn bodies(server: &Server, args: &Args) -> Outcome {
    namespace(server).await?;
    let process = args.text("process").to_owned();
    let mut connection = server.connect().await?;
    prepare(&mut connection).await?;
    let (mut each, mut worst_cpu, mut worst_wait) = (serde_json::Map::new(), 0.0_f64, 0.0_f64);
    for case in case::all() {
        let probe = Probe::start(server).await?;
        let before = cpu(&process);
        let answer = connection.drop_answer(case.method, &case.path, case.content, case.body);
        let status = answer.await.map(|(status, _)| status.as_u16());
        let spent = cpu(&process) - before;
        let waited = probe.stop().await?;
        if status.is_err() {
            connection = server.connect().await?;
        }
        worst_cpu = worst_cpu.max(spent);
        worst_wait = worst_wait.max(waited);
        each.insert(
            case.name.to_owned(),
            json!({ "cpu_s": spent, "wait_s": waited, "status": status.unwrap_or_default() }),
        );
    }
    Ok(json!({ "cpu_s": worst_cpu, "wait_s": worst_wait, "each": each }))
}

/// Opens `--connections` connections that have no credentials, lets each ask once, and keeps
/// them open.
pub async fn strangers(server: &Server, args: &Args) -> Outcome {
    let process = args.text("process").to_owned();
    let stranger = server.clone().without_token();
    let before = resident(&process);
    let (mut open, mut refused) = (Vec::new(), 0_usize);
    for _ in 0..args.number("connections", 10_000) {
        let mut connection = stranger.connect().await?;
        let path = "/api/v1/namespaces/default/secrets";
        let (status, _) = connection.drop_answer(Method::GET, path, JSON, Bytes::new()).await?;
        refused += usize::from(matches!(status.as_u16(), 401 | 403));
        open.push(connection);
    }
    let after = resident(&process);
    if refused < open.len() {
        return Err(format!("only {refused} of {} strangers were refused", open.len()).into());
    }
    Ok(json!({ "rss_kb": after, "added_kb": after.saturating_sub(before) }))
}

/// Asks for a small object again and again, and remembers the longest time that took.
struct Probe {
    done: Arc<AtomicBool>,
    longest_us: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<Result<(), Failure>>,
}

// === impl Probe ===

impl Probe {
    async fn start(server: &Server) -> Result<Self, Failure> {
        let mut connection = server.connect().await?;
        let (done, longest_us) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop, longest) = (done.clone(), longest_us.clone());
        let task = tokio::spawn(async move {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/small");
            while !stop.load(Ordering::Relaxed) {
                let sent = Instant::now();
                connection.drop_answer(Method::GET, &path, JSON, Bytes::new()).await?;
                let took = u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX);
                longest.fetch_max(took, Ordering::Relaxed);
                tokio::time::sleep(PROBE).await;
            }
            Ok(())
        });
        Ok(Self { done, longest_us, task })
    }

    /// Returns the longest time in seconds.
    async fn stop(self) -> Result<f64, Failure> {
        self.done.store(true, Ordering::Relaxed);
        self.task.await??;
        Ok(self.longest_us.load(Ordering::Relaxed) as f64 / 1e6)
    }
}

/// Makes the objects that the patches are for.
async fn prepare(connection: &mut Connection) -> Result<(), Failure> {
    let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    for name in ["small", "patched"] {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "key": "value" },
        });
        create(connection, &maps, &object).await?;
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "patched" },
        "spec": { "containers": [{ "name": "main", "image": "a" }] },
    });
    create(connection, &format!("/api/v1/namespaces/{NAMESPACE}/pods"), &pod).await
}

async fn create(connection: &mut Connection, path: &str, object: &Value) -> Result<(), Failure> {
    let body = Bytes::from(object.to_string());
    let (status, answer) = connection.ask(Method::POST, path, JSON, body).await?;
    match status.is_success() || status == StatusCode::CONFLICT {
        true => Ok(()),
        false => Err(format!("{path}: {status}: {}", answer["message"]).into()),
    }
}

/// Resident memory of a process in KiB.
fn resident(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// CPU seconds of a process.
fn cpu(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may hold spaces, so fields are counted from its closing bracket.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.skip(11).take(2).filter_map(|text| text.parse::<f64>().ok()).sum::<f64>() / 100.0
}
