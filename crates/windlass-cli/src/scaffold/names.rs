//! Which names are good: of projects, domains, groups, versions, kinds, and of Rust modules.

use heck::ToSnakeCase as _;
use windlass_text::name::{dns1035_faults, dns1123_label, dns1123_subdomain};

/// Names that the scaffolded files use, and those of Rust's prelude.
const IN_SCOPE: [&str; 39] = [
    "AsMut",
    "AsRef",
    "Box",
    "Clone",
    "Condition",
    "Context",
    "Controller",
    "Conversion",
    "Copy",
    "Debug",
    "Default",
    "Drop",
    "Eq",
    "Err",
    "Extend",
    "Fields",
    "Findings",
    "Fn",
    "From",
    "Into",
    "Iterator",
    "Key",
    "Next",
    "None",
    "Ok",
    "Operator",
    "OperatorTest",
    "Option",
    "Ord",
    "Request",
    "Result",
    "Self",
    "Send",
    "Some",
    "String",
    "Sync",
    "ToString",
    "Vec",
    "Webhook",
];

/// Modules that would hide a crate, a file of the package, or nothing at all because of a keyword.
const RESERVED: [&str; 11] = [
    "alloc",
    "bin",
    "core",
    "k8s_openapi",
    "lib",
    "main",
    "std",
    "test",
    "tokio",
    "windlass",
    "windlass_cluster",
];

/// Package names that cargo refuses or that break a build.
const PACKAGES: [&str; 11] = [
    "alloc",
    "build",
    "core",
    "deps",
    "examples",
    "incremental",
    "k8s-openapi",
    "proc-macro",
    "std",
    "test",
    "windlass",
];

/// Checks the name of a project: of the package and of what is installed.
pub fn project(text: &str) -> Result<String, String> {
    let label = dns1123_label(text) && text.len() <= 40;
    let package = text.starts_with(|c: char| c.is_ascii_lowercase());
    if !label || !package || PACKAGES.contains(&text) || is_keyword(text) {
        return Err(format!(
            "{text:?} is not a good name for a project: use at most 40 lower-case letters, digits \
             and '-', start with a letter, and avoid the names of Rust"
        ));
    }
    Ok(text.to_owned())
}

/// Checks a domain, or the full name of a group.
pub fn domain(text: &str) -> Result<String, String> {
    if !dns1123_subdomain(text) || text.len() > 180 {
        return Err(format!("{text:?} is not a domain such as example.com"));
    }
    let within = |domain: &str| {
        text.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if let Some(domain) = ["k8s.io", "kubernetes.io"].into_iter().find(|domain| within(domain)) {
        return Err(format!(
            "{text:?} belongs to Kubernetes, whose API server refuses groups of {domain} without \
             an approval; choose a domain of your own"
        ));
    }
    Ok(text.to_owned())
}

/// Checks a group: a label, or a whole subdomain. The empty group is the domain itself.
pub fn group(text: &str) -> Result<String, String> {
    match text.is_empty() || dns1123_subdomain(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not a group such as cache: use lower-case letters")),
    }
}

/// Checks a version.
pub fn version(text: &str) -> Result<String, String> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits && !text.starts_with('0') && text.len() <= 9
    };
    let good = text.strip_prefix('v').is_some_and(|rest| {
        let stage = ["alpha", "beta"].iter().find_map(|stage| rest.split_once(stage));
        stage.map_or(number(rest), |(major, minor)| number(major) && number(minor))
    });
    match good {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not a version such as v1, v1beta1 or v1alpha1")),
    }
}

/// Checks a kind.
pub fn kind(text: &str) -> Result<String, String> {
    let shaped = text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && text.len() <= 56;
    if !shaped {
        return Err(format!(
            "{text:?} is not a kind such as Memcached: use at most 56 letters and digits, and \
             start with an upper-case letter"
        ));
    }
    if IN_SCOPE.contains(&text) {
        return Err(format!(
            "the kind {text} has the name of a type that the code of an operator \
                            uses; choose another"
        ));
    }
    Ok(text.to_owned())
}

/// Checks a plural.
pub fn plural(text: &str) -> Result<String, String> {
    match dns1035_faults(text).is_empty() {
        true => Ok(text.to_owned()),
        false => {
            Err(format!("{text:?} is not a plural such as memcacheds: use lower-case letters"))
        }
    }
}

/// Checks the name of a controller.
pub fn controller(text: &str) -> Result<String, String> {
    match dns1035_faults(text).is_empty() {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not a name for a controller: use lower-case letters")),
    }
}

/// The module of a kind or a controller.
pub fn module(name: &str) -> String {
    let snake = name.to_snake_case();
    let taken = is_keyword(&snake) || RESERVED.contains(&snake.as_str());
    if taken { format!("{snake}_kind") } else { snake }
}

/// Returns `true` for a word that Rust keeps for itself.
fn is_keyword(word: &str) -> bool {
    // A word of edition 2024, which the parser does not know yet.
    word == "gen" || syn::parse_str::<syn::Ident>(&word.replace('-', "_")).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_kubernetes() {
        for good in ["v1", "v2", "v1alpha1", "v1beta12", "v10"] {
            assert!(version(good).is_ok(), "{good}");
        }
        for bad in ["", "1", "v", "v0", "v1alpha", "v1gamma1", "V1", "v1beta1x", "v1.2", "v1alpha0"]
        {
            assert!(version(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn kinds_have_the_shape_of_types_and_hide_none() {
        for good in ["Memcached", "CronJob", "A", "HTTPRoute", "Match", "Type"] {
            assert!(kind(good).is_ok(), "{good}");
        }
        for bad in ["", "memcached", "Mem_cached", "Mem-cached", "Größe", "Context", "Option", "1A"]
        {
            assert!(kind(bad).is_err(), "{bad}");
        }
        let sorted = |names: &[&str]| names.is_sorted();
        assert!(sorted(&IN_SCOPE) && sorted(&RESERVED) && sorted(&PACKAGES));
    }

    #[test]
    fn modules_are_never_keywords_or_crates() {
        let cases = [
            ("CronJob", "cron_job"),
            ("HTTPRoute", "http_route"),
            ("Match", "match_kind"),
            ("Tokio", "tokio_kind"),
            ("Gen", "gen_kind"),
            ("Bin", "bin_kind"),
            ("Crate", "crate_kind"),
            ("web-shop", "web_shop"),
        ];
        for (name, expected) in cases {
            assert_eq!(module(name), expected);
        }
    }

    #[test]
    fn projects_are_packages_and_labels() {
        for good in ["shop", "shop-operator", "s3"] {
            assert!(project(good).is_ok(), "{good}");
        }
        for bad in
            ["", "Shop", "3s", "shop_operator", "-shop", "test", "windlass", "match", "gen", "a.b"]
        {
            assert!(project(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn groups_and_domains_are_subdomains() {
        assert!(group("cache").is_ok() && group("a.b").is_ok() && group("").is_ok());
        assert!(group("Cache").is_err() && group("a_b").is_err() && group("a/../b").is_err());
        assert!(domain("example.com").is_ok() && domain("").is_err() && domain("a..b").is_err());
        assert!(plural("memcacheds").is_ok() && plural("Memcacheds").is_err());
    }
}
