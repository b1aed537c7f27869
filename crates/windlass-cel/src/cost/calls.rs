//! Estimates of calls.

use super::{Argument, Estimator};
use crate::ast::{Expr, ExprKind, Literal};
use crate::check::Reference;
use crate::range::Range;
use crate::types::Type;

/// The cost of a call, and the size of its result if known.
type Estimate = (Range, Option<Range>);

const ONE: Range = Range::fixed(1);

impl Estimator<'_> {
    pub(super) fn call(&mut self, expr: &Expr, target: Option<&Expr>, args: &[Expr]) -> Range {
        let checked = self.checked;
        let Some(Reference::Call(function, overloads, member)) = checked.reference(expr) else {
            return Range::fixed(0);
        };
        if function.name == "dyn"
            && let [arg] = args
        {
            let cost = self.cost(arg);
            self.sizes[expr.id as usize] = self.size(arg);
            self.entries[expr.id as usize] = self.entry(arg);
            return cost.plus(ONE);
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut given = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(arg));
            given.push(self.argument(arg));
        }
        let mut sum = Range::fixed(0);
        let target = target.filter(|_| *member).map(|target| {
            sum = self.cost(target);
            self.argument(target)
        });
        let mut cost = Range::NOTHING;
        let mut size: Option<Range> = None;
        for overload in overloads {
            let call = Call {
                expr,
                name: function.name,
                overload: overload.id,
                target: target.as_ref(),
                args: &given,
                costs: &costs,
            };
            let (call_cost, call_size) = self.function(&call);
            cost = cost.union(call_cost);
            size = match (size, call_size) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            if let ("index_list" | "index_map", Some(first)) = (overload.id, args.first()) {
                size = self.entry(first).map(|entry| entry.value);
                let mut path = self.path(first);
                path.push(if overload.id == "index_list" { "@items" } else { "@values" }.into());
                self.paths[expr.id as usize] = path;
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if size.is_some() {
            self.sizes[expr.id as usize] = size;
        }
        sum.plus(cost)
    }

    fn function(&mut self, call: &Call<'_>) -> Estimate {
        let sum = call.costs.iter().fold(Range::fixed(0), |sum, cost| sum.plus(*cost));
        if let Some((cost, size)) = self.listed(call).or_else(|| self.library(call)) {
            return (cost.plus(sum), size);
        }
        self.standard(call, sum)
    }

    /// What the size of an argument is, or can be by its schema.
    fn sized(&self, argument: &Argument<'_>) -> Range {
        argument.size.or_else(|| self.declared(&argument.path)).unwrap_or(Range::UNKNOWN)
    }

    /// The items of a list, if its type says what they are.
    fn item(&self, list: &Argument<'_>) -> Option<Argument<'static>> {
        let ty = (*list.ty.parts().first()?).clone();
        let mut path = list.path.clone();
        if !path.is_empty() {
            path.push("@items".into());
        }
        Some(Argument { expr: None, path, ty, size: None })
    }

    /// Functions on lists and sets.
    fn listed(&self, call: &Call<'_>) -> Option<Estimate> {
        let made = |factor: f64, size: Range| {
            Some((size.scaled(factor).plus(ONE).plus(Range::fixed(10)), Some(size)))
        };
        let text = |ty: &str| matches!(ty, "list_string" | "list_bytes");
        match (call.overload, call.target, call.args) {
            ("list_slice", Some(list), [start, end]) => {
                let start = int_of(start).unwrap_or(0);
                let end = int_of(end).unwrap_or(self.sized(list).max);
                made(1.0, Range::fixed(end.wrapping_sub(start)))
            }
            ("lists_range", None, [end]) => {
                made(1.0, Range::fixed(int_of(end).unwrap_or(u64::MAX)))
            }
            ("list_reverse", Some(list), []) => made(1.0, self.sized(list)),
            ("list_flatten", Some(list), []) => made(1.0, self.sized(list)),
            ("list_flatten_int", Some(list), [depth]) => {
                made(int_of(depth).unwrap_or(u64::MAX) as f64, self.sized(list))
            }
            ("list_distinct", Some(list), []) => {
                let size = self.sized(list);
                made(2.0, size.times(size))
            }
            ("list_sets_contains_list" | "list_sets_intersects_list", None, [a, b]) => {
                Some((self.sized(a).times(self.sized(b)).plus(ONE), None))
            }
            ("list_sets_equivalent_list", None, [a, b]) => {
                Some((self.sized(a).times(self.sized(b)).scaled(2.0).plus(ONE), None))
            }
            (id, Some(list), keys) => {
                let sorted = id.strip_suffix("_sort").map(|ty| (ty, list));
                let by = id.strip_suffix("_sortByAssociatedKeys").zip(keys.first());
                let (ty, list) = sorted.or(by)?;
                let size = self.sized(list);
                made(if text(ty) { 2.1 } else { 2.0 }, size.times(size))
            }
            _ => None,
        }
    }

    /// Functions that Kubernetes adds.
    fn library(&self, call: &Call<'_>) -> Option<Estimate> {
        let cheap = Some((ONE, None));
        match (call.name, call.target, call.args) {
            ("check", ..) => Some((Range::fixed(350_000), None)),
            (
                "serviceAccount"
                | "path"
                | "group"
                | "resource"
                | "subresource"
                | "namespace"
                | "name"
                | "allowed"
                | "reason"
                | "error"
                | "errored"
                | "masked"
                | "prefixLength"
                | "family"
                | "isUnspecified"
                | "isLoopback"
                | "isLinkLocalMulticast"
                | "isLinkLocalUnicast"
                | "isGlobalUnicast"
                | "format.named"
                | "sign"
                | "asInteger"
                | "isInteger"
                | "asApproximateFloat"
                | "isGreaterThan"
                | "isLessThan"
                | "compareTo"
                | "add"
                | "sub"
                | "major"
                | "minor"
                | "patch"
                | "getScheme"
                | "getHostname"
                | "getHost"
                | "getPort"
                | "getEscapedPath"
                | "getQuery",
                ..,
            ) => cheap,
            ("fieldSelector" | "labelSelector", _, [selector]) => {
                let size = self.sized(selector);
                let requirements = size.scaled(0.5).scaled(50.0);
                Some((Range::fixed(10).plus(size.scaled(0.1)).plus(requirements), None))
            }
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(list), _) => {
                let size = self.sized(list);
                let Some(item) = self.item(list) else { return Some((size.scaled(0.1), None)) };
                let mut each = ONE;
                if matches!(item.ty, Type::String | Type::Bytes) {
                    each = each.plus(self.sized(&item).scaled(0.1));
                }
                Some((size.times(each), None))
            }
            ("url" | "jsonpatch.escapeKey", _, [text]) => {
                let size = self.sized(text);
                Some((size.scaled(0.1), Some(size)))
            }
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
                let size = self.sized(text);
                Some((size.scaled(0.1), Some(size)))
            }
            ("replace", Some(text), [old, new, ..]) => {
                let size = self.sized(text);
                let result = replaced(size, self.sized(old), self.sized(new));
                Some((size.scaled(0.2), Some(result)))
            }
            ("split", Some(text), args) => {
                let size = self.sized(text);
                let max = args.get(1).and_then(literal_int).map_or(size.max, |n| n as u64);
                Some((size.scaled(0.2), Some(Range::up_to(max))))
            }
            ("join", Some(list), args) => Some(self.joined(list, args.first())),
            ("find" | "findAll", Some(text), [pattern, ..]) => {
                let size = self.sized(text);
                let cost = size.plus(ONE).scaled(0.1).times(self.sized(pattern).scaled(0.25));
                Some((cost, Some(Range::up_to(size.max))))
            }
            ("ip", ..) if call.overload == "cidr_ip" => cheap,
            (
                "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver"
                | "isSemver",
                _,
                [text, ..],
            ) => Some((self.sized(text).scaled(0.1), None)),
            ("ip.isCanonical", _, [text]) => Some((self.sized(text).scaled(0.2), None)),
            ("containsIP" | "containsCIDR", _, [other]) => {
                let bytes = Range { min: 4, max: 16 };
                let mut cost = bytes.plus(bytes).scaled(0.1);
                if call.name == "containsCIDR" {
                    cost = cost.plus(bytes.scaled(0.1)).plus(ONE);
                }
                if call.overload.ends_with("_string") {
                    cost = cost.plus(self.sized(other).scaled(0.1));
                }
                Some((cost, None))
            }
            ("validate", _, [text]) => {
                Some((self.sized(text).scaled(0.1).scaled(128.0 * 0.25), None))
            }
            ("_==_", _, [a, b]) if a.ty.same(&b.ty) => library_equality(&a.ty),
            _ => None,
        }
    }

    fn joined(&self, list: &Argument<'_>, separator: Option<&Argument<'_>>) -> Estimate {
        let count = self.sized(list);
        let mut size = Range::fixed(0);
        if let Some(item) = self.item(list) {
            size = count.times(self.sized(&item));
        }
        if let Some(separator) = separator {
            let gaps = Range { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
            size = size.plus(self.sized(separator).times(gaps));
        }
        (size.scaled(0.1), Some(size))
    }

    /// Functions of the language itself.
    fn standard(&mut self, call: &Call<'_>, sum: Range) -> Estimate {
        let known = |argument: &Argument<'_>| argument.size.unwrap_or(Range::UNKNOWN);
        match (call.overload, call.target, call.args) {
            ("string_format", Some(text), _) => (known(text).scaled(0.1).plus(sum), None),
            ("string_to_bytes", _, [text]) => {
                let size = known(text);
                let out = Range { min: size.min, max: size.max.wrapping_mul(4) };
                (size.scaled(0.1).plus(sum), Some(out))
            }
            ("bytes_to_string", _, [bytes]) => {
                let size = known(bytes);
                let out = Range { min: size.min / 4, max: size.max };
                (size.scaled(0.1).plus(sum), Some(out))
            }
            ("strings_quote", _, [text]) => {
                let size = known(text);
                let max = size.max.wrapping_mul(2).wrapping_add(2);
                let out = Range { min: size.min.wrapping_add(2), max };
                (size.scaled(0.1).plus(sum), Some(out))
            }
            ("starts_with_string" | "ends_with_string", _, [part]) => {
                (known(part).scaled(0.1).plus(sum), None)
            }
            ("in_list", _, [_, list]) => (known(list).plus(sum), None),
            ("matches_string", Some(text), [pattern]) => {
                let text = known(text).plus(ONE).scaled(0.1);
                (text.times(known(pattern).scaled(0.25)).plus(sum), None)
            }
            ("contains_string", Some(text), [part]) => {
                (known(text).scaled(0.1).times(known(part).scaled(0.1)).plus(sum), None)
            }
            ("logical_or" | "logical_and", _, _) => {
                let first = call.costs.first().copied().unwrap_or_default();
                (Range { min: first.min, max: sum.max }, None)
            }
            ("conditional", _, [_, yes, no]) => {
                let size = known(yes).union(known(no));
                let entry =
                    yes.expr.and_then(|e| self.entry(e)).zip(no.expr.and_then(|e| self.entry(e)));
                if let Some((yes, no)) = entry {
                    self.entries[call.expr.id as usize] = Some(yes.union(no));
                }
                let cost = call.costs[0].plus(call.costs[1].union(call.costs[2]));
                (cost, Some(size))
            }
            ("add_string" | "add_bytes" | "add_list", _, [a, b]) => {
                let size = known(a).plus(known(b));
                let entry =
                    a.expr.and_then(|e| self.entry(e)).zip(b.expr.and_then(|e| self.entry(e)));
                if let Some((a, b)) = entry {
                    self.entries[call.expr.id as usize] = Some(a.union(b));
                }
                let cost = if call.overload == "add_list" { ONE } else { size.scaled(0.1) };
                (cost.plus(sum), Some(size))
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                _,
                [a, b],
            ) => {
                let max = known(a).max.min(known(b).max);
                let cost = Range { min: u64::from(max > 0), max }.scaled(0.1);
                (cost.plus(sum), None)
            }
            _ => (ONE.plus(sum), None),
        }
    }
}

