//! The binaries that envtest starts, and the commands around them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use windlass_apiserver::auth::Signer;
use windlass_apiserver::pki::Ca;

use crate::support::*;

/// A process that is killed with its value.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Self {
        Self(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    /// Sends SIGTERM; returns the exit status and what was written to standard error.
    fn terminate(mut self) -> (Option<i32>, String) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "the process did not end");
            std::thread::sleep(Duration::from_millis(2));
        };
        let mut text = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (status.code(), text)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The directory that `windlass envtest path` prints.
fn assets(dir: &TempDir) -> PathBuf {
    let ended = output(&["envtest", "path", "--dir", &dir.join("assets")]);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    PathBuf::from(String::from_utf8(ended.stdout).unwrap().trim_end())
}

/// A port that was free a moment ago, found as envtest finds its ports.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The body of a response, once the server answers.
fn get(address: &str, path: &str) -> String {
    let begin = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "nothing listens on {address}");
    };
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The flags that envtest passes, with files as envtest writes them.
fn apiserver_flags(dir: &Path, ca: &Ca, port: u16) -> Vec<String> {
    let serving = ca.serving(&["localhost".into(), "127.0.0.1".into()]).unwrap();
    let issuer = format!("https://127.0.0.1:{port}/");
    let signer = Signer::generate(issuer.as_str()).unwrap();
    std::fs::write(dir.join("apiserver.crt"), serving.certificate).unwrap();
    std::fs::write(dir.join("apiserver.key"), serving.key).unwrap();
    std::fs::write(dir.join("client-cert-auth-ca.crt"), ca.certificate()).unwrap();
    std::fs::write(dir.join("sa-signer.key"), signer.to_pem()).unwrap();
    let dir = dir.display();
    [
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--cert-dir={dir}"),
        format!("--client-ca-file={dir}/client-cert-auth-ca.crt"),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--etcd-servers=http://127.0.0.1:1".to_owned(),
        format!("--secure-port={port}"),
        format!("--service-account-issuer={issuer}"),
        format!("--service-account-key-file={dir}/sa-signer.crt"),
        format!("--service-account-signing-key-file={dir}/sa-signer.key"),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--some-new-flag=1".to_owned(),
    ]
    .to_vec()
}

fn client(port: u16, ca: &Ca, user: &str, groups: &[&str]) -> kube::Client {
    use base64_of_pem as encode;
    let identity = ca.client(user, groups).unwrap();
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.client_certificate_data = Some(encode(&identity.certificate));
    config.auth_info.client_key_data = Some(encode(&identity.key).into());
    kube::Client::try_from(config).unwrap()
}

fn base64_of_pem(pem: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(pem)
}

#[test]
fn the_directory_has_the_three_binaries_and_is_made_only_once() {
    let dir = TempDir::new();
    let assets = assets(&dir);
    let mut names: Vec<_> =
        std::fs::read_dir(&assets).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["etcd", "kube-apiserver", "kubectl"]);
    assert_eq!(self::assets(&dir), assets);
    let cache = windlass().args(["envtest", "path"]).env("XDG_CACHE_HOME", dir.path()).output();
    let cache = String::from_utf8(cache.unwrap().stdout).unwrap();
    assert!(Path::new(cache.trim_end()).starts_with(dir.path()), "{cache}");
}

#[test]
fn help_ends_with_success_and_lists_what_envtest_looks_for() {
    let dir = TempDir::new();
    let assets = assets(&dir);
    let help = |name: &str| {
        let ended = Command::new(assets.join(name)).arg("--help").output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{name}");
        String::from_utf8(ended.stdout).unwrap()
    };
    assert!(help("etcd").lines().any(|line| line.trim_start().starts_with("--unsafe-no-fsync")));
    assert!(!help("kube-apiserver").contains("--insecure-port"));
}

#[test]
fn etcd_answers_its_health_check_until_it_is_terminated() {
    let dir = TempDir::new();
    let (assets, address) = (assets(&dir), format!("127.0.0.1:{}", free_port()));
    let url = format!("http://{address}");
    let etcd = Process::start(Command::new(assets.join("etcd")).args([
        &format!("--advertise-client-urls={url}"),
        &format!("--data-dir={}", dir.join("etcd")),
        &format!("--listen-client-urls={url}"),
        "--listen-peer-urls=http://localhost:0",
        "--unsafe-no-fsync=true",
    ]));
    assert!(get(&address, "/health").contains("200 OK"));
    assert!(get(&address, "/v3/kv/range").contains("501"));
    assert_eq!(etcd.terminate(), (Some(0), String::new()));
}

