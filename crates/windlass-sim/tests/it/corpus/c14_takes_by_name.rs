//! Takes an object of the right name for its own, and deletes it when it is not needed any more. The user
//! has made it.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass::client::Deletion;
use windlass::{Context, Next, Result, ResultExt};
use windlass_sim::{Oracle, Sim};

use super::{App, app, config_map, flagged, green, operator};

async fn reconcile(cx: Context<App>, looks: bool) -> Result<Next> {
    let Some(app) = cx.object() else { return Ok(Next::Done) };
    if app.spec.size > 0 {
        cx.create(&config_map("settings", "default")).await.ignore_already_exists()?;
    } else if let Some(map) = cx.get::<ConfigMap>("settings")? {
        let owners = map.metadata.owner_references.iter().flatten();
        let own = owners.into_iter().any(|owner| Some(&owner.uid) == app.metadata.uid.as_ref());
        if own || !looks {
            cx.client().api::<ConfigMap>().delete(Deletion::only(&*map)).await?;
        }
    }
    Ok(Next::Done)
}

macro_rules! scenario {
    ($looks:expr) => {
        async |sim: &mut Sim| {
            sim.install::<App>().operator(operator(|cx| reconcile(cx, $looks)));
            sim.create(&config_map("settings", "mine")).await?;
            sim.settle("settings of the user").await?;
            sim.apply(&app(1, "")).await?;
            sim.settle("in use").await?;
            sim.merge::<App>("web", json!({"spec": {"size": 0}})).await?;
            sim.settle("not in use").await
        }
    };
}

#[test]
fn the_deletion_of_an_object_of_the_user_is_found() {
    flagged("takes-by-name", Oracle::NoWrongDelete, scenario!(false));
}

#[test]
fn the_deletion_of_own_objects_survives() {
    green("takes-by-name-fixed", scenario!(true));
}
