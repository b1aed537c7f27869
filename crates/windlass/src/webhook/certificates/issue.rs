//! Makes and reads certificates. Keys are P-256.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::error::{Error, Result};

/// How far the clocks of replicas and API servers may be behind.
const SKEW: Duration = Duration::from_secs(3600);

/// A certificate and its private key, both as PEM.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::webhook) struct Pair {
    pub(in crate::webhook) certificate: String,
    pub(in crate::webhook) key: String,
}

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    der: Vec<u8>,
    pub(super) subject: String,
    pub(super) issuer: String,
    pub(super) organization: String,
    /// The DNS names that it is for.
    pub(super) hosts: Vec<String>,
    public_key: Vec<u8>,
    pub(super) created: Timestamp,
    pub(super) expires: Timestamp,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pair")
    }
}

/// Makes a CA. Its name is unique as long as no two are made within a second.
pub(in crate::webhook) fn authority(owner: &str, now: Timestamp, life: Duration) -> Result<Pair> {
    let key = KeyPair::generate().map_err(wrong)?;
    let name = format!("webhook CA {}", now.as_second());
    let params = authority_params(owner, &name, now, plus(now, life));
    let certificate = params.self_signed(&key).map_err(wrong)?.pem();
    Ok(Pair { certificate, key: key.serialize_pem() })
}

/// Makes a certificate for these host names and addresses, which lives no longer than its CA.
pub(in crate::webhook) fn leaf(
    authority: &Pair,
    hosts: &[String],
    now: Timestamp,
    life: Duration,
) -> Result<Pair> {
    let ca = read(&authority.certificate).pop();
    let ca = ca.ok_or_else(|| Error::Invalid("the CA is not a certificate".into()))?;
    let key = KeyPair::from_pem(&authority.key).map_err(wrong)?;
    let params = authority_params(&ca.organization, &ca.subject, ca.created, ca.expires);
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::new(hosts.to_vec()).map_err(wrong)?;
    params.not_before = date_time_ymd(1970, 1, 1) + since_epoch(minus(now, SKEW));
    params.not_after = date_time_ymd(1970, 1, 1) + since_epoch(plus(now, life).min(ca.expires));
    params.distinguished_name = DistinguishedName::new();
    let name = hosts.first().map_or("webhooks", String::as_str);
    // A common name has at most 64 characters, and nobody reads it.
    params.distinguished_name.push(DnType::CommonName, &name[..name.len().min(64)]);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(wrong)?;
    let certificate = params.signed_by(&key, &issuer).map_err(wrong)?.pem();
    Ok(Pair { certificate, key: key.serialize_pem() })
}

fn authority_params(
    owner: &str,
    name: &str,
    created: Timestamp,
    expires: Timestamp,
) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = date_time_ymd(1970, 1, 1) + since_epoch(minus(created, SKEW));
    params.not_after = date_time_ymd(1970, 1, 1) + since_epoch(expires);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, owner);
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Reads all certificates of a PEM file; everything else is left out.
pub(super) fn read(pem: &str) -> Vec<Certificate> {
    let all = CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok);
    all.filter_map(|der| Certificate::from_der(&der)).collect()
}

// === impl Certificate ===

impl Certificate {
    pub(super) fn from_der(der: &[u8]) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let name = |name: &x509_parser::x509::X509Name<'_>| {
            let first = name.iter_common_name().next();
            first.and_then(|name| name.as_str().ok()).unwrap_or_default().to_owned()
        };
        let organization = parsed.subject().iter_organization().next();
        let organization = organization.and_then(|name| name.as_str().ok()).unwrap_or_default();
        let names = parsed.subject_alternative_name().ok().flatten();
        let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
        let hosts = names.iter().filter_map(|name| match name {
            GeneralName::DNSName(host) => Some((*host).to_owned()),
            _ => None,
        });
        let validity = parsed.validity();
        let time = |seconds| Timestamp::from_second(seconds).ok();
        Some(Self {
            subject: name(parsed.subject()),
            issuer: name(parsed.issuer()),
            organization: organization.to_owned(),
            hosts: hosts.collect(),
            public_key: parsed.public_key().raw.to_vec(),
            created: plus(time(validity.not_before.timestamp())?, SKEW),
            expires: time(validity.not_after.timestamp())?,
            der: der.to_vec(),
        })
    }

    /// Returns `true` if this is its private key.
    pub(super) fn is_of(&self, key: &str) -> bool {
        KeyPair::from_pem(key).is_ok_and(|key| key.subject_public_key_info() == self.public_key)
    }

    /// When two thirds of the lifetime are over.
    pub(super) fn renew_at(&self) -> Timestamp {
        let life = self.expires.duration_since(self.created);
        let seconds = life.as_secs().max(0) / 3 * 2;
        self.created.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(self.created)
    }

    pub(super) fn pem(&self) -> String {
        let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
        let text = STANDARD.encode(&self.der);
        for line in text.as_bytes().chunks(64) {
            pem.push_str(&String::from_utf8_lossy(line));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }
}

fn plus(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_add(by).unwrap_or(time)
}

fn minus(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_sub(by).unwrap_or(time)
}

/// The time since 1970 in whole seconds: `rcgen` adds it to a date.
fn since_epoch(time: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(time.as_second()).unwrap_or(0))
}

fn wrong(error: rcgen::Error) -> Error {
    Error::Other(format!("the certificate of the webhooks cannot be made: {error}").into())
}
