//! What belongs to a whole definition: its identity, names, versions and conversion.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Effect, Report, schema, text, texts, version};

/// Pairs definitions by name. What is left is paired by kind if one of each side is left: then the
/// group or the plural changed.
pub(super) fn pairs<'a>(
    old: &'a [Value],
    new: &'a [Value],
) -> Vec<(Option<&'a Value>, Option<&'a Value>)> {
    let name = |value: &'a Value| text(value, "/metadata/name");
    let kind = |value: &'a Value| text(value, "/spec/names/kind");
    let mut added: Vec<&Value> = new.iter().collect();
    let mut pairs = Vec::new();
    let mut removed = Vec::new();
    for one in old {
        match added.iter().position(|other| name(other) == name(one)) {
            Some(at) => pairs.push((Some(one), Some(added.remove(at)))),
            None => removed.push(one),
        }
    }
    for one in removed {
        let same: Vec<usize> =
            (0..added.len()).filter(|at| kind(added[*at]) == kind(one)).collect();
        match same[..] {
            [at] => pairs.push((Some(one), Some(added.remove(at)))),
            _ => pairs.push((Some(one), None)),
        }
    }
    pairs.extend(added.into_iter().map(|one| (None, Some(one))));
    pairs
}

pub(super) fn compare(old: Option<&Value>, new: Option<&Value>, report: &mut Report) {
    report.definition = text(old.or(new).unwrap_or(&Value::Null), "/metadata/name").to_owned();
    report.version.clear();
    let (old, new) = match (old, new) {
        (Some(old), Some(new)) => (old, new),
        (Some(_), None) => {
            let why = "the definition is removed, and all objects of its kind with it";
            return report.breaking("", "definition", why);
        }
        (None, _) => return report.safe("", "definition", "the definition is new"),
    };
    identity(old, new, report);
    conversion(old, new, report);
    if old["spec"]["preserveUnknownFields"] == true && new["spec"]["preserveUnknownFields"] != true
    {
        let why = "preserveUnknownFields is turned off, so fields without a schema are removed from \
                   objects";
        report.breaking("", "preserveUnknownFields", why);
    }
    versions(old, new, report);
    unconverted(old, new, report);
}

fn identity(old: &Value, new: &Value, report: &mut Report) {
    let fixed = [
        (
            "scope",
            "/spec/scope",
            "the API server refuses this change, and all paths of objects differ",
        ),
        ("group", "/spec/group", "stored objects stay in the old group, and clients ask for it"),
        ("plural", "/spec/names/plural", "the paths of all objects change"),
        ("kind", "/spec/names/kind", "clients and stored manifests use the old kind"),
    ];
    for (what, pointer, why) in fixed {
        let (before, after) = (text(old, pointer), text(new, pointer));
        if before != after {
            let message = format!("the {what} changes from {before} to {after}: {why}");
            report.breaking("", what, message);
        }
    }
    let names = [
        ("singular", texts_of_one(old, "singular"), texts_of_one(new, "singular")),
        ("listKind", texts_of_one(old, "listKind"), texts_of_one(new, "listKind")),
        (
            "shortNames",
            texts(&old["spec"]["names"]["shortNames"]),
            texts(&new["spec"]["names"]["shortNames"]),
        ),
        (
            "categories",
            texts(&old["spec"]["names"]["categories"]),
            texts(&new["spec"]["names"]["categories"]),
        ),
    ];
    for (what, before, after) in names {
        if before != after {
            let (before, after) = (before.join(", "), after.join(", "));
            let why = "requests do not use this name, commands that people type do";
            report.safe("", what, format!("{what} changes from [{before}] to [{after}]: {why}"));
        }
    }
}

fn texts_of_one<'a>(definition: &'a Value, name: &str) -> Vec<&'a str> {
    definition["spec"]["names"][name].as_str().into_iter().filter(|text| !text.is_empty()).collect()
}

/// The strategy of conversion; `None` by default.
fn strategy(definition: &Value) -> &str {
    match text(definition, "/spec/conversion/strategy") {
        "" => "None",
        strategy => strategy,
    }
}

fn conversion(old: &Value, new: &Value, report: &mut Report) {
    match (strategy(old), strategy(new)) {
        ("Webhook", "None") if needs_conversion(old, new) => report.breaking(
            "",
            "conversion",
            "conversion changes from Webhook to None, so objects of other versions are read without \
             being converted",
        ),
        ("Webhook", "None") => {
            let why = "conversion changes from Webhook to None, and there is one version, so nothing \
                       is converted";
            report.safe("", "conversion", why);
        }
        ("Webhook", "Webhook") => webhook(old, new, report),
        (before, after) if before != after => report.safe(
            "",
            "conversion",
            format!("conversion changes from {before} to {after}; the webhook must answer before objects are read"),
        ),
        _ => {}
    }
}

/// Returns `true` if objects are stored or read in a version other than the one they are stored in
/// from now on.
fn needs_conversion(old: &Value, new: &Value) -> bool {
    let storage = version::storage(new).map_or("", |version| text(version, "/name"));
    let served = version::all(new).iter().filter(|version| version["served"] == true);
    let mut names = stored(old).into_iter().chain(served.map(|version| text(version, "/name")));
    names.any(|name| name != storage)
}

