"""Sizes for the dynamic dimensions of a model: the inputs that have them, and the values to try."""

import contextlib
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import onnx

from xoptim.facts.dim_formulas import formula_of
from xoptim.facts.dims import evaluate
from xoptim.facts.dtypes import is_integer
from xoptim.facts.protos import fed_inputs, is_external
from xoptim.facts.words import abridged, listed, meant
from xoptim.verification.errors import FeedError
from xoptim.verification.inputs.dataflow import shape_of

Sizes: TypeAlias = dict[str, int]
"""A size for each dynamic dimension: its name, or ``input:axis`` for one without a name."""

Purpose: TypeAlias = Literal["batch", "sequence", "past", "total", "space"]

_MAX_RANK: Final = 4  # tried for an input whose rank is unknown
_RANKS: Final = (2, 1, 3, 4, 0)
# The purpose of a dimension by its name, the first that fits. Numbered names of exporters (s53,
# unk__4) have none.
_WORDS: Final[tuple[tuple[Purpose, re.Pattern[str]], ...]] = (
    ("total", re.compile(r"total|mask", re.IGNORECASE)),
    ("past", re.compile(r"past|cache|prev|(^|_)kv", re.IGNORECASE)),
    ("batch", re.compile(r"batch|^(b|n|bs|bsz)$", re.IGNORECASE)),
    ("space", re.compile(r"height|width|image|pixel|^(h|w)$", re.IGNORECASE)),
    ("sequence", re.compile(r"seq|len|time|frame|token|^(s|t|l)$", re.IGNORECASE)),
)
_COUNTED: Final = re.compile(r"^(s|u|d|dim|unk|axis|dynamic_axes)_*\d+$|:\d+$", re.IGNORECASE)
_SHAPED: Final = ("Reshape", "Expand", "Concat")
"""Operators that read a shape as second operand, or join parts of one."""
_MAX_FROZEN_SIZE: Final = 1024
_MAX_DIGITS: Final = 6  # of a name that may be a size
_MAX_FROZEN: Final = 8  # sizes from each source
_MAX_SINGLE_READS: Final = 3  # of elements of an axis, without an unrolled loop


class Scale(NamedTuple):
    """A size for each purpose; a total is past + sequence."""

    batch: int
    sequence: int
    past: int
    space: int


# All different, so that a confusion of two dimensions shows; then the sizes that models are frozen
# to or require.
_SCALES: Final = (
    Scale(2, 6, 3, 32), Scale(3, 9, 4, 64), Scale(1, 4, 2, 32), Scale(2, 16, 8, 96),
    Scale(1, 8, 7, 224), Scale(2, 1, 5, 128), Scale(1, 1, 1, 256), Scale(1, 64, 64, 64),
    Scale(1, 128, 128, 512),
)  # fmt: skip
# Sizes to measure at, then smaller ones for a model that refuses them.
_TYPICAL: Final = (
    Scale(1, 128, 512, 224),
    Scale(1, 64, 256, 128),
    Scale(1, 32, 64, 96),
    Scale(1, 16, 16, 64),
    Scale(1, 8, 8, 32),
)
_LONGER: Final = (256, 512, 1024)
"""Lengths of one sequence for a model that refuses shorter ones, such as windows of audio."""
_SOUND: Final = re.compile(
    r"audio|wave|speech|sound|signal|pcm|mel|fbank|spectr|feature|frame|sample|input_values",
    re.IGNORECASE,
)
_SECOND: Final = 16_000  # samples of one second
_FRAMES: Final = 1_000  # ten seconds in frames of 10 ms
_EQUAL: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 0)
# elements of all inputs, drawn in 0.1 s: fewer do not change the order of assignments
_CHEAP: Final = 1 << 23
# elements of all assignments together: a search that fails ends within seconds
_BUDGET: Final = 1 << 27