struct Call<'c> {
    expr: &'c Expr,
    name: &'static str,
    overload: &'static str,
    target: Option<&'c Argument<'c>>,
    args: &'c [Argument<'c>],
    costs: &'c [Range],
}

fn literal_int(argument: &Argument<'_>) -> Option<i64> {
    match argument.expr.map(|expr| &expr.kind) {
        Some(ExprKind::Literal(Literal::Int(number))) => Some(*number),
        _ => None,
    }
}

fn int_of(argument: &Argument<'_>) -> Option<u64> {
    literal_int(argument).map(|number| number.max(0).unsigned_abs())
}

/// The size of a text after replacements.
fn replaced(text: Range, old: Range, new: Range) -> Range {
    let (mut count, mut kept) = (Range::default(), Range::default());
    let fits = |size: u64, part: u64| (size as f64 / part as f64).ceil() as u64;
    if old.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if new.max <= old.min {
        kept.max = text.max;
    } else {
        count.max = fits(text.max, old.min);
    }
    if old.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if old.max <= new.min {
        kept.min = text.min;
    } else {
        count.min = fits(text.min, old.max);
    }
    count.times(new).plus(kept)
}

fn library_equality(ty: &Type) -> Option<Estimate> {
    let Type::Named(name, _) = ty else { return None };
    Some(match *name {
        "kubernetes.NamedFormat" => (Range { min: 1, max: 64 }.scaled(0.1), None),
        "kubernetes.URL" => return None,
        _ => (ONE, None),
    })
}
