//! Compares with what controller-gen makes of the same rules (`golden-*.yaml`).

use super::*;

/// Reads roles as Kubernetes writes them; the order of rules counts.
fn golden(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("the golden file is YAML")
}

fn made(grants: Vec<Grant>) -> Vec<Value> {
    let roles = roles("manager-role", "system", &[], &grants);
    roles.iter().map(|role| role.to_value(&Value::Null)).collect()
}

/// A rule from lists as a marker writes them: separated by semicolons.
fn rule(groups: &str, resources: &str, verbs: &str) -> Rule {
    let mut resources = resources.split(';');
    let mut groups = groups.split(';');
    let first = Rule::new(
        groups.next().unwrap_or_default(),
        resources.next().unwrap_or_default(),
        verbs.split(';'),
    );
    groups.fold(resources.fold(first, Rule::resource), Rule::group)
}

fn cluster(rules: Vec<Rule>) -> Vec<Grant> {
    rules.into_iter().map(|rule| Grant::new(rule, Reach::Cluster)).collect()
}

#[test]
fn lists_and_rules_are_sorted() {
    let group = "shop.example.com";
    let rules = vec![
        rule(group, "widgets", "get;list;watch;create;update;patch;delete"),
        rule(group, "widgets/status", "get;update;patch"),
        rule(group, "widgets/finalizers", "update"),
        rule("apps", "deployments", "get;list;watch"),
        rule("", "events", "create;patch"),
        rule("core", "secrets", "get"),
    ];
    assert_eq!(made(cluster(rules)), golden(include_str!("golden-basic.yaml")));
}

#[test]
fn rules_that_differ_in_one_respect_are_merged() {
    let rules = vec![
        rule("", "pods", "get;list"),
        rule("", "pods", "list;watch;watch"),
        rule("", "services;endpoints", "get;list"),
        rule("", "configmaps", "list;get"),
        rule("apps", "deployments", "get"),
        rule("extensions", "deployments", "get"),
        rule("batch", "jobs", "get;*;list"),
        rule("batch;example.com", "cronjobs", "get"),
        rule("", "secrets", "get").name("a"),
        rule("", "secrets", "get").name("b"),
        rule("", "secrets", "list"),
    ];
    assert_eq!(made(cluster(rules)), golden(include_str!("golden-merge.yaml")));
}

#[test]
fn names_and_urls_stay_apart_from_everything_else() {
    let rules = vec![
        rule("", "configmaps", "get;update").name("settings").name("features"),
        rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "get;patch")
            .name("guard"),
        Rule::url("/metrics", ["get"]),
        Rule::url("/healthz", ["get"]),
        Rule::url("/logs/*", ["get", "head"]),
        rule("shop.example.com", "*", "*"),
    ];
    assert_eq!(made(cluster(rules)), golden(include_str!("golden-names-urls.yaml")));
}

#[test]
fn namespaces_and_role_names_make_roles_of_their_own() {
    let namespaced = |rule, namespace: &str| Grant::new(rule, Reach::Namespace(namespace.into()));
    let grants = vec![
        namespaced(rule("", "secrets", "get;list"), "users").role("user-secrets"),
        namespaced(rule("coordination.k8s.io", "leases", "get;create;update"), "infra"),
        Grant::new(rule("", "pods", "get"), Reach::Watched),
        Grant::new(rule("apps", "deployments", "get"), Reach::Cluster).role("deployment-reader"),
        namespaced(rule("", "configmaps", "get"), "infra"),
    ];
    assert_eq!(made(grants), golden(include_str!("golden-namespaces.yaml")));
}

#[test]
fn rules_with_and_without_names_in_several_roles() {
    let in_infra = |rule| Grant::new(rule, Reach::Namespace("infra".into()));
    let group = "shop.example.com";
    let mut grants = cluster(vec![
        rule(group, "widgets", "get;list;watch").name("a").name("b"),
        rule(group, "widgets", "get;list;watch"),
        rule(group, "widgets/scale;widgets/status", "patch;get"),
        rule(";apps", "pods;deployments", "delete"),
        rule("apps", "deployments", "delete;create"),
        Rule::url("/metrics", ["get"]),
        Rule::url("/debug/*", ["get"]),
        rule("*", "*", "get"),
        rule("policy", "podsecuritypolicies", "use").name("restricted"),
    ]);
    grants.extend([
        in_infra(rule("", "secrets", "get")).role("infra-role"),
        in_infra(rule("", "secrets", "list")),
        in_infra(rule("", "secrets", "update").name("tls")),
    ]);
    assert_eq!(made(grants), golden(include_str!("golden-mixed.yaml")));
}

