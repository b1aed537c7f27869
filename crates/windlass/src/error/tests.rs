//! What errors say, and what they are taken for.

use kube::config::KubeconfigError;

use super::*;

fn status(code: u16, reason: &str) -> Error {
    Error::Api {
        action: "get Pod a/b".into(),
        status: Status::failure("no", reason).with_code(code).boxed(),
    }
}

/// An error type of the author's own.
#[derive(Debug, thiserror::Error)]
#[error("the shop is closed")]
struct Closed(#[source] Error);

/// Hides the error it wraps and shows only the source of that, as `anyhow` does.
#[derive(Debug)]
struct Opaque(Error);

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Opaque {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

#[test]
fn predicates_look_through_terminal_and_foreign_errors() {
    assert!(Error::terminal(status(404, "NotFound")).is_not_found());
    assert!(status(409, "Conflict").is_conflict());
    assert!(!status(409, "AlreadyExists").is_conflict());
    assert!(Error::other(Closed(status(409, "Conflict"))).is_conflict());
    assert!(!Error::other(Closed(status(409, "Conflict"))).is_terminal());
}

#[test]
fn a_terminal_error_stays_terminal_inside_foreign_errors() {
    assert!(Error::other(Closed(Error::terminal("no size"))).is_terminal());
    let hidden = Error::other(Opaque(Error::terminal(status(403, "Forbidden"))));
    assert!(hidden.is_terminal() && hidden.is_forbidden());
    let boxed: Box<dyn StdError + Send + Sync> = Error::terminal("no size").into();
    assert!(matches!(Error::from(boxed), Error::Terminal(_)));
}

#[test]
fn chain_names_every_cause_once() {
    let error = Error::Transport { action: "get Pod a/b".into(), source: "refused".into() };
    assert_eq!(error.chain(), "get Pod a/b: no usable answer from the API server: refused");
    let error = Error::terminal(Error::other(Closed(Error::Invalid("no key".into()))));
    assert_eq!(error.chain(), "terminal error: the shop is closed: no key");
}

#[test]
fn an_error_that_leaves_main_is_one_sentence() {
    let error = Error::from(KubeconfigError::CurrentContextNotSet);
    let Error::Kubeconfig { file, .. } = &error else { panic!("{error}") };
    assert_eq!(
        format!("{error:?}"),
        format!(
            "not running in a cluster, and kubeconfig {file} cannot be used: failed to \
             determine current context"
        )
    );
    let lost = Error::LeaseLost { lease: "ops/web".into() };
    assert_eq!(format!("{lost:?}"), "lease ops/web was lost, so this process stopped");
}

#[test]
fn a_write_without_the_lease_says_whether_it_was_ever_held() {
    let fenced = |was_held| {
        let (action, lease) = ("create Pod a/b".into(), "ops/web".into());
        Error::Fenced { action, lease, was_held }.to_string()
    };
    let text = |what| format!("create Pod a/b: stopped, because this process {what} ops/web");
    assert_eq!(fenced(true), text("has lost lease"));
    assert_eq!(fenced(false), text("does not hold lease"));
}

#[test]
fn the_question_mark_converts_errors_of_other_crates() {
    /// What a reconcile might read from an object, one after the other.
    async fn read(what: &str, text: &str) -> Result<crate::Next> {
        match what {
            "integer" => _ = text.parse::<u16>()?,
            "float" => _ = text.parse::<f64>()?,
            "bool" => _ = text.parse::<bool>()?,
            "address" => _ = text.parse::<std::net::IpAddr>()?,
            "size" => _ = u8::try_from(text.len() + 300)?,
            "text" => _ = std::str::from_utf8(&vec![0xff; text.len()])?,
            "string" => _ = String::from_utf8(vec![0xff])?,
            "time" => _ = text.parse::<Timestamp>()?,
            "json" => _ = serde_json::from_str::<u16>(text)?,
            "file" => _ = std::fs::read("/does/not/exist")?,
            _ => tokio::time::timeout(Duration::ZERO, std::future::pending()).await?,
        }
        Ok(crate::Next::Done)
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for what in [
        "integer", "float", "bool", "address", "size", "text", "string", "time", "json", "file",
        "late",
    ] {
        let error = runtime.block_on(read(what, "x")).expect_err(what);
        assert!(matches!(error, Error::Other(_) | Error::Decode { .. }), "{what}: {error}");
    }
}
