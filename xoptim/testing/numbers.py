"""Comparison of two models, which run unoptimized in onnxruntime on the same feeds, and of facts
with results.
"""

import re
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import onnx
from onnx import ModelProto, ValueInfoProto

from xoptim.facts.dtypes import Exactness
from xoptim.facts.schema import WINDOWED
from xoptim.facts.shapes import Info, Shape
from xoptim.graph.assumed import noted
from xoptim.operators.registry import Trait, operators_with
from xoptim.optimizing.builder import GraphBuilder
from xoptim.testing.feeds import Feeds
from xoptim.testing.runtime import CRASHED, RUNTIME, Loaded
from xoptim.testing.variant import all_nodes
from xoptim.verification.inputs.assumed import hold
from xoptim.verification.inputs.sized import evaluated
from xoptim.verification.judging.compare import compare_values
from xoptim.verification.options import ComparisonRules
from xoptim.verification.runs.session import Value

_MAX_FEEDS = 2
"""Feeds on which the facts are checked."""


def wrong_facts(model: ModelProto, all_feeds: Iterable[Feeds]) -> str:
    """The first fact about a result of the main graph that does not hold, empty when all of them
    do.

    Nothing is reported for feeds on which onnxruntime does not run the model, or on which inputs
    declared to have equal sizes have different ones.
    """
    if any(node.op_type in WINDOWED for node in all_nodes(model)):
        return ""  # the kernels return one window where ONNX has no window, see `is_specified`
    exposed = deepcopy(model)
    outputs = {v.name for v in model.graph.output}
    names = [
        name for node in model.graph.node for name in node.output if name and name not in outputs
    ]
    exposed.graph.output.extend(ValueInfoProto(name=name) for name in names)
    session = RUNTIME.load(exposed)
    if isinstance(session, str):
        return ""
    graph = GraphBuilder(model, assume_from_model=True).model.graph
    consistent_feeds = (feeds for feeds in all_feeds if _sizes(model, feeds) is not None)
    for feeds, (results,) in RUNTIME.run_all([session], consistent_feeds, _MAX_FEEDS):
        sizes = _sizes(model, feeds) or {}
        for output, value in (
            zip(exposed.graph.output, results, strict=True) if isinstance(results, list) else ()
        ):
            fault = (
                _fault(graph.info_of(output.name), value, sizes)
                if isinstance(value, np.ndarray)
                else ""
            )
            if fault:
                return f"inference about {output.name!r} is wrong: {fault}"
    return ""


def _sizes(model: ModelProto, feeds: Feeds) -> dict[str, int] | None:
    """Sizes by name of dimension, ``None`` when one name has two sizes."""
    sizes: dict[str, int] = {}
    for value in model.graph.input:
        feed = feeds.get(value.name)
        dims = value.type.tensor_type.shape.dim
        for dim, size in (
            zip(dims, feed.shape, strict=False) if isinstance(feed, np.ndarray) else ()
        ):
            if dim.dim_param and sizes.setdefault(dim.dim_param, size) != size:
                return None
    return sizes


def _fault(info: Info, value: np.ndarray, sizes: dict[str, int]) -> str:
    if info.shape is not None:
        if len(info.shape) != value.ndim:
            return f"rank {len(info.shape)} instead of {value.ndim}"
        expected = [evaluated(dim, sizes) for dim in info.shape]
        if any(e is not None and e != size for e, size in zip(expected, value.shape, strict=True)):
            return f"shape {[str(dim) for dim in info.shape]} instead of {list(value.shape)}"
    if info.data is not None and value.size == len(info.data):
        elements = [evaluated(dim, sizes) for dim in info.data]
        if any(
            e is not None and e != v
            for e, v in zip(elements, value.reshape(-1).tolist(), strict=True)
        ):
            return f"elements {[str(dim) for dim in info.data]} instead of {value.tolist()}"
    return ""


