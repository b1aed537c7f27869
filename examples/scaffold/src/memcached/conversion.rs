//! The conversion of Memcached between its versions.

use super::{Memcached, v1beta1};
use windlass::conversion::{Conversion, Fields};

/// The conversion: v1alpha1 is stored, and every other version is converted to it and from it.
///
/// Fields at the same path are carried over, and what a version cannot express is kept in an
/// annotation. Declare a field with another path or another form with `Fields::new().moved(..)` or
/// `.changed(..)`.
pub fn conversion() -> Conversion<Memcached> {
    Conversion::new().version::<v1beta1::Memcached>(Fields::new())
}
