//! `windlass envtest`: the embedded API server in the place of envtest's binaries.
//!
//! Suites that start `etcd` and `kube-apiserver` from the directory in `KUBEBUILDER_ASSETS` run on
//! windlass: the directory holds links to this program, which acts as the binary it is called as
//! ([`Binary`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::failure::Failure;

mod apiserver;
mod etcd;
mod flags;
mod kubectl;

/// The variable with the path of the file to which API servers append their start times.
const REPORT: &str = "WINDLASS_ENVTEST_REPORT";

/// Use the embedded API server in the place of envtest's binaries.
#[derive(Args)]
pub struct EnvtestArgs {
    #[command(subcommand)]
    command: EnvtestCommand,
}

#[derive(Subcommand)]
enum EnvtestCommand {
    /// Print the directory to set `KUBEBUILDER_ASSETS` to.
    Path(PathArgs),
    /// Run a command whose envtest suites start the embedded API server, and report start times.
    Run(RunArgs),
}

#[derive(Args)]
struct PathArgs {
    /// Put the binaries here instead of the user's cache directory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Args)]
struct RunArgs {
    /// Put the binaries here instead of the user's cache directory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// The command and its arguments, such as `go test ./...`.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
}

/// One of the programs that envtest starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binary {
    /// The API server.
    ApiServer,
    /// The store of a real API server, of which only the health endpoint is served.
    Etcd,
    /// The command line client, which is not part of windlass.
    Kubectl,
}

// === impl Binary ===

impl Binary {
    const ALL: [Self; 3] = [Self::ApiServer, Self::Etcd, Self::Kubectl];

    /// Returns the binary that this process was started as, judging by its name.
    pub fn of_process() -> Option<Self> {
        let program = PathBuf::from(std::env::args_os().next()?);
        let stem = program.file_stem()?.to_str()?.to_owned();
        Self::ALL.into_iter().find(|binary| binary.name() == stem)
    }

    fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::Etcd => "etcd",
            Self::Kubectl => "kubectl",
        }
    }

    /// The variable with which a suite can name this binary; it overrides `KUBEBUILDER_ASSETS`.
    fn variable(self) -> &'static str {
        match self {
            Self::ApiServer => "TEST_ASSET_KUBE_APISERVER",
            Self::Etcd => "TEST_ASSET_ETCD",
            Self::Kubectl => "TEST_ASSET_KUBECTL",
        }
    }

    fn file_name(self) -> String {
        format!("{}{}", self.name(), std::env::consts::EXE_SUFFIX)
    }

    /// Acts as the binary until it ends; returns the exit status.
    pub fn run(self) -> u8 {
        let args = std::env::args_os().skip(1);
        let args = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
        let outcome = match self {
            Self::ApiServer => apiserver::run(args),
            Self::Etcd => etcd::run(args),
            Self::Kubectl => kubectl::run(),
        };
        match outcome {
            Ok(()) => 0,
            Err(failure) => {
                eprintln!("{} (windlass): {failure}", self.name());
                failure.code
            }
        }
    }
}

/// Runs the subcommand; returns the exit status.
pub fn run(args: EnvtestArgs) -> Result<u8, Failure> {
    match args.command {
        EnvtestCommand::Path(args) => {
            let dir = link_binaries(args.dir)?;
            say!("{}", dir.display());
            Ok(0)
        }
        EnvtestCommand::Run(args) => run_command(args),
    }
}

/// Creates the directory with the three binaries, each a link to this program.
fn link_binaries(dir: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let program = std::env::current_exe().and_then(fs::canonicalize).map_err(|error| {
        Failure::other(format!("cannot find the path of this program: {error}"))
    })?;
    let dir = match dir {
        Some(dir) => std::path::absolute(&dir)
            .map_err(|error| Failure::usage(format!("--dir {}: {error}", dir.display())))?,
        None => default_dir(&program)?,
    };
    let failed = |path: &Path, error: io::Error| {
        Failure::other(format!("cannot write {}: {error}", path.display()))
    };
    create_private_dir(&dir).map_err(|error| failed(&dir, error))?;
    for binary in Binary::ALL {
        let path = dir.join(binary.file_name());
        link(&program, &path).map_err(|error| failed(&path, error))?;
    }
    Ok(dir)
}

/// The directory for the links to this program, below the user's cache directory.
fn default_dir(program: &Path) -> Result<PathBuf, Failure> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = from("XDG_CACHE_HOME")
        .or_else(|| from("LOCALAPPDATA"))
        .or_else(|| from("HOME").map(|home| home.join(".cache")))
        .ok_or_else(|| {
            Failure::usage("neither XDG_CACHE_HOME nor HOME is set; name a directory with --dir")
        })?;
    // Different builds of this program do not replace each other's links.
    let mut hasher = DefaultHasher::new();
    program.hash(&mut hasher);
    Ok(cache.join("windlass").join("envtest").join(format!("{:016x}", hasher.finish())))
}

fn create_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Makes `path` a link to the program (a copy where there are no symbolic links), replacing what
/// was there in one step: another process may be starting it.
fn link(program: &Path, path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        if fs::read_link(path).is_ok_and(|target| target == program) {
            return Ok(());
        }
        let draft = path.with_file_name(uuid::Uuid::new_v4().simple().to_string());
        std::os::unix::fs::symlink(program, &draft)?;
        fs::rename(&draft, path).inspect_err(|_| drop(fs::remove_file(&draft)))
    }
    #[cfg(not(unix))]
    fs::copy(program, path).map(drop)
}

/// Runs the command with envtest's variables set, and reports how fast its API servers started.
fn run_command(args: RunArgs) -> Result<u8, Failure> {
    let dir = link_binaries(args.dir)?;
    let report = std::env::temp_dir().join(format!("windlass-{}", uuid::Uuid::new_v4().simple()));
    let (program, rest) = args.command.split_first().ok_or_else(|| Failure::usage("no command"))?;
    let mut command = tokio::process::Command::new(program);
    command.args(rest).env("KUBEBUILDER_ASSETS", &dir).env(REPORT, &report);
    command.env_remove("USE_EXISTING_CLUSTER");
    for binary in Binary::ALL {
        command.env_remove(binary.variable());
    }
    let shown = program.to_string_lossy().into_owned();
    let code = crate::child::run(command, &shown, Duration::from_secs(20))?;
    let times = fs::read_to_string(&report).unwrap_or_default();
    let _ = fs::remove_file(&report);
    eprintln!("windlass envtest: {}", summary(&times));
    Ok(code)
}

/// Describes the start times that API servers have reported, one per line in milliseconds.
fn summary(times: &str) -> String {
    let mut times: Vec<f64> = times.lines().filter_map(|line| line.parse().ok()).collect();
    times.sort_by(f64::total_cmp);
    let (Some(median), Some(slowest)) = (times.get(times.len() / 2), times.last()) else {
        return "no API server was started; does the suite set BinaryAssetsDirectory?".to_owned();
    };
    let servers = if times.len() == 1 { "API server" } else { "API servers" };
    let count = times.len();
    format!("{count} {servers} started, median {median:.0} ms, slowest {slowest:.0} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times_are_summarized_by_median_and_maximum() {
        assert_eq!(summary("3\n1\n250\n"), "3 API servers started, median 3 ms, slowest 250 ms");
        assert_eq!(summary("8.4\n"), "1 API server started, median 8 ms, slowest 8 ms");
        assert!(summary("").starts_with("no API server was started"));
    }
}
