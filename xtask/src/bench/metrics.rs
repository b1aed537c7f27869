//! What is shown of each scenario.

/// One number of a result and how to show it.
pub struct Metric {
    pub scenario: &'static str,
    pub pointer: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    pub better: Better,
}

/// Which numbers are the better ones.
#[derive(Clone, Copy, PartialEq)]
pub enum Better {
    Less,
    More,
    /// It shows what was done, not how well.
    Neither,
}

/// What a number counts.
#[derive(Clone, Copy, PartialEq)]
pub enum Unit {
    Seconds,
    Microseconds,
    Nanoseconds,
    Kib,
    Bytes,
    PerSecond,
}

/// A heading of the page with its metrics.
pub struct Section {
    pub title: &'static str,
    pub about: &'static str,
    /// What the sizes count.
    pub axis: &'static str,
    pub metrics: &'static [Metric],
}

const fn less(
    scenario: &'static str,
    pointer: &'static str,
    title: &'static str,
    unit: Unit,
) -> Metric {
    Metric { scenario, pointer, title, unit, better: Better::Less }
}

const fn more(scenario: &'static str, pointer: &'static str, title: &'static str) -> Metric {
    Metric { scenario, pointer, title, unit: Unit::PerSecond, better: Better::More }
}

const fn rate(scenario: &'static str, pointer: &'static str, title: &'static str) -> Metric {
    Metric { scenario, pointer, title, unit: Unit::PerSecond, better: Better::Neither }
}

