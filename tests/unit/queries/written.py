"""Plans as readable texts: where rows come from, which count, what is summed, and its sensitivity."""

from __future__ import annotations

from typing import Any

from sfumato.curator.catalog.domains import Domain, FreeTexts, Listed, Numbers, Periods
from sfumato.curator.plan.plan import QuestionPlan
from sfumato.curator.plan.steps import Choices, DiscoveredKeys, QuestionStep
from sfumato.engines import program as asked
from sfumato.engines import rows as source
from sfumato.engines import values as of
from sfumato.noise import ModeMechanism


def plan(plan: QuestionPlan) -> str:
    keys = [f"key {i}: {domain(key.domain)}{_marks(key.part)}" for i, key in enumerate(plan.resolved.keys)]
    return "\n".join([*keys, *(step(each) for each in plan.steps)])


def _marks(part: Any) -> str:
    return (", constant per unit" if part.constant else "") + (", never missing" if part.present else "")


def domain(meant: Domain) -> str:
    match meant:
        case Numbers(low, high, step, rounded):
            return f"{low} to {high} in steps of {step}{', rounded' if rounded else ''}"
        case Listed():
            return f"one of {', '.join(map(str, meant.show_values()))}"
        case Periods(low, high, unit):
            return f"{unit}s {low} to {high}"
        case FreeTexts():
            return "any text"


# ---- steps -------------------------------------------------------------------------------------------------


def step(each: QuestionStep) -> str:
    program = each.program
    lines = [f"of {rows(program.rows)}"]
    if program.where != of.Every():
        lines.append(f"where {condition(program.where)}")
    match each:
        case Choices():
            lines += map(_key, program.keys)
            shares = getattr(each.mechanism, "shares", None)
            alone = "the mode" if isinstance(each.mechanism, ModeMechanism) else "an end"
            chosen = alone if shares is None else f"shares {', '.join(map(str, shares))}"
            lines.append(
                f"choose {value(program.value)} [{program.size}]: {chosen}, {each.rows} rows per unit"
            )
        case DiscoveredKeys():
            nulls = program.nulls
            lines += [f"by {value(key)}{' or null' * (i in nulls)}" for i, key in enumerate(program.keys)]
            lines.append(f"discover keys, {each.keys.per_unit} per unit")
        case _:
            lines += map(_key, program.keys)
    return "\n  ".join([*lines, *(_measured(part) for part in getattr(each, "measured", ()))])


def _key(key: asked.CellKey) -> str:
    return f"by {value(key.value)} [{key.size - key.nulls}{' and null' if key.nulls else ''}]"


def _measured(each: Any) -> str:
    summand, sensitivity = each.of, each.sensitivity
    extra = [f"from {summand.centre}"] if summand.centre else []
    extra += [f"slack {summand.slack}"] if summand.slack else []
    extra += ["signed"] if summand.signed else []
    marks = f" ({', '.join(extra)})" if extra else ""
    norms = f"l1 {sensitivity.l1}, l2² {sensitivity.l2_squared}"
    return f"{term(summand.term)}: {norms} in steps of {summand.step}{marks}"


def term(each: Any) -> str:
    match each:
        case asked.Counted():
            return "count"
        case asked.CountedUnits():
            return "units"
        case asked.Present(part):
            return f"count {value(part)}"
        case asked.Total(part):
            return f"sum {value(part)}"
        case source.Smallest(part):
            return f"least {value(part)}"
        case source.Largest(part):
            return f"largest {value(part)}"
    raise TypeError(each)


# ---- rows --------------------------------------------------------------------------------------------------


def rows(each: Any) -> str:
    match each:
        case source.Scan(snapshot, at):
            return f"{snapshot}@{at}"
        case source.UnitSizes(snapshot, at):
            return f"sizes of {snapshot}@{at}"
        case source.Joined(left, right, on, same_unit, optional):
            pairs = [f"{value(a)} = {value(b)}" for a, b in on] + (["unit"] if same_unit else [])
            kind = "left join" if optional else "join"
            return f"({rows(left)} {kind} {rows(right)} on {' and '.join(pairs)})"
        case source.PerUnit():
            keys = ["unit", *map(value, each.keys)]
            figures = ", ".join(map(term, each.figures))
            where = "" if each.where == of.Every() else f" where {condition(each.where)}"
            return f"({figures or 'nothing'} of {rows(each.rows)}{where} by {', '.join(keys)})@{each.at}"
        case source.Bounded():
            where = "" if each.where == of.Every() else f" where {condition(each.where)}"
            bounds = f"{each.groups} cells of {', '.join(map(value, each.cell))}, {each.rows_each} rows each"
            return f"(first {bounds}, of {rows(each.rows)}{where})"
        case source.Ordered():
            where = "" if each.where == of.Every() else f" where {condition(each.where)}"
            order = ", ".join(f"{value(by)}{' falling' if falls else ''}" for by, falls in each.order)
            shown = ", ".join(map(_position, each.positions))
            return f"({shown} of {rows(each.rows)}{where} by unit in the order of {order})@{each.at}"
    raise TypeError(each)


