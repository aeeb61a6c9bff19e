"""Assumptions about the sizes of a model's inputs, as dimensions that take the place of names."""

import logging
import shlex
from collections.abc import Iterable, Mapping, Sequence
from textwrap import shorten
from typing import Final

import onnx

from xoptim.facts.assumptions import DEFAULTS, ENTRY, NOTHING, Assumptions, SizeFact, dimension
from xoptim.facts.dims import (
    ALL_SIZES,
    LARGEST_SIZE,
    Dim,
    SymbolicDim,
    is_anonymous,
    named,
    substitute,
)
from xoptim.facts.errors import AssumptionError
from xoptim.facts.protos import fed_inputs, replace_items
from xoptim.facts.shapes import Info
from xoptim.facts.words import listed, whole_number

logger = logging.getLogger("xoptim")
_SHOWN: Final = 8
"""Assumptions that a line lists."""
_LONGEST: Final = 200
"""Characters of a text from the metadata in a line."""


def recorded(proto: onnx.ModelProto) -> Assumptions:
    """The assumptions that the metadata of a model lists; none where the entry cannot be read.

    The author of the file wrote them: they are a record, and hold only where the caller says so.
    """
    text = next((each.value for each in proto.metadata_props if each.key == ENTRY), "")
    if not text:
        return Assumptions()
    try:
        return Assumptions.of(text.split("; "))
    except AssumptionError as error:
        logger.warning("the metadata entry %s is ignored: %s", ENTRY, shorten(str(error), _LONGEST))
        return Assumptions()


def noted(proto: onnx.ModelProto) -> Assumptions:
    """The recorded assumptions without those about sizes and inputs that the model has lost."""
    found = recorded(proto)
    return Assumptions.of(fitting(found.texts, proto)[0]) if found.texts else found


def unused(record: Iterable[str], known: Assumptions) -> tuple[str, ...]:
    """The recorded assumptions that do not follow from those in force."""
    texts = (text for text in record if text not in (NOTHING, *DEFAULTS))
    return tuple(text for text in texts if not _follows(text, known))


def _follows(text: str, known: Assumptions) -> bool:
    try:
        return Assumptions.of((*known.texts, text)) == known
    except AssumptionError:  # it contradicts them
        return False


def assumed_of(
    proto: onnx.ModelProto, texts: Iterable[str], *, from_model: bool = False
) -> Assumptions:
    """The assumptions that are in force for a model: the caller's, and, if the caller says so, its
    metadata's.

    Raises `AssumptionError` when two contradict each other.
    """
    return Assumptions.of((*noted(proto).texts, *texts) if from_model else texts)


def report_unused(proto: onnx.ModelProto, known: Assumptions) -> None:
    """Log one warning that names the assumptions in the metadata that are not in force, if any."""
    if left := unused(noted(proto).texts, known):
        logger.warning("%s", unused_text(left))


def unused_text(texts: Sequence[str]) -> str:
    """The line about assumptions in the metadata of a model that are not in force."""
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    first = ", ".join(repr(shorten(text, _LONGEST)) for text in texts[:_SHOWN])
    return (
        f"the assumptions in the metadata are not used: {first}{more}; --assume-from-model uses "
        "them"
    )


def option_of(texts: Sequence[str]) -> str:
    """The options of the command that assume something."""
    return " ".join(
        f"--assume {shlex.quote(text)}" if "'" in text else f"--assume '{text}'" for text in texts
    )


def derived(
    proto: onnx.ModelProto, texts: Iterable[str], *, from_model: bool = False
) -> Assumptions:
    """The same for a model that was made from another one: without what concerns lost sizes and
    inputs.
    """
    known = (*noted(proto).texts, *texts) if from_model else tuple(texts)
    return Assumptions.of(fitting(known, proto)[0])


def note(proto: onnx.ModelProto, assumptions: Assumptions) -> None:
    """Add assumptions to the record in the metadata; without any next to the default set, there is
    no entry.

    What was recorded stays: the model was made from one that relies on it.
    """
    entries = proto.metadata_props
    try:
        whole = Assumptions.of((*recorded(proto).texts, *assumptions.texts))
    except AssumptionError:  # only a model that does not rely on the former ones can be meant
        whole = assumptions
    if not whole.texts:
        return
    replace_items(entries, [each for each in entries if each.key != ENTRY])
    entries.add(key=ENTRY, value=str(whole))


