"""Ways to break one condition of a pattern."""

from typing import Any, NamedTuple

from tests.match.planting import (
    CONCAT,
    SPLIT,
    Call,
    Fixed,
    Listed,
    Number,
    Operand,
    Outside,
    Parts,
    Pattern,
    Result,
    Variant,
)


class Fault(NamedTuple):
    """A condition to break: what kind, at which call, and which operand, attribute or way."""

    kind: str
    call: int = -1
    detail: Any = None


def allows(call: Call, name: str, value: Any) -> bool:
    """Whether an attribute may have a value."""
    spec = dict(call.attributes).get(name)
    if spec is None:
        return bool(call.others) or value == call.op.defaults.get(name)
    if spec.kind in ("equal", "any_of"):
        return value in spec.values
    return True


def interior(pattern: Pattern, variant: Variant) -> list[tuple[int, int, bool]]:
    """Results in between, by call and place, and whether others may read them."""
    found = []
    for index, call in enumerate(variant.calls):
        for place in range(0 if call.parts else call.op.results):
            mark = (call.mark if place == 0 else "") or pattern.interior
            if Result(index, place) not in variant.outputs:
                found.append((index, place, mark == "keep"))
    return found


def faults(pattern: Pattern, variant: Variant) -> list[Fault]:
    """All that can be broken."""
    found = [
        Fault("reader", index, place)
        for index, place, keep in interior(pattern, variant)
        if not keep
    ]
    every = variant.operands()
    if pattern.condition is not None and all(
        Outside(name) in every for name in pattern.condition.names
    ):
        found.append(Fault("condition"))
    found += [
        Fault("constant", -1, operand)
        for operand in dict.fromkeys(every)
        if isinstance(operand, Fixed)
    ]
    hidden = [Result(index, place) for index, place, keep in interior(pattern, variant) if not keep]
    for index, call in enumerate(variant.calls):
        operands = call.operands
        found += [
            Fault("inward", index, (place, result))
            for place, operand in enumerate(operands)
            for result in hidden
            if result.call < index and isinstance(operand, Outside) and every.count(operand) == 1
        ]
        if call.op not in (SPLIT, CONCAT):
            found += [Fault("operator", index), Fault("domain", index)]
            found += [
                Fault("attribute", index, name)
                for name in call.op.attributes
                if _breakable(call, name)
            ]
        found += [
            Fault("literal", index, place)
            for place, o in enumerate(operands)
            if isinstance(o, Number)
        ]
        found += [
            Fault("repeat", index, place)
            for place, o in enumerate(operands)
            if every.count(o) > 1
            and isinstance(o, (Outside, Result, Fixed))
            and not _may_be_absent(o)
        ]
        if call.op.op_type == "Gemm":
            found += (
                [Fault("missing", index)]
                if len(operands) > 2 and not _may_be_absent(operands[2])
                else []
            )
            found += [Fault("surplus", index)] if len(operands) == 2 else []
        if (
            call.op.most > 3
            and not call.associative
            and not any(isinstance(o, Listed) for o in operands)
        ):
            found.append(Fault("surplus", index))
        found += [Fault("terms", index)] if call.associative else []
        if not call.op.commutative and not call.any_order and call.op.op_type != "Gemm":
            places = [
                place
                for place, operand in enumerate(operands)
                if not isinstance(operand, (Listed, Parts))
            ]
            pairs = [(a, b) for b in places for a in places if a < b and operands[a] != operands[b]]
            found += [
                Fault("swap", index, pair)
                for pair in pairs
                if any(isinstance(operands[p], Result) for p in pair)
            ]
    return found


def _breakable(call: Call, name: str) -> bool:
    values = (*call.op.attributes[name], call.op.defaults.get(name))
    return any(value is not None and not allows(call, name, value) for value in values)


def _may_be_absent(operand: Operand) -> bool:
    return isinstance(operand, Outside) and operand.optional
