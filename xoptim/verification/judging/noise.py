"""The effect of rounding alone on the results of a model, whose numbers are moved by one unit in
the last place.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from xoptim.facts.dtypes import bits, element_type, is_float, numpy_dtype
from xoptim.facts.errors import ModelError
from xoptim.facts.protos import (
    UNLISTED_SINCE,
    fed_inputs,
    is_external,
    own_graphs,
    replace_items,
    standard_domain,
)
from xoptim.operators.registry import Trait, has_trait
from xoptim.verification.runs.protos import (
    inferred_graph,
    light_copy,
    tensor_array,
    without_functions,
)
from xoptim.verification.runs.session import Value

HOPELESS: Final = 0.1
"""Largest noise, relative to the largest elements of an output, at which a comparison is still
evidence.
"""
_MAX_READ_BYTES: Final = 8192  # of a constant that inference may read
_SMALLEST_WEIGHT: Final = 32  # elements
_MAX_ELEMENTS: Final = 200_000_000  # moved in all, to bound time and memory
_MAX_EXTERNAL: Final = 1 << 24  # the same for elements in external files
_LONGEST_AXIS: Final = 1 << 16  # for which every index gets a factor of its own
# of a result of static shape: fewer may be sizes that are computed as floats
_MIN_ELEMENTS: Final = 8
_FACTOR_TYPES: Final = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


def noisy_weights(
    model: onnx.ModelProto, base_dir: Path | None, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Weights moved by one unit in the last place, up or down at random."""
    cast, scales = _special_weights(model)
    weights: dict[str, np.ndarray] = {}
    budgets = {False: _MAX_ELEMENTS, True: _MAX_EXTERNAL}
    for tensor in sorted(model.graph.initializer, key=lambda tensor: math.prod(tensor.dims)):
        count, is_outside = math.prod(tensor.dims), is_external(tensor)
        is_weight = (count >= _SMALLEST_WEIGHT and tensor.name not in cast) or tensor.name in scales
        if is_weight and count <= budgets[is_outside] and _is_measured(tensor.data_type):
            budgets[is_outside] -= count
            weights[tensor.name] = move_one_ulp(tensor_array(tensor, base_dir), rng)
    return weights


class NoisyModel:
    """A model whose numbers can be moved: one session of it measures the noise as often as needed.

    In ``proto``, a Mul by a factor follows each result that rounds. If the results of an operator
    have the rounding errors of numbers close to 1, the factor minus 1 is added as well. ``weights``
    are the moved weights of the main graph, the same in all runs.
    """

    def __init__(
        self, model: onnx.ModelProto, base_dir: Path | None, rng: np.random.Generator
    ) -> None:
        with suppress(ModelError):
            model = without_functions(model)
        self.weights = noisy_weights(model, base_dir, rng)
        self.proto, self._factors = noisy_graph(model, self.weights)

    def feeds(self, feeds: Mapping[str, Value], rng: np.random.Generator) -> dict[str, Value]:
        """Feeds with their numbers moved, and factors close to 1 for the results in the model."""
        return {
            **noisy_feeds(feeds, rng),
            **{name: move_one_ulp(ones, rng) for name, ones in self._factors.items()},
        }