def misfit(assumptions: Assumptions, proto: onnx.ModelProto) -> str:
    """The reason why assumptions do not fit a model, in one line; empty when they fit."""
    inputs = {value.name: value.type for value in fed_inputs(proto)}
    sizes = _declared(proto)
    for name, text in assumptions.names().items():
        if name not in sizes:
            owner, _, axis = name.rpartition(":")
            dims = inputs[owner].tensor_type.shape.dim if owner in inputs else ()
            number = whole_number(axis)
            if number is not None and number < len(dims) and dims[number].dim_param:
                return (
                    f"assumption {text!r}: the model calls the dimension {name} "
                    f"{dims[number].dim_param!r}"
                )
            return (
                f"assumption {text!r}: the model has no dimension {name!r}; its dynamic dimensions "
                "are "
                f"{listed(_dynamic(sizes))}"
            )
    numbers = {name: size for name, size in sizes.items() if size is not None}
    if broken := assumptions.broken(numbers):
        return f"assumption {broken!r} contradicts the size that the model declares"
    for word, name in assumptions.values:
        if name and name not in inputs:
            return (
                f"assumption '{word}({name})': the model has no input {name!r}; its inputs are "
                f"{listed(inputs)}"
            )
        if name and inputs[name].WhichOneof("value") != "tensor_type":
            return f"assumption '{word}({name})': input {name!r} is not a tensor"
    return ""


def fitting(texts: Iterable[str], proto: onnx.ModelProto) -> tuple[list[str], list[str]]:
    """The assumptions that fit a model, and the reasons why others do not."""
    reasons = {text: misfit(Assumptions.of((text,)), proto) for text in texts}
    return [text for text, reason in reasons.items() if not reason], [
        reason for reason in reasons.values() if reason
    ]


def check_fit(assumptions: Assumptions, proto: onnx.ModelProto) -> None:
    """Raise `AssumptionError` when assumptions do not fit a model."""
    if reason := misfit(assumptions, proto):
        raise AssumptionError(reason)


def assumed_sizes(assumptions: Assumptions, names: Iterable[str] = ()) -> dict[str, Dim]:
    """The dimensions that take the place of names of sizes in a model, under ``input:axis`` for one
    without a name.

    ``names`` are the names of all dynamic dimensions, which may be large if the default set is
    switched off.
    """
    facts = dict(assumptions.sizes)
    largest = LARGEST_SIZE if assumptions.has("addressable") else ALL_SIZES[1]
    if largest > LARGEST_SIZE:
        facts = {name: SizeFact() for name in names} | facts
    found: dict[str, Dim] = {name: _dimension(name, fact, largest) for name, fact in facts.items()}
    for name, formula in assumptions.equal:
        size = substitute(dimension(formula), found)
        found = {each: substitute(dim, {name: size}) for each, dim in found.items()} | {name: size}
    return found


def dynamic_dims(proto: onnx.ModelProto) -> list[str]:
    """The names of the dynamic dimensions of a model's inputs, ``input:axis`` for one without a
    name.
    """
    return _dynamic(_declared(proto))


def assumed_info(name: str, info: Info, sizes: Mapping[str, Dim]) -> Info:
    """The declaration of an input, with sizes in place of axes without a name."""
    if not sizes or not info.is_tensor or info.shape is None:
        return info
    shape = tuple(
        sizes.get(f"{name}:{axis}", dim) if is_anonymous(dim) else dim
        for axis, dim in enumerate(info.shape)
    )
    return Info(info.dtype, shape)


def _dimension(name: str, fact: SizeFact, largest: int) -> Dim:
    most = largest if fact.most is None else min(fact.most, largest)
    if fact.least == most:
        return most
    if fact.divisor == 1:
        return named(name, (fact.least, most))
    # Written as divisor * quotient + rest, a size is divided and compared by the rules of
    # polynomials.
    least = -((fact.rest - fact.least) // fact.divisor)
    return (
        named(f"({name}//{fact.divisor})", (least, (most - fact.rest) // fact.divisor))
        * fact.divisor
        + fact.rest
    )


def _declared(proto: onnx.ModelProto) -> dict[str, int | None]:
    """The sizes of the inputs by name, and by ``input:axis`` where they have none.

    ``None`` for an open one.
    """
    found: dict[str, int | None] = {}
    for value in fed_inputs(proto):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            size = dimension(dim.dim_param) if dim.dim_param else None
            if isinstance(size, SymbolicDim):
                found |= dict.fromkeys(sorted(size.symbols))
            elif not dim.dim_param:
                found[f"{value.name}:{axis}"] = dim.dim_value if dim.HasField("dim_value") else None
    return found


def _dynamic(sizes: Mapping[str, int | None]) -> list[str]:
    return [name for name, size in sizes.items() if size is None]
