//! Several versions of a kind.

mod version_name {
    use crate::cases::prelude::*;

    /// LampSpec is the wanted light.
    #[api(
        group = "version-name.golden.example.com",
        version = "v1beta2",
        kind = "Lamp",
        doc = "Lamp gives light.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct LampSpec {
        pub watts: i32,
        pub colour: Option<String>,
    }

    golden!(the_version_has_the_name_it_is_given, "version-name", Lamp);
}

mod versions_skip {
    mod v1 {
        use crate::cases::prelude::*;

        /// ShirtSpec is wanted.
        #[api(
            group = "versions-skip.golden.example.com",
            version = "v1",
            kind = "Shirt",
            doc = "Shirt is a garment.",
            optional_spec
        )]
        #[derive(Default)]
        pub struct ShirtSpec {
            pub size: String,
        }
    }

    use crate::cases::prelude::*;

    golden!(a_version_that_is_not_merged_is_left_out, "versions-skip", v1::Shirt);
}

mod versions_storage {
    mod v1 {
        use crate::cases::prelude::*;

        /// RouteStatus is seen.
        #[k8s]
        pub struct RouteStatus {
            pub phase: Option<String>,
        }

        /// RouteSpec is wanted.
        #[api(
            group = "versions-storage.golden.example.com",
            version = "v1",
            kind = "Route",
            doc = "Route sends traffic somewhere.",
            status = RouteStatus,
            column("Target", ".spec.target"),
            optional_spec
        )]
        #[derive(Default)]
        pub struct RouteSpec {
            pub target: String,
            #[k8s(min = 0, max = 100, default = 100)]
            pub weight: i32,
        }
    }

    mod v1alpha1 {
        use crate::cases::prelude::*;

        /// RouteSpec is wanted.
        #[api(
            group = "versions-storage.golden.example.com",
            version = "v1alpha1",
            kind = "Route",
            doc = "Route sends traffic somewhere.",
            deprecated = "example.com/v1alpha1 Route is deprecated; use v1",
            storage = false,
            optional_spec
        )]
        #[derive(Default)]
        pub struct RouteSpec {
            pub to: String,
        }
    }

    mod v1beta1 {
        use crate::cases::prelude::*;

        /// RouteSpec is wanted.
        #[api(
            group = "versions-storage.golden.example.com",
            version = "v1beta1",
            kind = "Route",
            doc = "Route sends traffic somewhere.",
            served = false,
            storage = false,
            optional_spec
        )]
        #[derive(Default)]
        pub struct RouteSpec {
            pub target: String,
            pub weight: Option<i32>,
        }
    }

    use crate::cases::prelude::*;
    use windlass::crd::{MergeError, merge};

    #[test]
    fn versions_share_a_definition() {
        let merged =
            merge([v1alpha1::Route::crd(), v1::Route::crd(), v1beta1::Route::crd()]).unwrap();
        agrees("versions-storage", vec![merged]);
    }

    #[test]
    fn exactly_one_version_is_stored() {
        let error = merge([v1alpha1::Route::crd(), v1beta1::Route::crd()]).unwrap_err();
        assert!(matches!(error, MergeError::Storage { .. }), "{error}");
        let error = merge([v1::Route::crd(), v1::Route::crd()]).unwrap_err();
        assert!(matches!(error, MergeError::Twice { .. }), "{error}");
        assert_eq!(merge([]).unwrap_err(), MergeError::Empty);
    }
}