_REFUSING = WINDOWED | frozenset(
    (
        "LayerNormalization",
        "RMSNormalization",
        "SimplifiedLayerNormalization",
        "GroupNormalization",
        "GroupNorm",
        "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization",
        "InstanceNormalization",
        "MatMul",
        "FusedMatMul",
        "Attention",
    )
)
"""Operators whose kernels refuse tensors without elements, or do not broadcast some of them."""
RECURRENT = operators_with(Trait.RECURRENT)
"""Operators whose kernels end the process where a tensor has no elements."""
FORGETFUL = ("Reduce", "ArgM")
"""Prefixes of the operators that do not drop the axes of a tensor without elements."""
_UNSAFE = {"Gemm": ("beta",), "FusedMatMul": ("transA", "transB", "transBatchA", "transBatchB")}
"""Attributes with which a kernel is wrong where a matrix product has no terms."""
NO_KERNEL = "Could not find an implementation"
"""onnxruntime's message for a valid model with an operator that is not implemented for its
types.
"""


class Numbers(NamedTuple):
    """The comparison of two models on a number of feeds: the difference, empty without one, or the
    reason why nothing was compared.
    """

    runs: int
    difference: str = ""
    skipped: str = ""


def never(feeds: Feeds) -> bool:
    """Pardon no difference."""
    return False


def same_numbers(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    all_feeds: Iterable[Feeds],
    exactness: Exactness,
    most: int = 6,
    pardon: Callable[[Feeds], bool] = never,
) -> Numbers:
    """Run two models on the same feeds and compare the results.

    Feeds on which the first one cannot run are ignored.

    The exactness is the promise: ``exact`` means the same bits, except of a NaN; ``finite`` and
    ``approximate`` promise nothing about results that are not finite in the reference. The values
    have the properties that the metadata of the first model assumes. ``most`` feeds suffice;
    ``pardon`` returns whether a difference on some feeds is not a fault of the second model.
    """
    reference = RUNTIME.load(before)
    if isinstance(reference, str):
        return Numbers(0, skipped=f"onnxruntime refuses the original: {reference}")
    optimized = RUNTIME.load(after)
    models = [reference] if isinstance(optimized, str) else [reference, optimized]
    runs, reason = 0, "no feeds"
    assumed = noted(before)
    for feeds, (expected, *actual) in RUNTIME.run_all(
        models, (hold(assumed, f) for f in all_feeds), most
    ):
        if isinstance(expected, str):
            reason = reason if runs else expected
            continue
        difference = _judge(reference, optimized, expected, actual, exactness)
        if difference and counts(before, after, feeds, expected, difference) and not pardon(feeds):
            return Numbers(runs, f"{difference}\non {describe(feeds)}")
        runs += 1
    return Numbers(runs, skipped="" if runs else f"the original does not run: {reason}")


def _judge(
    reference: Loaded,
    optimized: Loaded | str,
    expected: list[Value],
    actual: list[list[Value] | str],
    exactness: Exactness,
) -> str:
    if isinstance(optimized, str):
        return f"onnxruntime refuses the result, though not the original: {optimized}"
    names, outputs = list(reference.outputs), list(optimized.outputs)
    if names != outputs:
        return f"outputs {outputs} instead of {names}"
    if isinstance(actual[0], str):
        return f"the result does not run, though the original does: {actual[0]}"
    return compare(names, expected, actual[0], exactness)


def counts(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    feeds: Feeds,
    expected: list[Value],
    difference: str,
) -> bool:
    """Whether a difference counts: not if a kernel of onnxruntime fails in one of the models
    (`is_specified`).
    """
    is_empty = any(isinstance(value, np.ndarray) and not value.size for value in feeds.values())
    has_forgetful = any(node.op_type.startswith(FORGETFUL) for node in all_nodes(after))
    if is_empty and has_forgetful and ": shape " in difference:
        return False
    has_recurrent = any(node.op_type in RECURRENT for node in all_nodes(after))
    if is_empty and has_recurrent and CRASHED in difference:
        return False
    return is_specified(before, feeds, expected, difference)


