//! A JSON document that borrows its strings, for reading it once.
//!
//! Half of the time it takes to write an object that is stored as JSON went into the texts and
//! trees of a `Value`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Number, Value};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Members<'a>),
}

/// The members of an object, each name once, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, Node<'a>)>);

impl<'a> Members<'a> {
    fn new(mut members: Vec<(Cow<'a, str>, Node<'a>)>) -> Self {
        if !members.is_sorted_by(|(a, _), (b, _)| a < b) {
            // The last of several wins, as in every other decoder.
            members.reverse();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            members.dedup_by(|(a, _), (b, _)| a == b);
        }
        Self(members)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Node<'a>> {
        let at = self.0.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Node<'a>)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

impl<'a> From<&'a Value> for Node<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(map) => {
                let member = |(name, value): (&'a String, &'a Value)| {
                    (Cow::Borrowed(name.as_str()), Self::from(value))
                };
                Self::Map(Members::new(map.iter().map(member).collect()))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Node<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<Node<'de>, E> {
                Ok(Node::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Node<'de>, E> {
                Ok(Node::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Node<'de>, E> {
                Ok(Node::Number(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Node<'de>, E> {
                Ok(Node::Number(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Node<'de>, E> {
                Ok(Number::from_f64(value).map_or(Node::Null, Node::Number))
            }

            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Node<'de>, E> {
                Ok(Node::Text(Cow::Borrowed(value)))
            }

            fn visit_str<E>(self, value: &str) -> Result<Node<'de>, E> {
                Ok(Node::Text(Cow::Owned(value.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node<'de>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Node::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key()? {
                    let Node::Text(name) = name else {
                        return Err(serde::de::Error::custom("the name of a member is no text"));
                    };
                    members.push((name, map.next_value()?));
                }
                Ok(Node::Map(Members::new(members)))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(members) => serializer.collect_map(members.iter()),
        }
    }
}

impl fmt::Display for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9_f64..1e9).prop_map(Value::from),
            "[a-c\"\\\\\u{1}é]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-c\"é]{0,3}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn the_last_of_several_members_with_one_name_wins() {
        let text = r#"{"b":1,"a":2,"b":3,"a":{"c":4}}"#;
        let node: Node<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(node.to_string(), r#"{"a":{"c":4},"b":3}"#);
        let Node::Map(members) = node else { panic!("no object") };
        assert_eq!(members.get("b"), Some(&Node::Number(3.into())));
        assert_eq!(members.get("c"), None);
    }

    #[test]
    fn what_is_no_json_is_no_document() {
        for text in ["", "{", "{\"a\"}", "[1,]", "{1:2}", "nul", "\"\\x\"", "{} {}"] {
            assert!(serde_json::from_str::<Node<'_>>(text).is_err(), "{text}");
        }
        let deep = "[".repeat(500) + &"]".repeat(500);
        assert!(serde_json::from_str::<Node<'_>>(&deep).is_err());
        assert_eq!(Node::from(&json!(null)), Node::Null);
    }

    proptest! {
        #[test]
        fn a_document_read_from_text_is_the_document(value in documents()) {
            let text = value.to_string();
            let read: Node<'_> = serde_json::from_str(&text).unwrap();
            let whole: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read, &Node::from(&whole));
            prop_assert_eq!(read.to_string(), whole.to_string());
        }
    }
}
