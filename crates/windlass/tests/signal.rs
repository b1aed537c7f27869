//! Signals, sent to a process of their own: this test binary, started once more.

#![allow(clippy::disallowed_methods, reason = "one receiver waits, in a process with real signals")]
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::Manager;
use windlass::controller::{Context, Controller, Next};
use windlass::prometheus_client::metrics::gauge::Gauge;
use windlass_apiserver::ApiServer;

const CHILD: &str = "WINDLASS_SIGNAL_CHILD";

/// The operator that is signalled: one reconcile takes `$WINDLASS_SIGNAL_CHILD` seconds. It blocks
/// its thread meanwhile if they end with `!`; if they end with `?`, a runnable fails.
#[tokio::test]
async fn child() {
    let Ok(seconds) = std::env::var(CHILD) else { return };
    let (blocks, fails) = (seconds.ends_with('!'), seconds.ends_with('?'));
    let seconds = seconds.trim_end_matches(['!', '?']).parse().expect("a number");
    let seconds = Duration::from_secs(seconds);
    let server = ApiServer::start();
    let (began, mut begun) = tokio::sync::watch::channel(false);
    let reconcile = move |_: Context<ConfigMap>| {
        let began = began.clone();
        async move {
            println!("reconciling");
            began.send_replace(true);
            if blocks {
                std::thread::sleep(seconds);
                // Longer than the test waits: the first signal alone does not end the process.
                tokio::time::sleep(Duration::from_secs(20)).await;
            }
            tokio::time::sleep(seconds).await;
            println!("reconciled");
            Ok(Next::Done)
        }
    };
    let controller = Controller::<ConfigMap>::builder("maps").build(reconcile);
    let doors = Gauge::<i64>::default();
    doors.set(2);
    let manager = Manager::new(server.client())
        .namespaces(["default"])
        .add(controller)
        .metrics("127.0.0.1:0")
        .register_metrics(|registry| registry.register("doors", "Open doors", doors.clone()))
        .runnable("fails", async move |cx| {
            if !fails {
                cx.stopping().await;
                return Ok(());
            }
            let _ = begun.wait_for(|begun| *begun).await;
            Err("no disk".into())
        })
        .runnable("prints", async |cx| {
            cx.stopping().await;
            println!("stopping");
            Ok(())
        });
    let mut map = ConfigMap::default();
    map.metadata.name = Some("a".into());
    map.metadata.namespace = Some("default".into());
    windlass::Client::new(server.client()).api().create(&map).await.expect("created");
    manager.run_until_signal().await.expect("ends well");
    println!("ended");
}

fn start(seconds: &str) -> (Child, impl FnMut() -> Option<String>) {
    start_with(seconds, Stdio::null())
}

fn start_with(seconds: &str, stderr: Stdio) -> (Child, impl FnMut() -> Option<String>) {
    let me = std::env::current_exe().expect("has a path");
    let mut child = Command::new(me)
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, seconds)
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    (child, move || lines.next().and_then(Result::ok))
}

fn wait_for(line: &str, next: &mut impl FnMut() -> Option<String>) -> bool {
    while let Some(said) = next() {
        if said.contains(line) {
            return true;
        }
    }
    false
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// Returns the part of a line of the log after a text, up to the next quotation mark.
fn after<'a>(line: &'a str, text: &str) -> Option<&'a str> {
    line.split_once(text)?.1.split('"').next()
}

#[test]
fn metrics_of_the_operator_are_served_until_a_signal() {
    let (mut child, mut next) = start_with("0", Stdio::piped());
    let log = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut addresses = log.map_while(Result::ok).filter_map(|line| {
        let starts = line.contains("starting server") && line.contains(r#""name":"metrics""#);
        after(&line, r#""address":""#).filter(|_| starts).map(str::to_owned)
    });
    let address = addresses.next().expect("the log names the address");
    assert!(wait_for("reconciled", &mut next));
    let mut stream = TcpStream::connect(&address).expect("listens");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: me\r\nconnection: close\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    assert!(answer.contains("\ndoors 2\n"), "{answer}");
    assert!(answer.contains("windlass_"), "those of the manager as well: {answer}");
    // Nobody else reads the log, and the process must not wait for that.
    std::thread::scope(|scope| {
        scope.spawn(|| addresses.by_ref().for_each(drop));
        signal(&child, "-TERM");
        assert!(wait_for("ended", &mut next));
        assert!(child.wait().expect("ends").success());
    });
}

#[test]
fn the_first_signal_lets_work_end_and_the_process_ends_well() {
    for name in ["-TERM", "-INT"] {
        let (mut child, mut next) = start("1");
        assert!(wait_for("reconciling", &mut next));
        signal(&child, name);
        assert!(wait_for("reconciled", &mut next), "work under way was dropped");
        assert!(wait_for("ended", &mut next));
        assert!(child.wait().expect("ends").success());
    }
}

#[test]
fn the_second_signal_ends_the_process_at_once() {
    let (mut child, mut next) = start("3600");
    assert!(wait_for("reconciling", &mut next));
    signal(&child, "-TERM");
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().expect("looks").is_none(), "ended before its grace period");
    let began = Instant::now();
    signal(&child, "-TERM");
    let status = child.wait().expect("ends");
    assert_eq!(status.code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn the_second_signal_ends_a_process_at_once_that_stops_by_itself() {
    let (mut child, mut next) = start("3600?");
    assert!(wait_for("stopping", &mut next));
    signal(&child, "-TERM");
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().expect("looks").is_none(), "ended before its grace period");
    let began = Instant::now();
    signal(&child, "-TERM");
    assert_eq!(child.wait().expect("ends").code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_second_signal_right_behind_the_first_is_heard() {
    let (mut child, mut next) = start("1!");
    assert!(wait_for("reconciling", &mut next));
    let began = Instant::now();
    signal(&child, "-TERM");
    signal(&child, "-INT");
    assert_eq!(child.wait().expect("ends").code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn an_operator_without_a_subscriber_of_its_own_is_not_silent() {
    let (mut child, mut next) = start_with("0", Stdio::piped());
    assert!(wait_for("reconciled", &mut next));
    signal(&child, "-TERM");
    assert!(wait_for("ended", &mut next));
    let mut log = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
    assert!(child.wait().expect("ends").success());
    let line = log.lines().find(|line| line.contains("Starting workers")).expect(&log);
    assert!(line.starts_with('{') && line.contains(r#""controllerKind":"ConfigMap""#), "{line}");
}
