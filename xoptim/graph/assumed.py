"""Assumptions about a model's inputs: their record in the metadata, whether they fit the model, and
the dimensions that follow from them.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from textwrap import shorten
from typing import Final

import onnx

from xoptim.facts.advice import Advice
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
_MAX_LISTED: Final = 8
"""Maximal number of assumptions in a message."""
_MAX_LENGTH: Final = 200
"""Maximal length of a text from the metadata in a message."""


def recorded(proto: onnx.ModelProto) -> Assumptions:
    """The assumptions that the metadata of a model lists; none where the entry cannot be read.

    The author of the file wrote them: they are a record, and hold only where the caller says so.
    """
    text = next((entry.value for entry in proto.metadata_props if entry.key == ENTRY), "")
    if not text:
        return Assumptions()
    try:
        return Assumptions.of(text.split("; "))
    except AssumptionError as error:
        logger.warning(
            "the metadata entry %s is ignored: %s", ENTRY, shorten(str(error), _MAX_LENGTH)
        )
        return Assumptions()


def noted(proto: onnx.ModelProto) -> Assumptions:
    """The recorded assumptions without those about sizes and inputs that the model has lost."""
    record = recorded(proto)
    return Assumptions.of(fitting(record.texts, proto)[0]) if record.texts else record


def unused(record: Iterable[str], assumptions: Assumptions) -> tuple[str, ...]:
    """The recorded assumptions that do not follow from those in force."""
    texts = (text for text in record if text not in (NOTHING, *DEFAULTS))
    return tuple(text for text in texts if not _follows(text, assumptions))


def _follows(text: str, assumptions: Assumptions) -> bool:
    try:
        return Assumptions.of((*assumptions.texts, text)) == assumptions
    except AssumptionError:  # the text contradicts them
        return False


def assumed_of(
    proto: onnx.ModelProto, texts: Iterable[str], *, from_model: bool = False
) -> Assumptions:
    """The assumptions in force for a model: ``texts`` and, with ``from_model``, those in its
    metadata.

    Raises `AssumptionError` when two contradict each other.
    """
    return Assumptions.of((*noted(proto).texts, *texts) if from_model else texts)


def report_unused(proto: onnx.ModelProto, assumptions: Assumptions) -> None:
    """Log one warning that names the assumptions in the metadata that are not in force, if any."""
    if texts := unused(noted(proto).texts, assumptions):
        logger.warning("%s", unused_text(texts))


def unused_text(texts: Sequence[str]) -> str:
    """The line about assumptions in the metadata of a model that are not in force."""
    more = f" and {len(texts) - _MAX_LISTED} more" if len(texts) > _MAX_LISTED else ""
    first = ", ".join(repr(shorten(text, _MAX_LENGTH)) for text in texts[:_MAX_LISTED])
    return (
        f"the assumptions in the metadata are not used: {first}{more}; "
        f"{Advice('assume-from-model', reason='uses them')}"
    )


def derived(
    proto: onnx.ModelProto, texts: Iterable[str], *, from_model: bool = False
) -> Assumptions:
    """As `assumed_of`, for a model that was made from another one: without assumptions about sizes
    and inputs that it has lost.
    """
    candidates = (*noted(proto).texts, *texts) if from_model else tuple(texts)
    return Assumptions.of(fitting(candidates, proto)[0])


def note(proto: onnx.ModelProto, assumptions: Assumptions) -> None:
    """Add assumptions to the record in the metadata; the default set alone adds no entry.

    Recorded assumptions stay: the model was made from a model that relies on them.
    """
    entries = proto.metadata_props
    try:
        record = Assumptions.of((*recorded(proto).texts, *assumptions.texts))
    except AssumptionError:  # they contradict the record, so the model cannot rely on it
        record = assumptions
    if not record.texts:
        return
    replace_items(entries, [entry for entry in entries if entry.key != ENTRY])
    entries.add(key=ENTRY, value=str(record))


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
    if contradiction := assumptions.broken(numbers):
        return f"assumption {contradiction!r} contradicts the size that the model declares"
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
    """The assumptions that fit a model, and for each of the rest the reason why it does not."""
    reasons = {text: misfit(Assumptions.of((text,)), proto) for text in texts}
    return [text for text, reason in reasons.items() if not reason], [
        reason for reason in reasons.values() if reason
    ]


def check_fit(assumptions: Assumptions, proto: onnx.ModelProto) -> None:
    """Raise `AssumptionError` when assumptions do not fit a model."""
    if reason := misfit(assumptions, proto):
        raise AssumptionError(reason)


def assumed_sizes(assumptions: Assumptions, names: Iterable[str] = ()) -> dict[str, Dim]:
    """The dimensions that replace sizes of a model, by the name of the size; ``input:axis`` for a
    size without a name.

    ``names`` are the names of all dynamic dimensions. They have a larger range if the assumption
    ``addressable`` is switched off.
    """
    facts = dict(assumptions.sizes)
    largest = LARGEST_SIZE if assumptions.has("addressable") else ALL_SIZES[1]
    if largest > LARGEST_SIZE:
        facts = {name: SizeFact() for name in names} | facts
    sizes: dict[str, Dim] = {name: _dimension(name, fact, largest) for name, fact in facts.items()}
    for name, formula in assumptions.equal:
        size = substitute(dimension(formula), sizes)
        sizes = {key: substitute(dim, {name: size}) for key, dim in sizes.items()} | {name: size}
    return sizes


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
    maximum = largest if fact.most is None else min(fact.most, largest)
    if fact.least == maximum:
        return maximum
    if fact.divisor == 1:
        return named(name, (fact.least, maximum))
    # Written as divisor * quotient + rest, a size is divided and compared by the rules of
    # polynomials.
    minimum = -((fact.rest - fact.least) // fact.divisor)
    return (
        named(f"({name}//{fact.divisor})", (minimum, (maximum - fact.rest) // fact.divisor))
        * fact.divisor
        + fact.rest
    )


def _declared(proto: onnx.ModelProto) -> dict[str, int | None]:
    """The sizes of the inputs by name, ``input:axis`` without a name; ``None`` if dynamic."""
    sizes: dict[str, int | None] = {}
    for value in fed_inputs(proto):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            size = dimension(dim.dim_param) if dim.dim_param else None
            if isinstance(size, SymbolicDim):
                sizes |= dict.fromkeys(sorted(size.symbols))
            elif not dim.dim_param:
                sizes[f"{value.name}:{axis}"] = dim.dim_value if dim.HasField("dim_value") else None
    return sizes


def _dynamic(sizes: Mapping[str, int | None]) -> list[str]:
    return [name for name, size in sizes.items() if size is None]
