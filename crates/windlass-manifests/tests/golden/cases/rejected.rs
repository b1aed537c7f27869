//! Traps: definitions that controller-gen writes without a word and that the API server refuses.
//!
//! Wrong patterns, formats of columns and `uniqueItems` do not compile; see `tests/misuse`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Returns the problems of a definition, and fails if the API server accepts it.
fn problems(crd: &CustomResourceDefinition) -> Vec<String> {
    assert!(crate::accepted::create(crd).is_err(), "the API server accepts it");
    let problems = windlass::crd::check_crd(crd).unwrap_err();
    problems
        .problems
        .iter()
        .map(|problem| format!("{}: {}", problem.path, problem.message))
        .collect()
}

mod cel_cost {
    use crate::cases::prelude::*;

    #[api(group = "rejected-cel-cost.golden.example.com", version = "v1", kind = "Costly")]
    pub struct CostlySpec {
        #[k8s(cel("self.all(x, self.exists_one(y, x == y))", message = "hosts must differ"))]
        pub hosts: Option<Vec<String>>,
    }

    #[test]
    fn a_rule_that_costs_too_much_is_refused() {
        let found = super::problems(&Costly::crd());
        let expected = "v1 .spec.hosts: the rule `self.all(x, self.exists_one(y, x == y))` may cost more than 100 times \
            what is allowed, simplify it, or bound the lists, maps and strings it reads by `max_items`, \
            `max_properties` and `max_length`";
        assert_eq!(found[0], expected);
    }
}

mod default {
    use crate::cases::prelude::*;

    #[k8s]
    pub struct BaddefaultObject {
        pub name: String,
    }

    #[api(group = "rejected-default.golden.example.com", version = "v1", kind = "Baddefault")]
    pub struct BaddefaultSpec {
        #[k8s(min = 5, default = 3)]
        pub low: i32,
        #[k8s(enum = ["a", "b"], default = "c")]
        pub mode: String,
        #[k8s(default = { name: "x", other: 1 })]
        pub object: Option<BaddefaultObject>,
        #[k8s(default = {})]
        pub empty: Option<BaddefaultObject>,
    }

    #[test]
    fn a_default_that_breaks_its_own_rules_is_refused() {
        let expected = [
            "v1 .spec.empty: the default lacks the field `name`, which is required",
            "v1 .spec.low: the default 3 is below the minimum 5",
            "v1 .spec.mode: the default \"c\" is not one of \"a\", \"b\"",
            "v1 .spec.object: the default has a field `other` that the type does not have",
        ];
        assert_eq!(super::problems(&Baddefault::crd()), expected);
    }
}

mod list_map_key {
    use crate::cases::prelude::*;

    #[k8s]
    pub struct BadkeyItem {
        pub name: Option<String>,
    }

    #[api(group = "rejected-list-map-key.golden.example.com", version = "v1", kind = "Badkey")]
    pub struct BadkeySpec {
        #[k8s(list = map("name", "missing"))]
        pub items: Option<Vec<BadkeyItem>>,
    }

    #[test]
    fn a_key_of_a_list_is_a_required_field() {
        let expected = [
            "v1 .spec.items[].name: a key of a list is required or has a default",
            "v1 .spec.items: the items have no field `missing`, which is a key of the list",
        ];
        assert_eq!(super::problems(&Badkey::crd()), expected);
    }
}

mod message_cost {
    use crate::cases::prelude::*;

    #[api(group = "rejected-message-cost.golden.example.com", version = "v1", kind = "Wordy")]
    #[k8s(cel("self.max < 1000", message_expression = "'max is ' + string(self.max)"))]
    pub struct WordySpec {
        pub max: i32,
    }

    #[test]
    fn a_message_that_costs_too_much_is_refused() {
        let found = super::problems(&Wordy::crd());
        let expected = "v1 .spec: the message expression `'max is ' + string(self.max)` may cost more than 100 times";
        assert!(found[0].starts_with(expected), "{found:?}");
    }
}

mod recursive {
    use crate::cases::prelude::*;

    #[k8s]
    pub struct Node {
        pub name: String,
        pub child: Option<Box<Node>>,
    }

    #[api(group = "rejected-recursive.golden.example.com", version = "v1", kind = "Badtree")]
    pub struct BadtreeSpec {
        pub root: Node,
    }

    #[test]
    fn a_type_that_contains_itself_is_refused_with_a_hint() {
        let expected = "v1 .spec.root.child: type Node contains itself, which no schema can describe, cut it with \
            #[k8s(schemaless, type = \"object\", preserve_unknown)]";
        assert_eq!(super::problems(&Badtree::crd()), [expected]);
    }
}

mod types_of_rules {
    use crate::cases::prelude::*;
    use k8s_openapi::api::core::v1::Toleration;

    #[k8s(max_length = 5)]
    pub struct Name(pub String);

    #[api(
        group = "types-of-rules.golden.example.com",
        version = "v1",
        kind = "Untyped",
        status = Toleration,
        column("Key", ".spec.toleration.kei"),
        scale(spec = ".spec.name", status = ".status.none")
    )]
    #[k8s(cel("self.nome == 'x'"))]
    pub struct UntypedSpec {
        #[k8s(max = 3)]
        pub name: Name,
        pub toleration: Toleration,
    }

    #[test]
    fn what_only_the_whole_schema_shows_is_found() {
        let found = super::problems(&Untyped::crd());
        assert_eq!(found[0], "v1 .spec.name: `max` applies to numbers, but this is a string");
        let column = "v1 column Key: the path `.spec.toleration.kei` leads nowhere, `.spec.toleration` has no field `kei`, its fields are effect, key,";
        assert!(found[1].starts_with(column), "{found:?}");
        assert!(
            found.iter().any(|line| line.contains("`.spec.name` is not of type integer")),
            "{found:?}"
        );
    }

    #[api(group = "types-of-rules.golden.example.com", version = "v1", kind = "Misspelt")]
    #[k8s(cel("self.nome == 'x'"))]
    pub struct MisspeltSpec {
        pub name: String,
    }

    #[test]
    fn rules_are_type_checked() {
        let found = super::problems(&Misspelt::crd());
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("v1 .spec: the rule `self.nome == 'x'` does not compile, "),
            "{found:?}"
        );
        assert!(found[0].contains("undefined field 'nome'"), "{found:?}");
    }

    #[api(
        group = "types-of-rules.golden.example.com",
        version = "v1",
        kind = "Unserved",
        served = false
    )]
    pub struct UnservedSpec {
        pub name: String,
    }

    #[test]
    fn one_version_is_served() {
        let problems = windlass::crd::check::<Unserved>().unwrap_err();
        assert_eq!(
            problems.problems[0].message,
            "no version is served, remove `served = false` from one"
        );
    }
}
