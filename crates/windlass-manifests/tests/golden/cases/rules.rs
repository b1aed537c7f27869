//! Rules in CEL, unions, fields that do not change.

mod cel_items {
    use crate::cases::prelude::*;

    /// Range has two ends.
    #[k8s]
    #[derive(Default)]
    pub struct Range {
        pub from: i32,
        pub to: i32,
    }

    /// Evens is a list of even numbers.
    #[k8s(max_items = 5, items(cel("self % 2 == 0", message = "must be even")))]
    #[derive(Default)]
    pub struct Evens(pub Vec<i32>);

    /// SpansSpec is wanted.
    #[api(
        group = "cel-items.golden.example.com",
        version = "v1",
        kind = "Spans",
        doc = "Spans has rules on items.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct SpansSpec {
        #[k8s(
            max_items = 10,
            items(cel("self.from <= self.to", message = "from is above to", path = ".from"))
        )]
        pub ranges: Option<Vec<Range>>,
        #[k8s(
            max_items = 10,
            items(
                max_length = 30,
                cel("self.matches('^[a-z]')", message = "must start with a letter"),
                cel("self != 'root'")
            )
        )]
        pub words: Option<Vec<String>>,
        pub typed: Option<Evens>,
        #[k8s(
            max_items = 4,
            cel("self.exists(x, x > 5)", message = "one must be above 5"),
            items(cel("self != 7", message = "not seven"))
        )]
        pub list: Option<Vec<i32>>,
    }

    golden!(items_have_rules, "cel-items", Spans);
}

mod cel_rules {
    use crate::cases::prelude::*;

    /// Owner can be reached.
    #[k8s(cel(
        "has(self.mail) || has(self.phone)",
        message = "mail or phone is required",
        reason = FieldValueRequired
    ))]
    #[derive(Default)]
    pub struct Owner {
        pub mail: Option<String>,
        pub phone: Option<String>,
    }

    /// CheckedSpec is wanted.
    #[api(
        group = "cel-rules.golden.example.com",
        version = "v1",
        kind = "Checked",
        doc = "Checked has rules.",
        optional_spec
    )]
    #[k8s(
        cel("self.min <= self.max", message = "min must not exceed max", reason = FieldValueInvalid, path = ".min"),
        cel("self.max < 1000", message_expression = "self.name + ' asks for too much'"),
        cel("self.max - self.min < 500")
    )]
    #[derive(Default)]
    pub struct CheckedSpec {
        pub min: i32,
        pub max: i32,
        #[k8s(
            max_length = 63,
            cel(r#"self != "admin""#, message = "admin is reserved", reason = FieldValueForbidden)
        )]
        pub name: String,
        #[k8s(
            max_items = 10,
            items(max_length = 20),
            cel(
                "self.all(x, self.exists_one(y, x == y))",
                message = "tags must differ",
                reason = FieldValueDuplicate
            )
        )]
        pub tags: Option<Vec<String>>,
        pub owner: Option<Owner>,
    }

    golden!(types_and_fields_have_rules, "cel-rules", Checked);
}

mod cel_transition {
    use crate::cases::prelude::*;

    /// MovingSpec is wanted.
    #[api(
        group = "cel-transition.golden.example.com",
        version = "v1",
        kind = "Moving",
        doc = "Moving changes over time.",
        optional_spec,
        cel("self.metadata.name.size() <= 30", message = "name is too long")
    )]
    #[derive(Default)]
    pub struct MovingSpec {
        #[k8s(cel("self >= oldSelf", message = "size may not shrink"))]
        pub size: i32,
        #[k8s(max_length = 20, cel("self == oldSelf", message = "class is immutable"))]
        pub class: Option<String>,
        #[k8s(cel(
            "oldSelf.hasValue() ? self == oldSelf.value() + 1 : self == 1",
            message = "serial must count up",
            optional_old_self
        ))]
        pub serial: Option<i64>,
        #[k8s(cel("self == oldSelf", optional_old_self = false))]
        pub plain: Option<bool>,
    }

    golden!(rules_compare_with_the_old_value, "cel-transition", Moving);
}

mod immutable {
    use crate::cases::prelude::*;

    /// Network is nested.
    #[k8s]
    #[derive(Default)]
    pub struct Network {
        #[k8s(immutable, max_length = 43)]
        pub cidr: Option<String>,
        pub mtu: Option<i32>,
    }

    /// FixedSpec is wanted.
    #[api(
        group = "immutable.golden.example.com",
        version = "v1",
        kind = "Fixed",
        doc = "Fixed may not change.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct FixedSpec {
        #[k8s(immutable, max_length = 20)]
        pub region: String,
        #[k8s(immutable, max_length = 20)]
        pub zone: Option<String>,
        #[k8s(immutable)]
        pub size: Option<i32>,
        #[k8s(immutable, max_items = 5, items(max_length = 20))]
        pub disks: Option<Vec<String>>,
        pub network: Option<Network>,
        #[k8s(immutable, max_length = 50, cel("self != 'none'", message = "note may not be none"))]
        pub note: Option<String>,
    }

    golden!(fields_do_not_change_once_they_are_set, "immutable", Fixed);
}

mod one_of {
    use crate::cases::prelude::*;

    /// Source is exactly one.
    #[k8s]
    pub enum Source {
        Git(String),
        Http(String),
        Inline(String),
    }

    /// Auth is at most one.
    #[k8s(at_most_one_of(token, basic))]
    #[derive(Default)]
    pub struct Auth {
        pub token: Option<String>,
        pub basic: Option<String>,
        pub realm: Option<String>,
    }

    /// Notify is at least one.
    #[k8s(at_least_one_of(mail, chat, pager))]
    #[derive(Default)]
    pub struct Notify {
        pub mail: Option<Vec<String>>,
        pub chat: Option<String>,
        pub pager: Option<i64>,
    }

    /// MixedUnion has all of them.
    #[k8s(
        at_least_one_of(e, f),
        exactly_one_of(c, d),
        at_most_one_of(a, b),
        cel("!has(self.a) || self.a != 'x'", message = "a may not be x")
    )]
    #[derive(Default)]
    pub struct MixedUnion {
        pub a: Option<String>,
        pub b: Option<String>,
        pub c: Option<String>,
        pub d: Option<String>,
        pub e: Option<String>,
        pub f: Option<String>,
    }

    impl Default for Source {
        fn default() -> Self {
            Source::Git(String::new())
        }
    }

    /// PickerSpec is wanted.
    #[api(
        group = "one-of.golden.example.com",
        version = "v1",
        kind = "Picker",
        doc = "Picker has unions.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct PickerSpec {
        pub source: Source,
        pub auth: Option<Auth>,
        pub notify: Option<Notify>,
        pub mixed: Option<MixedUnion>,
    }

    golden!(an_enum_is_exactly_one_of_its_fields, "one-of", Picker);

    #[test]
    fn an_enum_reads_the_field_that_is_set() {
        let source: Source = serde_json::from_str(r#"{"http":"x"}"#).unwrap();
        assert!(matches!(source, Source::Http(address) if address == "x"));
    }
}
