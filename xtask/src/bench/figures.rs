//! The figures that the project has promised itself, judged by the results.

use super::metrics::digits;
use super::record::Record;
use super::stats::Spread;

/// Whether a figure holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    Holds,
    Misses,
    Unknown,
}

/// One figure.
pub struct Figure {
    pub what: &'static str,
    pub wanted: String,
    pub measured: String,
    pub verdict: Verdict,
}

/// Looks numbers up; sizes are the largest that was measured for both sides.
struct Look<'a>(&'a Record);

impl Look<'_> {
    fn at(&self, key: (&str, &str, &str), size: usize, pointer: &str) -> Option<f64> {
        Spread::find(self.0, key, size, pointer).map(|spread| spread.median)
    }

    /// The sizes at which all of these have the number, the largest last.
    fn sizes(
        &self,
        scenario: &str,
        server: &str,
        contestants: &[&str],
        pointer: &str,
    ) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.0.runs.iter().map(|run| run.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.retain(|size| {
            contestants.iter().all(|one| self.at((scenario, server, one), *size, pointer).is_some())
        });
        sizes
    }

    /// How many times the number of a peer ours is, at 20,000 or the largest size up to it.
    fn ratio(&self, scenario: &str, server: &str, peer: &str, pointer: &str) -> Option<f64> {
        let sizes = self.sizes(scenario, server, &["windlass", peer], pointer);
        let size = *sizes.iter().rfind(|size| **size <= 20_000)?;
        let ours = self.at((scenario, server, "windlass"), size, pointer)?;
        Some(ours / self.at((scenario, server, peer), size, pointer)?.max(1e-12))
    }

    /// The real server's number over ours.
    fn servers(&self, scenario: &str, pointer: &str) -> Option<f64> {
        let real = self.sizes(scenario, "real", &["real"], pointer);
        let ours = self.sizes(scenario, "ours", &["ours"], pointer);
        let size = *real.iter().rfind(|size| ours.contains(size))?;
        let real = self.at((scenario, "real", "real"), size, pointer)?;
        Some(real / self.at((scenario, "ours", "ours"), size, pointer)?.max(1e-12))
    }

    fn own(&self, scenario: &str, pointer: &str) -> Option<f64> {
        let size = *self.sizes(scenario, "ours", &["ours"], pointer).last()?;
        self.at((scenario, "ours", "ours"), size, pointer)
    }

    /// What ours takes beyond the wire, over what a peer takes beyond it.
    fn beyond_wire(&self, server: &str, peer: &str) -> Option<f64> {
        let pointer = "/beyond/p99_us";
        let size = *self.sizes("latency", server, &["windlass", peer], pointer).last()?;
        // Below 20 µs the clock of another process is not to be trusted.
        let of = |one: &str| Some(self.at(("latency", server, one), size, pointer)?.max(20.0));
        Some(of(peer)? / of("windlass")?)
    }
}

/// All figures.
pub fn all(record: &Record) -> Vec<Figure> {
    let look = Look(record);
    let mut found = Vec::new();
    caches(&look, &mut found);
    controllers(&look, &mut found);
    servers(&look, &mut found);
    clusters(&look, &mut found);
    found
}

