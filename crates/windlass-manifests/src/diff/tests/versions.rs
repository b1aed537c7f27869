//! What belongs to a whole definition, to its versions, and to every object.

use super::*;

#[test]
fn versions_names_and_subresources_have_rules() {
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let old = definition(&spec);
    let change = |pointer: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(pointer).unwrap() = value;
        effects(&old, &new)
    };
    assert_eq!(change("/spec/scope", json!("Cluster")), ["breaking scope"]);
    assert_eq!(change("/spec/group", json!("other.com")), ["breaking group"]);
    assert_eq!(change("/spec/names/kind", json!("Other")), ["breaking kind"]);
    assert_eq!(change("/spec/names/singular", json!("t")), ["safe singular"]);
    assert_eq!(change("/spec/versions/0/served", json!(false)), ["breaking served v1"]);
    let mut renamed = old.clone();
    renamed["metadata"]["name"] = json!("gadgets.example.com");
    renamed["spec"]["names"]["plural"] = json!("gadgets");
    assert_eq!(effects(&old, &renamed), ["breaking plural"]);
    assert_eq!(definitions(std::slice::from_ref(&old), &[])[0].rule, "definition");
    assert!(!breaks(&definitions(&[], std::slice::from_ref(&old))));
    let part = |key: &str, value: Value| {
        let mut new = old.clone();
        new["spec"]["versions"][0][key] = value;
        (effects(&old, &new), effects(&new, &old))
    };
    let (there, back) = part("subresources", json!({"scale": {"specReplicasPath": ".spec.n"}}));
    assert_eq!(
        (there, back),
        (vec!["safe subresources v1".into()], vec!["breaking subresources v1".into()])
    );
    let (there, back) = part("subresources", json!({"status": {}}));
    assert_eq!(
        (there, back),
        (vec!["breaking subresources v1".into()], vec!["breaking subresources v1".into()])
    );
    let (there, back) = part("selectableFields", json!([{"jsonPath": ".spec.a"}]));
    assert_eq!(there, ["safe selectablefields v1 .spec.a"]);
    assert_eq!(back, ["breaking selectablefields v1 .spec.a"]);
    let (there, back) =
        part("additionalPrinterColumns", json!([{"name": "A", "jsonPath": ".spec.a"}]));
    assert_eq!(
        (there, back),
        (
            vec!["safe additionalprintercolumns v1".into()],
            vec!["safe additionalprintercolumns v1".into()]
        )
    );
}

#[test]
fn a_version_is_removed_only_when_nothing_uses_it() {
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let both = with_versions(json!([version("v1", false, &spec), version("v2", true, &spec)]));
    let new = with_versions(json!([version("v2", true, &spec)]));
    assert_eq!(effects(&both, &new), ["breaking version v1"], "served");
    let mut unserved = both.clone();
    unserved["spec"]["versions"][0]["served"] = json!(false);
    assert_eq!(effects(&unserved, &new), ["safe version v1"]);
    unserved["status"]["storedVersions"] = json!(["v1", "v2"]);
    let removed = diff(&unserved, &new);
    assert_eq!(removed[0].effect, Effect::Breaking);
    assert!(removed[0].message.contains("storedVersions"), "{}", removed[0]);
}

#[test]
fn versions_that_differ_need_a_conversion() {
    let one = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let two = json!({"type": "object", "properties": {"b": {"type": "string"}}});
    let old = definition(&one);
    let mut new = with_versions(json!([version("v1", false, &one), version("v2", true, &two)]));
    assert_eq!(
        effects(&old, &new),
        [
            "safe version v2",
            "safe storage",
            "breaking field v1 to v2 .spec.a",
            "breaking conversion v1 to v2 .spec.a",
            "breaking conversion v1 to v2 .spec.b",
        ]
    );
    let mut back = new.clone();
    new["spec"]["conversion"] = json!({"strategy": "Webhook"});
    assert_eq!(effects(&old, &new), ["safe conversion", "safe version v2", "safe storage"]);
    back["spec"]["conversion"] = json!({"strategy": "None"});
    assert_eq!(effects(&new, &back)[0], "breaking conversion");
}

