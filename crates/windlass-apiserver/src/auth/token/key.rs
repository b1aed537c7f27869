//! The key that signs tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair,
    Ed25519KeyPair, KeyPair, UnparsedPublicKey,
};
use serde_json::{Value, json};

use super::KeyError;

/// What a P-256 public key starts with in its DER form, up to the point.
const P256_PREFIX: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// What an Ed25519 public key starts with in its DER form.
const ED25519_PREFIX: &[u8] =
    &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// What an Ed25519 private key starts with in its PKCS#8 form.
const ED25519_PRIVATE_PREFIX: &[u8] = &[
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// A private key and its PKCS#8 form.
pub(super) struct SigningKey {
    pair: Pair,
    pkcs8: Vec<u8>,
}

enum Pair {
    /// What real servers use. A signature contains a random number.
    P256(EcdsaKeyPair, SystemRandom),
    /// For servers with a seed: equal texts have equal signatures.
    Ed25519(Ed25519KeyPair),
}

// === impl SigningKey ===

impl SigningKey {
    /// Generates a P-256 key.
    pub(super) fn generate() -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .map_err(|_| KeyError("the system has no randomness".into()))?;
        Self::from_pkcs8(pkcs8.as_ref())
    }

    /// Derives an Ed25519 key from a seed.
    pub(super) fn seeded(seed: u64) -> Result<Self, KeyError> {
        let text = format!("windlass signing key {seed}");
        let secret = digest::digest(&digest::SHA256, text.as_bytes());
        Self::from_pkcs8(&[ED25519_PRIVATE_PREFIX, secret.as_ref()].concat())
    }

    /// Reads a key in PKCS#8 form.
    pub(super) fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let pair = match EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random)
        {
            Ok(pair) => Pair::P256(pair, random),
            Err(error) => Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8)
                .map(Pair::Ed25519)
                .map_err(|_| KeyError(format!("not a P-256 key in PKCS#8 form: {error}")))?,
        };
        Ok(Self { pair, pkcs8: pkcs8.to_vec() })
    }

    /// The key in PKCS#8 form.
    pub(super) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The name of the algorithm in a token.
    pub(super) fn algorithm(&self) -> &'static str {
        match &self.pair {
            Pair::P256(..) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
        }
    }

    /// The identifier of the key: the digest of its public half.
    pub(super) fn id(&self) -> String {
        let prefix = match &self.pair {
            Pair::P256(..) => P256_PREFIX,
            Pair::Ed25519(_) => ED25519_PREFIX,
        };
        let public = [prefix, self.public()].concat();
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &public))
    }

    pub(super) fn sign(&self, text: &[u8]) -> Vec<u8> {
        match &self.pair {
            Pair::P256(pair, random) => pair
                .sign(random, text)
                .expect("signing fails only without randomness, and the key was made with it")
                .as_ref()
                .to_vec(),
            Pair::Ed25519(pair) => pair.sign(text).as_ref().to_vec(),
        }
    }

    pub(super) fn verifies(&self, text: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.pair {
            Pair::P256(..) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.public())
                .verify(text, signature),
            Pair::Ed25519(_) => {
                UnparsedPublicKey::new(&ED25519, self.public()).verify(text, signature)
            }
        };
        verified.is_ok()
    }

    /// The public half as a JSON Web Key.
    pub(super) fn jwk(&self) -> Value {
        let public = self.public();
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = match &self.pair {
            // An uncompressed point: one byte of form, then 32 bytes for each coordinate.
            Pair::P256(..) => json!({
                "kty": "EC", "crv": "P-256", "x": encode(&public[1..33]), "y": encode(&public[33..65]),
            }),
            Pair::Ed25519(_) => json!({"kty": "OKP", "crv": "Ed25519", "x": encode(public)}),
        };
        jwk["use"] = "sig".into();
        jwk["kid"] = self.id().into();
        jwk["alg"] = self.algorithm().into();
        jwk
    }

    fn public(&self) -> &[u8] {
        match &self.pair {
            Pair::P256(pair, _) => pair.public_key().as_ref(),
            Pair::Ed25519(pair) => pair.public_key().as_ref(),
        }
    }
}
