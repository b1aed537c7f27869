//! Objects that nobody controls, and the owners whose selectors match them.

use windlass::cache::{Index, Selection};
use windlass::controller::{Predicate, Watch};
use windlass::{Kind, Object};

/// Objects without a controller, for the objects of kind `K` whose selector matches them.
pub fn watch<K: Object<DynamicType = ()>>(kind: Kind, selectors: &Index<K, Selection>) -> Watch {
    let free = Predicate::new(|change| {
        let mut states = [&change.old, &change.new].into_iter().flatten();
        // An object without labels is nobody's, even if a selector is empty.
        states.any(|object| {
            let owned = object.owners.iter().any(|owner| owner.controller);
            !owned && object.labels().next().is_some()
        })
    });
    Watch::selected_by(kind, selectors).when(free.resyncs())
}
