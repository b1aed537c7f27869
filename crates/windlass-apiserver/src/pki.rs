//! Certificates: a CA of the server's own, what it signs, and the files clients need.
//!
//! Keys are P-256, which are made in well under a millisecond.

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::auth::PeerCertificate;

/// Why a certificate could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate could not be made.
    #[error("certificate for {what}: {source}")]
    Make {
        /// Whom it was for.
        what: String,
        /// What went wrong.
        source: rcgen::Error,
    },
    /// A certificate names more groups than one can hold.
    #[error("client certificate for {0:?}: at most 2 groups fit into it; use a token instead")]
    Groups(String),
    /// A file has no certificate or key where one is needed.
    #[error("{what}: {source}")]
    Pem {
        /// Which one.
        what: &'static str,
        /// What went wrong.
        source: rustls::pki_types::pem::Error,
    },
    /// A certificate does not fit its key, or its CA is of no use.
    #[error("{what}: {source}")]
    Use {
        /// What it was for.
        what: &'static str,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A certificate and its private key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key (PKCS#8).
    pub key: String,
}

/// A certificate authority.
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    identity: Identity,
    now: Timestamp,
}

// === impl Ca ===

impl Ca {
    /// Creates a new authority; `now` decides from when to when its certificates are good.
    pub fn generate(name: &str, now: Timestamp) -> Result<Self, Error> {
        let make = |source| Error::Make { what: name.to_owned(), source };
        let key = KeyPair::generate().map_err(make)?;
        let mut params = params(name, now);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = ca_usages();
        let certificate = params.self_signed(&key).map_err(make)?.pem();
        let identity = Identity { certificate, key: key.serialize_pem() };
        Ok(Self { issuer: Issuer::new(params, key), identity, now })
    }

