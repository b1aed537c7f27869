//! Impersonation: a request made as another user, if the requesting user is allowed to.
//!
//! Several modes are tried in turn. The constrained ones ask for two rights: to act as that user
//! in that mode (`impersonate:<mode>`), and to do this request while doing so
//! (`impersonate-on:<mode>:<verb>`). The last one asks for the single old verb `impersonate`.
//!
//! **Invariant:** the mode that last worked for a requester is tried first, which decides the
//! error they see when none works.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use http::HeaderMap;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;

use super::rule::quoted;
use super::{
    ANONYMOUS, AUTHENTICATED, Attributes, Authorizer, SERVICE_ACCOUNTS, UNAUTHENTICATED, User,
    is_subdomain, split_service_account,
};
use crate::lookup::Lookup;
use crate::status::{Status, quote};

const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// From this many values on, the right to all of them is asked for first.
const MANY: usize = 4;
/// How many requesters are remembered.
const REQUESTERS_MAX: usize = 10_000;

/// Decides about impersonation; remembers which mode was allowed for which user.
#[derive(Default)]
pub struct Impersonator {
    last: Mutex<HashMap<String, Mode>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

// === impl Impersonator ===

impl Impersonator {
    /// Creates an impersonator that remembers no user.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the user to go on as, if the headers name one; `attributes` are of the real
    /// requester.
    ///
    /// # Errors
    /// 400 when the headers name no user but other parts of one, 403 when it is not allowed.
    pub fn impersonate(
        &self,
        headers: &HeaderMap,
        attributes: &Attributes<'_>,
        authorizer: &Authorizer,
        lookup: &dyn Lookup,
    ) -> Result<Option<User>, Status> {
        let Some(wanted) = wanted(headers)? else { return Ok(None) };
        let check = Check { authorizer, lookup, attributes, wanted: &wanted };
        let requester = attributes.user.name.as_str();
        let last = self.last.lock().get(requester).copied();
        let rest = MODES.into_iter().filter(|mode| Some(*mode) != last);
        let mut first_error = None;
        for mode in last.into_iter().chain(rest) {
            match check.in_mode(mode) {
                Ok(Some(user)) => {
                    if last != Some(mode) {
                        self.remember(requester, mode);
                    }
                    return Ok(Some(user));
                }
                Ok(None) => {}
                Err(error) => drop(first_error.get_or_insert(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
    }

    fn remember(&self, requester: &str, mode: Mode) {
        let mut last = self.last.lock();
        if last.len() >= REQUESTERS_MAX {
            last.clear();
        }
        last.insert(requester.to_owned(), mode);
    }
}

/// The user the headers name.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let value = |v: &http::HeaderValue| String::from_utf8_lossy(v.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(value).unwrap_or_default();
    let mut user = User {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: headers.get_all("impersonate-group").iter().map(value).collect(),
        extra: BTreeMap::new(),
    };
    for (name, v) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            let key = match percent_decode_str(key).decode_utf8() {
                Ok(decoded) => decoded.into_owned(),
                Err(_) => key.to_owned(),
            };
            user.extra.entry(key).or_default().push(value(v));
        }
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if only_name(&user) {
        return Ok(None);
    }
    Err(Status::bad_request(format!("requested {} without impersonating a user name", go(&user))))
}

/// The user as Go's `%#v` shows it.
fn go(user: &User) -> String {
    let list = |list: &[String]| {
        let list: Vec<_> = list.iter().map(|text| quote(text)).collect();
        format!("{{{}}}", list.join(", "))
    };
    let groups = match user.groups.is_empty() {
        true => "[]string(nil)".to_owned(),
        false => format!("[]string{}", list(&user.groups)),
    };
    let extra: Vec<_> = user
        .extra
        .iter()
        .map(|(key, values)| format!("{}:[]string{}", quote(key), list(values)))
        .collect();
    let extra = match extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    let (name, uid) = (quote(&user.name), quote(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

fn only_name(user: &User) -> bool {
    user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty()
}

fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix(NODE_PREFIX).filter(|name| is_subdomain(name))
}

/// One attempt of one requester to act as one user.
struct Check<'a> {
    authorizer: &'a Authorizer,
    lookup: &'a dyn Lookup,
    attributes: &'a Attributes<'a>,
    wanted: &'a User,
}

impl Check<'_> {
    /// `Ok(None)` when the mode is not for this user.
    fn in_mode(&self, mode: Mode) -> Result<Option<User>, Status> {
        if !self.fits(mode) {
            return Ok(None);
        }
        if mode != Mode::Legacy {
            let verb = format!("impersonate-on:{}:{}", mode.name(), self.attributes.verb);
            let on = Attributes { verb: &verb, ..self.attributes.clone() };
            self.authorizer.check(self.lookup, &on)?;
        }
        self.become_wanted(mode).map(Some)
    }

    fn fits(&self, mode: Mode) -> bool {
        let wanted = self.wanted;
        let node = node_name(&wanted.name);
        let account = split_service_account(&wanted.name);
        match mode {
            Mode::AssociatedNode => {
                let requester = self.attributes.user;
                let own = requester.extra.get(NODE_NAME);
                only_name(wanted)
                    && node.is_some()
                    && split_service_account(&requester.name).is_some()
                    && own.is_some_and(|own| matches!(&own[..], [n] if Some(n.as_str()) == node))
            }
            Mode::ArbitraryNode => only_name(wanted) && node.is_some(),
            Mode::ServiceAccount => only_name(wanted) && account.is_some(),
            Mode::UserInfo => node.is_none() && account.is_none(),
            Mode::Legacy => true,
        }
    }

    fn become_wanted(&self, mode: Mode) -> Result<User, Status> {
        let verb = match mode {
            Mode::Legacy => "impersonate".to_owned(),
            _ => format!("impersonate:{}", mode.name()),
        };
        let mut user = self.wanted.clone();
        self.authorize_name(mode, &verb, &mut user)?;
        if !self.wanted.uid.is_empty() {
            self.authorize(&self.about(&verb, AUTHENTICATION, "uids", &self.wanted.uid))?;
        }
        self.authorize_groups(mode, &verb)?;
        self.authorize_extra(mode, &verb)?;
        if user.name == ANONYMOUS {
            user.add_group(UNAUTHENTICATED);
        } else if !user.in_group(UNAUTHENTICATED) {
            user.add_group(AUTHENTICATED);
        }
        Ok(user)
    }

    fn authorize_name(&self, mode: Mode, verb: &str, user: &mut User) -> Result<(), Status> {
        let group = mode.group();
        if mode != Mode::Legacy
            && let Some(node) = node_name(&self.wanted.name)
        {
            user.groups = vec![NODES.to_owned()];
            // The right to act as one's own node is the same for all nodes.
            let name = if mode == Mode::AssociatedNode { "*" } else { node };
            return self.authorize(&self.about(verb, group, "nodes", name));
        }
        if let Some((namespace, name)) = split_service_account(&self.wanted.name) {
            if self.wanted.groups.is_empty() {
                let of_namespace = format!("{SERVICE_ACCOUNTS}:{namespace}");
                user.groups = vec![SERVICE_ACCOUNTS.to_owned(), of_namespace];
            }
            let about = self.about(verb, group, "serviceaccounts", name);
            return self.authorize(&Attributes { namespace, ..about });
        }
        self.authorize(&self.about(verb, group, "users", &self.wanted.name))
    }

    fn authorize_groups(&self, mode: Mode, verb: &str) -> Result<(), Status> {
        let groups = &self.wanted.groups;
        let about = |name| self.about(verb, mode.group(), "groups", name);
        if mode != Mode::Legacy {
            if groups.iter().any(String::is_empty) {
                return Err(
                    about("").forbidden("impersonating the empty string group is not allowed")
                );
            }
            if self.wanted.is_master() {
                return Err(about(super::MASTERS)
                    .forbidden("impersonating the system:masters group is not allowed"));
            }
            if groups.len() >= MANY && self.authorize(&about("*")).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.authorize(&about(group)))
    }

    fn authorize_extra(&self, mode: Mode, verb: &str) -> Result<(), Status> {
        let extra = &self.wanted.extra;
        let about = |key, name| Attributes {
            subresource: key,
            ..self.about(verb, AUTHENTICATION, "userextras", name)
        };
        if mode != Mode::Legacy && !extra.is_empty() {
            check_extra(extra).map_err(|why| about("", "").forbidden(&why))?;
            let count: usize = extra.values().map(Vec::len).sum();
            if count.max(extra.len()) >= MANY && self.authorize(&about("*", "*")).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.authorize(&about(key, value))?;
            }
        }
        Ok(())
    }

    fn about<'b>(
        &'b self,
        verb: &'b str,
        group: &'b str,
        resource: &'b str,
        name: &'b str,
    ) -> Attributes<'b> {
        let version = "v1";
        let user = self.attributes.user;
        Attributes { version, name, ..Attributes::resource(user, verb, group, resource) }
    }