/// All of the page.
pub const SECTIONS: &[Section] = &[
    Section {
        title: "Initial sync",
        about: "All pods (8 KB each, with managedFields) into the cache, from an empty process. \
                Settled memory is what is resident a second later; for Go after a collection \
                and after giving memory back, for Rust as it is. The wire rows read the same \
                bytes and drop them.",
        axis: "pods",
        metrics: &[
            less("sync", "/time_s", "time", Unit::Seconds),
            less("sync", "/cpu_s", "CPU", Unit::Seconds),
            less("sync", "/rss_kb", "settled memory", Unit::Kib),
            less("sync", "/peak_kb", "peak memory", Unit::Kib),
        ],
    },
    Section {
        title: "Metadata-only sync",
        about: "The same pods, metadata only.",
        axis: "pods",
        metrics: &[
            less("sync-meta", "/time_s", "time", Unit::Seconds),
            less("sync-meta", "/cpu_s", "CPU", Unit::Seconds),
            less("sync-meta", "/rss_kb", "settled memory", Unit::Kib),
        ],
    },
    Section {
        title: "Stream of changes",
        about: "A synced cache with a handler, while pods change at a steady rate: 5,000 pods on \
                the real server, 20,000 on ours, all of them in turn. The rate in a label is the \
                one that is asked for. A server may not take all of it, and shares its cores with \
                the one that is measured, so the rate that was reached is shown for each. Lag is \
                from the moment the change is sent to the moment the handler sees it; the wire \
                column is a watcher that does nothing else. The typed rows also read the whole \
                pod.",
        axis: "changes/s",
        metrics: &[
            rate("stream", "/sent_rate", "changes sent"),
            rate("stream-typed", "/sent_rate", "changes sent, typed"),
            less("stream", "/cpu_us_per_event", "CPU per event", Unit::Microseconds),
            less("stream-typed", "/cpu_us_per_event", "CPU per event, typed", Unit::Microseconds),
            less("stream", "/lag/p50_us", "lag p50", Unit::Microseconds),
            less("stream", "/lag/p99_us", "lag p99", Unit::Microseconds),
        ],
    },
    Section {
        title: "List again after 410",
        about: "The watch is cut and the server has forgotten: how far memory rises above what \
                was resident before, while everything is listed anew.",
        axis: "pods",
        metrics: &[
            less("relist", "/spike_kb", "spike", Unit::Kib),
            less("relist", "/time_s", "time", Unit::Seconds),
        ],
    },
    Section {
        title: "Reads from the cache",
        about: "Typed reads by key, of a thousand pods again and again and of any of them, and \
                lists of the pods of one of 200 nodes through an index (kube-rs has none and \
                looks at all).",
        axis: "pods",
        metrics: &[
            less("get", "/hot_ns", "get, 1000 keys", Unit::Nanoseconds),
            less("get", "/hot_cpu_ns", "get, 1000 keys, CPU", Unit::Nanoseconds),
            less("get", "/any_ns", "get, any key", Unit::Nanoseconds),
            less("get", "/any_cpu_ns", "get, any key, CPU", Unit::Nanoseconds),
            less("index", "/list_us", "indexed list", Unit::Microseconds),
            less("index", "/list_cpu_us", "indexed list, CPU", Unit::Microseconds),
        ],
    },
    Section {
        title: "Reconciles",
        about: "Four workers; keys come in through a channel or a stream, as from outside the \
                cluster. No-op reconciles return at once, having read their pod from the cache or \
                not (kube-rs hands it over in any case); the others patch the status once each. \
                Latency is at 50 changes per second of the real server and 100 of ours. A watcher \
                that only looks at the bytes sees the same events at the same time and in the same \
                form: from the event is from when it has all bytes, event by event, to the moment \
                the reconcile begins, or has read its object (kube-rs hands it over). Wire is a \
                second such watcher, which is what nobody can do better. From the change is from \
                the moment the request leaves, with all that the server does.",
        axis: "pods",
        metrics: &[
            more("reconcile", "/per_s", "no-op reconciles that read their object"),
            less("reconcile", "/cpu_us_each", "CPU of one that reads", Unit::Microseconds),
            more("reconcile-key", "/per_s", "no-op reconciles that read nothing"),
            less("reconcile-key", "/cpu_us_each", "CPU of one that does not", Unit::Microseconds),
            more("status", "/per_s", "with a status patch"),
            less("latency", "/beyond/p50_us", "event to reconcile, p50", Unit::Microseconds),
            less("latency", "/beyond/p90_us", "event to reconcile, p90", Unit::Microseconds),
            less("latency", "/beyond/p99_us", "event to reconcile, p99", Unit::Microseconds),
            less("latency", "/beyond_read/p50_us", "event to object read, p50", Unit::Microseconds),
            less("latency", "/beyond_read/p90_us", "event to object read, p90", Unit::Microseconds),
            less("latency", "/beyond_read/p99_us", "event to object read, p99", Unit::Microseconds),
            less("latency", "/lag/p50_us", "change to reconcile, p50", Unit::Microseconds),
            less("latency", "/lag/p90_us", "change to reconcile, p90", Unit::Microseconds),
            less("latency", "/lag/p99_us", "change to reconcile, p99", Unit::Microseconds),
        ],
    },
    Section {
        title: "Many reconciles in flight",
        about: "Reconciles that wait 100 ms each, so many keys at once and as many workers, over \
                and over; and 32,000 keys at once for so many workers, so that the others are \
                queued. There are 32,000 objects in any case. At least 64,000 reconciles and eight \
                passes warm up, so that nobody pays for memory that is used for the first time, \
                and CPU is of as many others. Nobody reads an object (kube-rs hands it over in any case).",
        axis: "in flight",
        metrics: &[
            less("inflight", "/cpu_us_each", "CPU each", Unit::Microseconds),
            less("inflight", "/peak_kb", "peak memory", Unit::Kib),
            less("inflight-queued", "/cpu_us_each", "CPU each, others queued", Unit::Microseconds),
        ],
    },
    Section {
        title: "Start to first reconcile",
        about: "From the start of the process, with one worker.",
        axis: "",
        metrics: &[
            less("start", "/time_s", "time", Unit::Seconds),
            less("start", "/rss_kb", "memory", Unit::Kib),
        ],
    },
    Section {
        title: "Admission webhook",
        about: "One handler that sets a label of pods, called over TLS on connections that stay open, \
                as an API server calls it. Latencies are of whole calls, as the caller sees them, and \
                every connection has one call at a time; CPU is the server's, and memory too.",
        axis: "connections",
        metrics: &[
            less("admission", "/call/p50_us", "call p50", Unit::Microseconds),
            less("admission", "/call/p90_us", "call p90", Unit::Microseconds),
            less("admission", "/call/p99_us", "call p99", Unit::Microseconds),
            more("admission", "/per_s", "calls"),
            less("admission", "/cpu_us_each", "CPU of a call", Unit::Microseconds),
            less("admission", "/peak_kb", "peak memory", Unit::Kib),
        ],
    },
    Section {
        title: "Work queue",
        about: "Keys added, taken and finished per second: all added and then all taken; added \
                again while queued; with a delay of 1 ms; four that add and four that take. Each \
                queue keeps the metrics it has in a controller, and is driven as its own controllers \
                do it: ours adds by reference and gives a key back with taking the next, client-go \
                adds, gets and says done. Beside them ours by client-go's calls, and client-go \
                without metrics (a queue without a name).",
        axis: "keys",
        metrics: &[
            more("queue", "/alone_per_s", "one task"),
            more("queue", "/merged_per_s", "duplicates"),
            more("queue", "/delayed_per_s", "delayed"),
            more("queue", "/shared_per_s", "eight tasks"),
            less("queue", "/alone_cpu_ns", "one task, CPU", Unit::Nanoseconds),
            less("queue", "/merged_cpu_ns", "duplicates, CPU", Unit::Nanoseconds),
            less("queue", "/delayed_cpu_ns", "delayed, CPU", Unit::Nanoseconds),
            less("queue", "/shared_cpu_ns", "eight tasks, CPU", Unit::Nanoseconds),
        ],
    },
    Section {
        title: "Binary size",
        about: "The contestants of this page as they are built for release, without debug information.",
        axis: "",
        metrics: &[less("binary", "/bytes", "size", Unit::Bytes)],
    },
    Section {
        title: "API server: start and rest",
        about: "From the start of the processes to ready; memory when nothing happens.",
        axis: "",
        metrics: &[
            less("server-start", "/start_s", "start", Unit::Seconds),
            less("server-start", "/rss_kb", "idle memory", Unit::Kib),
        ],
    },
    Section {
        title: "API server: writes",
        about: "Config maps of 1 KB over so many connections, each sending its next request when \
                the one before is answered.",
        axis: "connections",
        metrics: &[
            more("writes", "/create_per_s", "create"),
            more("writes", "/update_per_s", "update"),
            more("writes", "/patch_per_s", "merge patch"),
            more("writes", "/apply_per_s", "apply"),
            more("writes", "/get_per_s", "get"),
            more("writes", "/delete_per_s", "delete"),
            less("writes", "/create_p50_us", "create p50", Unit::Microseconds),
            less("writes", "/create_p99_us", "create p99", Unit::Microseconds),
            less("writes", "/update_p50_us", "update p50", Unit::Microseconds),
            less("writes", "/update_p99_us", "update p99", Unit::Microseconds),
            less("writes", "/patch_p50_us", "merge patch p50", Unit::Microseconds),
            less("writes", "/patch_p99_us", "merge patch p99", Unit::Microseconds),
            less("writes", "/apply_p50_us", "apply p50", Unit::Microseconds),
            less("writes", "/apply_p99_us", "apply p99", Unit::Microseconds),
            less("writes", "/server_cpu_s", "CPU of the server for all", Unit::Seconds),
        ],
    },
    Section {
        title: "API server: list",
        about: "All pods as one JSON answer: as fresh as it gets, from the cache, and as a streaming list.",
        axis: "pods",
        metrics: &[
            less("list", "/fresh_s", "fresh", Unit::Seconds),
            less("list", "/list_s", "cached", Unit::Seconds),
            less("list", "/stream_s", "streaming", Unit::Seconds),
        ],
    },
    Section {
        title: "API server: watch fan-out",
        about: "500 changes over four connections, until every watcher has every event; then \
                one change every 20 ms: how old it is when a watcher has it, over all watchers.",
        axis: "watchers",
        metrics: &[
            more("fanout", "/events_per_s", "events"),
            less("fanout", "/lag/p50_us", "lag p50", Unit::Microseconds),
            less("fanout", "/lag/p99_us", "lag p99", Unit::Microseconds),
            less("fanout", "/server_cpu_s", "CPU of the server for all", Unit::Seconds),
        ],
    },
    Section {
        title: "API server: custom resources with rules",
        about: "Objects of a kind with a schema, four rules for each and one for each of its \
                parts (16 connections).",
        axis: "parts",
        metrics: &[
            more("cel", "/create_per_s", "create"),
            less("cel", "/create_p50_us", "create p50", Unit::Microseconds),
            less("cel", "/create_p99_us", "create p99", Unit::Microseconds),
            less("cel", "/server_cpu_s", "CPU of the server for all", Unit::Seconds),
            less("cel", "/served_s", "definition served", Unit::Seconds),
        ],
    },
    Section {
        title: "API server: what others may cost it",
        about: "Bodies of 3 MiB of fifteen kinds, one after the other: the CPU of the dearest one, and \
                the longest time that another client waits meanwhile for a small object. 10,000 \
                connections without credentials, each refused once and kept open. A data directory with \
                100,000 config maps, each changed once: the start of a server on it, and its size \
                over that before the changes.",
        axis: "",
        metrics: &[
            less("bodies", "/cpu_s", "3 MiB bodies, CPU", Unit::Seconds),
            less("bodies", "/wait_s", "3 MiB bodies, wait of others", Unit::Seconds),
            less("strangers", "/added_kb", "10,000 strangers, memory", Unit::Kib),
            less("restart", "/start_s", "restart", Unit::Seconds),
            less("restart", "/rss_kb", "restart, memory", Unit::Kib),
            less("restart", "/data_bytes", "data directory", Unit::Bytes),
        ],
    },
    Section {
        title: "API server: many kinds",
        about: "Definitions sent over 8 connections until the last kind is served and discovered, \
                on top of those of the row before.",
        axis: "kinds",
        metrics: &[
            less("crds", "/served_s", "kinds served", Unit::Seconds),
            less("crds", "/rss_kb", "memory with them", Unit::Kib),
        ],
    },
    Section {
        title: "Cluster",
        about: "`windlass cluster` with its controllers and one simulated node.",
        axis: "",
        metrics: &[
            less("cluster-start", "/start_s", "ready", Unit::Seconds),
            less("cluster-start", "/rss_kb", "idle memory", Unit::Kib),
            less("cluster-start", "/idle_cpu", "idle CPU per second", Unit::Seconds),
            less("deployment", "/ready_s", "Deployment of 3 ready", Unit::Seconds),
            less("deployments", "/ready_s", "100 × 10 pods ready", Unit::Seconds),
            less("namespace", "/gone_s", "namespace deleted", Unit::Seconds),
        ],
    },
    Section {
        title: "A finished operator",
        about: "A reconcile of an owner whose twenty children, config maps of half a KB, are as they \
                should be, with the server in the same process. Fifty tenants with one key each, \
                alone, behind a tenant with 10,000 keys in a fair queue, and the same without \
                fairness; four workers, and each reconcile takes 2 ms.",
        axis: "",
        metrics: &[
            less("children", "/cpu_us", "CPU of a settled reconcile", Unit::Microseconds),
            less("children", "/time_us", "time of a settled reconcile", Unit::Microseconds),
            less("fair", "/alone_s", "fifty tenants alone", Unit::Seconds),
            less("fair", "/fair_s", "behind a large tenant, fair", Unit::Seconds),
            less(
                "fair",
                "/unfair_s",
                "behind a large tenant, first come first served",
                Unit::Seconds,
            ),
        ],
    },
    Section {
        title: "References to a few of many Secrets",
        about: "Ten of the Secrets (2 KB each) are referred to. windlass watches the metadata of the \
                kind and reads ten bodies; controller-runtime caches the kind.",
        axis: "secrets",
        metrics: &[
            less("secrets", "/rss_kb", "settled memory", Unit::Kib),
            less("secrets", "/peak_kb", "peak memory", Unit::Kib),
            less("secrets", "/time_s", "time", Unit::Seconds),
        ],
    },
    Section {
        title: "Exploration under faults",
        about: "Single faults of the Memcached operator, whose scenario has three settled states, on one \
                thread; each plan is a whole embedded cluster with its controllers.",
        axis: "",
        metrics: &[
            more("explore", "/plans_per_s", "plans"),
            less("explore", "/cpu_s_per_plan", "CPU of a plan", Unit::Seconds),
        ],
    },
    Section {
        title: "Embedded",
        about: "The API server in the process of a test or an operator.",
        axis: "",
        metrics: &[
            less("embedded", "/server_s", "server starts", Unit::Seconds),
            less("embedded", "/server_cpu_s", "server starts, CPU", Unit::Seconds),
            less("embedded", "/cpu_s", "CPU of the process to first reconcile", Unit::Seconds),
            less("embedded", "/reconcile_s", "process start to first reconcile", Unit::Seconds),
        ],
    },
];

