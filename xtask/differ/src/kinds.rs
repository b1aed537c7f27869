//! The kinds that a server serves, from its discovery.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::seeds::{Seed, builtin};
use crate::server::Server;

/// Subresources that lead to a node, or that have steps of their own.
const LEFT_ALONE: [&str; 7] = ["attach", "exec", "log", "portforward", "proxy", "scale", "status"];

/// Returns the seeds of all kinds that can be created: those of this program where it has one, and
/// empty ones of all others.
///
/// # Errors
/// If the server does not answer.
pub async fn seeds(server: &Server) -> Result<Vec<Seed>, String> {
    let mut seeds = builtin();
    let mut known: BTreeSet<(String, String)> = BTreeSet::new();
    for api in apis(server).await? {
        let answer = server.get(&api).await?;
        let resources = answer.body["resources"].as_array().cloned().unwrap_or_default();
        let parts = parts(&resources);
        for resource in resources.iter().filter(|resource| can(resource, "create")) {
            let name = resource["name"].as_str().unwrap_or_default().to_owned();
            // Who asks is named differently on both sides.
            if name.contains('/') || name.is_empty() || name == "selfsubjectreviews" {
                continue;
            }
            let own = parts.get(&name).cloned().unwrap_or_default();
            let mut seeded = false;
            for seed in seeds.iter_mut().filter(|seed| seed.api == api && seed.resource == name) {
                describe(seed, resource, &own);
                seeded = true;
            }
            known.insert((api.clone(), name.clone()));
            if !seeded {
                let mut seed = unseeded(&api, &name);
                describe(&mut seed, resource, &own);
                seeds.push(seed);
            }
        }
    }
    seeds.retain(|seed| known.contains(&(seed.api.clone(), seed.resource.clone())));
    Ok(seeds)
}

/// The paths of the APIs, in all of their versions.
async fn apis(server: &Server) -> Result<Vec<String>, String> {
    let groups = server.get("/apis").await?;
    let mut found = vec!["/api/v1".to_owned()];
    for group in groups.body["groups"].as_array().into_iter().flatten() {
        for version in group["versions"].as_array().into_iter().flatten() {
            let text = version["groupVersion"].as_str().unwrap_or_default();
            // Generated kinds of earlier runs have groups of their own.
            if !text.contains("example.com") {
                found.push(format!("/apis/{text}"));
            }
        }
    }
    Ok(found)
}

/// The subresources of each resource.
fn parts(resources: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in resources.iter().filter_map(|resource| resource["name"].as_str()) {
        if let Some((resource, part)) = name.split_once('/') {
            found.entry(resource.to_owned()).or_default().push(part.to_owned());
        }
    }
    found
}

fn can(resource: &Value, verb: &str) -> bool {
    resource["verbs"].as_array().into_iter().flatten().any(|other| other == verb)
}

fn unseeded(api: &str, name: &str) -> Seed {
    Seed {
        api: api.to_owned(),
        resource: name.to_owned(),
        kind: String::new(),
        cluster: false,
        status: false,
        scale: false,
        parts: Vec::new(),
        posted: false,
        dry: false,
        other: None,
        body: json!({}),
    }
}

/// Completes a seed by what discovery says.
fn describe(seed: &mut Seed, resource: &Value, parts: &[String]) {
    seed.kind = resource["kind"].as_str().unwrap_or_default().to_owned();
    seed.cluster = resource["namespaced"] == false;
    seed.posted |= !can(resource, "get");
    let has = |part: &str| parts.iter().any(|other| other == part);
    (seed.status, seed.scale) = (has("status"), has("scale"));
    seed.parts =
        parts.iter().filter(|part| !LEFT_ALONE.contains(&part.as_str())).cloned().collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_kind_of_the_embedded_server_that_can_be_created_has_a_seed() {
        let seeds = seeds(&Server::embedded()).await.expect("it answers");
        let pod = seeds.iter().find(|seed| seed.kind == "Pod").expect("there is one");
        assert!(pod.status && !pod.scale && !pod.cluster);
        assert!(pod.parts.contains(&"eviction".to_owned()));
        let review = seeds.iter().find(|seed| seed.kind == "TokenReview").expect("there is one");
        assert!(review.posted && review.cluster);
        let bare: Vec<&str> = seeds
            .iter()
            .filter(|seed| seed.body == json!({}) && !seed.posted)
            .map(|seed| seed.resource.as_str())
            .collect();
        assert_eq!(bare, ["serviceaccounts"]);
    }
}
