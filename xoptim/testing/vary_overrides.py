"""Initializers that a caller may override, in models whose declared shapes follow from the defaults."""

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from xoptim.facts.dtypes import is_float, is_integer, is_signed_integer
from xoptim.facts.protos import replace_items
from xoptim.testing.feeds import Feeds
from xoptim.testing.models import INFERENCE_ERRORS
from xoptim.testing.runtime import RUNTIME
from xoptim.testing.variant import Case, Variant, constants, loosen, remove_constant, tensor_input

_MOST = 64
"""Most elements of a result that counts as sizes or positions."""


def constants_overridden(case: Case) -> Iterator[Variant]:
    """Each integer constant as an input with a default."""
    for name, array in constants(case.model):
        if array.dtype.kind in "iu" and array.size:
            model = case.copy()
            remove_constant(model, name)
            yield from _overridden(model, name, array, case.feeds[0] if case.feeds else {})


def results_overridden(case: Case) -> Iterator[Variant]:
    """Each integer interior result, and each integer input, as an input with a default: its value on some feeds."""
    names = [name for name in case.interior if is_integer(case.dtype(name))]
    for note, feeds in _telling(case):
        for name, array in zip(names, _values(case, names, feeds), strict=False):
            model = case.copy()
            producer = next(node for node in model.graph.node if name in node.output)
            if len(producer.output) == 1 and array.size <= _MOST:
                model.graph.node.remove(producer)
                yield from _overridden(model, name, array, feeds, note)
        for value in case.model.graph.input:
            fed = feeds.get(value.name)
            if isinstance(fed, np.ndarray) and fed.dtype.kind in "iu" and 0 < fed.size <= _MOST:
                model = case.copy()
                replace_items(model.graph.input, [v for v in model.graph.input if v.name != value.name])
                yield from _overridden(model, value.name, fed, feeds, note)


def _telling(case: Case) -> Iterator[tuple[str, Feeds]]:
    """The first feeds, and those with the fewest elements, whose axes have length 1 wherever that is possible."""
    counts = [[v.size for v in feeds.values() if isinstance(v, np.ndarray)] for feeds in case.feeds]
    smallest = min((i for i, sizes in enumerate(counts) if all(sizes)), key=lambda i: sum(counts[i]), default=0)
    for note, number in (("", 0), (", sizes 1", smallest)):
        if case.feeds and (number or not note):
            yield note, case.feeds[number]


def _values(case: Case, names: Sequence[str], feeds: Feeds) -> list[np.ndarray]:
    """Interior results, none when the model does not run."""
    if not names:
        return []
    model = case.copy()
    replace_items(model.graph.output, (ValueInfoProto(name=name, type=case.types[name]) for name in names))
    session = RUNTIME.load(model)
    found = RUNTIME.run(session, feeds) if not isinstance(session, str) else session
    return [] if isinstance(found, str) else [np.asarray(value) for value in found]


def _overridden(model: ModelProto, name: str, array: np.ndarray, feeds: Feeds, note: str = "") -> Iterator[Variant]:
    """Sizes of inputs fixed as in the feeds, all shapes declared as they follow from the default."""
    for value in model.graph.input:
        fed = feeds.get(value.name)
        if isinstance(fed, np.ndarray):
            value.CopyFrom(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, fed.shape))
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    _read_outputs(loosen(model))
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except INFERENCE_ERRORS:
        return
    model.graph.value_info.extend(v for v in inferred.graph.value_info if v.name != name)
    model.graph.input.append(tensor_input(name, array))
    for word, other in _others(array):
        yield Variant(f"override: {name} {word}{note}", model, overrides={name: other})


def _read_outputs(model: ModelProto) -> None:
    """Put a node after each output, so that the former output becomes an interior result."""
    for output in model.graph.output:
        element = output.type.tensor_type.elem_type
        if is_float(element) or is_signed_integer(element):
            inner = f"{output.name}_inner"
            for node in model.graph.node:
                node.output[:] = [inner if n == output.name else n for n in node.output]
                node.input[:] = [inner if n == output.name else n for n in node.input]
            model.graph.node.append(NodeProto(op_type="Neg", input=[inner], output=[output.name]))


def _others(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Other integers of the same shape; not all of them are valid in the model."""
    seen = {array.tobytes()}
    one = array.dtype.type(1)
    with np.errstate(all="ignore"):
        found = (
            ("+ 1", array + one),
            ("- 1", array - one),
            ("doubled", array * array.dtype.type(2)),
            ("reversed", array.reshape(-1)[::-1].reshape(array.shape)),
            ("first + 1", _first(array, one)),
            ("last + 1", _first(array.reshape(-1)[::-1], one)[::-1].reshape(array.shape)),
            ("1", np.ones_like(array)),
        )
    for word, other in found:
        changed = np.asarray(other, array.dtype)
        if changed.tobytes() not in seen:
            seen.add(changed.tobytes())
            yield word, changed


def _first(array: np.ndarray, step: np.generic) -> np.ndarray:
    flat = array.reshape(-1).copy()
    flat[:1] += step  # a constant may be empty
    return flat.reshape(array.shape)