fn caches(look: &Look<'_>, found: &mut Vec<Figure>) {
    let server = if look.sizes("sync", "real", &["windlass"], "/time_s").is_empty() {
        "ours"
    } else {
        "real"
    };
    let floor = || {
        let sizes = look.sizes("sync", server, &["windlass"], "/time_s");
        let size = *sizes.iter().rfind(|size| **size <= 20_000)?;
        let ours = look.at(("sync", server, "windlass"), size, "/time_s")?;
        let wire = |pointer: &str| look.at(("list", server, server), size, pointer);
        // Ours asks for a streaming list; it has to keep up with whichever JSON way is faster.
        Some(ours / wire("/list_s")?.min(wire("/stream_s")?))
    };
    found.push(most("initial sync over the wire floor (JSON)", floor(), 1.3));
    let peer = |scenario, one, pointer| look.ratio(scenario, server, one, pointer);
    found.push(most(
        "initial sync time beside controller-runtime",
        peer("sync", "controller-runtime", "/time_s"),
        1.0,
    ));
    found.push(most(
        "settled memory beside controller-runtime",
        peer("sync", "controller-runtime", "/rss_kb"),
        0.2,
    ));
    found.push(most("settled memory beside kube-rs", peer("sync", "kube-rs", "/rss_kb"), 0.1));
    for (what, one) in [
        ("events per CPU-second beside controller-runtime", "controller-runtime"),
        ("events per CPU-second beside kube-rs", "kube-rs"),
    ] {
        let ratio = peer("stream", one, "/cpu_us_per_event").map(|ratio| 1.0 / ratio);
        found.push(least(what, ratio, 2.0));
    }
    let spike = || {
        let sizes = look.sizes("relist", server, &["windlass"], "/spike_kb");
        let size = *sizes.iter().rfind(|size| **size <= 20_000)?;
        let of = |pointer: &str| look.at(("relist", server, "windlass"), size, pointer);
        Some(of("/spike_kb")? / of("/before_kb")?)
    };
    found.push(most("relist: spike over what was resident (no second copy)", spike(), 0.5));
    for (what, pointer) in [
        ("work queue beside client-go: one hand", "/alone_cpu_ns"),
        ("work queue beside client-go: duplicates", "/merged_cpu_ns"),
        ("work queue beside client-go: delayed", "/delayed_cpu_ns"),
    ] {
        // By CPU: with one hand that is the time, less what else the machine does.
        let ratio = look.ratio("queue", "none", "client-go", pointer).map(|ratio| 1.0 / ratio);
        found.push(least(what, ratio, 3.0));
    }
    let shared = look.ratio("queue", "none", "client-go", "/shared_per_s");
    found.push(least("work queue beside client-go: eight hands", shared, 3.0));
}

fn controllers(look: &Look<'_>, found: &mut Vec<Figure>) {
    let server = if look.sizes("reconcile", "real", &["windlass"], "/per_s").is_empty() {
        "ours"
    } else {
        "real"
    };
    for (what, one) in [
        ("no-op reconciles/s beside controller-runtime", "controller-runtime"),
        ("no-op reconciles/s beside kube-rs", "kube-rs"),
    ] {
        found.push(least(what, look.ratio("reconcile-key", server, one, "/per_s"), 2.0));
    }
    for (what, one) in [
        ("reconciles/s that read their object beside controller-runtime", "controller-runtime"),
        ("reconciles/s that read their object beside kube-rs", "kube-rs"),
    ] {
        found.push(least(what, look.ratio("reconcile", server, one, "/per_s"), 2.0));
    }
    for (what, one) in [
        ("event-to-reconcile p99 beyond the wire beside controller-runtime", "controller-runtime"),
        ("event-to-reconcile p99 beyond the wire beside kube-rs", "kube-rs"),
    ] {
        found.push(least(what, look.beyond_wire(server, one), 2.0));
    }
    let flight = || {
        let sizes = look.sizes("inflight", "ours", &["windlass"], "/cpu_us_each");
        let each = |size: usize| look.at(("inflight", "ours", "windlass"), size, "/cpu_us_each");
        Some(each(*sizes.last()?)? / each(*sizes.first()?)?)
    };
    // A tenth is what the same run differs from itself.
    found.push(most("CPU of a reconcile with 32,000 in flight over 1,000", flight(), 1.1));
    let embedded = |pointer: &str| look.at(("embedded", "none", "windlass"), 0, pointer);
    let cold = embedded("/reconcile_s").map(|seconds| seconds * 1e3);
    found.push(limit("process start to first reconcile, embedded", cold, 100.0, "ms"));
}

