"""Shapes that are unknown, symbolic, empty, or one."""

from collections.abc import Callable, Iterator

import onnx
from onnx import ModelProto

from xoptim.facts.protos import replace_items
from xoptim.testing.variant import Case, Variant, loosen

Dim = onnx.TensorShapeProto.Dimension


def _dims(model: ModelProto) -> Iterator[tuple[str, int, Dim]]:
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            yield value.name, axis, dim


def _with(case: Case, change: Callable[[str, int, Dim], None]) -> ModelProto:
    model = case.copy()
    for name, axis, dim in _dims(model):
        change(name, axis, dim)
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
    yield Variant("shapes: anonymous", _with(case, lambda name, axis, dim: dim.Clear()))


def symbolic(case: Case) -> Iterator[Variant]:
    """Names for all dimensions: one for each size, one for each axis; and each axis alone."""
    yield Variant("symbols: one for each size", _with(case, lambda n, a, dim: _name(dim, _word(dim))))
    yield Variant("symbols: one for each axis", _with(case, lambda n, a, dim: _name(dim, f"{n}_{a}")))
    yield Variant("symbols: one for everything", _with(case, lambda n, a, dim: _name(dim, "n")))
    places = [(name, axis) for name, axis, _ in _dims(case.model)]
    for place in places if len(places) > 1 else ():

        def change(name: str, axis: int, dim: Dim, place: tuple[str, int] = place) -> None:
            if (name, axis) == place:
                _name(dim, "other")

        yield Variant(f"symbols: axis {place[1]} of {place[0]} another", _with(case, change))


def sizes(case: Case) -> Iterator[Variant]:
    """Each dimension as 0, 1, 2, 3, in all places; then each axis alone as 1."""
    words = dict.fromkeys(_word(dim) for _, _, dim in _dims(case.model))
    for word in words:
        for size in (0, 1, 3):

            def change(name: str, axis: int, dim: Dim, word: str = word, size: int = size) -> None:
                if _word(dim) == word:
                    _set(dim, size)

            yield Variant(f"size: {word} = {size}", _with(case, change))
    for place in [(name, axis) for name, axis, _ in _dims(case.model)]:

        def change_one(name: str, axis: int, dim: Dim, place: tuple[str, int] = place) -> None:
            if (name, axis) == place:
                _set(dim, 1)

        yield Variant(f"size: axis {place[1]} of {place[0]} = 1", _with(case, change_one))
    counter = iter(range(2, 1000))
    static = {word: next(counter) for word in words if not word.startswith("size_")}
    if static:
        yield Variant("size: all fixed", _with(case, lambda n, a, dim: _set(dim, static.get(_word(dim), dim.dim_value))))


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


def _name(dim: Dim, name: str) -> None:
    dim.Clear()
    dim.dim_param = name


def _set(dim: Dim, size: int) -> None:
    dim.Clear()
    dim.dim_value = size
