//! What calls cost at run time.

use super::library::traversal;
use super::value::Val;

/// How the cost of a call follows from its arguments and result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Charge {
    Fixed(u64),
    /// The size of the first argument times a factor.
    Text(f64),
    /// The size of the result times a factor.
    Result(f64),
    /// The sizes of both arguments.
    Sum,
    /// The smaller of both arguments.
    Smaller,
    /// The size of the list on the right.
    InList,
    /// A text and a pattern.
    Regex,
    /// A text in a text.
    Contains,
    /// A walk through the first argument.
    Walk,
    /// Parts of networks; the flags tell a network from an address, and a text to read.
    Network(bool, bool),
    Validate,
    Selector,
    /// A list of the size of the result.
    Output,
    Flatten,
    /// Every item against every other, of this argument.
    Pairs(usize),
    /// Every item of one list against every one of the other, times a factor.
    Sets(f64),
    /// Equality, which is cheap for library types.
    Equality,
}

fn ceil(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

// === impl Charge ===

impl Charge {
    /// Returns the rule for a function and overload (empty if the types were not known).
    pub fn of(function: &str, overload: &str) -> Self {
        match overload {
            "list_slice" | "lists_range" | "list_reverse" => return Self::Output,
            "list_flatten" | "list_flatten_int" => return Self::Flatten,
            "list_distinct" => return Self::Pairs(0),
            "list_sets_contains_list" | "list_sets_intersects_list" => return Self::Sets(1.0),
            "list_sets_equivalent_list" => return Self::Sets(2.0),
            _ if function == "sort" && !overload.is_empty() => return Self::Pairs(0),
            _ if function == "@sortByAssociatedKeys" && !overload.is_empty() => {
                return Self::Pairs(1);
            }
            _ => {}
        }
        match function {
            "check" => Self::Fixed(350_000),
            "fieldSelector" | "labelSelector" => Self::Selector,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Self::Walk,
            "url" | "jsonpatch.escapeKey" | "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                Self::Text(0.1)
            }
            "replace" | "split" | "ip.isCanonical" => Self::Text(0.2),
            "join" => Self::Result(0.2),
            "find" | "findAll" => Self::Regex,
            "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                Self::Text(0.1)
            }
            "ip" if overload != "cidr_ip" => Self::Text(0.1),
            "containsIP" => Self::Network(false, overload == "cidr_contains_ip_string"),
            "containsCIDR" => Self::Network(true, overload == "cidr_contains_cidr_string"),
            "validate" => Self::Validate,
            "_==_" => Self::Equality,
            _ => Self::of_overload(overload),
        }
    }

    fn of_overload(overload: &str) -> Self {
        match overload {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
            | "strings_quote" | "string_format" => Self::Text(0.1),
            "in_list" => Self::InList,
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "not_equals" => Self::Smaller,
            "add_string" | "add_bytes" => Self::Sum,
            "matches_string" => Self::Regex,
            "contains_string" => Self::Contains,
            _ => Self::Fixed(1),
        }
    }

    /// Returns `true` if the cost is known only with the result.
    pub fn needs_result(self) -> bool {
        matches!(self, Self::Result(_) | Self::Output)
    }

    /// Returns the cost of a call.
    pub fn cost(self, args: &[Val<'_>], result: Option<&Val<'_>>) -> u64 {
        let size = |index: usize| args.get(index).map_or(1, Val::size);
        let out = || result.map_or(1, Val::size);
        match self {
            Self::Fixed(cost) => cost,
            Self::Text(factor) => ceil(size(0), factor),
            Self::Result(factor) => ceil(out(), factor),
            Self::Sum => ceil(size(0) + size(1), 0.1),
            Self::Smaller => ceil(size(0).min(size(1)), 0.1),
            Self::Equality => match args.first() {
                Some(
                    Val::Quantity(_)
                    | Val::Ip(_)
                    | Val::Cidr(_)
                    | Val::Format(_)
                    | Val::Url(_)
                    | Val::Semver(_)
                    | Val::Check(_),
                ) => 1,
                _ => ceil(size(0).min(size(1)), 0.1),
            },
            Self::InList => size(1),
            Self::Regex => ceil(size(0) + 1, 0.1).saturating_mul(ceil(size(1), 0.25)),
            Self::Contains => ceil(size(0), 0.1).saturating_mul(ceil(size(1), 0.1)),
            Self::Walk => args.first().map_or(1, traversal),
            Self::Network(net, text) => {
                let mut cost = ceil(size(0) * 2, 0.1);
                if net {
                    cost += ceil(size(0), 0.1) + 1;
                }
                if text {
                    cost += ceil(size(1), 0.1);
                }
                cost
            }
            Self::Validate => match args {
                [Val::Format(format), text] => {
                    ceil(text.size() + 1, 0.1) * ceil(format.pattern_size(), 0.25)
                }
                _ => 1,
            },
            Self::Selector => {
                let size = size(1);
                10 + ceil(size, 0.1) + ceil(ceil(size, 0.5), 50.0)
            }
            Self::Output => out() + 11,
            Self::Flatten => {
                let depth = match args.get(1) {
                    Some(Val::Int(depth)) => (*depth).max(0) as f64,
                    _ => 1.0,
                };
                (size(0) as f64 * depth) as u64 + 11
            }
            Self::Pairs(index) => {
                let text = match args.get(index) {
                    Some(Val::List(list)) => {
                        matches!(list.get(0), Some(Ok(Val::Str(_) | Val::Bytes(_))))
                    }
                    _ => false,
                };
                let factor = if text { 2.1 } else { 2.0 };
                let size = size(index);
                (size.saturating_mul(size) as f64 * factor) as u64 + 11
            }
            Self::Sets(factor) => (size(0).saturating_mul(size(1)) as f64 * factor) as u64 + 1,
        }
    }
}