class InputSpec(NamedTuple):
    """The value that an input requires."""

    name: str  # of the graph input
    element_type: int  # ONNX number of the type of the elements, or of the values of a map
    # a size or an expression for each axis, ``None`` when even the rank is open
    shape: tuple[int | str, ...] | None
    # whether the input is one tensor, a list of tensors, or a map
    container: Literal["tensor", "sequence", "map"] = "tensor"
    key_type: int = 0  # ONNX number of the type of the keys of a map, else 0
    is_optional: bool = False  # whether the model also runs without a value


def input_specs(model: onnx.ModelProto, given: Collection[str] = ()) -> list[InputSpec]:
    """The values that a model requires; an optional input gets a value of its element type.

    Inputs in ``given`` that are of unsupported kinds are skipped. Raises `FeedError` when no value
    can be made for the kind of an input, such as a sparse tensor.
    """
    specs: list[InputSpec] = []
    for value in fed_inputs(model):
        spec = _spec(value.name, value.type)
        if spec is not None:
            specs.append(spec)
        elif value.name not in given:
            kind = value.type.WhichOneof("value") or "value of unknown type"
            raise FeedError(
                f"no value can be made for input {value.name!r}, a {kind.removesuffix('_type')}"
            )
    return specs


def _spec(name: str, type_proto: onnx.TypeProto) -> InputSpec | None:
    kind = type_proto.WhichOneof("value")
    if kind == "optional_type":
        content = _spec(name, type_proto.optional_type.elem_type)
        return None if content is None else content._replace(is_optional=True)
    if kind == "tensor_type":
        tensor = type_proto.tensor_type
        if not tensor.HasField("shape"):
            return InputSpec(name, tensor.elem_type, None)
        shape = (
            f"{name}:{axis}" if size is None else size
            for axis, size in enumerate(shape_of(tensor.shape))
        )
        return InputSpec(name, tensor.elem_type, tuple(shape))
    if (
        kind == "sequence_type"
        and type_proto.sequence_type.elem_type.WhichOneof("value") == "tensor_type"
    ):
        item = _spec(name, type_proto.sequence_type.elem_type)
        return None if item is None else item._replace(container="sequence")
    if kind == "map_type" and type_proto.map_type.value_type.WhichOneof("value") == "tensor_type":
        return InputSpec(
            name,
            type_proto.map_type.value_type.tensor_type.elem_type,
            (),
            "map",
            type_proto.map_type.key_type,
        )
    return None


def names_in(entry: int | str) -> list[str]:
    """The dimensions that an entry of a shape depends on: none, itself, or those in a formula."""
    if isinstance(entry, int):
        return []
    formula = formula_of(entry)
    return (
        [entry] if formula is None else [] if isinstance(formula, int) else sorted(formula.symbols)
    )


def first_open(spec: InputSpec) -> str | None:
    """The dimension of the first axis whose size is open."""
    return next((entry for entry in spec.shape or () if isinstance(entry, str)), None)


def first_unnamed(spec: InputSpec) -> str | None:
    """The dimension of the first axis that has neither a size nor a name."""
    entries = (entry for entry in spec.shape or () if isinstance(entry, str))
    return next((entry for entry in entries if entry.startswith(f"{spec.name}:")), None)


def size_of(entry: int | str, sizes: Mapping[str, int]) -> int | None:
    """The size of an entry of a shape, ``None`` when a dimension in it has none."""
    if isinstance(entry, int):
        return entry
    if entry in sizes:
        return sizes[entry]
    formula = formula_of(entry)
    try:
        return None if formula is None else evaluate(formula, sizes)
    except (KeyError, ZeroDivisionError):
        return None


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Sizes by name: ``batch=1, seq=128``."""
    return listed([f"{name}={size}" for name, size in sizes.items()]) if sizes else ""


def unknown_dimension(name: str, names: Collection[str]) -> str:
    """The message about a dimension that the inputs of a model do not have."""
    has = f"it has {listed(names)}" if names else "its shapes are fixed"
    return f"the model has no dynamic dimension {abridged(name)} ({has}){meant(name, names)}"


def concrete_shape(spec: InputSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an input under an assignment.

    Raises `FeedError` when a dimension has no size, or a negative one.
    """
    entries = spec.shape
    if entries is None:
        entries = tuple(f"{spec.name}:{axis}" for axis in range(sizes[f"{spec.name}:rank"]))
    shape = tuple(size_of(entry, sizes) for entry in entries)
    if not all(size is not None and size >= 0 for size in shape):
        raise FeedError(
            f"input {spec.name!r} cannot have the shape {list(entries)} with {sizes_text(sizes)}"
        )
    return shape  # type: ignore[return-value]


