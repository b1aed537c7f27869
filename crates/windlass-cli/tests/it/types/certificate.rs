//! Types that `windlass generate types` made of CustomResourceDefinitions.

#![allow(missing_docs, rustdoc::all, clippy::all)]

use std::collections::BTreeMap;

use windlass::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass::{api, k8s};

/// Certificate asks for a signed certificate and keeps it in a Secret.
///
/// It is renewed in time.
#[api(
    group = "pki.example.com",
    version = "v1",
    kind = "Certificate",
    plural = "certificates",
    short = ["crt", "crts"],
    categories = "pki",
    status = CertificateStatus,
    flat,
    column("Ready", ".status.conditions[?(@.type == \"Ready\")].status", type = "string"),
    column("Secret", ".spec.secretName", type = "string"),
    column("Issuer", ".spec.issuerRef.name", type = "string", priority = 1),
    column("Age", ".metadata.creationTimestamp", type = "date", description = "Since when it exists."),
    selectable = [".spec.issuerRef.name"],
    annotation("pki.example.com/owner", "security"),
)]
#[derive(Default)]
pub struct CertificateFields {
    /// What the certificate is for.
    pub spec: Option<CertificateSpec>,
}

#[k8s]
pub struct CertificateSpec {
    /// The name in the subject. An example in code:
    ///
    ///    openssl x509 -text
    ///
    /// ```text
    /// not a test
    /// ```
    /// and the end of a comment: */
    #[k8s(
        max_length = 64,
        doc = "The name in the subject. An example in code:\n\n    openssl x509 -text\n\n```\nnot a test\n```\nand the end of a comment: */",
    )]
    pub common_name: Option<String>,
    /// Names of hosts.
    #[k8s(list = atomic, items(min_length = 1, doc = "A name of a host."))]
    pub dns_names: Option<Vec<String>>,
    /// How long it is valid.
    pub duration: Option<String>,
    #[serde(rename = "isCA")]
    pub is_ca: Option<bool>,
    /// Who signs it.
    pub issuer_ref: CertificateSpecIssuerRef,
    pub keystores: Option<CertificateSpecKeystores>,
    /// How the key is made.
    pub private_key: Option<CertificateSpecPrivateKey>,
    pub renew_before_percentage: Option<i32>,
    pub secret_name: String,
    pub secret_template: Option<CertificateSpecSecretTemplate>,
    #[k8s(list = atomic, items(doc = "A use of the key."))]
    pub usages: Option<Vec<CertificateSpecUsages>>,
}

#[k8s]
pub struct CertificateSpecIssuerRef {
    pub group: Option<String>,
    pub kind: Option<String>,
    pub name: String,
}

#[k8s]
#[derive(Default)]
pub struct CertificateSpecKeystores {
    /// A keystore.
    pub jks: Option<CertificateSpecKeystoresJks>,
    /// A keystore.
    pub pkcs12: Option<CertificateSpecKeystoresJks>,
}

#[k8s]
pub struct CertificateSpecKeystoresJks {
    pub alias: Option<String>,
    pub create: bool,
    /// The password.
    pub password_secret_ref: Option<CertificateSpecKeystoresJksPasswordSecretRef>,
}

#[k8s]
pub struct CertificateSpecKeystoresJksPasswordSecretRef {
    pub key: Option<String>,
    pub name: String,
}

#[k8s]
#[derive(Default)]
pub struct CertificateSpecPrivateKey {
    pub algorithm: Option<CertificateSpecPrivateKeyAlgorithm>,
    pub rotation_policy: Option<CertificateSpecPrivateKeyRotationPolicy>,
    #[k8s(format = none)]
    pub size: Option<i64>,
}

#[k8s]
#[derive(Copy, PartialEq, Eq)]
pub enum CertificateSpecPrivateKeyAlgorithm {
    RSA,
    ECDSA,
    Ed25519,
}

#[k8s]
#[derive(Copy, PartialEq, Eq)]
pub enum CertificateSpecPrivateKeyRotationPolicy {
    Never,
    Always,
}

#[k8s]
#[derive(Default)]
pub struct CertificateSpecSecretTemplate {
    pub annotations: Option<BTreeMap<String, String>>,
    pub labels: Option<BTreeMap<String, String>>,
}

#[k8s]
#[derive(Copy, PartialEq, Eq)]
pub enum CertificateSpecUsages {
    #[serde(rename = "signing")]
    Signing,
    #[serde(rename = "digital signature")]
    DigitalSignature,
    #[serde(rename = "s/mime")]
    SMime,
    #[serde(rename = "")]
    Empty,
    #[serde(rename = "5g")]
    V5g,
    #[serde(rename = "any")]
    Any,
}

/// What became of it.
#[k8s]
#[derive(Default)]
pub struct CertificateStatus {
    #[k8s(list = map("type"))]
    pub conditions: Option<Vec<CertificateStatusConditions>>,
    #[k8s(format = none)]
    pub failed_issuance_attempts: Option<i64>,
    pub not_after: Option<Time>,
}

/// A condition of the certificate.
#[k8s]
pub struct CertificateStatusConditions {
    pub last_transition_time: Option<Time>,
    pub message: Option<String>,
    pub observed_generation: Option<i64>,
    pub reason: Option<String>,
    pub status: CertificateStatusConditionsStatus,
    pub r#type: String,
}

#[k8s]
#[derive(Copy, PartialEq, Eq)]
pub enum CertificateStatusConditionsStatus {
    True,
    False,
    Unknown,
}
