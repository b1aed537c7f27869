//! Calls of an admission webhook.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::super::record::Record;
use super::Plan;
use super::contest::{self, LONG};
use crate::peers::process::Process;
use crate::peers::scratch::Scratch;

/// How many connections an API server has open: one, some, and more than it keeps.
const CONNECTIONS: [usize; 3] = [1, 16, 64];
const SECONDS: usize = 5;

/// Measures the same handler in all contestants that have webhooks.
pub fn run(plan: &Plan<'_>, record: &mut Record) {
    if !plan.wants("admission") {
        return;
    }
    let seconds = if plan.options.quick { 1 } else { SECONDS };
    for round in 0..plan.options.rounds {
        for connections in CONNECTIONS {
            let mut order = contest::contestants(plan.tools);
            order.retain(|one| ["windlass", "controller-runtime"].contains(&one.name));
            let begin = round % order.len();
            order.rotate_left(begin);
            for contestant in order {
                let result = measure(plan, contestant.program, connections, seconds);
                record.add(("admission", "none", contestant.name), connections, result);
            }
        }
    }
}

/// Lets a contestant serve, and calls it over some connections.
fn measure(
    plan: &Plan<'_>,
    program: &Path,
    connections: usize,
    seconds: usize,
) -> Result<Value, String> {
    let folder = Scratch::new()?;
    let directory = folder.join("").display().to_string();
    let certificate = [("scenario", "certificate".to_owned()), ("directory", directory.clone())];
    contest::result_of(&plan.tools.load, &certificate)?;
    let serve = [("scenario", "admission".to_owned()), ("directory", directory)];
    let mut process = Process::start(program, &serve)?;
    let port = process.json(LONG)?["port"].as_u64().ok_or("it names no port")?;
    let kubeconfig = folder.join("kubeconfig");
    let authority = folder.join("tls.crt");
    let text = format!(
        "server: https://127.0.0.1:{port}\ncertificate-authority: {}\ntoken: none\n",
        authority.display()
    );
    fs::write(&kubeconfig, text).map_err(|error| format!("{}: {error}", kubeconfig.display()))?;
    let calls = [
        ("scenario", "admission".to_owned()),
        ("kubeconfig", kubeconfig.display().to_string()),
        ("path", "/mutate--v1-pod".to_owned()),
        ("connections", connections.to_string()),
        ("seconds", seconds.to_string()),
    ];
    let mut result = contest::result_of(&plan.tools.load, &calls)?;
    process.send("end")?;
    let used = process.json(LONG)?;
    let done = result["per_s"].as_f64().unwrap_or_default() * seconds as f64;
    result["cpu_us_each"] = json!(used["cpu_s"].as_f64().unwrap_or_default() * 1e6 / done.max(1.0));
    result["peak_kb"] = used["peak_kb"].clone();
    Ok(result)
}
