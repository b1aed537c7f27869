//! Mistakes that only the whole schema shows: the field, what is wrong, and what to do.

use kube::CustomResourceExt;
use windlass::{api, k8s};

/// A spec with one mistake in each field.
#[api(group = "misuse.example.com", version = "v1", kind = "Mistaken")]
pub struct MistakenSpec {
    #[k8s(default = "c", enum = ["a", "b"])]
    pub another_value: String,
    #[k8s(default = 9, max = 5)]
    pub above: i32,
    #[k8s(default = "ABC", pattern = "^[a-z]+$")]
    pub pattern: String,
    #[k8s(default = "abcd", max_length = 3)]
    pub long: String,
    #[k8s(default = {})]
    pub lacking: Window,
    #[k8s(list = map("name"))]
    pub no_key: Vec<Window>,
    #[k8s(list = map("start"), items(nullable))]
    pub null: Vec<Option<Window>>,
    #[k8s(cel("self > 0", path = ".x"))]
    pub path: i32,
}

/// Rules are checked once the schema is right.
#[api(group = "misuse.example.com", version = "v1", kind = "Ruled")]
pub struct RuledSpec {
    #[k8s(default = { start: 5 })]
    pub unordered: Ordered,
    #[k8s(cel("self > 0", optional_old_self))]
    pub no_old: i32,
    #[k8s(cel("self.all(a, self.all(b, a != b))"))]
    pub costly: Vec<String>,
    #[k8s(cel("self.size() > 0", message_expression = "'size ' + string(self.size())"))]
    pub message: String,
}

#[k8s]
pub struct Window {
    #[k8s(default = 1, required)]
    pub start: i32,
}

#[k8s(cel("self.start <= self.end"))]
pub struct Ordered {
    #[k8s(default = 1)]
    pub start: i32,
    #[k8s(default = 2)]
    pub end: i32,
}

/// A kind whose paths lead to fields of other types.
#[api(
    group = "misuse.example.com",
    version = "v1",
    kind = "Misled",
    status = MisledStatus,
    scale(spec = ".spec.name", status = ".status.count"),
    selectable = [".spec.list"]
)]
pub struct MisledSpec {
    pub name: String,
    pub list: Vec<String>,
}

#[k8s]
pub struct MisledStatus {
    pub count: i32,
}

#[track_caller]
fn assert_problems<K: CustomResourceExt>(expected: &[(&str, &str)]) {
    let problems = windlass::crd::check::<K>().expect_err("mistakes").problems;
    let found: Vec<(&str, &str)> =
        problems.iter().map(|one| (one.path.as_str(), one.message.as_str())).collect();
    for (path, part) in expected {
        let named = |one: &&(&str, &str)| one.0 == *path && one.1.contains(part);
        assert!(found.iter().any(|one| named(&one)), "{path}: {part}\nfound {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn each_mistake_is_reported_with_its_field() {
    assert_problems::<Mistaken>(&[
        ("v1 .spec.anotherValue", "is not one of"),
        ("v1 .spec.above", "is above the maximum 5"),
        ("v1 .spec.pattern", "does not match the pattern"),
        ("v1 .spec.long", "is longer than 3"),
        ("v1 .spec.lacking", "remove `required` from it"),
        ("v1 .spec.noKey", "have no field `name`"),
        ("v1 .spec.null", "cannot be null"),
        ("v1 .spec.path", "leads nowhere"),
    ]);
    assert_problems::<Ruled>(&[
        ("v1 .spec.unordered", "breaks the rule `self.start <= self.end`"),
        ("v1 .spec.noOld", "does not use oldSelf"),
        ("v1 .spec.costly", "times"),
        ("v1 .spec.message", "times"),
        ("v1", "all rules together"),
    ]);
    assert_problems::<Misled>(&[
        ("v1 scale", "is not of type integer"),
        ("v1 selectable", "is not a string"),
    ]);
}
