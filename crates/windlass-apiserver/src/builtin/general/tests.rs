use serde_json::{Value, json};

use super::event;
use crate::builtin::strategy_of;
use crate::resource::{Gvk, builtins};

fn texts(group: &str, kind: &str, mut object: Value) -> Vec<String> {
    let strategy = strategy_of(&Gvk::new(group, "v1", kind));
    strategy.defaults(&mut object);
    strategy.prepare_create(&mut object);
    strategy.validate(&object).iter().map(ToString::to_string).collect()
}

fn created(group: &str, kind: &str, mut object: Value) -> Value {
    let strategy = strategy_of(&Gvk::new(group, "v1", kind));
    strategy.defaults(&mut object);
    strategy.prepare_create(&mut object);
    object
}

#[test]
fn defaults_are_idempotent_and_nothing_panics_on_odd_shapes_of_any_kind() {
    let odd = [
        json!({}),
        json!({"spec": null}),
        json!({"spec": {}, "metadata": {"name": "a"}}),
        json!({"spec": {"rules": [1], "ports": "p"}, "webhooks": [{}]}),
    ];
    for resource in builtins() {
        let strategy = strategy_of(&resource.gvk);
        for object in &odd {
            let mut once = object.clone();
            strategy.defaults(&mut once);
            let mut twice = once.clone();
            strategy.defaults(&mut twice);
            assert_eq!(once, twice, "{resource:?}");
            strategy.prepare_create(&mut twice);
            let _ = strategy.validate(&twice);
            strategy.prepare_update(&mut twice, &once);
            let _ = strategy.validate_update(&twice, &once);
            strategy.prepare_status(&mut twice, &once);
            let _ = strategy.validate_status(&twice, &once);
            let _ = strategy.selectable_fields(&twice);
            let _ = strategy.warnings(&twice, Some(&once));
        }
    }
}

#[test]
fn secrets_fold_plain_text_into_data() {
    let secret = json!({"stringData": {"b": "hi"}, "data": {"a": "eA==", "b": "eA=="}});
    let want = json!({"type": "Opaque", "data": {"a": "eA==", "b": "aGk="}});
    assert_eq!(created("", "Secret", secret), want);
}

#[test]
fn errors_in_the_ports_of_services_are_reported() {
    let spec = json!({"spec": {"ports": [{"port": 1, "name": "a"}, {"port": 1}]}});
    assert_eq!(
        texts("", "Service", spec),
        [
            "spec.ports[1].name: Required value",
            "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\
             \"AppProtocol\":null,\"Port\":1,\"TargetPort\":0,\"NodePort\":0}",
        ]
    );
}

#[test]
fn a_claims_spec_change_is_shown_as_a_diff() {
    let claim = |size: &str| {
        created(
            "",
            "PersistentVolumeClaim",
            json!({"spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "c",
                "resources": {"requests": {"storage": size}},
            }}),
        )
    };
    let strategy = strategy_of(&Gvk::new("", "v1", "PersistentVolumeClaim"));
    let errors = strategy.validate_update(&claim("2Gi"), &claim("1Gi"));
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].detail.ends_with(
            "\n@@ -6,7 +6,7 @@\n  \"Resources\": {\n   \"Limits\": null,\n   \"Requests\": {\n-   \
         \"storage\": \"1Gi\"\n+   \"storage\": \"2Gi\"\n   }\n  },\n  \"VolumeName\": \"\",\n"
        ),
        "{}",
        errors[0].detail
    );
}

#[test]
fn events_survive_the_way_to_the_other_form_and_back() {
    let mut core = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "message": "m",
        "involvedObject": {"kind": "Pod"}, "count": 2, "reason": "R", "type": "Normal",
        "reportingComponent": "c", "reportingInstance": "i",
    });
    strategy_of(&Gvk::new("", "v1", "Event")).defaults(&mut core);
    let newer = event::to_events_v1(&core);
    assert_eq!(newer["note"], "m");
    assert_eq!(newer["reportingController"], "c");
    assert_eq!(event::to_core_v1(&newer), core);
}

