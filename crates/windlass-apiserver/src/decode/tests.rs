//! Decoding of request bodies.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn decode(body: &str, gvk: &Gvk) -> Result<Checked, String> {
    check(&parse(body.as_bytes(), Media::Json)?, gvk)
}

fn config_map() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

fn error(body: Value, gvk: &Gvk) -> String {
    decode(&body.to_string(), gvk).unwrap_err()
}

#[test]
fn wrong_types_are_reported_with_their_go_path() {
    let cm = config_map();
    assert_eq!(
        error(json!({"data": {"n": 1}}), &cm),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    );
    assert_eq!(
        error(json!({"data": []}), &cm),
        "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string"
    );
    assert_eq!(
        error(json!({"metadata": {"labels": {"x": true}}}), &cm),
        "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string"
    );
    let deployment = Gvk::new("apps", "v1", "Deployment");
    assert_eq!(
        error(json!({"spec": {"replicas": "two"}}), &deployment),
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
    );
    assert_eq!(
        error(json!({"spec": {"replicas": 1.5}}), &deployment),
        "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32"
    );
    let pod = Gvk::new("", "v1", "Pod");
    assert_eq!(
        error(json!({"spec": {"containers": {}}}), &pod),
        "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"
    );
    assert_eq!(
        error(json!({"spec": {"containers": [{"imagePullPolicy": 1}]}}), &pod),
        "json: cannot unmarshal number into Go struct field Container.spec.containers.imagePullPolicy of type v1.PullPolicy"
    );
    let secret = Gvk::new("", "v1", "Secret");
    assert_eq!(
        error(json!({"data": {"k": "not base64!"}}), &secret),
        "illegal base64 data at input byte 3"
    );
    assert_eq!(
        error(json!([]), &cm),
        "json: cannot unmarshal array into Go value of type v1.ConfigMap"
    );
}

#[test]
fn schemas_of_definitions_fail_with_their_path() {
    let crd = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let body =
        |schema: Value| json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
    let nested = |x: Value| body(json!({"properties": {"spec": {"properties": {"x": x}}}}));
    let prefix = "Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema";
    assert_eq!(
        error(nested(json!({"minimum": "1"})), &crd),
        format!(
            "json: cannot unmarshal string into {prefix}.properties.properties.minimum of type float64"
        )
    );
    assert_eq!(
        error(body(json!({"items": {"type": 1}})), &crd),
        format!("json: cannot unmarshal number into {prefix}.items of type string")
    );
    assert_eq!(
        error(body(json!({"additionalProperties": 1})), &crd),
        "boolean or JSON schema expected"
    );
    let checked = decode(&nested(json!({"colour": 1})).to_string(), &crd).unwrap();
    assert_eq!(
        checked.strict,
        [
            "unknown field \"spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.x.colour\""
        ]
    );
}

#[test]
fn special_values_fail_with_their_own_texts() {
    let lease = Gvk::new("coordination.k8s.io", "v1", "Lease");
    let text = error(json!({"spec": {"renewTime": "2024-01-02T03:04:05.5Z"}}), &lease);
    assert!(text.ends_with("cannot parse \".5Z\" as \".000000\""), "{text}");
    let pod = Gvk::new("", "v1", "Pod");
    let container = |c: Value| json!({"spec": {"containers": [c]}});
    let text = error(container(json!({"resources": {"limits": {"cpu": "x"}}})), &pod);
    assert!(text.starts_with("quantities must match the regular expression"), "{text}");
    let probe = json!({"livenessProbe": {"httpGet": {"port": true}}});
    assert_eq!(
        error(container(probe), &pod),
        "json: cannot unmarshal bool into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32"
    );
    assert_eq!(
        error(json!({"metadata": {"creationTimestamp": 5}}), &pod),
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string"
    );
}