def noisy_graph(
    model: onnx.ModelProto, dropped: Collection[str] = ()
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A copy in which a Mul by a factor follows each result that rounds, and the factors, all 1.

    Results in subgraphs get factors as well: an iteration passes its rounding on. Results of
    unknown type and scalars get none, nor do models before opset 7. The copy lacks the data of
    ``dropped`` initializers.
    """
    copy, factors = light_copy(model, dropped), dict[str, np.ndarray]()
    if any(opset.domain in ("", "ai.onnx") and opset.version < 7 for opset in model.opset_import):
        return copy, factors
    inferred = inferred_graph(model, _MAX_READ_BYTES) or model.graph
    _add_factors(copy.graph, inferred, factors)
    _add_defaults(copy, factors)
    return copy, factors


def _add_factors(
    graph: onnx.GraphProto, inferred: onnx.GraphProto, factors: dict[str, np.ndarray]
) -> None:
    """Multiply each result of a graph and its subgraphs that rounds by a factor.

    Args:
        graph: is changed.
        inferred: the same graph with the types of its results.
        factors: factors of all graphs, by name; grows.
    """
    types = _tensor_types(inferred)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    del graph.node[:]
    for node, typed in zip(nodes, inferred.node, strict=True):
        for body, typed_body in zip(own_graphs(node), own_graphs(typed), strict=True):
            _add_factors(body, typed_body, factors)
        operator = standard_domain(node.domain), node.op_type
        kind = types.get(node.output[0]) if has_trait(*operator, Trait.ROUNDS) else None
        ones = None if kind is None else _ones(kind)
        if ones is None:
            graph.node.append(node)
            continue
        result, noise = node.output[0], f"noise {len(factors)}"
        node.output[0] = f"before {noise}"
        graph.node.append(node)
        names = [node.output[0], noise]
        if not has_trait(*operator, Trait.ROUNDS_NEAR_ONE):
            graph.node.append(onnx.helper.make_node("Mul", names, [result]))
        else:
            graph.node.extend(_with_errors_near_one(names, result, ones.dtype))
        factors[noise] = ones


def _with_errors_near_one(
    names: Sequence[str], result: str, dtype: np.dtype
) -> Iterator[onnx.NodeProto]:
    """The nodes that compute y · f + (f - 1) of the names of y and of its factor f."""
    _, noise = names
    one, scaled, error = (f"{word} {noise}" for word in ("one", "scaled", "error"))
    yield onnx.helper.make_node(
        "Constant", [], [one], value=numpy_helper.from_array(np.ones((), dtype))
    )
    yield onnx.helper.make_node("Mul", names, [scaled])
    yield onnx.helper.make_node("Sub", [noise, one], [error])
    yield onnx.helper.make_node("Add", [scaled, error], [result])


def _add_defaults(model: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> None:
    if model.ir_version < UNLISTED_SINCE:
        replace_items(model.graph.input, fed_inputs(model))
    model.ir_version = max(model.ir_version, UNLISTED_SINCE)
    for name, value in values.items():
        tensor = numpy_helper.from_array(value, name)
        model.graph.initializer.append(tensor)
        model.graph.input.append(
            onnx.helper.make_tensor_value_info(name, tensor.data_type, value.shape)
        )


def _tensor_types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto.Tensor]:
    """Types of the values of a graph that are declared or were inferred."""
    return {
        v.name: v.type.tensor_type for values in (graph.value_info, graph.output) for v in values
    }


def _ones(kind: onnx.TypeProto.Tensor) -> np.ndarray | None:
    """Factors of 1 that are broadcast-compatible with a tensor and keep its shape, ``None`` when it
    should stay as it is.
    """
    if kind.elem_type not in _FACTOR_TYPES or not kind.HasField("shape") or not kind.shape.dim:
        return None
    sizes = [dim.dim_value for dim in kind.shape.dim]
    if all(sizes) and math.prod(sizes) < _MIN_ELEMENTS:  # a dynamic dimension is 0 here
        return None
    # Factors along the last axis fit any sizes of the other axes; an open or very long axis gets
    # one factor.
    shape = (sizes[-1],) if 0 < sizes[-1] <= _LONGEST_AXIS else ()
    return np.ones(shape, numpy_dtype(kind.elem_type))


def _special_weights(model: onnx.ModelProto) -> tuple[set[str], set[str]]:
    """Weights that only Casts read, and scales of QuantizeLinear and DequantizeLinear."""
    cast: set[str] = set()
    direct: set[str] = set()
    scales: set[str] = set()
    for node in model.graph.node:
        (cast if node.op_type == "Cast" else direct).update(node.input)
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            scales.add(node.input[1])
    # A weight that is also read without a Cast is computed with in its own type.
    return cast - direct, scales


def noisy_feeds(feeds: Mapping[str, Value], rng: np.random.Generator) -> dict[str, Value]:
    """Feeds with measured numbers moved by one unit in the last place, up or down at random."""
    return {name: _noisy(value, rng) for name, value in feeds.items()}


def _noisy(value: Value, rng: np.random.Generator) -> Value:
    if isinstance(value, list):
        return [_noisy(item, rng) for item in value]
    if not isinstance(value, np.ndarray) or not _is_measured(element_type(value.dtype)):
        return value
    wide = value.astype(np.float64)
    return (
        value if np.array_equal(wide, np.rint(wide), equal_nan=True) else move_one_ulp(value, rng)
    )


def _is_measured(element: int) -> bool:
    """Whether numbers of a type carry rounding errors.

    A step of 8 bits or fewer is not a rounding error.
    """
    return is_float(element) and bits(element) >= 16


def move_one_ulp(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The neighbours of numbers of 16, 32 or 64 bits, towards 0 or away from it.

    0, infinities and NaN stay.
    """
    code = {2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize]
    pattern = np.asarray(array, order="C").view(code)
    down = rng.integers(0, 2, array.shape, dtype=np.int8).astype(code)
    # Within one sign, floating-point numbers are ordered as their bits are: plus 1 (or minus 1) is
    # the neighbour.
    moved: np.ndarray = (pattern + code(1) - 2 * down).astype(code).view(array.dtype)
    # The step down from 0 wraps around to NaN, and the step up from the largest number is an
    # infinity.
    stays = (array == 0) | ~np.isfinite(array) | ~np.isfinite(moved) | (moved == 0)
    return np.where(stays, array, moved)