#[test]
fn a_limit_range_checks_the_order_of_its_amounts() {
    let range = json!({"spec": {"limits": [
        {"type": "Container", "max": {"memory": "1Mi"}, "min": {"memory": "1Gi"}}
    ]}});
    assert_eq!(texts("", "LimitRange", range).len(), 3);
}

#[test]
fn a_namespace_carries_its_name_and_the_servers_finalizer() {
    let namespace = created("", "Namespace", json!({"metadata": {"name": "n"}}));
    assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(namespace["status"]["phase"], "Active");
}

#[test]
fn a_tls_secret_without_pem_is_warned_of() {
    let rules = strategy_of(&Gvk::new("", "v1", "Secret"));
    let secret = json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ==", "tls.key": ""}});
    let expected = ["tls: failed to find any PEM data in certificate input"];
    assert_eq!(rules.warnings(&secret, None), expected);
}

#[test]
fn a_local_volume_needs_a_path_and_nodes() {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {},
    });
    assert_eq!(
        texts("", "PersistentVolume", json!({"metadata": {"name": "v"}, "spec": spec})),
        [
            "spec.local.path: Required value",
            "spec.nodeAffinity: Required value: Local volume requires node affinity",
        ]
    );
}

#[test]
fn topologies_of_a_storage_class_have_values_once() {
    let class = json!({
        "metadata": {"name": "c"}, "provisioner": "p", "volumeBindingMode": "Immediate",
        "allowedTopologies": [
            {"matchLabelExpressions": [{"key": "k", "values": ["v", "v"]}]}, {},
        ],
    });
    assert_eq!(
        texts("storage.k8s.io", "StorageClass", class),
        [
            "allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"v\"",
            "allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\"",
        ]
    );
}

#[test]
fn ranges_of_a_node_are_one_per_family_and_amounts_not_negative() {
    let node = json!({
        "metadata": {"name": "n"},
        "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "10.2.0.0/24"]},
        "status": {"capacity": {"cpu": "-1", "pods": "1500m"}, "allocatable": {}},
    });
    let shown = texts("", "Node", node);
    assert_eq!(
        shown[..2],
        [
            "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
            "status.capacity.pods: Invalid value: \"1500m\": must be an integer",
        ]
    );
    assert!(shown[2].ends_with("may specify no more than one CIDR for each IP family"));
}

#[test]
fn hints_and_addresses_of_endpoints_are_checked() {
    let slice = json!({
        "metadata": {"name": "s"}, "addressType": "IPv4", "ports": [{"port": 70000}],
        "endpoints": [{
            "addresses": ["::1"], "deprecatedTopology": {"a": "b"},
            "hints": {"forZones": [{"name": "z"}, {"name": "z"}]},
        }],
    });
    let shown = texts("discovery.k8s.io", "EndpointSlice", slice.clone());
    assert_eq!(shown[0], "endpoints[0].addresses: Invalid value: \"::1\": must be an IPv4 address");
    assert_eq!(shown[2], "endpoints[0].hints.forZones[1].name: Duplicate value: \"z\"");
    let stored = created("discovery.k8s.io", "EndpointSlice", slice);
    assert!(stored["endpoints"][0].get("deprecatedTopology").is_none());
}

#[test]
fn a_limit_range_names_known_resources_and_possible_ratios() {
    let limit = json!({
        "type": "Container", "max": {"cpu": "2", "odd": "1"}, "min": {"cpu": "1"},
        "maxLimitRequestRatio": {"cpu": "20"},
    });
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [limit]}});
    let shown = texts("", "LimitRange", range);
    assert!(shown[0].contains("must be a standard resource type or fully qualified"));
    assert!(shown.iter().any(|text| text.ends_with("greater than max/min = 2.000000")));
}
