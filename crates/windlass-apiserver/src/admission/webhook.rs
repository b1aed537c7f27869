//! Webhooks: configurations, the order of calls, and what their answers do.
//!
//! Mutating webhooks run one after the other, in the order of their configurations' names; each
//! sees what the one before made. Those that ask for it are called again when a later one changed
//! the object. Validating webhooks run at the same time.
//!
//! **Invariant:** a webhook that was not called in the first round is not called in the second
//! (see [`Round`]).

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use serde_json::Value;
use windlass_cel::admission::{Conditions, Environment};

use super::criteria::{Criteria, is_exempt};
use super::round::Round;
use super::shown::Shown;
use super::{Review, text};
use crate::builtin::rules::value;
use crate::handler::Call;
use crate::lookup::Lookup;
use crate::server::Inner;
use crate::status::{Result, Status};

mod document;

use document::{Verdict, Version};

const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations";
const TIMEOUT_SECONDS: u64 = 10;
/// The most bytes an answer may have.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// One webhook of a configuration.
pub(super) struct Hook {
    name: String,
    config: Value,
    criteria: Criteria,
    conditions: Conditions,
    ignores_failures: bool,
    reinvoked: bool,
    supports_dry_run: bool,
    timeout: Duration,
    version: Option<Version>,
}

/// The webhooks of all configurations of a kind, read once per change.
#[derive(Default)]
pub(crate) struct Hooks(ArcSwapOption<(u64, Vec<Hook>)>);

/// Why a call gave no verdict.
enum Failure {
    /// The webhook could not be asked, or its answer made no sense: `failurePolicy` decides.
    Call(String),
    /// The request is refused.
    Refused(Status),
}

// === impl Hooks ===

impl Hooks {
    /// Returns `true` if there are no mutating ones.
    pub fn is_empty(&self, server: &Inner) -> bool {
        self.of(server, MUTATING).1.is_empty()
    }

    fn of(&self, server: &Inner, plural: &str) -> Arc<(u64, Vec<Hook>)> {
        let revision = server.revision(GROUP, plural);
        if let Some(hooks) = self.0.load_full().filter(|hooks| hooks.0 == revision) {
            return hooks;
        }
        let configurations = server.list(GROUP, plural, None);
        let all = configurations.iter().flat_map(|c| value::items(c, "webhooks"));
        let hooks = Arc::new((revision, all.map(Hook::parse).collect()));
        self.0.store(Some(hooks.clone()));
        hooks
    }
}

impl Hook {
    fn parse(hook: &Value) -> Self {
        let name = text(hook, &["name"]).to_owned();
        let versions = value::items(hook, "admissionReviewVersions").iter();
        Self {
            config: hook["clientConfig"].clone(),
            criteria: Criteria::of_webhook(hook),
            conditions: Conditions::parse(&hook["matchConditions"], &Environment::new(false)),
            ignores_failures: hook["failurePolicy"] == "Ignore",
            reinvoked: hook["reinvocationPolicy"] == "IfNeeded",
            supports_dry_run: matches!(text(hook, &["sideEffects"]), "None" | "NoneOnDryRun"),
            timeout: Duration::from_secs(
                hook["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_SECONDS),
            ),
            version: versions.filter_map(|v| Version::parse(v.as_str()?)).next(),
            name,
        }
    }
}

impl Inner {
    /// Lets mutating webhooks change the object. Returns `true` if any did.
    pub(super) async fn mutate_by_webhooks(
        &self,
        review: &mut Review<'_>,
        call: &Call,
        round: &mut Round<usize>,
    ) -> Result<bool> {
        if is_exempt(review) {
            return Ok(false);
        }
        let hooks = self.admission.mutating.of(self, MUTATING);
        if hooks.1.is_empty() {
            return Ok(false);
        }
        round.begin(review);
        let mut changed = false;
        for (index, hook) in hooks.1.iter().enumerate() {
            let Some(shown) = self.wanted(hook, review, call).await? else { continue };
            if round.skips(&index) {
                continue;
            }
            let outcome = self.mutating_call(hook, review, &shown, call).await;
            if matches!(outcome, Ok(true)) {
                changed = true;
                round.changed();
            }
            if hook.reinvoked {
                round.called(index);
            }
            settle(hook, outcome)?;
        }
        round.end(review);
        Ok(changed)
    }

