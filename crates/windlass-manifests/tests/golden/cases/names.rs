//! Names, scope, metadata, options.

mod basic_minimal {
    use crate::cases::prelude::*;

    /// NoteSpec is what the user wants.
    #[api(
        group = "basic-minimal.golden.example.com",
        version = "v1",
        kind = "Note",
        doc = "Note is a short text kept in the cluster.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct NoteSpec {
        /// Text is the content of the note.
        pub text: String,
    }

    golden!(a_minimal_kind, "basic-minimal", Note);
}

mod crd_metadata {
    use crate::cases::prelude::*;

    /// TaggedSpec has one value.
    #[api(
        group = "crd-metadata.golden.example.com",
        version = "v1",
        kind = "Tagged",
        doc = "Tagged has metadata on its definition.",
        optional_spec,
        annotation("example.com/owner", "team-a"),
        annotation("example.com/doc", "a=b"),
        annotation("api-approved", "unapproved"),
        label("app", "demo"),
        label("tier", "core")
    )]
    #[derive(Default)]
    pub struct TaggedSpec {
        pub value: Option<String>,
    }

    golden!(labels_and_annotations, "crd-metadata", Tagged);
}

mod descriptions {
    use crate::cases::prelude::*;

    /// Part is a described type.
    #[k8s]
    #[derive(Default)]
    pub struct Part {
        /// Name of the part.
        pub name: String,
    }

    /// DescribedSpec is wanted.
    #[api(
        group = "descriptions.golden.example.com",
        version = "v1",
        kind = "Described",
        doc = "Described is a kind with much prose.\n\nIt has a second paragraph, which spans\ntwo lines.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct DescribedSpec {
        /// Long has several lines
        /// and a list:
        ///   - first
        ///   - second
        ///
        /// End of the text.
        pub long: Option<String>,
        /// Mixed has markers in the middle.
        #[k8s(max_length = 10)]
        /// More text after the marker.
        pub mixed: Option<String>,
        /// TODO(someone): not for the reader.
        /// Todo has a note above.
        pub todo: Option<String>,
        /// Cut shows the part above the line.
        /// ---
        /// Below is for developers.
        pub cut: Option<String>,
        /// Own is the first part.
        pub own: Part,
        pub inherited: Part,
        /// Odd has "quotes", colons: here, a \ backslash, and Überlänge – with a dash.
        pub odd: Option<String>,
        pub trailing: Option<String>, // not a description
        pub none: Option<String>,
    }

    golden!(doc_comments_are_descriptions, "descriptions", Described);
}

mod docs_markers {
    use crate::cases::prelude::*;

    /// Shelf is a place.
    #[k8s]
    #[derive(Default)]
    pub struct Shelf {
        pub row: i32,
        pub side: Option<String>,
    }

    /// BookSpec is wanted.
    #[api(
        group = "docs-markers.golden.example.com",
        version = "v1",
        kind = "Book",
        doc = "Book is on a shelf.",
        optional_spec
    )]
    #[k8s(
        title = "Book specification",
        docs(url = "https://docs.example.com/book", description = "How to catalogue")
    )]
    #[derive(Default)]
    pub struct BookSpec {
        /// ISBN is the number.
        #[k8s(title = "ISBN", example = "978-3", docs(url = "https://docs.example.com/isbn"))]
        pub isbn: String,
        #[k8s(example = 320)]
        pub pages: Option<i32>,
        #[k8s(example = true)]
        pub lost: Option<bool>,
        #[k8s(example = "0.5")]
        pub ratio: Option<String>,
        #[k8s(example = ["A. One", "B. Two"])]
        pub authors: Option<Vec<String>>,
        #[k8s(example = { row: 3, side: "left" })]
        pub shelf: Option<Shelf>,
    }

    golden!(titles_examples_and_links, "docs-markers", Book);
}

mod ignored_markers {
    use crate::cases::prelude::*;
    use windlass::crd::{Api, Descriptor};