// === impl Unit ===

impl Unit {
    /// The number with its unit, for people.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Seconds if value < 0.001 => format!("{} µs", digits(value * 1e6)),
            Self::Seconds if value < 1.0 => format!("{} ms", digits(value * 1e3)),
            Self::Seconds => format!("{} s", digits(value)),
            Self::Microseconds if value >= 1000.0 => format!("{} ms", digits(value / 1e3)),
            Self::Microseconds => format!("{} µs", digits(value)),
            Self::Nanoseconds if value >= 1000.0 => format!("{} µs", digits(value / 1e3)),
            Self::Nanoseconds => format!("{} ns", digits(value)),
            Self::Kib => format!("{} MB", digits(value / 1024.0)),
            Self::Bytes => format!("{} MB", digits(value / 1024.0 / 1024.0)),
            Self::PerSecond if value >= 1e6 => format!("{} M/s", digits(value / 1e6)),
            Self::PerSecond if value >= 1e4 => format!("{} k/s", digits(value / 1e3)),
            Self::PerSecond => format!("{}/s", digits(value)),
        }
    }
}

/// Returns what the sizes of a scenario count.
pub fn axis(scenario: &str) -> &'static str {
    if scenario == "load" {
        return "objects";
    }
    let shows = |section: &&Section| section.metrics.iter().any(|one| one.scenario == scenario);
    SECTIONS.iter().find(shows).map_or("", |section| section.axis)
}

/// Returns where something was measured: "real server, 20,000 pods".
pub fn place(scenario: &str, server: &str, size: usize) -> String {
    let server = match server {
        "real" => Some("real server".to_owned()),
        "ours" => Some("our server".to_owned()),
        "both" => Some("both servers".to_owned()),
        _ => None,
    };
    let axis = axis(scenario);
    let counted = size > 0 && !axis.is_empty();
    let size = counted.then(|| format!("{} {axis}", thousands(size)));
    let parts: Vec<String> = server.into_iter().chain(size).collect();
    parts.join(", ")
}

/// With a comma before every three digits.
pub fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).expect("digits are text"))
        .collect();
    groups.join(",")
}

/// Three digits that count.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_server_and_size() {
        assert_eq!(place("sync", "real", 20_000), "real server, 20,000 pods");
        assert_eq!(place("queue", "none", 1_000_000), "1,000,000 keys");
        assert_eq!(place("server-start", "ours", 0), "our server");
        assert_eq!(thousands(100), "100");
    }
}