def is_specified(
    model: onnx.ModelProto, feeds: Feeds, results: list[Value], difference: str
) -> bool:
    """Whether ONNX specifies the result of a model, so that a difference counts.

    onnxruntime deviates from ONNX on tensors without elements: some kernels refuse them, Gemm
    ignores beta, FusedMatMul does not write the result, and reductions do not drop the axes. Its
    windowed operators make one window out of none if an image is smaller than the window: the size,
    which ONNX rounds down to 0 or less, is truncated before 1 is added. Reductions and windowed
    operators then give a shape that is not the inferred one.
    """
    arrays = {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
    is_empty = any(not value.size for value in arrays.values())
    if not is_empty and not any(node.op_type in WINDOWED for node in all_nodes(model)):
        return True
    # the innermost node comes last
    refusing = re.findall(r"running (\w+) node", difference)
    if is_empty and refusing and refusing[-1] in _REFUSING:
        return False
    if is_empty and any(
        a.name in _UNSAFE.get(node.op_type, ()) for node in all_nodes(model) for a in node.attribute
    ):
        return False
    doubtful = (*WINDOWED, *FORGETFUL, "Concat")
    if not any(node.op_type.startswith(doubtful) for node in all_nodes(model)):
        return True
    concrete = deepcopy(model)
    for value in concrete.graph.input:
        if value.name in arrays:
            element = value.type.tensor_type.elem_type
            value.CopyFrom(
                onnx.helper.make_tensor_value_info(value.name, element, arrays[value.name].shape)
            )
    for value in concrete.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    view = GraphBuilder(concrete, assume_from_model=True)
    if is_empty and any(_joins_other_shapes(view, node) for node in concrete.graph.node):
        return False
    return not any(
        isinstance(result, np.ndarray)
        and view.has_shape(output.name)
        and not _fits(view.get_shape(output.name), result)
        for output, result in zip(model.graph.output, results, strict=True)
    )


def _joins_other_shapes(view: GraphBuilder, node: onnx.NodeProto) -> bool:
    """Whether a Concat joins tensors of other shapes, which onnxruntime allows for empty ones."""
    if node.op_type != "Concat" or not all(map(view.has_shape, node.input)):
        return False
    shapes = [view.get_shape(name) for name in node.input]
    ranks = {len(shape) for shape in shapes}
    axis = next(attribute.i for attribute in node.attribute if attribute.name == "axis")
    if len(ranks) > 1:
        return True
    sizes = zip(*shapes, strict=True)
    return any(
        len({*dims}) > 1 for place, dims in enumerate(sizes) if place != axis % len(shapes[0])
    )


def _fits(shape: Shape, array: np.ndarray) -> bool:
    """Whether an array may have a shape.

    An anonymous symbol does not fit: inference gives one where there is no window.
    """
    return len(shape) == array.ndim and all(
        inferred == size or not (isinstance(inferred, int) or inferred.is_anonymous)
        for inferred, size in zip(shape, array.shape, strict=True)
    )


def compare(
    names: list[str], expected: list[Value], actual: list[Value], exactness: Exactness
) -> str:
    """The difference between two lists of results, empty when there is none."""
    rules = ComparisonRules(
        exactness,
        signed_zeros=exactness == "exact",
        only_finite=exactness in ("finite", "approximate"),
    )
    comparisons = (
        comparison
        for name, e, a in zip(names, expected, actual, strict=True)
        if not _identical(e, a)
        for comparison in compare_values(name, e, a, rules)
    )
    faults = (f"output {c.output!r}: {c.message}" for c in comparisons if not c.ok)
    return next(faults, "")


def _identical(expected: Value, actual: Value) -> bool:
    """Whether two tensors of numbers have the same bits, which most have: a shortcut."""
    if (
        not isinstance(expected, np.ndarray)
        or not isinstance(actual, np.ndarray)
        or expected.dtype.kind in "OSU"
    ):
        return False
    return (
        expected.dtype == actual.dtype
        and expected.shape == actual.shape
        and expected.tobytes() == actual.tobytes()
    )


def describe(feeds: Feeds) -> str:
    """Types and shapes of feeds, and the values of small ones."""
    parts = []
    for name, value in feeds.items():
        if isinstance(value, np.ndarray):
            text = f" = {value.ravel().tolist()}" if value.size <= 6 else ""
            parts.append(f"{name} {value.dtype}{list(value.shape)}{text}")
        else:
            parts.append(f"{name} = {value!r}")
    return ", ".join(parts)
