//! The keys of a cluster, which are kept in its data directory.

use std::fs;
use std::path::Path;

use serde_json::json;
use windlass_apiserver::auth::Signer;
use windlass_apiserver::pki::{Ca, Identity};

use crate::failure::Failure;
use crate::private_file::write_private;

/// What stays the same over restarts: the CA, the admin's token, the signing key.
pub struct Keys {
    /// The certificate authority.
    pub ca: Ca,
    /// The administrator's token.
    pub token: String,
    /// The key that signs tokens of service accounts, as PEM.
    pub signer: String,
}

// === impl Keys ===

impl Keys {
    /// Reads the keys of a data directory, or writes new ones into it; without a directory they are
    /// new each time. The directory has to exist, and to be locked by this process.
    pub fn load(dir: Option<&Path>, now: jiff::Timestamp) -> Result<Self, Failure> {
        let Some(dir) = dir else { return Self::generate(now) };
        let path = dir.join("keys.json");
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, now).ok_or_else(|| {
                Failure::other(format!(
                    "{} is not readable as the cluster's keys; remove it to make new ones",
                    path.display()
                ))
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let keys = Self::generate(now)?;
                write_private(&path, &keys.to_text())?;
                Ok(keys)
            }
            Err(error) => Err(Failure::other(format!("{}: {error}", path.display()))),
        }
    }

    fn generate(now: jiff::Timestamp) -> Result<Self, Failure> {
        let ca = Ca::generate("windlass", now)
            .map_err(|error| Failure::other(format!("no certificate authority: {error}")))?;
        let signer = Signer::generate("https://kubernetes.default.svc.cluster.local")
            .map_err(|error| Failure::other(error.to_string()))?;
        let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        Ok(Self { ca, token, signer: signer.to_pem() })
    }

    fn to_text(&self) -> String {
        let identity = self.ca.identity();
        json!({
            "certificate": identity.certificate, "key": identity.key,
            "token": self.token, "signer": self.signer,
        })
        .to_string()
    }

    fn parse(text: &str, now: jiff::Timestamp) -> Option<Self> {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        let part = |name: &str| value[name].as_str().map(str::to_owned);
        let identity = Identity { certificate: part("certificate")?, key: part("key")? };
        let ca = Ca::from_pem(identity, now).ok()?;
        Some(Self { ca, token: part("token")?, signer: part("signer")? })
    }
}