/// Where the conversion webhook is and what it is sent. The CA is left out, because the tool that
/// manages the certificate writes it.
fn webhook(old: &Value, new: &Value, report: &mut Report) {
    let of = |definition: &Value| definition["spec"]["conversion"]["webhook"].clone();
    let (before, after) = (of(old), of(new));
    let (from, to) = (address(&before["clientConfig"]), address(&after["clientConfig"]));
    if from != to {
        let message = format!(
            "the address of the conversion webhook changes from {from} to {to}; the new one must answer \
             before objects are read"
        );
        report.safe("", "conversion", message);
    }
    const REVIEWS: &str = "conversionReviewVersions";
    let (was, is) = (texts(&before[REVIEWS]), texts(&after[REVIEWS]));
    if was != is {
        let message = format!(
            "{REVIEWS} changes from [{}] to [{}]; the webhook is sent the first of them that the API \
             server knows",
            was.join(", "),
            is.join(", ")
        );
        report.safe("", "conversion", message);
    }
}

/// The URL of a webhook, or its service in the form of one.
fn address(config: &Value) -> String {
    if let Some(url) = config["url"].as_str() {
        return url.to_owned();
    }
    let service = &config["service"];
    if !service.is_object() {
        return "nowhere".to_owned();
    }
    let (name, namespace) = (text(service, "/name"), text(service, "/namespace"));
    let port = service["port"].as_u64().unwrap_or(443);
    format!("{name}.{namespace}.svc:{port}{}", text(service, "/path"))
}

fn versions(old: &Value, new: &Value, report: &mut Report) {
    let stored = stored(old);
    for before in version::all(old) {
        let name = text(before, "/name");
        report.version = name.to_owned();
        match version::find(new, name) {
            Some(after) => version::compare(before, after, report),
            None => removed(before, stored.contains(name), report),
        }
    }
    for after in version::all(new) {
        let name = text(after, "/name");
        if version::find(old, name).is_none() {
            report.version = name.to_owned();
            report.safe("", "version", "the version is new");
        }
    }
    report.version.clear();
    storage(old, new, report);
}

/// The versions in which objects may be stored.
fn stored(definition: &Value) -> BTreeSet<&str> {
    let known = texts(&definition["status"]["storedVersions"]);
    let storage = version::storage(definition).map(|version| text(version, "/name"));
    known.into_iter().chain(storage).collect()
}

fn removed(version: &Value, stored: bool, report: &mut Report) {
    if stored {
        let why = "the version is removed while objects may be stored in it; migrate them and remove \
                   it from status.storedVersions first";
        report.breaking("", "version", why);
    } else if version["served"] == true {
        let why = "the version is removed while it is served, so its clients get 404; set `served` to \
                   false for a release first";
        report.breaking("", "version", why);
    } else {
        report.safe("", "version", "the version is removed; it was neither served nor stored");
    }
}

/// A change of the storage version: what is stored is read as the new version.
fn storage(old: &Value, new: &Value, report: &mut Report) {
    let (Some(before), Some(after)) = (version::storage(old), version::storage(new)) else {
        return;
    };
    let (from, to) = (text(before, "/name"), text(after, "/name"));
    if from == to {
        return;
    }
    let message = format!(
        "the storage version changes from {from} to {to}; migrate the stored objects, and keep {from} \
         until status.storedVersions does not list it"
    );
    report.safe("", "storage", message);
    if strategy(new) == "None" {
        report.version = format!("{from} to {to}");
        let at = report.changes.len();
        schema::compare(version::schema(before), version::schema(after), report);
        let moved: Vec<_> = report.changes.drain(at..).collect();
        let breaking = moved.into_iter().filter(|change| change.effect == Effect::Breaking);
        report.changes.extend(breaking);
        report.version.clear();
    }
}

/// Differences between versions that nothing converts, and that were not there before.
///
/// An object is written in any served version and stored in one, so both have to allow the same
/// values and give them the same meaning.
pub(super) fn unconverted(old: &Value, new: &Value, report: &mut Report) {
    let before = differences(old);
    let mut reported = BTreeSet::new();
    for one in differences(new) {
        if before.contains(&one)
            || !reported.insert((one.served.clone(), one.path.clone(), one.rule))
        {
            continue;
        }
        report.version = format!("{} to {}", one.served, one.storage);
        let Difference { from, to, path, message, .. } = &one;
        let message = format!(
            "{from} and {to} differ and nothing converts between them: from {from} to {to}, {message}; \
             declare a conversion, or make the schemas equal"
        );
        report.breaking(path, "conversion", message);
    }
    report.version.clear();
}

/// What an object of version `from` can lose when it is read as version `to`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Difference {
    served: String,
    storage: String,
    path: String,
    rule: &'static str,
    from: String,
    to: String,
    message: String,
}

fn differences(definition: &Value) -> BTreeSet<Difference> {
    let mut found = BTreeSet::new();
    let Some(storage) = version::storage(definition) else { return found };
    if strategy(definition) != "None" {
        return found;
    }
    let stored = text(storage, "/name");
    let others = version::all(definition).iter().filter(|other| other["served"] == true);
    for other in others.filter(|other| text(other, "/name") != stored) {
        for (from, to) in [(storage, other), (other, storage)] {
            let mut compared = Report::default();
            schema::compare(version::schema(from), version::schema(to), &mut compared);
            let breaking = compared.changes.into_iter().filter(|c| c.effect == Effect::Breaking);
            found.extend(breaking.map(|change| Difference {
                served: text(other, "/name").to_owned(),
                storage: stored.to_owned(),
                path: change.path,
                rule: change.rule,
                from: text(from, "/name").to_owned(),
                to: text(to, "/name").to_owned(),
                message: change.message,
            }));
        }
    }
    found
}
