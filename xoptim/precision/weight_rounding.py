"""The integers of weights that are quantized in blocks: for each, the rounding with the smallest
error on samples.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto
from onnx.helper import get_node_attr_value

from xoptim.facts.protos import every_node, inner_graphs
from xoptim.match.block_rounding import (
    BlockFormat,
    Blocks,
    RoundedWeights,
    WeightKey,
    nearest_blocks,
)
from xoptim.match.quantization import LARGEST, Numbers
from xoptim.precision.block_search import searched_blocks
from xoptim.precision.budget import SearchBudget
from xoptim.precision.calibration import Probe
from xoptim.precision.error_feedback import feedback_blocks, output_error
from xoptim.precision.progress import counted
from xoptim.verification.protos import tensor_array
from xoptim.verification.session import Value
from xoptim.verification.session_settings import SessionSettings

_EMBEDDING: Final = "Gather"
_MATRIX_RANK: Final = 2
_MAX_ROWS: Final = 8192
"""Most rows of weights with a Hessian, which takes half a gigabyte then; with more, scales are
searched only.
"""
_MAX_HESSIAN_BYTES: Final = 2**29
"""Bytes of the Hessians that one pass over the samples collects."""
Activations: TypeAlias = tuple[str, ...]
"""The names of all tensors that are multiplied by one constant."""


class Moments:
    """Second moments of the activations that are multiplied by one constant.

    Args:
        rows: of the weights, which is the number of channels of the activations.

    Attributes:
        count: number of rows of activations.
        squares: sums of the squares of each channel, of shape (rows,).
        hessian: XᵀX of all rows X of activations; ``None`` where it would be too large.
        is_fit: whether all values are finite.
    """

    def __init__(self, rows: int) -> None:
        self.count = 0
        self.squares: Numbers = np.zeros(rows)
        self.hessian: Numbers | None = np.zeros((rows, rows)) if rows <= _MAX_ROWS else None
        self.is_fit = True

    def add(self, value: Value) -> None:
        """Take in the activations of a sample, with the channels on the last axis."""
        rows = len(self.squares)
        if not isinstance(value, np.ndarray) or not value.ndim or value.shape[-1] != rows:
            self.is_fit = False
            return
        activations = value.reshape(-1, rows).astype(np.float64)
        # a NaN fails the comparison
        self.is_fit = self.is_fit and bool((np.abs(activations) < LARGEST).all())
        if not self.is_fit:
            return
        self.count += len(activations)
        self.squares += np.square(activations).sum(axis=0)
        if self.hessian is not None:
            self.hessian += activations.T @ activations


def rounded_weights(
    model: onnx.ModelProto,
    folder: Path | None,
    form: BlockFormat,
    op_types: Iterable[str],
    feeds: Sequence[Mapping[str, Value]],
    settings: SessionSettings,
    on_step: Callable[[str], object] = lambda _: None,
    budget: SearchBudget | None = None,
) -> RoundedWeights:
    """Round the constant matrices that operators read.

    Args:
        model: the model, in which each value has its own name.
        folder: of its external data.
        form: how weights are rounded.
        op_types: of the operators: MatMuls, and ``Gather``, whose rows are divided.
        feeds: samples; without any, all weights are rounded to nearest: searched scales have the
            smaller error of the weights, and were measured to have the larger one of outputs (1.07
            and 1.14 times on two trained models).
        settings: of the session that runs the samples.
        on_step: is called before each matrix.
        budget: the time of the search; other matrices are rounded to nearest.
    """
    if not feeds:
        return RoundedWeights(form)
    budget = budget or SearchBudget(None)
    matrices = _Matrices(model, folder, form)
    readers = _readers(model, {*op_types}, matrices)
    sources = dict[Activations, list[WeightKey]]()
    for key, names in readers.items():
        sources.setdefault(names, []).append(key)
    blocks = dict[WeightKey, Blocks]()
    unknown = sources.pop((), [])
    for key in counted(unknown, "searching the scales of weights", on_step):
        if budget.is_over():
            break
        blocks[key] = searched_blocks(matrices.read(key), form)
    total = sum(map(len, sources.values()))
    for batch in _batches(sources, matrices):
        if budget.is_over():
            break
        moments = _moments(model, folder, batch, feeds, settings)
        for names in batch:
            for key in sources[names]:
                on_step(f"rounding weights: {len(blocks) - len(unknown)} of {total}")
                if not budget.is_over():
                    blocks[key] = _best_blocks(matrices.read(key), form, moments[names])
            del moments[names]
    return RoundedWeights(form, blocks)


def _best_blocks(matrix: np.ndarray, form: BlockFormat, moments: Moments) -> Blocks:
    """The rounding with the smallest error of the product with the activations."""
    if not moments.is_fit or not moments.count:
        return searched_blocks(matrix, form)
    searched = searched_blocks(matrix, form, moments.squares)
    if moments.hessian is None:
        return searched
    candidates = [nearest_blocks(matrix, form), searched]
    feedback = feedback_blocks(matrix, moments.hessian, moments.count, form)
    if feedback is not None:
        candidates.append(feedback)
    hessian = moments.hessian
    return min(candidates, key=lambda blocks: output_error(matrix, blocks, hessian, form))


def _batches(
    sources: Mapping[Activations, Sequence[WeightKey]], matrices: "_Matrices"
) -> Iterator[dict[Activations, int]]:
    """The activations of a few weights at a time, each with its channels, so that their Hessians
    fit the memory.
    """
    batch, total = dict[Activations, int](), 0
    for names, keys in sources.items():
        rows = matrices.rows(keys[0])
        size = rows**2 * 8 if rows <= _MAX_ROWS else 0
        if batch and total + size > _MAX_HESSIAN_BYTES:
            yield batch
            batch, total = {}, 0
        batch[names] = rows
        total += size
    if batch:
        yield batch


def _moments(
    model: onnx.ModelProto,
    folder: Path | None,
    batch: Mapping[Activations, int],
    feeds: Sequence[Mapping[str, Value]],
    settings: SessionSettings,
) -> dict[Activations, Moments]:
    """The second moments of some activations on the samples."""
    moments = {names: Moments(rows) for names, rows in batch.items()}
    made = {name for node in model.graph.node for name in node.output}
    probe = Probe(model, folder, {name for names in batch for name in names} & made, settings)
    for sample in feeds:
        values = probe.run(sample)
        for names, sums in moments.items():
            for name in names:
                sums.add(values[name])
    return moments


def _readers(
    model: onnx.ModelProto, op_types: set[str], matrices: "_Matrices"
) -> dict[WeightKey, Activations]:
    """The constant matrices that operators read, and the tensors of the main graph that are
    multiplied by them.
    """
    observable = {name for node in model.graph.node for name in node.output}
    observable |= {value.name for value in model.graph.input}
    transposes = {
        node.output[0]: node.input[0]
        for node in every_node(model.graph.node)
        if node.op_type == "Transpose" and _attribute(node, "perm", [1, 0]) == [1, 0]
    }
    readers = dict[WeightKey, list[str]]()
    for node in every_node(model.graph.node):
        if node.op_type not in op_types:
            continue
        if node.op_type == _EMBEDDING:
            key, activations = (node.input[0], True), ""
        else:
            name, is_transposed = node.input[1], bool(_attribute(node, "transB", 0))
            if name in transposes:
                name, is_transposed = transposes[name], not is_transposed
            key = name, is_transposed
            is_plain = not any(
                _attribute(node, attribute, 0) for attribute in ("transA", "transBatchA")
            )
            activations = node.input[0] if is_plain else ""
        if matrices.fits(key):
            names = readers.setdefault(key, [])
            if activations in observable and activations not in names:
                names.append(activations)
    return {key: tuple(names) for key, names in readers.items()}


def _attribute(node: onnx.NodeProto, name: str, default: object) -> object:
    return get_node_attr_value(node, name) if _has(node, name) else default


def _has(node: onnx.NodeProto, name: str) -> bool:
    return any(attribute.name == name for attribute in node.attribute)


class _Matrices:
    """The constant float32 matrices of a model, and those of 16 bits that a Cast widens.

    Args:
        model: the model.
        folder: of its external data.
        form: by which they are to be rounded.
    """

    def __init__(self, model: onnx.ModelProto, folder: Path | None, form: BlockFormat) -> None:
        self._folder, self._form = folder, form
        tensors = {
            tensor.name: tensor
            for graph in (model.graph, *inner_graphs(model.graph.node))
            for tensor in graph.initializer
            if len(tensor.dims) == _MATRIX_RANK
        }
        self._tensors = {
            name: tensor
            for name, tensor in tensors.items()
            if tensor.data_type == TensorProto.FLOAT
        }
        for node in every_node(model.graph.node):
            if node.op_type == "Cast" and _attribute(node, "to", 0) == TensorProto.FLOAT:
                tensor = tensors.get(node.input[0])
                if tensor is not None and tensor.data_type != TensorProto.FLOAT:
                    self._tensors[node.output[0]] = tensor

    def fits(self, key: WeightKey) -> bool:
        """Whether there is such a matrix of whole blocks, with finite numbers."""
        tensor = self._tensors.get(key[0])
        if tensor is None or not math.prod(tensor.dims) or self.rows(key) % self._form.size:
            return False
        return bool((np.abs(self.read(key)) <= LARGEST).all())

    def rows(self, key: WeightKey) -> int:
        """The number of rows of a matrix: the terms of a sum."""
        name, is_transposed = key
        return int(self._tensors[name].dims[is_transposed])

    def read(self, key: WeightKey) -> np.ndarray:
        """A float32 matrix of shape (terms, columns)."""
        name, is_transposed = key
        numbers = tensor_array(self._tensors[name], self._folder).astype(np.float32, copy=False)
        return np.ascontiguousarray(numbers.T) if is_transposed else numbers
