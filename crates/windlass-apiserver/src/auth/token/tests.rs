use super::*;
use crate::auth::fake::Fake;

const NOW: i64 = 1_700_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn setup() -> (Fake, Signer) {
    let fake = Fake::default();
    fake.core("ServiceAccount", "ns", "sa", "u1");
    fake.put(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "uid": "p1"},
        "spec": {"serviceAccountName": "sa", "nodeName": "n"},
    }));
    (fake, Signer::generate(DEFAULT_ISSUER).unwrap())
}

fn ask(fake: &Fake, signer: &Signer, spec: Value) -> crate::status::Result<Value> {
    let body = json!({"metadata": {}, "spec": spec});
    token_request(signer, fake, "ns", "sa", body, at(NOW))
}

fn token(fake: &Fake, signer: &Signer, spec: Value) -> String {
    ask(fake, signer, spec).unwrap()["status"]["token"].as_str().unwrap().to_owned()
}

#[test]
fn a_token_speaks_for_its_account_until_it_expires() {
    let (fake, signer) = setup();
    let token = token(&fake, &signer, json!({}));
    let check = |second| signer.authenticate(&fake, &token, signer.audiences(), at(second));
    let (user, audiences) = check(NOW + 10).unwrap().unwrap();
    assert_eq!(user.name, "system:serviceaccount:ns:sa");
    assert_eq!(user.uid, "u1");
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
    );
    assert!(user.extra["authentication.kubernetes.io/credential-id"][0].starts_with("JTI="));
    assert_eq!(audiences, [DEFAULT_ISSUER]);
    assert_eq!(check(NOW + 3661).unwrap_err(), "service account token has expired");
    assert_eq!(check(NOW - 61).unwrap_err(), "service account token is not valid yet");
}

#[test]
fn a_token_dies_with_its_account_and_with_its_pod() {
    let (fake, signer) = setup();
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "name": "p"});
    let bound = token(&fake, &signer, json!({"boundObjectRef": pod}));
    let free = token(&fake, &signer, json!({}));
    let check = |token| signer.authenticate(&fake, token, signer.audiences(), at(NOW));
    let (user, _) = check(&bound).unwrap().unwrap();
    assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
    assert_eq!(user.extra["authentication.kubernetes.io/node-name"], ["n"]);
    fake.remove("", "pods", "ns", "p");
    assert_eq!(check(&bound).unwrap_err(), "service account token has been invalidated");
    assert!(check(&free).unwrap().is_some());
    fake.core("ServiceAccount", "ns", "sa", "u2");
    assert_eq!(check(&free).unwrap_err(), "service account UID (u2) does not match claim (u1)");
}

#[test]
fn a_token_for_somebody_else_or_from_another_key_is_not_accepted() {
    let (fake, signer) = setup();
    let vault = token(&fake, &signer, json!({"audiences": ["vault"]}));
    let error = signer.authenticate(&fake, &vault, signer.audiences(), at(NOW)).unwrap_err();
    assert!(error.starts_with("token audiences [\"vault\"] is invalid for"), "{error}");
    let other = Signer::generate(DEFAULT_ISSUER).unwrap();
    let foreign = token(&fake, &other, json!({}));
    assert!(signer.authenticate(&fake, &foreign, signer.audiences(), at(NOW)).is_err());
    for nonsense in ["nonsense", "a.b.c", "", "...", "e30.e30.e30"] {
        assert_eq!(signer.authenticate(&fake, nonsense, &[], at(NOW)), Ok(None), "{nonsense}");
    }
}

#[test]
fn a_key_survives_as_pem() {
    let (fake, signer) = setup();
    let again = Signer::from_pem(&signer.to_pem(), DEFAULT_ISSUER).unwrap();
    let token = token(&fake, &signer, json!({}));
    assert!(again.authenticate(&fake, &token, again.audiences(), at(NOW)).unwrap().is_some());
    assert_eq!(again.jwks(), signer.jwks());
    assert!(Signer::from_pem("nothing", DEFAULT_ISSUER).is_err());
}

#[test]
fn equal_seeds_sign_equal_tokens() {
    let (fake, _) = setup();
    let signer = |seed| Signer::seeded(seed, DEFAULT_ISSUER).unwrap();
    let tokens = |signer: &Signer| [json!({}), json!({})].map(|spec| token(&fake, signer, spec));
    let (one, again, other) = (signer(7), signer(7), signer(8));
    let [first, second] = tokens(&one);
    assert_eq!(tokens(&again), [first.clone(), second.clone()]);
    assert_ne!(first, second, "each token has an identifier of its own");
    assert!(one.authenticate(&fake, &first, one.audiences(), at(NOW)).unwrap().is_some());
    assert!(other.authenticate(&fake, &first, other.audiences(), at(NOW)).is_err());
    let kept = Signer::from_pem(&one.to_pem(), DEFAULT_ISSUER).unwrap();
    assert_eq!(kept.jwks(), one.jwks());
    assert_eq!(one.jwks()["keys"][0]["crv"], "Ed25519");
}

#[test]
fn wrong_requests_get_the_real_texts() {
    let (fake, signer) = setup();
    let message = |spec| ask(&fake, &signer, spec).unwrap_err().message;
    assert_eq!(
        message(json!({"expirationSeconds": 60})),
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid \
         value: 60: may not specify a duration less than 10 minutes"
    );
    let reference = |kind: &str, name: &str, uid: &str| {
        json!({"boundObjectRef":
            {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid}})
    };
    assert_eq!(message(reference("Pod", "nope", "")), "pods \"nope\" not found");
    assert_eq!(
        message(reference("ConfigMap", "x", "")),
        "cannot bind token to object of type /v1, Kind=ConfigMap"
    );
    assert_eq!(
        message(reference("Pod", "p", "other")),
        "Operation cannot be fulfilled on Pod \"p\": the UID in the bound object reference \
         (other) does not match the UID in record. The object might have been deleted and then \
         recreated"
    );
    let missing = token_request(&signer, &fake, "ns", "none", json!({}), at(NOW)).unwrap_err();
    assert_eq!(missing.message, "serviceaccounts \"none\" not found");
}

#[test]
fn a_token_in_a_secret_is_good_while_the_secret_holds_it() {
    let (fake, signer) = setup();
    let token = signer.sign_secret("ns", "sa", "u1", "s");
    let check = || signer.authenticate(&fake, &token, signer.audiences(), at(NOW));
    assert!(check().is_err());
    fake.put(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns"},
        "data": {"token": STANDARD.encode(&token)},
    }));
    assert_eq!(check().unwrap().unwrap().0.name, "system:serviceaccount:ns:sa");
}