fn servers(look: &Look<'_>, found: &mut Vec<Figure>) {
    let ms = |value: Option<f64>| value.map(|seconds| seconds * 1e3);
    let mb = |value: Option<f64>| value.map(|kib| kib / 1024.0);
    let start = look.own("server-start", "/start_s");
    found.push(limit("API server: process start to ready", ms(start), 50.0, "ms"));
    let embedded = look.at(("embedded", "none", "windlass"), 0, "/server_s");
    found.push(limit("API server in process", ms(embedded), 5.0, "ms"));
    let idle = look.own("server-start", "/rss_kb");
    found.push(limit("API server: idle memory", mb(idle), 40.0, "MB"));
    let start = look.servers("server-start", "/start_s");
    found.push(least("start beside the real server", start, 50.0));
    for (what, scenario, pointer, wanted) in [
        ("creates/s beside the real server", "writes", "/create_per_s", 10.0),
        ("updates/s beside the real server", "writes", "/update_per_s", 10.0),
        ("watch fan-out to 100 watchers beside the real server", "fanout", "/events_per_s", 5.0),
    ] {
        let ratio = look.servers(scenario, pointer).map(|ratio| 1.0 / ratio);
        found.push(least(what, ratio, wanted));
    }
    let list = look.servers("list", "/list_s");
    found.push(least("list of 20,000 pods beside the real server", list, 3.0));
}

fn clusters(look: &Look<'_>, found: &mut Vec<Figure>) {
    let own = |scenario: &str, pointer: &str, by: f64| {
        look.own(scenario, pointer).map(|value| value * by)
    };
    let start = own("cluster-start", "/start_s", 1e3);
    found.push(limit("cluster: process start to ready", start, 150.0, "ms"));
    let one = own("deployment", "/ready_s", 1e3);
    found.push(limit("cluster: Deployment of 3 ready", one, 50.0, "ms"));
    let many = own("deployments", "/ready_s", 1.0);
    found.push(limit("cluster: 100 Deployments of 10 ready", many, 3.0, "s"));
    let idle = own("cluster-start", "/rss_kb", 1.0 / 1024.0);
    found.push(limit("cluster: idle memory", idle, 60.0, "MB"));
    let cpu = own("cluster-start", "/idle_cpu", 1e3);
    found.push(limit("cluster: idle CPU per second", cpu, 10.0, "ms"));
    let gone = own("namespace", "/gone_s", 1e3);
    found.push(limit("cluster: namespace deleted", gone, 100.0, "ms"));
}

fn least(what: &'static str, ratio: Option<f64>, wanted: f64) -> Figure {
    judged(what, format!("≥ {wanted} ×"), ratio, "×", |ratio| ratio >= wanted)
}

fn most(what: &'static str, ratio: Option<f64>, wanted: f64) -> Figure {
    judged(what, format!("≤ {wanted} ×"), ratio, "×", |ratio| ratio <= wanted)
}

fn limit(what: &'static str, value: Option<f64>, wanted: f64, unit: &str) -> Figure {
    judged(what, format!("≤ {wanted} {unit}"), value, unit, |value| value <= wanted)
}

fn judged(
    what: &'static str,
    wanted: String,
    value: Option<f64>,
    unit: &str,
    holds: impl Fn(f64) -> bool,
) -> Figure {
    let verdict = match value {
        None => Verdict::Unknown,
        Some(value) if holds(value) => Verdict::Holds,
        Some(_) => Verdict::Misses,
    };
    let measured = value.map_or_else(|| "–".to_owned(), |v| format!("{} {unit}", digits(v)));
    Figure { what, wanted, measured, verdict }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_without_numbers_is_not_called_held() {
        let record = Record { about: serde_json::Value::Null, runs: Vec::new(), file: None };
        let found = all(&record);
        assert!(found.len() > 20 && found.iter().all(|one| one.verdict == Verdict::Unknown));
    }
}