#[test]
fn versions_without_conversion_must_allow_the_same_values() {
    let spec = |schema: &Value| json!({"type": "object", "properties": {"a": schema}});
    let plain = json!({"type": "string", "enum": ["x", "y"]});
    let one = spec(&plain);
    let narrow = json!({"type": "string", "enum": ["x"]});
    let wide = json!({"type": "string", "enum": ["x", "y", "z"]});
    let filled = json!({"type": "string", "enum": ["x", "y"], "default": "x"});
    let mut required = one.clone();
    required["required"] = json!(["a"]);
    for (other, path) in [
        (spec(&json!({"type": "integer"})), ".spec.a"),
        (spec(&narrow), ".spec.a"),
        (spec(&wide), ".spec.a"),
        (spec(&filled), ".spec.a"),
        (required, ".spec.a"),
    ] {
        let old = definition(&one);
        let mut new =
            with_versions(json!([version("v1", true, &one), version("v2", false, &other)]));
        let wanted = ["safe version v2".to_owned(), format!("breaking conversion v2 to v1 {path}")];
        assert_eq!(effects(&old, &new), wanted, "{other}");
        assert_eq!(unconverted(&new).len(), 1, "{other}");
        assert!(!breaks(&diff(&new, &new)), "it was like this before: {other}");
        new["spec"]["versions"][1]["served"] = json!(false);
        assert!(!breaks(&diff(&old, &new)), "nobody can write it: {other}");
        new["spec"]["versions"][1]["served"] = json!(true);
        new["spec"]["conversion"] = json!({"strategy": "Webhook"});
        assert!(!breaks(&diff(&old, &new)), "the webhook converts: {other}");
    }
    // An enum that gets wider in one version only.
    let both = |v1: &Value, v2: &Value| {
        with_versions(json!([version("v1", true, &spec(v1)), version("v2", false, &spec(v2))]))
    };
    assert_eq!(
        effects(&both(&plain, &plain), &both(&plain, &wide)),
        ["safe enum v2 .spec.a", "breaking conversion v2 to v1 .spec.a"]
    );
    assert_eq!(
        effects(&both(&plain, &plain), &both(&wide, &wide)),
        ["safe enum v1 .spec.a", "safe enum v2 .spec.a"]
    );
    let mut described = both(&plain, &plain);
    described["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["description"] = json!("new");
    assert!(!breaks(&diff(&definition(&one), &described)));
}

#[test]
fn every_object_has_metadata_with_a_name() {
    let root = |metadata: Value| {
        let mut one = definition(&json!({"type": "object"}));
        one["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["metadata"] =
            metadata;
        one
    };
    let plain = root(json!({"type": "object"}));
    for (rule, limit) in [
        ("maxlength", json!({"type": "string", "maxLength": 10})),
        ("pattern", json!({"type": "string", "pattern": "^a"})),
    ] {
        for name in ["name", "generateName"] {
            let limited = root(json!({"type": "object", "properties": {name: limit}}));
            let place = format!("{rule} v1 .metadata.{}", name.to_lowercase());
            assert_eq!(effects(&plain, &limited), [format!("breaking {place}")]);
            assert_eq!(effects(&limited, &plain), [format!("safe {place}")]);
        }
    }
    let free = root(json!({"type": "object", "properties": {"name": {"type": "string"}}}));
    assert_eq!(effects(&plain, &free), [""; 0]);
    let required = root(json!({"type": "object", "required": ["name"]}));
    assert_eq!(effects(&plain, &required), [""; 0], "the server has generated it by then");
    let prefixed = root(json!({"type": "object", "required": ["generateName"]}));
    assert_eq!(effects(&plain, &prefixed), ["breaking required v1 .metadata.generatename"]);

    let mut bare = plain.clone();
    let schema = &mut bare["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for name in ["apiVersion", "kind", "metadata"] {
        schema["properties"].as_object_mut().unwrap().remove(name);
    }
    let mut strict = plain.clone();
    strict["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"] =
        json!(["apiVersion", "kind", "metadata"]);
    for other in [&bare, &strict] {
        assert_eq!(effects(&plain, other), [""; 0], "objects have them in any case");
        assert_eq!(effects(other, &plain), [""; 0]);
    }
    let limited =
        root(json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}));
    assert_eq!(effects(&bare, &limited), ["breaking maxlength v1 .metadata.name"]);
}

