//! Authentication: from what a request shows to a [`User`].

use std::collections::BTreeMap;

use hashbrown::HashMap;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use ring::digest;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{AUTHENTICATED, Signer, UNAUTHENTICATED, User};
use crate::lookup::Lookup;
use crate::status::Status;

/// The certificate a client showed and the listener verified, in the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The user the certificate names; `None` when it has no common name.
    pub user: Option<User>,
}

/// Knows users by their certificates and tokens.
pub struct Authenticator {
    tokens: HashMap<String, User>,
    signer: Signer,
}

/// A token that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Whose token it is.
    pub user: User,
    /// For which of the wanted audiences it is good.
    pub audiences: Vec<String>,
}

// === impl PeerCertificate ===

impl PeerCertificate {
    /// Reads the user out of a verified certificate: CN is the name, each O a group.
    ///
    /// `None` when the bytes are no certificate.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        let texts = |oid: &str| -> Vec<String> {
            let attributes = subject.iter_attributes();
            let wanted = attributes.filter(|a| a.attr_type().to_id_string() == oid);
            wanted.filter_map(|a| a.as_str().ok().map(str::to_owned)).collect()
        };
        let hash: String = digest::digest(&digest::SHA256, der)
            .as_ref()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let name = texts("2.5.4.3").pop().unwrap_or_default();
        let user = (!name.is_empty()).then(|| User {
            name,
            uid: texts("1.3.6.1.4.1.57683.2").pop().unwrap_or_default(),
            groups: texts("2.5.4.10"),
            extra: BTreeMap::from([(
                "authentication.kubernetes.io/credential-id".to_owned(),
                vec![format!("X509SHA256={hash}")],
            )]),
        });
        Some(Self { user })
    }
}

// === impl Authenticator ===

impl Authenticator {
    /// The static tokens and their users.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (String, User)> {
        self.tokens.iter().map(|(token, user)| (token.clone(), user.clone()))
    }

    /// Creates an authenticator that knows the tokens of this table and of this signer.
    pub fn new(tokens: impl IntoIterator<Item = (String, User)>, signer: Signer) -> Self {
        Self { tokens: tokens.into_iter().collect(), signer }
    }

    /// Returns the signer of service account tokens.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Returns the user of a request; the anonymous one if it shows nothing.
    ///
    /// # Errors
    /// 401 if its token is unknown.
    pub fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerCertificate>,
        lookup: &dyn Lookup,
        now: Timestamp,
    ) -> Result<User, Status> {
        if let Some(user) = peer.and_then(|peer| peer.user.as_ref()) {
            return Ok(authenticated(user.clone()));
        }
        match bearer(headers) {
            None => Ok(User::anonymous()),
            Some(token) => self
                .token(token, self.signer.audiences(), lookup, now)
                .map(|accepted| accepted.user)
                .map_err(|_| Status::unauthorized()),
        }
    }

    /// Returns the user of a token, if it is good for one of the audiences; else why not.
    pub fn token(
        &self,
        token: &str,
        audiences: &[String],
        lookup: &dyn Lookup,
        now: Timestamp,
    ) -> Result<Accepted, String> {
        const UNKNOWN: &str = "invalid bearer token";
        if let Some(user) = self.tokens.get(token) {
            let audiences = self.signer.shared_audiences(audiences);
            return match audiences.is_empty() {
                true => Err(UNKNOWN.into()),
                false => Ok(Accepted { user: authenticated(user.clone()), audiences }),
            };
        }
        match self.signer.authenticate(lookup, token, audiences, now) {
            Ok(Some((user, audiences))) => Ok(Accepted { user, audiences }),
            Ok(None) => Err(UNKNOWN.into()),
            // The real server asks the authenticator of its own client first.
            Err(error) => Err(format!("[{UNKNOWN}, {error}]")),
        }
    }
}

/// Reads a table of tokens: lines of token, user, uid and, optionally, quoted groups.
///
/// # Errors
/// Returns an error with the first line that has fewer than three fields or no token.
pub fn parse_token_file(table: &str) -> Result<Vec<(String, User)>, String> {
    let mut out = Vec::new();
    for (index, line) in table.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let unquote = |text: &str| text.trim().trim_matches('"').to_owned();
        let fields: Vec<&str> = line.splitn(4, ',').collect();
        let [token, name, uid, ..] = fields[..] else {
            return Err(format!("token table, line {}: needs token, user and uid", index + 1));
        };
        if unquote(token).is_empty() {
            return Err(format!("token table, line {}: the token is empty", index + 1));
        }
        let groups = fields.get(3).map(|text| unquote(text)).unwrap_or_default();
        let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
        let user = User {
            name: unquote(name),
            uid: unquote(uid),
            groups: groups.map(str::to_owned).collect(),
            extra: BTreeMap::new(),
        };
        out.push((unquote(token), user));
    }
    Ok(out)
}

/// The token of an `Authorization` header; other schemes and empty tokens are as none.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut parts = value.splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn authenticated(mut user: User) -> User {
    if !user.in_group(UNAUTHENTICATED) {
        user.add_group(AUTHENTICATED);
    }
    user
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::auth::fake::Fake;
    use crate::auth::token::DEFAULT_ISSUER;

    fn user(authorization: &str) -> Result<User, Status> {
        let tokens = [("secret".to_owned(), User::new("root", &["system:masters"]))];
        let authenticator = Authenticator::new(tokens, Signer::generate(DEFAULT_ISSUER).unwrap());
        let mut headers = HeaderMap::new();
        if !authorization.is_empty() {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(authorization).unwrap());
        }
        authenticator.authenticate(&headers, None, &Fake::default(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_known_token_is_its_user_in_the_group_of_the_authenticated() {
        let root = user("Bearer secret").unwrap();
        assert_eq!(root.groups, ["system:masters", "system:authenticated"]);
        assert_eq!(user("bearer secret").unwrap(), root);
    }

    #[test]
    fn nothing_shown_is_anonymous_and_an_unknown_token_is_refused() {
        for header in ["", "Basic YTpi", "Bearer ", "Bearer"] {
            assert_eq!(user(header).unwrap(), User::anonymous(), "{header}");
        }
        for header in ["Bearer nonsense", "Bearer a.b.c"] {
            assert_eq!(user(header).unwrap_err(), Status::unauthorized());
        }
    }

    #[test]
    fn a_table_of_tokens_gives_users_with_their_groups() {
        let table = "# users\n\nt1,alice,u1,\"a,b\"\nt2,bob,u2\n";
        let users = parse_token_file(table).unwrap();
        assert_eq!(users[0].1.groups, ["a", "b"]);
        assert_eq!((users[1].0.as_str(), users[1].1.name.as_str()), ("t2", "bob"));
        let error = parse_token_file("t1,alice").unwrap_err();
        assert_eq!(error, "token table, line 1: needs token, user and uid");
    }

    #[test]
    fn bytes_that_are_no_certificate_are_no_peer() {
        assert_eq!(PeerCertificate::from_der(b"nonsense"), None);
    }
}