def bind_sizes(spec: InputSpec, shape: Sequence[int]) -> Sizes:
    """The sizes of dimensions that follow from the shape of a given array."""
    if spec.shape is None or len(spec.shape) != len(shape):
        return {}
    return {
        entry: size for entry, size in zip(spec.shape, shape, strict=True) if isinstance(entry, str)
    }


def open_dimensions(specs: Sequence[InputSpec]) -> dict[str, Purpose]:
    """The dimensions that need a size, in order, each with the purpose inferred from its name."""
    purposes: dict[str, Purpose] = {}
    for spec in specs:
        shape = spec.shape
        if shape is None:
            shape = tuple(f"{spec.name}:{axis}" for axis in range(_MAX_RANK))
        for axis, entry in enumerate(shape):
            for name in names_in(entry):
                purposes.setdefault(name, _purpose(name, spec.name, axis, len(shape)))
    return purposes


def _purpose(name: str, input_name: str, axis: int, rank: int) -> Purpose:
    if not _COUNTED.search(name):
        for purpose, words in _WORDS:
            if words.search(name):
                return purpose
    lower = input_name.lower()
    if axis == 0:
        return "batch"
    if ("past" in lower or "cache" in lower) and axis == rank - 2:
        return "past"
    if "mask" in lower and axis == rank - 1:
        return "total"
    return "space" if rank >= 4 and axis >= 2 else "sequence"


def assignments(
    specs: Sequence[InputSpec],
    model: onnx.ModelProto,
    fixed: Mapping[str, int],
    fitted: Callable[[Sizes], Sizes] = dict,
    *,
    typical: bool = False,
) -> Iterator[Sizes]:
    """Sizes for all dynamic dimensions, the strongest test first, without duplicates.

    Sizes that the model declares are tried as well; those in ``fixed`` were chosen by the user.
    ``fitted`` changes sizes so that they meet the assumptions. Sizes with many elements come last,
    up to a budget of elements. With ``typical``, typical sizes come before all others, the largest
    first, and only a past may be 0.
    """
    dims = open_dimensions(specs)
    frequent = _typical(specs, _frozen_sizes(model)) if typical else ()
    preferred = _distinct(specs, fixed, (sizes | _numbers(dims) for sizes in frequent))
    preferred = [
        sizes for sizes in distinct(map(fitted, preferred)) if _elements(specs, sizes) <= _BUDGET
    ]
    yield from preferred
    candidates = list(_candidates(dims, _frozen_lengths(specs), _frozen_sizes(model)))
    if numbers := _numbers(dims):
        candidates = [sizes | numbers for sizes in candidates] + candidates
    unordered = distinct(fitted(sizes) for sizes in _distinct(specs, fixed, candidates))
    nonzero = [
        name
        for name, purpose in dims.items()
        if typical and purpose != "past" and name not in fixed
    ]
    costed = [
        (_elements(specs, sizes), sizes)
        for sizes in unordered
        if all(sizes[name] for name in nonzero) and sizes not in preferred
    ]
    spent = 0
    for cost, sizes in sorted(
        costed, key=lambda pair: max(pair[0], _CHEAP) if pair[0] else _BUDGET
    ):
        if not spent or spent + cost <= _BUDGET:
            spent += cost
            yield sizes