def _position(each: Any) -> str:
    return each.function if each.value is None else f"{each.function} {each.offset} {value(each.value)}"


# ---- values and conditions ---------------------------------------------------------------------------------

_PARTIAL = ("sqrt", "ln", "log2", "log10")
_SIGNS = {of.Add: "+", of.Multiply: "*", of.Divide: "//", of.Either: "else"}


def value(part: Any) -> str:
    match part:
        case of.Column(at, name):
            return f"{name}@{at}"
        case of.Constant(number):
            return "missing" if number is None else str(number)
        case of.Add(left, right) | of.Multiply(left, right) | of.Divide(left, right) | of.Either(left, right):
            return f"({value(left)} {_SIGNS[type(part)]} {value(right)})"
        case of.Least(left, right) | of.Greatest(left, right):
            return f"{type(part).__name__.lower()}({value(left)}, {value(right)})"
        case of.Choose(when, then, otherwise):
            return f"({value(then)} if {condition(when)}, otherwise {value(otherwise)})"
        case of.Lookup(place, entries):
            return f"{value(place)}{_short(['missing' if each is None else str(each) for each in entries])}"
        case _:
            return _of_one(part)


def _of_one(part: Any) -> str:
    match part:
        case of.Calendar(days, field):
            return f"{field}({value(days)})"
        case of.Double(inner):
            return f"double({value(inner)})"
        case of.RealConstant(digits):
            return digits
        case of.Quotient(left, right, nonzero):
            return f"({value(left)} / {value(right)}{'' if nonzero else ' or missing'})"
        case of.RealFunction(name, inner, total):
            return f"{name}({value(inner)}{'' if total or name not in _PARTIAL else ' or missing'})"
        case of.Power(base, exponent, total):
            return f"({value(base)} ^ {value(exponent)}{'' if total else ' or missing'})"
        case of.Whole(inner, rule, exponent, low, high, checked):
            ends = f" in {low} to {high}" if checked else ""
            return f"{rule}({value(inner)}{f' / 2^{exponent}' if exponent else ''}{ends})"
        case of.Length(text):
            return f"length({value(text)})"
        case of.Folded(text, upper):
            return f"{'upper' if upper else 'lower'}({value(text)})"
    raise TypeError(part)


def _short(entries: list[str]) -> str:
    shown = entries if len(entries) <= 8 else [*entries[:3], "…", entries[-1]]
    return f"[{', '.join(shown)}]"


def condition(part: Any) -> str:
    match part:
        case of.Every(parts) | of.Some(parts):
            word = " and " if isinstance(part, of.Every) else " or "
            nothing = "always" if isinstance(part, of.Every) else "never"
            return f"({word.join(map(condition, parts))})" if parts else nothing
        case of.Not(inner):
            return f"not {condition(inner)}"
        case of.Less(left, right):
            return f"{value(left)} < {value(right)}"
        case of.Same(left, right):
            return f"{value(left)} = {value(right)}"
        case _:
            return _test(part)


def _test(part: Any) -> str:
    match part:
        case of.AtLeast(inner, bound):
            return f"{value(inner)} ≥ {bound}"
        case of.AtMost(inner, bound):
            return f"{value(inner)} ≤ {bound}"
        case of.Among(inner, values):
            return f"{value(inner)} among {_short(list(map(str, values)))}"
        case of.Spelled(text, words):
            return f"{value(text)} is {', '.join(map(repr, words))}"
        case of.Matches(text, pattern):
            return f"{value(text)} like {pattern!r}"
        case of.Missing(inner):
            return f"{value(inner)} missing"
    raise TypeError(part)
