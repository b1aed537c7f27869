//! `kube-apiserver` as envtest starts it: the embedded API server, without controllers.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use windlass_apiserver::auth::{DEFAULT_ISSUER, Signer, User, parse_token_file};
use windlass_apiserver::pki::{self, Ca, Identity};
use windlass_apiserver::{ApiServer, Options, serve};

use super::REPORT;
use super::flags::Flags;
use crate::cluster::{bind, block_on, hosts};
use crate::failure::Failure;
use crate::private_file::write_private;
use crate::signals::Signals;

/// The flags that decide something. Everything else is accepted and has no effect.
const HELP: &str = "\
kube-apiserver of windlass: the embedded API server, without controllers.

Usage:
  kube-apiserver [flags]

Flags:
      --authorization-mode strings                AlwaysAllow allows every request
      --bind-address ip                           address to listen on (default 0.0.0.0)
      --cert-dir string                           directory of apiserver.crt and apiserver.key
      --client-ca-file string                     CAs of client certificates
      --disable-admission-plugins strings         of these only ServiceAccount has an effect
      --enable-admission-plugins strings          of these only ServiceAccount has an effect
      --secure-port int                           port to listen on (default 6443)
      --service-account-issuer strings            issuer of service account tokens
      --service-account-signing-key-file string   key of service account tokens (P-256, PKCS#8)
      --tls-cert-file string                      serving certificate
      --tls-private-key-file string               key of the serving certificate
      --token-auth-file string                    tokens, users and groups (CSV)

Other flags are accepted and have no effect; those that are not flags of envtest are logged.
";

/// The flags that have an effect.
const USED: [&str; 13] = [
    "authorization-mode",
    "bind-address",
    "cert-dir",
    "client-ca-file",
    "disable-admission-plugins",
    "enable-admission-plugins",
    "secure-port",
    "service-account-issuer",
    "service-account-signing-key-file",
    "tls-cert-file",
    "tls-private-key-file",
    "token-auth-file",
    "v",
];

/// The flags that envtest always passes although nothing depends on them here.
const EXPECTED: [&str; 4] =
    ["allow-privileged", "etcd-servers", "service-account-key-file", "service-cluster-ip-range"];

/// Runs until a signal ends it.
pub fn run(args: Vec<String>) -> Result<(), Failure> {
    let start = Instant::now();
    let flags = Flags::parse(args);
    if flags.get("help").is_some() || flags.get("h").is_some() {
        say!("{HELP}");
        return Ok(());
    }
    if flags.get("version").is_some() {
        say!("Kubernetes v1.36.0+windlass-{}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    crate::log::init(None, "warn")?;
    for name in flags.names().filter(|name| !USED.contains(name) && !EXPECTED.contains(name)) {
        tracing::warn!("flag --{name} has no effect on the embedded API server");
    }
    block_on(serve_until_signal(flags, start))
}

async fn serve_until_signal(flags: Flags, start: Instant) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let listener = bind(listen_address(&flags)?).await?;
    let local = listener
        .local_addr()
        .map_err(|error| Failure::other(format!("the listener has no address: {error}")))?;
    let serving = serving_identity(&flags, local)?;
    let client_cas = read(&flags, "client-ca-file")?;
    let tls = pki::server_config(&serving, client_cas.as_deref()).map_err(|e| Failure::of(&e))?;
    let server = ApiServer::with_options(options(&flags)?).map_err(|error| Failure::of(&error))?;
    let end = CancellationToken::new();
    let stop = end.clone().cancelled_owned();
    let task = tokio::spawn(serve::serve(listener, Some(tls), server.clone(), stop));
    report_start(start);
    signals.wait().await;
    server.shut_down();
    end.cancel();
    let _ = task.await;
    Ok(())
}

fn listen_address(flags: &Flags) -> Result<SocketAddr, Failure> {
    let wrong = |flag: &str, text: &str, wanted: &str| {
        Failure::usage(format!("--{flag} {text}: expected {wanted}"))
    };
    let ip = match flags.get("bind-address") {
        Some(text) => {
            text.parse::<IpAddr>().map_err(|_| wrong("bind-address", text, "an IP address"))?
        }
        None => Ipv4Addr::UNSPECIFIED.into(),
    };
    let port = match flags.get("secure-port") {
        Some(text) => {
            text.parse::<u16>().map_err(|_| wrong("secure-port", text, "a port number"))?
        }
        None => 6443,
    };
    Ok(SocketAddr::new(ip, port))
}

fn options(flags: &Flags) -> Result<Options, Failure> {
    let modes = flags.list("authorization-mode");
    let disabled = flags.list("disable-admission-plugins").contains(&"ServiceAccount");
    let tokens = match read(flags, "token-auth-file")? {
        Some(table) => parse_token_file(&table)
            .map_err(|error| Failure::usage(format!("--token-auth-file: {error}")))?,
        None => Vec::<(String, User)>::new(),
    };
    Ok(Options {
        tokens,
        // Without the flag a real server allows everything as well.
        authorize: modes.iter().any(|mode| *mode != "AlwaysAllow"),
        signer: signer(flags)?,
        service_account_admission: !disabled,
        ..Options::default()
    })
}

/// Returns the key that signs tokens of service accounts, if there is a file with one.
fn signer(flags: &Flags) -> Result<Option<Signer>, Failure> {
    let Some(pem) = read(flags, "service-account-signing-key-file")? else { return Ok(None) };
    let issuers = flags.list("service-account-issuer");
    let issuer = issuers.first().copied().unwrap_or(DEFAULT_ISSUER);
    let signer = Signer::from_pem(&pem, issuer)
        .map_err(|error| Failure::usage(format!("--service-account-signing-key-file: {error}")))?;
    Ok(Some(signer))
}

/// Returns the serving certificate and its key: those of the flags, those of the certificate
/// directory, or new ones that are kept there.
fn serving_identity(flags: &Flags, address: SocketAddr) -> Result<Identity, Failure> {
    let certificate = read(flags, "tls-cert-file")?;
    let key = read(flags, "tls-private-key-file")?;
    if let (Some(certificate), Some(key)) = (certificate, key) {
        return Ok(Identity { certificate, key });
    }
    let dir = flags.get("cert-dir").map(Path::new);
    if let Some(dir) = dir {
        let files =
            ["apiserver.crt", "apiserver.key"].map(|name| fs::read_to_string(dir.join(name)));
        if let [Ok(certificate), Ok(key)] = files {
            return Ok(Identity { certificate, key });
        }
    }
    let now = windlass_apiserver::clock::Clock::default().now();
    let identity = Ca::generate("windlass", now)
        .and_then(|ca| ca.serving(&hosts(address)))
        .map_err(|error| Failure::of(&error))?;
    if let Some(dir) = dir {
        fs::create_dir_all(dir)
            .map_err(|error| Failure::other(format!("cannot create {}: {error}", dir.display())))?;
        write_private(&dir.join("apiserver.key"), &identity.key)?;
        write_private(&dir.join("apiserver.crt"), &identity.certificate)?;
    }
    Ok(identity)
}

/// Reads the file that a flag names.
fn read(flags: &Flags, flag: &str) -> Result<Option<String>, Failure> {
    let Some(path) = flags.get(flag).filter(|path| !path.is_empty()) else { return Ok(None) };
    fs::read_to_string(path)
        .map(Some)
        .map_err(|error| Failure::usage(format!("--{flag}: cannot read {path}: {error}")))
}

/// Appends the time this start took to the report of `windlass envtest run`.
fn report_start(start: Instant) {
    let Some(path) = std::env::var_os(REPORT) else { return };
    let line = format!("{:.1}\n", start.elapsed().as_secs_f64() * 1e3);
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    // A report that cannot be written must not fail a test run.
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(line: &str) -> Flags {
        Flags::parse(line.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn the_address_comes_from_two_flags_with_the_defaults_of_the_real_server() {
        let address = |line| listen_address(&flags(line)).map(|address| address.to_string());
        assert_eq!(address("").unwrap(), "0.0.0.0:6443");
        assert_eq!(address("--bind-address=127.0.0.1 --secure-port=1").unwrap(), "127.0.0.1:1");
        let failure = address("--secure-port=99999").unwrap_err();
        assert_eq!(failure.to_string(), "--secure-port 99999: expected a port number");
        assert_eq!(failure.code, 2);
    }

    #[test]
    fn service_accounts_are_admitted_and_requests_authorized_as_the_flags_say() {
        let of = |line| {
            let options = options(&flags(line)).unwrap();
            (options.authorize, options.service_account_admission)
        };
        assert_eq!(of(""), (false, true));
        assert_eq!(of("--authorization-mode=Node,RBAC"), (true, true));
        assert_eq!(of("--authorization-mode=AlwaysAllow"), (false, true));
        assert_eq!(of("--disable-admission-plugins=ServiceAccount,Other"), (false, false));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_together_with_its_flag() {
        let failure = options(&flags("--token-auth-file=/no/such/file")).err().unwrap();
        let text = failure.to_string();
        assert!(text.starts_with("--token-auth-file: cannot read /no/such/file: "), "{text}");
    }
}