#[test]
fn embedded_objects_have_a_name_too() {
    let embedded = |more: Value| {
        let mut schema = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let metadata = |name: Value| json!({"type": "object", "properties": {"name": name}});
    let limited = metadata(json!({"type": "string", "maxLength": 9}));
    let (bare, plain, limited) = (
        embedded(json!({})),
        embedded(json!({"properties": {"metadata": {"type": "object"}}})),
        embedded(json!({"properties": {"metadata": limited}})),
    );
    for (wrap, path) in [
        (&(|one: &Value| field(one.clone())) as &dyn Fn(&Value) -> Value, ".spec.x"),
        (&|one: &Value| field(json!({"type": "array", "items": one})), ".spec.x[*]"),
        (&|one: &Value| field(json!({"type": "object", "additionalProperties": one})), ".spec.x.*"),
    ] {
        assert_eq!(of_spec(wrap(&bare), wrap(&plain)), [""; 0]);
        assert_eq!(of_spec(wrap(&plain), wrap(&bare)), [""; 0]);
        for old in [&bare, &plain] {
            let wanted = format!("breaking maxlength {path}.metadata.name");
            assert_eq!(of_spec(wrap(old), wrap(&limited)), [wanted]);
        }
    }
}

#[test]
fn what_changes_about_the_conversion_webhook_is_reported() {
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let with = |conversion: Value, versions: Value| {
        let mut one = with_versions(versions);
        one["spec"]["conversion"] = conversion;
        one
    };
    let both = || json!([version("v1", true, &spec), version("v2", false, &spec)]);
    let webhook = |service: Value, reviews: Value| {
        let config = json!({"service": service, "caBundle": "eA=="});
        let webhook = json!({"clientConfig": config, "conversionReviewVersions": reviews});
        with(json!({"strategy": "Webhook", "webhook": webhook}), both())
    };
    let service = json!({"name": "a", "namespace": "b", "path": "/convert"});
    let old = webhook(service.clone(), json!(["v1"]));
    let mut same = webhook(
        json!({"name": "a", "namespace": "b", "path": "/convert", "port": 443}),
        json!(["v1"]),
    );
    same["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = json!("eQ==");
    assert_eq!(diff(&old, &same), [], "the CA and the default port are no change");
    let mut moved = service;
    moved["name"] = json!("c");
    let messages = |new: &Value| -> Vec<String> {
        diff(&old, new).iter().map(|c| format!("{:?}: {}", c.effect, c.message)).collect()
    };
    assert_eq!(
        messages(&webhook(moved.clone(), json!(["v1", "v1beta1"]))),
        [
            "Safe: the address of the conversion webhook changes from a.b.svc:443/convert to \
             c.b.svc:443/convert; the new one must answer before objects are read",
            "Safe: conversionReviewVersions changes from [v1] to [v1, v1beta1]; the webhook is sent the \
             first of them that the API server knows",
        ]
    );
    let mut by_url = old.clone();
    by_url["spec"]["conversion"]["webhook"]["clientConfig"] = json!({"url": "https://a/convert"});
    assert!(messages(&by_url)[0].contains("to https://a/convert"), "{:?}", messages(&by_url));

    let one =
        |strategy: &str| with(json!({"strategy": strategy}), json!([version("v1", true, &spec)]));
    let changes = diff(&one("Webhook"), &one("None"));
    assert_eq!((changes.len(), changes[0].effect), (1, Effect::Safe));
    assert!(changes[0].message.contains("nothing is converted"), "{}", changes[0]);
}
