//! Flags of kubebuilder's manager that have another name here or no effect, so that a Deployment
//! that was written for it starts this program too.

use clap::{ArgAction, Args};

use super::cli::{LogFormat, RunArgs};

#[derive(Args, Clone, Debug)]
pub(super) struct Flags {
    /// Accepted; metrics and webhooks are served over HTTP/1.1.
    #[arg(long, env = "ENABLE_HTTP2", default_value = "false", num_args = 0..=1,
        default_missing_value = "true", value_parser = boolean, action = ArgAction::Set,
        value_name = "BOOL")]
    enable_http2: bool,
    /// Log text from level debug on, unless --log-format and --log-level say otherwise.
    #[arg(long, default_value = "false", num_args = 0..=1, default_missing_value = "true",
        value_parser = boolean, action = ArgAction::Set,
        value_name = "BOOL")]
    zap_devel: bool,
    /// Accepted; errors are logged with their causes and without a stack.
    #[arg(long, value_name = "LEVEL")]
    zap_stacktrace_level: Option<String>,
    /// Accepted; times are logged as in RFC 3339.
    #[arg(long, value_name = "ENCODING")]
    zap_time_encoding: Option<String>,
}

/// Gives `--zap-devel` its meaning.
pub(super) fn apply(args: &mut RunArgs) {
    if args.kubebuilder.zap_devel {
        args.log_level.get_or_insert_with(|| "debug".into());
        args.log_format.get_or_insert(LogFormat::Text);
    }
}

/// Returns one line for each flag that has no effect.
pub(super) fn without_effect(flags: &Flags) -> Vec<String> {
    let rfc = ["rfc3339", "rfc3339nano"];
    let encoding = flags
        .zap_time_encoding
        .as_deref()
        .filter(|name| !rfc.contains(&name.to_lowercase().as_str()));
    let http2 = flags.enable_http2.then_some("--enable-http2 has no effect, HTTP/1.1 is served");
    let stack = flags.zap_stacktrace_level.as_ref();
    let stack =
        stack.map(|_| "--zap-stacktrace-level has no effect, errors are logged with causes");
    let time =
        encoding.map(|_| "--zap-time-encoding has no effect, times are logged as in RFC 3339");
    [http2, stack, time].into_iter().flatten().map(str::to_owned).collect()
}

/// Reads what Go reads as a boolean.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".into()),
    }
}

/// Reads a variable that switches something off with `false` alone.
pub(super) fn unless_false(text: &str) -> Result<bool, String> {
    Ok(boolean(text) != Ok(false))
}