    /// The request as a webhook sees it, if it wants to.
    async fn wanted(&self, hook: &Hook, review: &Review<'_>, call: &Call) -> Result<Option<Shown>> {
        let Some(resource) = hook.criteria.matched(self, review)? else { return Ok(None) };
        let shown = self.show(review, resource, call).await?;
        if hook.conditions.is_empty() {
            return Ok(Some(shown));
        }
        let held = hook.conditions.hold(&self.scope(review, &shown, None));
        match held {
            Ok(true) => Ok(Some(shown)),
            Ok(false) => Ok(None),
            Err(_) if hook.ignores_failures => Ok(None),
            Err(why) => Err(review.forbidden(why)),
        }
    }

    async fn mutating_call(
        &self,
        hook: &Hook,
        review: &mut Review<'_>,
        shown: &Shown,
        call: &Call,
    ) -> Result<bool, Failure> {
        let verdict = self.ask(hook, review, shown, call, true).await?;
        let Some(patch) = verdict.patch.filter(|patch| !is_empty_patch(patch)) else {
            return Ok(false);
        };
        let refuse = |why: String| Failure::Refused(Status::internal(why));
        let Some(object) = &shown.object else {
            return Err(refuse(format!(
                "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
                hook.name
            )));
        };
        if verdict.patch_type != "JSONPatch" {
            let kind = crate::status::quote(&verdict.patch_type);
            return Err(Failure::Call(format!("unsupported patch type {kind}")));
        }
        let patched = crate::merge::json_patch(object.clone(), &patch)
            .map_err(|status| refuse(status.message))?;
        self.take_patched(review, shown, patched, call).await.map_err(Failure::Refused)
    }

    /// Lets validating webhooks refuse the write.
    pub(super) async fn validate_by_webhooks(
        &self,
        review: &Review<'_>,
        call: &Call,
    ) -> Result<()> {
        if is_exempt(review) {
            return Ok(());
        }
        let hooks = self.admission.validating.of(self, "validatingwebhookconfigurations");
        let mut wanted = Vec::new();
        for hook in &hooks.1 {
            if let Some(shown) = self.wanted(hook, review, call).await? {
                wanted.push((hook, shown));
            }
        }
        let calls = wanted.iter().map(|(hook, shown)| async move {
            let asked = self.ask(hook, review, shown, call, false).await;
            settle(hook, asked.map(drop))
        });
        futures::future::join_all(calls).await.into_iter().collect()
    }

    /// Asks a webhook, and reads its verdict.
    async fn ask(
        &self,
        hook: &Hook,
        review: &Review<'_>,
        shown: &Shown,
        call: &Call,
        mutating: bool,
    ) -> Result<Verdict, Failure> {
        if review.dry_run && !hook.supports_dry_run {
            let why = format!("admission webhook \"{}\" does not support dry run", hook.name);
            return Err(Failure::Refused(Status::bad_request(why)));
        }
        let version = hook.version.ok_or_else(|| {
            let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            Failure::Call(format!("could not create admission objects: {why}"))
        })?;
        let uid = self.random.uuid(&["review", &hook.name]);
        let document = document::request(version, &uid, review, shown);
        let now = self.clock.now();
        let target =
            self.admission.routes.target(&hook.config, self, now).map_err(Failure::Call)?;
        let answer = target.exchange(&document, hook.timeout, ANSWER_BYTES_MAX).await;
        let answer =
            answer.map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
        let verdict = document::verdict(version, &uid, mutating, &answer)
            .map_err(|why| Failure::Call(why.to_string()))?;
        for warning in &verdict.warnings {
            call.warn(warning.clone());
        }
        match verdict.allowed {
            true => Ok(verdict),
            false => Err(Failure::Refused(document::denial(&hook.name, &verdict.status))),
        }
    }
}

/// What a failed call means for the request.
fn settle<T>(hook: &Hook, outcome: Result<T, Failure>) -> Result<()> {
    match outcome {
        Ok(_) => Ok(()),
        Err(Failure::Refused(status)) => Err(status),
        Err(Failure::Call(why)) if hook.ignores_failures => {
            tracing::warn!(webhook = hook.name, why, "failed calling webhook, going on without it");
            Ok(())
        }
        Err(Failure::Call(why)) => Err(Status::internal(format!(
            "failed calling webhook {}: {why}",
            crate::status::quote(&hook.name)
        ))),
    }
}

fn is_empty_patch(patch: &Value) -> bool {
    patch.as_array().is_some_and(Vec::is_empty) || patch.is_null()
}
