//! The property test that comes with a conversion.

use serde_json::{Value, json};
use windlass_manifests::generate;

use super::{Version, Versions};

/// How many objects of each version are generated.
const OBJECTS: u64 = 256;
/// How many of them must fit the type: rules that a generator does not know may exclude most.
const OBJECTS_MIN: usize = 8;

/// Converts generated objects of every version to every other version and back.
///
/// # Errors
/// The first object that does not survive.
pub(super) fn check(versions: &Versions) -> Result<(), String> {
    versions.check().map_err(|error| error.to_string())?;
    if versions.others.is_empty() {
        return Err(format!("{} has no other version", versions.hub.kind));
    }
    for from in versions.all() {
        let objects: Vec<Value> = (0..OBJECTS).filter_map(|seed| object(from, seed)).collect();
        if objects.len() < OBJECTS_MIN {
            return Err(format!(
                "only {} of {OBJECTS} generated objects fit the type of {}; convert objects of your own \
                 with `convert`",
                objects.len(),
                from.kind
            ));
        }
        for to in versions.all().filter(|to| to.kind != from.kind) {
            objects.iter().try_for_each(|object| survives(versions, object, from, to))?;
        }
    }
    Ok(())
}

fn object(version: &Version, seed: u64) -> Option<Value> {
    let mut object = generate::value(&version.schema, seed)?;
    object["apiVersion"] = version.kind.api_version().into();
    object["kind"] = version.kind.kind().into();
    object["metadata"] = json!({
        "name": "generated", "namespace": "default", "uid": "6a9f", "generation": 3,
        "labels": {"seed": seed.to_string()}, "annotations": {"example.com/kept": "yes"},
        "finalizers": ["example.com/hold"],
    });
    (version.fits)(&object).ok().map(|()| object)
}

fn survives(
    versions: &Versions,
    object: &Value,
    from: &Version,
    to: &Version,
) -> Result<(), String> {
    let (there, back) = (to.kind.api_version(), from.kind.api_version());
    let failed =
        |what: &str, error: crate::Error| format!("{what} fails: {}\n{object:#}", error.chain());
    let converted = versions
        .convert(object.clone(), &there)
        .map_err(|error| failed(&format!("the conversion from {back} to {there}"), error))?;
    (to.fits)(&converted).map_err(|error| {
        format!(
            "the conversion from {back} to {there} makes an object that {}\n{converted:#}",
            error.chain()
        )
    })?;
    let returned = versions
        .convert(converted.clone(), &back)
        .map_err(|error| failed(&format!("the conversion from {there} back to {back}"), error))?;
    if returned == *object {
        return Ok(());
    }
    Err(format!(
        "an object of {back} is not the same after a conversion to {there} and back\nbefore: \
         {object:#}\nconverted: {converted:#}\nafter: {returned:#}"
    ))
}