    fn authorize(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        self.authorizer.check(self.lookup, attributes)
    }
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    /// The API group users and groups are in for this mode.
    fn group(self) -> &'static str {
        if self == Self::Legacy { "" } else { AUTHENTICATION }
    }
}

fn check_extra(extra: &BTreeMap<String, Vec<String>>) -> Result<(), String> {
    for (key, values) in extra {
        if key.is_empty() {
            return Err("impersonating the empty string key in extra is not allowed".into());
        }
        let prefixed = key
            .split_once('/')
            .is_some_and(|(domain, path)| is_subdomain(domain) && !path.is_empty());
        if !prefixed {
            return Err(format!(
                "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \
                 {}: must be a domain-prefixed path (such as \"acme.io/foo\")",
                quote(key)
            ));
        }
        if key.chars().any(char::is_uppercase) {
            let list = quoted(std::slice::from_ref(key));
            let key = list.trim_matches(['[', ']']);
            return Err(format!(
                "impersonating a non-lowercase key in extra is not allowed: {key}"
            ));
        }
        if values.iter().any(String::is_empty) {
            return Err("impersonating the empty string value in extra is not allowed".into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;
    use crate::auth::fake::Fake;

    struct World {
        fake: Fake,
        authorizer: Authorizer,
        impersonator: Impersonator,
    }

    impl World {
        fn new() -> Self {
            Self {
                fake: Fake::bootstrapped(),
                authorizer: Authorizer::new(),
                impersonator: Impersonator::new(),
            }
        }

        fn list(&self, user: &User, headers: &[(&str, &str)]) -> Result<Option<User>, Status> {
            let headers: HeaderMap = headers
                .iter()
                .map(|(k, v)| {
                    let name = HeaderName::from_bytes(k.as_bytes()).unwrap();
                    (name, HeaderValue::from_str(v).unwrap())
                })
                .collect();
            let attributes =
                Attributes { namespace: "ns", ..Attributes::resource(user, "list", "", "maps") };
            self.impersonator.impersonate(&headers, &attributes, &self.authorizer, &self.fake)
        }
    }

    #[test]
    fn an_administrator_may_be_anybody() {
        let (world, root) = (World::new(), User::admin("root"));
        let be = |headers: &[(&str, &str)]| world.list(&root, headers).unwrap().unwrap();
        assert_eq!(world.list(&root, &[]).unwrap(), None);
        let alice = be(&[("Impersonate-User", "alice"), ("Impersonate-Group", "system:masters")]);
        assert_eq!(alice.groups, ["system:masters", "system:authenticated"]);
        let robot = be(&[("Impersonate-User", "system:serviceaccount:ns:robot")]);
        assert_eq!(robot, User::service_account("ns", "robot"));
        let nobody = be(&[("Impersonate-User", "system:anonymous")]);
        assert_eq!(nobody, User::anonymous());
        let eve = be(&[
            ("Impersonate-User", "eve"),
            ("Impersonate-Uid", "42"),
            ("Impersonate-Extra-Acme.io%2FScopes", "read"),
        ]);
        assert_eq!(
            (eve.uid.as_str(), &eve.extra["acme.io/scopes"][..]),
            ("42", &["read".into()][..])
        );
    }

    #[test]
    fn parts_without_a_name_are_a_bad_request() {
        let error =
            World::new().list(&User::admin("root"), &[("Impersonate-Group", "g")]).unwrap_err();
        assert_eq!(
            error.message,
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, \
             Extra:map[string][]string(nil)} without impersonating a user name"
        );
        assert_eq!(error.code, 400);
    }

    #[test]
    fn the_error_is_of_the_mode_that_worked_before() {
        let (world, sa) = (World::new(), User::service_account("ns", "sa"));
        let be = |name: &str| world.list(&sa, &[("Impersonate-User", name)]);
        assert_eq!(
            be("alice").unwrap_err().message,
            "maps is forbidden: User \"system:serviceaccount:ns:sa\" cannot \
             impersonate-on:user-info:list resource \"maps\" in API group \"\" in the namespace \
             \"ns\""
        );
        let other = "system:serviceaccount:ns:other";
        assert!(be(other).unwrap_err().message.contains("impersonate-on:serviceaccount:list"));
        world.fake.role(
            "ns",
            "imp",
            json!([{"apiGroups": [""], "resources": ["serviceaccounts"],
                    "verbs": ["impersonate"]}]),
        );
        world.fake.bind("ns", "imp", "Role/imp", "ServiceAccount/sa");
        assert_eq!(be(other).unwrap().unwrap().name, other);
        assert_eq!(
            be("system:serviceaccount:kube-system:other").unwrap_err().message,
            "serviceaccounts \"other\" is forbidden: User \"system:serviceaccount:ns:sa\" cannot \
             impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \
             \"kube-system\""
        );
    }
}
