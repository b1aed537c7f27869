//! TLS to webhooks: which certificates are trusted, by the rules of Go's client.
//!
//! A certificate of the bundle is trusted itself, also as a serving certificate and also if it is
//! that of a CA. Without a bundle the roots of the operating system decide.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::time_provider::TimeProvider;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Version};

/// Returns the settings for a server whose certificate this bundle (PEM) vouches for.
///
/// # Errors
/// If the bundle contains no certificate.
pub(super) async fn client_config(
    bundle: &str,
    now: Timestamp,
) -> Result<Arc<ClientConfig>, String> {
    let verifier = if bundle.is_empty() {
        let roots = tokio::task::spawn_blocking(system_roots).await;
        Verifier::of_roots(roots.map_err(|error| format!("system roots: {error}"))?)
    } else {
        Verifier::of_bundle(bundle)?
    };
    let provider = verifier.provider.clone();
    let builder = ClientConfig::builder_with_details(provider, Arc::new(Moment(now)))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Explains a handshake that failed.
pub(super) fn explain(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let why = match inner {
        Some(Error::General(why)) => why.clone(),
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "certificate signed by unknown authority".to_owned()
        }
        // What may sign certificates and is not trusted itself: Go looks for its signer, in vain.
        Some(Error::InvalidCertificate(other)) if is_untrusted_ca(other) => {
            "certificate signed by unknown authority".to_owned()
        }
        Some(Error::InvalidCertificate(other)) => other.to_string(),
        _ if error.kind() == std::io::ErrorKind::UnexpectedEof => return "EOF".into(),
        _ => return error.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

fn is_untrusted_ca(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity")
}

/// The roots of the operating system, read once.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let load = || {
        let loaded = rustls_native_certs::load_native_certs();
        for error in &loaded.errors {
            tracing::warn!(%error, "a root certificate of the system can not be read");
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(loaded.certs);
        Arc::new(roots)
    };
    ROOTS.get_or_init(load).clone()
}

/// The time of the server, at which certificates have to be valid.
#[derive(Debug)]
struct Moment(Timestamp);

impl TimeProvider for Moment {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// Decides about the certificate of a webhook.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// Certificates that are trusted as they are.
    trusted: Vec<CertificateDer<'static>>,
    /// Decides about chains; `None` without any CA.
    chains: Option<Arc<WebPkiServerVerifier>>,
}

// === impl Verifier ===

impl Verifier {
    fn of_bundle(bundle: &str) -> Result<Self, String> {
        let all = CertificateDer::pem_slice_iter(bundle.as_bytes());
        let trusted: Vec<CertificateDer<'static>> = all.filter_map(Result::ok).collect();
        if trusted.is_empty() {
            return Err("unable to load root certificates: \
                        unable to parse bytes as PEM block"
                .into());
        }
        let mut roots = RootCertStore::empty();
        let authorities = trusted.iter().filter(|certificate| can_sign(certificate));
        roots.add_parsable_certificates(authorities.cloned());
        Ok(Self { trusted, ..Self::of_roots(Arc::new(roots)) })
    }

    fn of_roots(roots: Arc<RootCertStore>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chains = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
        Self { provider, trusted: Vec::new(), chains: chains.ok() }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (_, parsed) = X509Certificate::from_der(end_entity)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        check_time(&parsed, now)?;
        let names = ParsedCertificate::try_from(end_entity)?;
        rustls::client::verify_server_name(&names, server_name)
            .map_err(|_| Error::General(wrong_name(&parsed, server_name)))?;
        if self.trusted.iter().any(|trusted| **trusted == **end_entity) {
            return check_usage(&parsed).map(|()| ServerCertVerified::assertion());
        }
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let chains = self.chains.as_ref().ok_or(unknown)?;
        chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns `true` if a certificate may sign others: it is that of a CA, or too old to say so.
fn can_sign(certificate: &CertificateDer<'_>) -> bool {
    let parsed = X509Certificate::from_der(certificate);
    parsed.is_ok_and(|(_, parsed)| parsed.version() != X509Version::V3 || parsed.is_ca())
}

fn check_time(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), Error> {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    let (from, to) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let (order, bound) = match () {
        () if now < from => ("before", from),
        () if now > to => ("after", to),
        () => return Ok(()),
    };
    let shown = |seconds| Timestamp::from_second(seconds).unwrap_or_default();
    Err(Error::General(format!(
        "certificate has expired or is not yet valid: current time {} is {order} {}",
        shown(now),
        shown(bound)
    )))
}

/// A certificate without usages may be used for everything.
fn check_usage(certificate: &X509Certificate<'_>) -> Result<(), Error> {
    let usages = certificate.extended_key_usage().ok().flatten();
    match usages.is_none_or(|usages| usages.value.any || usages.value.server_auth) {
        true => Ok(()),
        false => {
            let why = "certificate specifies an incompatible key usage";
            Err(Error::General(why.into()))
        }
    }
}

fn wrong_name(certificate: &X509Certificate<'_>, wanted: &ServerName<'_>) -> String {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension.iter().flat_map(|extension| &extension.value.general_names);
    let (mut hosts, mut addresses) = (Vec::new(), Vec::new());
    for name in names {
        match name {
            GeneralName::DNSName(host) => hosts.push((*host).to_owned()),
            GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
            _ => {}
        }
    }
    let wanted_text = wanted.to_str();
    let valid = match wanted {
        ServerName::IpAddress(_) if addresses.is_empty() => {
            return format!(
                "cannot validate certificate for {wanted_text} because it doesn't contain any IP SANs"
            );
        }
        ServerName::IpAddress(_) => addresses,
        _ => hosts,
    };
    match valid.is_empty() {
        true => {
            format!("certificate is not valid for any names, but wanted to match {wanted_text}")
        }
        false => format!("certificate is valid for {}, not {wanted_text}", valid.join(", ")),
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let address = four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
    address.ok().map(|address| address.to_string())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "certificates are valid in real time")]
mod tests {
    use super::*;
    use crate::pki::Ca;

    fn check(verifier: &Verifier, served: &str) -> Result<ServerCertVerified, Error> {
        let der = CertificateDer::from_pem_slice(served.as_bytes()).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        verifier.verify_server_cert(&der, &[], &name, &[], UnixTime::now())
    }

    #[test]
    fn without_a_bundle_the_given_roots_decide() {
        let ca = Ca::generate("root", Timestamp::now()).unwrap();
        let serving = ca.serving(&["localhost".into()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.certificate().as_bytes()).unwrap()).unwrap();
        assert!(check(&Verifier::of_roots(roots.into()), &serving.certificate).is_ok());
        let none = Verifier::of_roots(RootCertStore::empty().into());
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert_eq!(check(&none, &serving.certificate).unwrap_err(), unknown);
    }

    #[test]
    fn the_roots_of_the_system_are_read() {
        let known = rustls_native_certs::load_native_certs().certs.len();
        assert_eq!(system_roots().is_empty(), known == 0);
    }

    #[test]
    fn a_leaf_in_the_bundle_vouches_for_itself_only() {
        let ca = Ca::generate("root", Timestamp::now()).unwrap();
        let (one, two) = (
            ca.serving(&["localhost".into()]).unwrap(),
            ca.serving(&["localhost".into()]).unwrap(),
        );
        let verifier = Verifier::of_bundle(&one.certificate).unwrap();
        assert!(check(&verifier, &one.certificate).is_ok());
        assert!(check(&verifier, &two.certificate).is_err());
        assert!(Verifier::of_bundle("no certificate").is_err());
    }
}
