//! The content of the Secret, and what becomes of it as time passes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;

use super::Times;
use super::issue::{self, Certificate, Pair};
use crate::error::Result;

/// The CAs that are to be trusted, the key of the newest one, and the leaf that is served.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Material {
    /// The oldest first; never empty.
    authorities: Vec<Certificate>,
    key: String,
    leaf: Pair,
    shown: Certificate,
}

/// What is known outside of the Secret.
pub(super) struct Facts<'a> {
    pub(super) now: Timestamp,
    /// How long the newest CA has been in all bundles.
    pub(super) trusted_for: Option<Duration>,
    /// The names that the API server calls.
    pub(super) hosts: &'a [String],
    /// Who the CAs belong to.
    pub(super) owner: &'a str,
}

// === impl Material ===

impl Material {
    /// A new CA and a leaf.
    pub(super) fn generate(facts: &Facts<'_>, times: &Times) -> Result<Self> {
        let authority = issue::authority(facts.owner, facts.now, times.authority)?;
        Self::signed(issue::read(&authority.certificate), &authority, facts, times)
    }

    /// Signs a leaf with a CA, the newest of some.
    fn signed(
        authorities: Vec<Certificate>,
        newest: &Pair,
        facts: &Facts<'_>,
        times: &Times,
    ) -> Result<Self> {
        let leaf = issue::leaf(newest, facts.hosts, facts.now, times.leaf)?;
        let shown = issue::read(&leaf.certificate).pop();
        let shown = shown.ok_or("the certificate that was made cannot be read")?;
        Ok(Self { authorities, key: newest.key.clone(), leaf, shown })
    }

    /// Reads a Secret; `None` if anything is missing or does not fit together.
    pub(super) fn read(data: &BTreeMap<String, ByteString>) -> Option<Self> {
        let text = |name: &str| String::from_utf8(data.get(name)?.0.clone()).ok();
        let leaf = Pair { certificate: text("tls.crt")?, key: text("tls.key")? };
        let shown = issue::read(&leaf.certificate).into_iter().next()?;
        let (authorities, key) = (issue::read(&text("ca.crt")?), text("ca.key")?);
        let known = authorities.iter().any(|ca| ca.subject == shown.issuer);
        let usable = crate::serve::Tls::from_pem(leaf.certificate.as_bytes(), leaf.key.as_bytes());
        (known && usable.is_ok()).then_some(Self { authorities, key, leaf, shown })
    }

    /// The content of the Secret.
    pub(super) fn data(&self) -> BTreeMap<String, ByteString> {
        let text = |text: &str| ByteString(text.as_bytes().to_vec());
        let bundle: String = self.authorities.iter().map(Certificate::pem).collect();
        BTreeMap::from([
            ("ca.crt".into(), text(&bundle)),
            ("ca.key".into(), text(&self.key)),
            ("tls.crt".into(), text(&self.leaf.certificate)),
            ("tls.key".into(), text(&self.leaf.key)),
        ])
    }

    /// The CAs to trust.
    pub(super) fn authorities(&self) -> &[Certificate] {
        &self.authorities
    }

    /// The newest CA, which signs.
    pub(super) fn newest(&self) -> &Certificate {
        self.authorities.last().unwrap_or(&self.shown)
    }

    /// Returns `true` if every replica serves a leaf of the newest CA by now.
    pub(super) fn is_settled(&self, now: Timestamp, times: &Times) -> bool {
        self.shown.issuer == self.newest().subject && age(&self.shown, now) >= times.overlap
    }

    /// Returns `true` if a rotation is under way.
    pub(super) fn is_rotating(&self) -> bool {
        self.authorities.len() > 1
    }

    /// Takes the next step that is due, or returns the same material.
    pub(super) fn next(&self, facts: &Facts<'_>, times: &Times) -> Result<Self> {
        let now = facts.now;
        let mut next = self.clone();
        // Without its key, a CA can sign nothing any more.
        if now >= self.newest().renew_at() || !self.newest().is_of(&self.key) {
            let made = issue::authority(facts.owner, now, times.authority)?;
            next.authorities.retain(|ca| ca.expires > now);
            next.authorities.extend(issue::read(&made.certificate));
            next.key = made.key;
            tracing::info!("made a new CA for webhooks");
        }
        let by_newest = next.shown.issuer == next.newest().subject;
        // A leaf of the old CA is replaced only when the new CA is trusted everywhere, unless the
        // leaf is of no use any more.
        let trusted = next.newest() == self.newest()
            && facts.trusted_for.is_some_and(|since| since >= times.propagation);
        let due = if by_newest { now >= next.shown.renew_at() } else { trusted };
        if due || now >= next.shown.expires || !self.names(facts.hosts) {
            let newest = Pair { certificate: next.newest().pem(), key: next.key.clone() };
            next = Self::signed(next.authorities, &newest, facts, times)?;
            tracing::info!(expires = %next.shown.expires, "made a new certificate for webhooks");
        } else if by_newest && next.authorities.len() > 1 && self.is_settled(now, times) {
            next.authorities = next.authorities.split_off(next.authorities.len() - 1);
            tracing::info!("removed the previous CA of webhooks");
        }
        Ok(next)
    }

    /// Returns `true` if the leaf is for these hosts.
    fn names(&self, hosts: &[String]) -> bool {
        hosts.iter().all(|host| self.shown.hosts.contains(host))
    }
}

fn age(certificate: &Certificate, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(certificate.created)).unwrap_or_default()
}