    /// PlainSpec is wanted.
    #[api(
        group = "ignored-markers.golden.example.com",
        version = "v1",
        kind = "Plain",
        doc = "Plain has markers of other tools.",
        optional_spec,
        ui(
            display = "Plain thing",
            resource("Deployment", "v1", "plain-deployment"),
            resource("Service", "v1", "plain-service"),
            order = 1
        )
    )]
    #[derive(Default)]
    pub struct PlainSpec {
        /// Name is a name.
        #[k8s(ui(display = "Name", descriptors = ["urn:alm:descriptor:com.tectonic.ui:text"], order = 2))]
        pub name: String,
        pub count: Option<i32>,
        #[k8s(max_length = 3)]
        pub free: Option<String>,
    }

    golden!(descriptors_are_no_part_of_the_manifest, "ignored-markers", Plain);

    #[test]
    fn descriptors_are_kept_as_data() {
        let expected = Descriptor {
            path: "spec.name".into(),
            ui: serde_json::json!({
                "displayName": "Name",
                "xDescriptors": ["urn:alm:descriptor:com.tectonic.ui:text"],
                "order": 2,
            }),
        };
        assert_eq!(Plain::DEFINITION.descriptors(), [expected]);
        let ui: Value = serde_json::from_str(Plain::DEFINITION.ui.unwrap()).unwrap();
        assert_eq!(ui["resources"][1]["name"], "plain-service");
    }
}

mod maxdesclen {
    use crate::cases::prelude::*;
    use windlass::crd::document;

    /// TrimmedSpec is wanted.
    #[api(
        group = "maxdesclen-60.golden.example.com",
        version = "v1",
        kind = "Trimmed",
        doc = "Trimmed is short. This second sentence of the kind is too long to be kept in the schema.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct TrimmedSpec {
        /// Short text.
        pub short: Option<String>,
        /// Two sentences here. The second one goes on and on until it is far too long to keep.
        pub two: Option<String>,
        /// One single sentence without any full stop that goes on and on well past the limit of sixty
        pub one: Option<String>,
        /// Abbr is 3.5 times as long as the others and so it has to be cut at some place. Done.
        pub abbr: Option<String>,
    }

    #[test]
    fn descriptions_are_cut_at_sentences() {
        let mut crd = Trimmed::crd();
        document(&mut crd, 60);
        agrees_apart_from_texts("maxdesclen-60", vec![crd.clone()]);
        let crd = windlass::crd::to_value(&crd);
        let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_eq!(root["description"], "Trimmed is short.");
        let fields = &root["properties"]["spec"]["properties"];
        assert_eq!(fields["short"]["description"], "Short text.");
        assert_eq!(fields["two"]["description"], "Two sentences here.");
        assert_eq!(
            fields["abbr"]["description"],
            "Abbr is 3.5 times as long as the others and so it has to be"
        );
    }

    /// QuietOpts has a switch.
    #[k8s]
    #[derive(Default)]
    pub struct QuietOpts {
        /// Fast is a switch.
        pub fast: Option<bool>,
    }

    /// QuietSpec is wanted.
    #[api(
        group = "maxdesclen-zero.golden.example.com",
        version = "v1",
        kind = "Quiet",
        doc = "Quiet says nothing.",
        optional_spec,
        column("Name", ".spec.name", description = "Stays here")
    )]
    #[derive(Default)]
    pub struct QuietSpec {
        /// Name is a name.
        #[k8s(max_length = 63)]
        pub name: String,
        /// Opts are options.
        pub opts: Option<QuietOpts>,
    }

    #[test]
    fn descriptions_are_dropped() {
        let mut crd = Quiet::crd();
        document(&mut crd, 0);
        agrees("maxdesclen-zero", vec![crd]);
    }
}

mod names_plurals {
    macro_rules! kinds {
        ($($module:ident $kind:literal $doc:literal $type:ident),+) => {
            $(mod $module {
                use crate::cases::prelude::*;

                /// PluralSpec is shared by all kinds.
                #[api(
                    group = "names-plurals.golden.example.com",
                    version = "v1",
                    kind = $kind,
                    doc = $doc,
                    optional_spec
                )]
                #[derive(Default)]
                pub struct PluralSpec {
                    pub x: Option<String>,
                }
            })+