#[tokio::test]
async fn the_api_server_accepts_envtests_flags_files_and_users() {
    let dir = TempDir::new();
    let (assets, port) = (assets(&dir), free_port());
    let ca = Ca::generate("envtest", jiff::Timestamp::now()).unwrap();
    let flags = apiserver_flags(dir.path(), &ca, port);
    let server = Process::start(
        Command::new(assets.join("kube-apiserver")).args(flags).env_remove("RUST_LOG"),
    );
    drop(get(&format!("127.0.0.1:{port}"), "/healthz"));
    let admin = client(port, &ca, "admin", &["system:masters"]);
    let namespaces = Api::<Namespace>::all(admin.clone());
    assert_eq!(namespaces.get("default").await.unwrap().metadata.name.unwrap(), "default");
    let review = Api::<SelfSubjectReview>::all(admin)
        .create(&PostParams::default(), &Default::default())
        .await
        .unwrap();
    assert_eq!(review.status.unwrap().user_info.unwrap().username.as_deref(), Some("admin"));
    let stranger = Api::<Namespace>::all(client(port, &ca, "stranger", &[]));
    let kube::Error::Api(status) = stranger.get("default").await.unwrap_err() else { panic!() };
    assert_eq!(status.code, 403);
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0));
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains("flag --some-new-flag has no effect"), "{log}");
}

#[test]
fn files_and_ports_that_are_wrong_are_reported_in_one_line() {
    let dir = TempDir::new();
    let assets = assets(&dir);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let taken = ["--bind-address=127.0.0.1", "--secure-port", &port];
    let cases: [(&[&str], i32, &str); 3] = [
        (&["--secure-port=x"], 2, "--secure-port x: expected a port number"),
        (&["--secure-port=0", "--client-ca-file=/no/such/file"], 2, "cannot read /no/such/file"),
        (&taken, 1, "is in use"),
    ];
    for (args, code, text) in cases {
        let ended = Command::new(assets.join("kube-apiserver")).args(args).output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{args:?}");
        let line = one_line(&ended);
        assert!(line.starts_with("kube-apiserver (windlass): ") && line.contains(text), "{line}");
    }
}

#[test]
fn kubectl_is_the_installed_one_or_a_clear_message() {
    let dir = TempDir::new();
    let kubectl = assets(&dir).join("kubectl");
    let run =
        |path: &str| Command::new(&kubectl).arg("version").env("PATH", path).output().unwrap();
    let ended = run(kubectl.parent().unwrap().to_str().unwrap());
    assert_eq!(ended.status.code(), Some(127));
    assert!(one_line(&ended).contains("windlass has no kubectl"), "{ended:?}");
    let installed = dir.path().join("bin");
    std::fs::create_dir(&installed).unwrap();
    std::fs::write(installed.join("kubectl"), "#!/bin/sh\necho \"installed $1\"\nexit 3\n")
        .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(installed.join("kubectl"), mode).unwrap();
    let ended = run(installed.to_str().unwrap());
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(3), &b"installed version\n"[..]));
}

#[test]
fn a_command_runs_with_the_binaries_and_its_status_is_passed_on() {
    let dir = TempDir::new();
    let run = |script: &str| {
        let dir = dir.join("assets");
        let args = ["envtest", "run", "--dir", &dir, "--", "sh", "-c", script];
        windlass().args(args).env("TEST_ASSET_ETCD", "elsewhere").output().unwrap()
    };
    let script = r#"
        test -x "$KUBEBUILDER_ASSETS/kube-apiserver" && test -z "$TEST_ASSET_ETCD" || exit 9
        "$KUBEBUILDER_ASSETS/kube-apiserver" --bind-address=127.0.0.1 --secure-port=0 & server=$!
        until grep -q . "$WINDLASS_ENVTEST_REPORT" 2>/dev/null; do :; done
        kill $server; wait $server; exit 7"#;
    let ended = run(script);
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    assert!(one_line(&ended).starts_with("windlass envtest: 1 API server started, median "));
    let ended = run("exit 0");
    assert!(one_line(&ended).contains("no API server was started"), "{ended:?}");
    let ended = output(&["envtest", "run", "--dir", &dir.join("a"), "--", "/no/such/program"]);
    assert_eq!(ended.status.code(), Some(127));
    assert!(one_line(&ended).contains("cannot start /no/such/program"), "{ended:?}");
    assert_eq!(output(&["envtest", "run"]).status.code(), Some(2));
}