    /// Creates an authority kept from before, made by [`Ca::generate`].
    pub fn from_pem(identity: Identity, now: Timestamp) -> Result<Self, Error> {
        let make = |source| Error::Make { what: "the kept CA".to_owned(), source };
        let key = KeyPair::from_pem(&identity.key).map_err(make)?;
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())
            .map_err(|source| Error::Pem { what: "the kept CA", source })?;
        // The common name is all that our own authorities are called.
        let name = PeerCertificate::from_der(&certificate)
            .and_then(|certificate| certificate.user)
            .map(|user| user.name)
            .ok_or_else(|| make(rcgen::Error::CouldNotParseCertificate))?;
        let mut params = params(&name, now);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = ca_usages();
        Ok(Self { issuer: Issuer::new(params, key), identity, now })
    }

    /// Returns certificate and key, to keep them.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the certificate as PEM, for clients that have to trust it.
    pub fn certificate(&self) -> &str {
        &self.identity.certificate
    }

    /// Returns a certificate for a server that is reached by these host names and addresses.
    pub fn serving(&self, hosts: &[String]) -> Result<Identity, Error> {
        let name = hosts.first().map_or("server", String::as_str);
        let make = |source| Error::Make { what: name.to_owned(), source };
        let mut params = params(name, self.now);
        params.subject_alt_names =
            CertificateParams::new(hosts.to_vec()).map_err(make)?.subject_alt_names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(name, params)
    }

    /// Returns a certificate for a client: the user's name and at most two groups.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Identity, Error> {
        let mut params = params(user, self.now);
        // A name of rcgen holds one value per type; the numeric form of O is a type of its own.
        let types = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
        if groups.len() > types.len() {
            return Err(Error::Groups(user.to_owned()));
        }
        for (group, dn_type) in groups.iter().zip(types) {
            params.distinguished_name.push(dn_type, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(user, params)
    }

    fn sign(&self, name: &str, mut params: CertificateParams) -> Result<Identity, Error> {
        let make = |source| Error::Make { what: name.to_owned(), source };
        let key = KeyPair::generate().map_err(make)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(make)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

fn params(name: &str, now: Timestamp) -> CertificateParams {
    let year = i32::from(now.to_zoned(TimeZone::UTC).year());
    let mut params = CertificateParams::default();
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + 10, 1, 1);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn ca_usages() -> Vec<KeyUsagePurpose> {
    vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature]
}

/// Returns the TLS settings of a server: its certificate, and the CAs (PEM) of clients it knows.
///
/// Clients may show a certificate but need not; HTTP/2 is preferred to HTTP/1.1.
pub fn server_config(
    serving: &Identity,
    client_cas: Option<&str>,
) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let wrong = |what| move |error: rustls::Error| Error::Use { what, source: Box::new(error) };
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(wrong("TLS versions"))?;
    let builder = match client_cas {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates("client CA", pem)? {
                roots.add(certificate).map_err(wrong("client CA"))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| Error::Use { what: "client CA", source: Box::new(error) })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = certificates("serving certificate", &serving.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes())
        .map_err(|source| Error::Pem { what: "serving key", source })?;
    let mut config = builder.with_single_cert(chain, key).map_err(wrong("serving certificate"))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(what: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|source| Error::Pem { what, source })
}

/// Returns a kubeconfig for a user with a token, and with a certificate as well if there is one:
/// some clients send but one of the two. Without a CA the connection is plain HTTP.
pub fn kubeconfig(
    server: &str,
    ca: Option<&str>,
    token: &str,
    certificate: Option<&Identity>,
) -> String {
    let mut out = String::from("apiVersion: v1\nkind: Config\nclusters:\n- name: windlass\n");
    out.push_str("  cluster:\n");
    if let Some(ca) = ca {
        let _ = writeln!(out, "    certificate-authority-data: {}", STANDARD.encode(ca));
    }
    let _ = writeln!(out, "    server: {server}");
    out.push_str("contexts:\n- name: windlass\n  context:\n    cluster: windlass\n");
    out.push_str("    user: admin\ncurrent-context: windlass\npreferences: {}\n");
    let _ = write!(out, "users:\n- name: admin\n  user:\n    token: {token}\n");
    if let Some(Identity { certificate, key }) = certificate {
        let _ = writeln!(out, "    client-certificate-data: {}", STANDARD.encode(certificate));
        let _ = writeln!(out, "    client-key-data: {}", STANDARD.encode(key));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    #[test]
    fn a_client_certificate_names_its_user_and_groups() {
        let ca = Ca::generate("ca", now()).unwrap();
        let client = ca.client("alice", &["system:masters", "dev"]).unwrap();
        let der = CertificateDer::from_pem_slice(client.certificate.as_bytes()).unwrap();
        let user = PeerCertificate::from_der(&der).unwrap().user.unwrap();
        assert_eq!((user.name.as_str(), user.groups.len()), ("alice", 2));
        assert_eq!(user.groups, ["system:masters", "dev"]);
        assert!(ca.client("alice", &["a", "b", "c"]).is_err());
    }

    #[test]
    fn a_kept_authority_signs_what_the_first_one_would() {
        let ca = Ca::generate("ca", now()).unwrap();
        let again = Ca::from_pem(ca.identity().clone(), now()).unwrap();
        let serving = again.serving(&["localhost".into(), "127.0.0.1".into()]).unwrap();
        server_config(&serving, Some(ca.certificate())).unwrap();
    }

    #[test]
    fn wrong_files_are_reported_without_a_panic() {
        let ca = Ca::generate("ca", now()).unwrap();
        let good = ca.serving(&["localhost".into()]).unwrap();
        let bad = Identity { certificate: good.certificate.clone(), key: "nothing".into() };
        assert!(server_config(&bad, None).is_err());
        assert!(server_config(&good, Some("nothing")).is_err());
    }

    #[test]
    fn the_kubeconfig_has_server_and_token_on_lines_of_their_own() {
        let identity = Identity { certificate: "C".into(), key: "K".into() };
        let text = kubeconfig("https://127.0.0.1:6443", Some("PEM"), "secret", Some(&identity));
        assert!(text.contains("\n    server: https://127.0.0.1:6443\n"));
        assert!(text.contains("\n    token: secret\n"));
        let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(value["clusters"][0]["cluster"]["certificate-authority-data"], "UEVN");
        assert_eq!(value["users"][0]["user"]["token"], "secret");
        assert_eq!(value["users"][0]["user"]["client-certificate-data"], "Qw==");
        assert_eq!(value["users"][0]["user"]["client-key-data"], "Sw==");
    }
}
