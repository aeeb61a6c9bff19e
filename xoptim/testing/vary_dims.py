"""Shapes that are unknown, symbolic, empty, or one."""

from collections.abc import Iterator, Mapping

import onnx
from onnx import ModelProto

from xoptim.facts.protos import replace_items
from xoptim.testing.variant import Case, Variant, loosen

Dim = onnx.TensorShapeProto.Dimension


def _dims(model: ModelProto) -> dict[tuple[str, int], Dim]:
    """The dimensions of the inputs by name and axis."""
    return {(v.name, axis): dim for v in model.graph.input for axis, dim in enumerate(v.type.tensor_type.shape.dim)}


def _with(case: Case, changed: Mapping[tuple[str, int], Dim]) -> ModelProto:
    """A copy with other dimensions of inputs."""
    model = case.copy()
    for place, dim in _dims(model).items():
        dim.CopyFrom(changed.get(place, dim))
    return loosen(model)


def unknown(case: Case) -> Iterator[Variant]:
    """No declarations of results in between, of outputs, of ranks; anonymous dimensions."""
    model = case.copy()
    del model.graph.value_info[:]
    if len(case.model.graph.value_info):
        yield Variant("shapes: no value_info", model)
    yield Variant("shapes: outputs unknown", loosen(case.copy()))
    names = [v.name for v in case.model.graph.input if v.type.HasField("tensor_type")]
    for chosen in (names, *([name] for name in names if len(names) > 1)):
        model = case.copy()
        for value in model.graph.input:
            if value.name in chosen:
                value.type.tensor_type.ClearField("shape")
        yield Variant(f"shapes: rank of {', '.join(chosen)} unknown", loosen(model))
    yield Variant("shapes: anonymous", _with(case, dict.fromkeys(_dims(case.model), Dim())))


def symbolic(case: Case) -> Iterator[Variant]:
    """Names for all dimensions: one for each size, one for each axis; and each axis alone."""
    dims = _dims(case.model)
    named = {place: Dim(dim_param=_word(dim)) for place, dim in dims.items()}
    yield Variant("symbols: one for each size", _with(case, named))
    named = {(name, axis): Dim(dim_param=f"{name}_{axis}") for name, axis in dims}
    yield Variant("symbols: one for each axis", _with(case, named))
    yield Variant("symbols: one for everything", _with(case, dict.fromkeys(dims, Dim(dim_param="n"))))
    for name, axis in dims if len(dims) > 1 else ():
        yield Variant(f"symbols: axis {axis} of {name} another", _with(case, {(name, axis): Dim(dim_param="other")}))


def sizes(case: Case) -> Iterator[Variant]:
    """Each dimension as 0, 1, 2, 3, in all places; then each axis alone as 1."""
    words = {place: _word(dim) for place, dim in _dims(case.model).items()}
    for word in dict.fromkeys(words.values()):
        for size in (0, 1, 3):
            changed = {place: Dim(dim_value=size) for place, other in words.items() if other == word}
            yield Variant(f"size: {word} = {size}", _with(case, changed))
    for name, axis in words:
        yield Variant(f"size: axis {axis} of {name} = 1", _with(case, {(name, axis): Dim(dim_value=1)}))
    symbols = [word for word in dict.fromkeys(words.values()) if not word.startswith("size_")]
    if symbols:
        changed = {place: Dim(dim_value=2 + symbols.index(word)) for place, word in words.items() if word in symbols}
        yield Variant("size: all fixed", _with(case, changed))


def ranks(case: Case) -> Iterator[Variant]:
    """Each input with one more axis in front, and without its first axis."""
    for position, value in enumerate(case.model.graph.input):
        if not value.type.tensor_type.HasField("shape"):
            continue
        model = case.copy()
        shape = model.graph.input[position].type.tensor_type.shape
        replace_items(shape.dim, (Dim(dim_value=2), *shape.dim))
        yield Variant(f"rank: {value.name} one more", loosen(model))
        if len(shape.dim) > 1:
            model = case.copy()
            del model.graph.input[position].type.tensor_type.shape.dim[0]
            yield Variant(f"rank: {value.name} one less", loosen(model))


def _word(dim: Dim) -> str:
    return dim.dim_param or (f"size_{dim.dim_value}" if dim.HasField("dim_value") else "anonymous")