            #[test]
            fn plurals_are_english() {
                use kube::CustomResourceExt;
                crate::cases::agrees("names-plurals", vec![$($module::$type::crd()),+]);
            }
        };
    }

    kinds! {
        gadget "Gadget" "Gadget is a kind." Gadget,
        policy "Policy" "Policy is a kind." Policy,
        gateway "Gateway" "Gateway is a kind." Gateway,
        bus "Bus" "Bus is a kind." Bus,
        container "Box" "Box is a kind." Box,
        batch "Batch" "Batch is a kind." Batch,
        mesh "Mesh" "Mesh is a kind." Mesh,
        analysis "Analysis" "Analysis is a kind." Analysis,
        index "Index" "Index is a kind." Index,
        person "Person" "Person is a kind." Person,
        datum "Datum" "Datum is a kind." Datum,
        settings "Settings" "Settings is a kind." Settings
    }
}

mod names_resource {
    use crate::cases::prelude::*;

    /// StorageTierSpec says which disks belong to the tier.
    #[api(
        group = "names-resource.golden.example.com",
        version = "v1",
        kind = "StorageTier",
        doc = "StorageTier is a class of disks.",
        plural = "tiers",
        singular = "tier",
        short = ["st", "stier"],
        categories = ["all", "storage"],
        scope = Cluster,
        optional_spec
    )]
    #[derive(Default)]
    pub struct StorageTierSpec {
        /// Device is the device class.
        pub device: String,
        /// IOPS is the guaranteed rate.
        pub iops: Option<i32>,
    }

    golden!(names_and_scope, "names-resource", StorageTier);
}

mod options {
    use crate::cases::prelude::*;

    /// HeadedSpec is wanted.
    #[api(
        group = "options-header.golden.example.com",
        version = "v1",
        kind = "Headed",
        doc = "Headed has a header.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct HeadedSpec {
        pub x: Option<String>,
    }

    golden!(a_header_is_no_part_of_the_data, "options-header", Headed);

    /// BareSpec is wanted.
    #[api(
        group = "options-omit-version.golden.example.com",
        version = "v1",
        kind = "Bare",
        doc = "Bare has no version.",
        optional_spec
    )]
    #[derive(Default)]
    pub struct BareSpec {
        pub x: Option<String>,
    }

    golden!(no_annotation_of_a_tool, "options-omit-version", Bare);
}

mod print_columns {
    use crate::cases::prelude::*;

    /// ColumnStatus is seen.
    #[k8s]
    pub struct ColumnStatus {
        pub phase: Option<String>,
        pub ready: Option<i32>,
        pub load: Option<String>,
        pub since: Option<Time>,
        #[k8s(optional, list = map("type"))]
        pub conditions: Vec<Condition>,
    }

    /// ColumnSpec is wanted.
    #[api(
        group = "print-columns.golden.example.com",
        version = "v1",
        kind = "Column",
        doc = "Column shows columns.",
        status = ColumnStatus,
        optional_spec,
        column("Phase", ".status.phase"),
        column("Ready", ".status.ready", format = "int32"),
        column("Load", ".status.load", type = "number", priority = 1),
        column("Paused", ".spec.paused"),
        column("Since", ".status.since", description = "When the phase was reached, if ever"),
        column("Host", ".spec.host", priority = 2),
        column("At", ".status.since", type = "string", format = "date-time"),
        column("Cond", ".status.conditions[?(@.type==\"Ready\")].status"),
        column("Age", ".metadata.creationTimestamp")
    )]
    #[derive(Default)]
    pub struct ColumnSpec {
        pub paused: Option<bool>,
        pub host: Option<String>,
    }

    golden!(apart from texts: columns_take_the_types_of_their_fields, "print-columns", Column);
}

mod scale {
    use crate::cases::prelude::*;

    /// FleetStatus is seen.
    #[k8s]
    pub struct FleetStatus {
        pub replicas: i32,
        pub selector: Option<String>,
    }

    /// FleetSpec is wanted.
    #[api(
        group = "scale.golden.example.com",
        version = "v1",
        kind = "Fleet",
        doc = "Fleet can be scaled.",
        status = FleetStatus,
        scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector"),
        optional_spec
    )]
    #[derive(Default)]
    pub struct FleetSpec {
        /// Replicas is how many there should be.
        #[k8s(min = 0, default = 1)]
        pub replicas: Option<i32>,
    }

    golden!(scale_has_three_paths, "scale", Fleet);
}