def _numbers(dims: Iterable[str]) -> Sizes:
    """The sizes of dimensions whose names are numbers: some exporters write sizes as names."""
    numbers = {name: int(name) for name in dims if name.isdecimal() and len(name) <= _MAX_DIGITS}
    return {name: size for name, size in numbers.items() if size > 0}


def _elements(specs: Sequence[InputSpec], sizes: Sizes) -> int:
    """The number of elements of all inputs, 0 when they cannot be fed with these sizes."""
    with contextlib.suppress(FeedError):
        return sum(math.prod(concrete_shape(spec, sizes)) for spec in specs)
    return 0


def _distinct(
    specs: Sequence[InputSpec], fixed: Mapping[str, int], candidates: Iterable[Sizes]
) -> list[Sizes]:
    ranks = [f"{spec.name}:rank" for spec in specs if spec.shape is None]
    return distinct(
        s | dict.fromkeys(ranks, rank) | dict(fixed)
        for s in candidates
        for rank in (_RANKS if ranks else (0,))
    )


def distinct(candidates: Iterable[Sizes]) -> list[Sizes]:
    """Assignments in order, each once."""
    return list({tuple(sizes.items()): sizes for sizes in candidates}.values())


def _candidates(
    dims: Mapping[str, Purpose], lengths: Mapping[str, int], frozen: Sequence[int]
) -> Iterator[Sizes]:
    # two runs by default: with spread sizes if the model accepts them
    for pair in (_SCALES[:2], *((scale,) for scale in _SCALES[2:])):
        yield from (_spread(dims, scale, lengths) for scale in pair)
        yield from (_plain(dims, scale, lengths) for scale in pair)
    for batch in (2, 1, None):
        yield from (
            _plain(dims, Scale(batch or size, size, size, size), lengths) for size in frozen
        )
    for size in _EQUAL:
        yield dict.fromkeys(dims, size)


def _typical(specs: Sequence[InputSpec], frozen: Sequence[int]) -> Iterator[Sizes]:
    """Typical sizes; then smaller ones, first for one purpose and then for all; then sizes that the
    model is frozen to, and longer sequences.
    """
    dims, lengths, sounds = open_dimensions(specs), _frozen_lengths(specs), _sounds(specs)
    first, *smaller = _TYPICAL
    alone = [
        first._replace(**{purpose: getattr(scale, purpose)})
        for purpose in first._fields
        for scale in smaller
    ]
    for scale in (first, *alone, *smaller):
        share = min(scale.sequence / first.sequence, 1.0)
        yield _plain(dims, scale, lengths) | {
            name: int(length * share) for name, length in sounds.items()
        }
    for size in frozen:
        yield _plain(dims, Scale(1, size, size, size), lengths)
    for size in _LONGER:
        yield _plain(dims, first._replace(sequence=size), lengths)


def _sounds(specs: Sequence[InputSpec]) -> Sizes:
    """Lengths of audio inputs whose length is open: in samples, or in frames where an input has a
    feature axis.
    """
    lengths: Sizes = {}
    for spec in specs:
        shape = spec.shape or ()
        names = [entry for entry in shape[1:] if isinstance(entry, str)]
        if (
            is_integer(spec.element_type)
            or len(names) != 1
            or not _SOUND.search(f"{spec.name} {names[0]}")
        ):
            continue
        features = [size for size in shape[1:] if size != 1 and size not in names]
        if len(features) <= 1:
            lengths[names[0]] = _FRAMES if features else _SECOND
    return lengths


def _plain(dims: Mapping[str, Purpose], scale: Scale, lengths: Mapping[str, int]) -> Sizes:
    sizes = scale._asdict()
    if "past" not in dims.values():
        sizes["past"] = 0
    length = {**sizes, **lengths}
    sizes["total"] = length["past"] + length["sequence"]
    return {name: sizes[purpose] for name, purpose in dims.items()}


