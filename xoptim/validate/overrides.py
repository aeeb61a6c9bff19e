"""Other values for initializers that a caller may override: a rewrite that takes one of them for a constant is found."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import onnx

from xoptim.facts.dtypes import is_float
from xoptim.facts.protos import fed_inputs, inner_graphs, is_external
from xoptim.validate.protos import stored_bytes, tensor_array
from xoptim.validate.session import Value

_SINCE: Final = 4  # version of the file format; before it, an initializer that is an input is a constant
_FEW: Final = 64  # integers that count as a parameter, such as axes or a shape, and not as weights
_MOST_PARAMETERS: Final = 4
_MOST_BYTES: Final = 1 << 26


def overriding(model: onnx.ModelProto, seed: int) -> Iterator[list[dict[str, Value]]]:
    """Values for the overridable initializers of a model: all weights together, then a few parameters one by one.

    Each entry lists alternatives, since a model refuses most axes and shapes: the caller runs the first two that it accepts.
    Nothing is given for initializers in external files, or in the place of more than 64 MB.
    """
    nodes = [*model.graph.node, *(node for graph in inner_graphs(model.graph.node) for node in graph.node)]
    read = {name for node in nodes for name in node.input}
    needed = {value.name for value in fed_inputs(model)}
    inputs = {value.name for value in model.graph.input} - needed
    tensors = [t for t in model.graph.initializer if t.name in inputs & read and not is_external(t) and stored_bytes(t)]
    if model.ir_version < _SINCE or sum(map(stored_bytes, tensors)) > _MOST_BYTES:
        return
    rng = np.random.default_rng(seed)
    arrays = {tensor.name: tensor_array(tensor, None) for tensor in tensors}
    weights = [t.name for t in tensors if is_float(t.data_type) or arrays[t.name].size > _FEW]
    if weights:
        # Scales of images must be whole numbers where operators multiply sizes by them: a multiple is the second choice.
        yield [{name: other(arrays[name], rng) for name in weights} for other in (_other_weights, _multiples)]
    for name in [name for name in arrays if name not in weights][:_MOST_PARAMETERS]:
        yield [{name: other} for other in _other_parameters(arrays[name])]


def _other_weights(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Other numbers of the same magnitudes and signs, 0 included; integers in another order."""
    mixed = rng.permutation(array.reshape(-1)).reshape(array.shape)
    if array.dtype.kind in "biuOSU":
        return mixed
    wide = mixed.astype(np.float64)
    scale = np.max(np.abs(wide), initial=0, where=np.isfinite(wide)) or 1.0
    wide = np.where(wide == 0, scale, wide) * rng.uniform(0.5, 1.5, array.shape)
    return np.asarray(wide).astype(array.dtype)


def _multiples(array: np.ndarray, _: np.random.Generator) -> np.ndarray:
    return array if array.dtype.kind in "biuOSU" else np.asarray(array.astype(np.float64) * 3).astype(array.dtype)


def _other_parameters(array: np.ndarray) -> Iterator[np.ndarray]:
    """Integers or Booleans in the reverse order, then changed by one."""
    if array.dtype.kind == "b":
        yield np.asarray(np.logical_not(array))
    elif array.dtype.kind in "iu":
        flat = array.reshape(-1)
        found = (flat[::-1], flat + 1, flat - 1, np.concatenate((flat[:1] + 1, flat[1:])))
        yield from (each.astype(array.dtype).reshape(array.shape) for each in found if not np.array_equal(each, flat))
