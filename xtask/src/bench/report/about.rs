//! Where, when and of what the page is.

use std::fmt::Write as _;

use super::super::record::{Origin, Record, Run};

pub fn write(record: &Record, out: &mut String) {
    let text = |pointer: &str| {
        let value = record.about.pointer(pointer);
        value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let shown = |pointer: &str| text(pointer).unwrap_or_else(|| "?".to_owned());
    let _ = writeln!(
        out,
        "- Date: {}; rounds: {}\n- Machine: {} ({} cores, {} GB), {}",
        shown("/date"),
        shown("/rounds"),
        shown("/machine/cpu"),
        shown("/machine/cores"),
        shown("/machine/memory_gb"),
        shown("/machine/kernel"),
    );
    let versions = record.about["versions"].as_object();
    let listed: Vec<String> = versions
        .into_iter()
        .flatten()
        .filter(|(name, _)| measured(record, name))
        .map(|(name, version)| {
            let version = version.as_str().unwrap_or("?");
            // Some tools say their own name.
            let version = version.strip_prefix(&format!("{name} ")).unwrap_or(version);
            format!("{name} {version}")
        })
        .collect();
    let _ = writeln!(out, "- Versions: {}", listed.join(", "));
    for missing in record.about["missing"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "- **Missing:** {}", missing.as_str().unwrap_or_default());
    }
    if record.runs.iter().any(|run| run.kept.is_some()) {
        out.push_str(
            "- **Of several runs:** some scenarios were not run again; the sections say which, and \
             the figures are of them too.\n",
        );
    }
}

/// Returns how an earlier record is named.
pub fn origin(origin: &Origin) -> String {
    format!("of {}, windlass {}", origin.date, origin.windlass)
}

/// Returns `true` if something of this name has a result on the page.
fn measured(record: &Record, name: &str) -> bool {
    let any =
        |fits: &dyn Fn(&Run) -> bool| record.runs.iter().filter(|run| run.result.is_ok()).any(fits);
    let real = |run: &Run| run.server == "real";
    let in_go = |run: &Run| {
        run.contestant.starts_with("controller-runtime") || run.contestant.starts_with("client-go")
    };
    match name {
        "kube-runtime" => any(&|run| run.contestant.starts_with("kube-rs")),
        "controller-runtime" | "client-go" => any(&in_go),
        "kube-apiserver" | "etcd" => any(&real),
        "go" => any(&|run| in_go(run) || real(run)),
        _ => true,
    }
}