def _spread(dims: Mapping[str, Purpose], scale: Scale, lengths: Mapping[str, int]) -> Sizes:
    """As `_plain`, but batches, sequences and sides of images that have names of their own differ
    from each other.
    """
    sizes = _plain(dims, scale, lengths)
    for purpose in ("batch", "sequence", "space"):
        for step, name in enumerate(
            [name for name in dims if dims[name] == purpose and not _COUNTED.search(name)]
        ):
            sizes[name] += step * (16 if purpose == "space" else 1)
    return sizes


def _frozen_lengths(specs: Sequence[InputSpec]) -> dict[str, int]:
    """The past and sequence lengths that the model fixes: a mask covers their sum."""
    lengths: dict[str, int] = {}
    for spec in specs:
        if spec.shape is None or len(spec.shape) < 2:
            continue
        if len(spec.shape) >= 3 and re.search("past|cache", spec.name, re.IGNORECASE):
            purpose, size = "past", spec.shape[-2]
        elif is_integer(spec.element_type) and "mask" not in spec.name.lower():
            purpose, size = "sequence", spec.shape[1]
        else:
            continue
        if isinstance(size, int):
            lengths.setdefault(purpose, size)
    return lengths


def _frozen_sizes(model: onnx.ModelProto) -> list[int]:
    """Sizes that are written into inputs, outputs and shapes: an exporter may have frozen a
    dimension that is declared open.
    """
    sizes: dict[int, None] = {}
    for value in (*model.graph.output, *model.graph.input):
        if value.type.WhichOneof("value") == "tensor_type":
            shape = shape_of(value.type.tensor_type.shape)
            sizes |= {
                size: None
                for size in shape
                if isinstance(size, int) and 1 < size <= _MAX_FROZEN_SIZE
            }
    stored = {size for tensor in model.graph.initializer for size in tensor.dims}
    # A number that is no size of a weight more likely comes from the exporter's example input.
    numbers = sorted(_sizes_in_shapes(model.graph), key=lambda size: size in stored)
    return (
        list(sizes)[:_MAX_FROZEN]
        + _unrolled(model.graph)
        + [size for size in numbers if size not in sizes][:_MAX_FROZEN]
    )


def _constants(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    constants = [node for node in graph.node if node.op_type == "Constant"]
    values = {
        node.output[0]: a.t for node in constants for a in node.attribute if a.name == "value"
    }
    return {tensor.name: tensor for tensor in graph.initializer} | values


def _unrolled(graph: onnx.GraphProto) -> list[int]:
    """The lengths of axes whose elements are read one by one, as in a loop that the exporter
    unrolled.
    """
    tensors, indices = _constants(graph), defaultdict[tuple[str, ...], set[int]](set)
    for node in graph.node:
        index = tensors.get(node.input[1]) if node.op_type == "Gather" else None
        if index is not None and not index.dims and not is_external(index):
            axis = (str(a.i) for a in node.attribute)
            indices[node.input[0], *axis].add(int(onnx.numpy_helper.to_array(index)))
    lengths = (
        len(places)
        for places in indices.values()
        if len(places) > _MAX_SINGLE_READS and places == {*range(len(places))}
    )
    return list(dict.fromkeys(lengths))[:_MAX_FROZEN]


def _sizes_in_shapes(graph: onnx.GraphProto) -> list[int]:
    """The numbers in constants that nodes read as shapes, or join to shapes, in order."""
    tensors = _constants(graph)
    operands = [
        node.input[1:2] if node.op_type != "Concat" else node.input
        for node in graph.node
        if node.op_type in _SHAPED
    ]
    constants = [tensors[name] for names in operands for name in names if name in tensors]
    vectors = [
        t
        for t in constants
        if t.data_type == onnx.TensorProto.INT64 and len(t.dims) == 1 and t.dims[0] <= _MAX_FROZEN
    ]
    numbers = [int(n) for t in vectors if not is_external(t) for n in onnx.numpy_helper.to_array(t)]
    return list(dict.fromkeys(n for n in numbers if 1 < n <= _MAX_FROZEN_SIZE))