#[test]
fn real_operators_get_the_roles_of_controller_gen() {
    let group = "real-cache.golden.example.com";
    let all = "get;list;watch;create;update;patch;delete";
    let cache = vec![
        rule(group, "caches", "get;list;watch;update;patch"),
        rule(group, "caches/status", "get;update;patch"),
        rule(group, "caches/finalizers", "update"),
        rule("apps", "statefulsets", all),
        rule("", "services;configmaps", all),
        rule("", "secrets", "get;list;watch"),
        rule("", "events", "create;patch"),
    ];
    assert_eq!(made(cluster(cache)), golden(include_str!("golden-real-cache.yaml")));

    let group = "real-secret-sync.golden.example.com";
    let sync = vec![
        rule(group, "secretsyncs;secretsyncs/status", "get;list;patch;update;watch"),
        rule("", "secrets", "*"),
        rule("", "serviceaccounts/token", "create"),
    ];
    assert_eq!(made(cluster(sync)), golden(include_str!("golden-real-secret-sync.yaml")));

    let group = "real-backup-schedule.golden.example.com";
    let backup = vec![
        rule(group, "backupschedules", "get;list;watch"),
        rule(group, "backupschedules/status", "patch;update"),
        rule("batch", "jobs", "create;delete;get;list;watch"),
        rule("", "secrets", "get"),
    ];
    assert_eq!(made(cluster(backup)), golden(include_str!("golden-real-backup-schedule.yaml")));
}

#[test]
fn an_operator_of_some_namespaces_gets_a_role_in_each() {
    let grants = [
        Grant::new(rule("", "pods", "list"), Reach::Watched),
        Grant::new(rule("", "nodes", "list"), Reach::Cluster),
        Grant::new(rule("coordination.k8s.io", "leases", "get"), Reach::Home),
    ];
    let roles = roles("r", "system", &["a".into(), "b".into()], &grants);
    let places: Vec<_> = roles.iter().map(|role| role.namespace.as_deref()).collect();
    assert_eq!(places, [None, Some("a"), Some("b"), Some("system")]);
    assert_eq!(roles[1].rules, [rule("", "pods", "list")]);
}

#[test]
fn merging_keeps_exactly_what_was_allowed() {
    use proptest::prelude::*;
    let word = |words: &'static [&'static str]| {
        proptest::collection::btree_set(proptest::sample::select(words), 1..3)
    };
    let texts = |set: BTreeSet<&str>| set.into_iter().map(str::to_owned).collect();
    let one = (
        word(&["", "apps", "batch"]),
        word(&["pods", "jobs", "pods/status"]),
        proptest::collection::btree_set(proptest::sample::select(&["a", "b"][..]), 0..2),
        word(&["get", "list", "*"]),
    )
        .prop_map(move |(groups, resources, names, verbs)| Rule {
            api_groups: texts(groups),
            resources: texts(resources),
            resource_names: texts(names),
            urls: BTreeSet::new(),
            verbs: texts(verbs),
        });
    proptest!(|(rules in proptest::collection::vec(one, 0..8))| {
        let merged = Rule::normalize(rules.clone());
        for group in ["", "apps", "batch"] {
            for resource in ["pods", "jobs", "pods/status"] {
                for name in ["", "a", "b"] {
                    for verb in ["get", "list", "delete"] {
                        let any = |rules: &[Rule]| {
                            rules.iter().any(|r| r.allows(group, resource, name, verb))
                        };
                        prop_assert_eq!(any(&rules), any(&merged));
                    }
                }
            }
        }
        prop_assert_eq!(Rule::normalize(merged.clone()), merged);
    });
}