#[test]
fn unknown_and_duplicate_fields_come_in_the_order_of_the_body() {
    let cm = config_map();
    let body = r#"{"metadata":{"name":"a","lables":{"a":"b"}},"data":{"k":"v","k":"w"},
        "extra":1,"data":{"z":"1"}}"#;
    let checked = decode(body, &cm).unwrap();
    assert_eq!(checked.value["data"], json!({"k": "w", "z": "1"}));
    assert_eq!(
        strict_error(&checked.strict),
        "strict decoding error: unknown field \"metadata.lables\", duplicate field \"data.k\", \
         unknown field \"extra\", duplicate field \"data\""
    );
}

#[test]
fn empty_values_are_dropped_where_go_drops_them() {
    let cm = config_map();
    let body = json!({"metadata": {"name": "a", "labels": {}, "annotations": null,
        "finalizers": []}, "data": {}, "binaryData": null});
    let checked = decode(&body.to_string(), &cm).unwrap();
    assert_eq!(checked.value, json!({"metadata": {"name": "a"}}));
    let body = json!({"metadata": {"labels": {"x": null}}, "data": {"k": null, "e": ""}});
    let checked = decode(&body.to_string(), &cm).unwrap();
    assert_eq!(checked.value["metadata"]["labels"], json!({"x": ""}));
    assert_eq!(checked.value["data"], json!({"k": "", "e": ""}));

    let role = Gvk::new("rbac.authorization.k8s.io", "v1", "Role");
    let checked = decode(r#"{"rules":[]}"#, &role).unwrap();
    assert_eq!(checked.value, json!({"metadata": {}, "rules": null}));
    let body = json!({"spec": {"containers": [{"name": "c", "env": [], "args": null,
        "resources": null, "stdin": false, "restartPolicy": "", "volumeMounts": [{"name": "v",
        "mountPath": "/x", "readOnly": false}], "securityContext": {}}], "nodeSelector": {},
        "hostNetwork": false, "terminationGracePeriodSeconds": 0}});
    let checked = decode(&body.to_string(), &Gvk::new("", "v1", "Pod")).unwrap();
    assert_eq!(
        checked.value,
        json!({"metadata": {}, "status": {}, "spec": {"terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "resources": {}, "restartPolicy": "",
                "securityContext": {}, "volumeMounts": [{"name": "v", "mountPath": "/x"}]}]}})
    );
}

#[test]
fn values_are_normalised() {
    let body = json!({"metadata": {"creationTimestamp": "2024-01-02T05:04:05.9+02:00"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 0.5,
        "memory": "1024Mi"}}, "ports": [{"containerPort": 80}]}]}});
    let checked = decode(&body.to_string(), &Gvk::new("", "v1", "Pod")).unwrap();
    assert_eq!(checked.value["metadata"]["creationTimestamp"], "2024-01-02T03:04:05Z");
    let limits = &checked.value["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(*limits, json!({"cpu": "500m", "memory": "1Gi"}));
}

#[test]
fn bodies_without_a_kind_are_reported() {
    let error = parse(br#"{"apiVersion": "v1", "#, Media::Json).unwrap_err();
    assert_eq!(
        unrecognized("ConfigMap", &error, br#"{"apiVersion": "v1", "#).message,
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get \
         version/kind; json parse error: unexpected end of JSON input ({\"apiVersion\": \"v1\", )"
    );
    let error = parse(b"", Media::Json).unwrap_err();
    assert!(unrecognized("ConfigMap", &error, b"").message.ends_with("input (<empty>)"));
    assert!(parse(b"[]", Media::Json).unwrap().identity().is_err());
    assert_eq!(parse(b"null", Media::Json).unwrap().identity(), Ok(("", "")));
    let yes =
        parse(b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: y\n", Media::Yaml).unwrap();
    assert_eq!(yes.identity(), Ok(("v1", "ConfigMap")));
    assert_eq!(
        check(&yes, &config_map()).unwrap_err(),
        "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.name of type string"
    );
}

#[test]
fn a_body_that_is_not_an_object_is_reported_with_the_type_it_was_decoded_into() {
    let error = parse(b"[]", Media::Json).unwrap().identity().unwrap_err();
    assert_eq!(
        error,
        r#"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#
    );
}

#[test]
fn schemas_nested_to_the_limit_decode() {
    let crd = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    for key in ["not", "items", "additionalProperties"] {
        let levels = DEPTH_MAX - 6;
        let schema = format!("{{\"{key}\":").repeat(levels) + "{}" + &"}".repeat(levels);
        let body =
            format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#);
        let checked = decode(&body, &crd).unwrap();
        assert_eq!(check_value(&checked.value, &crd).unwrap().value, checked.value);
    }
}

fn kinds() -> impl Strategy<Value = Gvk> {
    let all: Vec<_> = crate::resource::builtins().iter().map(|r| r.gvk.clone()).collect();
    proptest::sample::select(all)
}

/// Any value in place of one of this type: mostly valid, sometimes not.
fn fitting(typ: schema::go::Type, depth: u32) -> BoxedStrategy<Value> {
    use schema::go::{Special, Type};
    let odd = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        "[a-z0-9:.=]{0,6}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!({"x": [null, 1.5]})),
    ];
    if depth == 0 {
        return odd.boxed();
    }
    let fit = match typ.base().clone() {
        Type::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Type::Int32 | Type::Int64 => (-3i64..100).prop_map(Value::from).boxed(),
        Type::Float64 => any::<f32>().prop_map(|f| json!(f)).boxed(),
        Type::String => "[a-z]{0,4}".prop_map(Value::from).boxed(),
        Type::Bytes => {
            proptest::sample::select(vec!["", "YQ==", "YWJj", "Y"]).prop_map(Value::from).boxed()
        }
        Type::List(item) => {
            proptest::collection::vec(fitting(*item, depth - 1), 0..3).prop_map(Value::from).boxed()
        }
        Type::Map(_, item) => {
            proptest::collection::btree_map("[a-c]", fitting(*item, depth - 1), 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
                .boxed()
        }
        Type::Named(id) => {
            let fields = id.get().fields.len();
            if fields == 0 {
                return odd.boxed();
            }
            proptest::collection::vec(0..fields, 0..5)
                .prop_flat_map(move |picked| {
                    let parts: Vec<_> = picked
                        .into_iter()
                        .map(|i| {
                            let field = &id.get().fields[i];
                            (Just(field.name), fitting(field.typ.clone(), depth - 1))
                        })
                        .collect();
                    parts
                })
                .prop_map(|parts| {
                    Value::Object(parts.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
                })
                .boxed()
        }
        Type::Special(Special::Quantity) => {
            proptest::sample::select(vec!["1", "1000m", "1.5Gi", "0"]).prop_map(Value::from).boxed()
        }
        Type::Special(Special::Time) => Just(json!("2024-01-02T03:04:05+01:00")).boxed(),
        Type::Special(Special::MicroTime) => Just(json!("2024-01-02T03:04:05.000001Z")).boxed(),
        _ => odd.clone().boxed(),
    };
    prop_oneof![9 => fit, 1 => odd].boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn decoding_is_idempotent_and_never_panics(
        (gvk, value) in kinds().prop_flat_map(|gvk| {
            let id = schema::type_of(&gvk).unwrap();
            (Just(gvk), fitting(schema::go::Type::Named(id), 5))
        })
    ) {
        if let Ok(first) = check_value(&value, &gvk) {
            let second = check_value(&first.value, &gvk).unwrap();
            prop_assert!(second.strict.is_empty());
            prop_assert_eq!(second.value, first.value);
        }
    }

    #[test]
    fn no_bytes_panic(body in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = parse(&body, Media::Json).map(|d| d.identity().map(|_| ()).ok());
        let _ = parse(&body, Media::Yaml).map(|d| d.duplicates());
    }
}

#[test]
fn an_object_with_more_items_than_can_be_stored_is_refused() {
    let pod = Gvk::new("", "v1", "Pod");
    let with = |count: usize| json!({"spec": {"containers": vec![json!({}); count]}});
    let why = error(with(200_000), &pod);
    assert_eq!(why, "its lists have more than 131072 items, too many to be stored");
    assert!(decode(&with(1_000).to_string(), &pod).is_ok());
    let map = json!({"metadata": {"ownerReferences": vec![json!({}); 200_000]}});
    assert_eq!(check_value(&map, &config_map()).unwrap_err(), why);
}
