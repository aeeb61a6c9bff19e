"""Sizes at the ends: above the numbers that a model is written for, and 0.

Some rewrites are right for small sizes only: a Slice that ends at 512 takes all of 9 positions, and a Clip of a length has no
effect.
An empty axis is the other end, such as the past of a decoder at its first step. The first two axes of inputs, batch and length,
are taken not to be empty, as rewrites take them (docs/how-it-works.md); nor are images that a window moves over, where ONNX
gives the result a size below 1 and onnxruntime returns a result nevertheless.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper

from xoptim.facts.dtypes import is_float, is_integer
from xoptim.facts.schema import WINDOWED
from xoptim.validate.dims import InputSpec, Purpose, Sizes, names_in, open_dimensions
from xoptim.validate.protos import is_external

_SMALL: Final = 1024  # most elements of a constant that is read
_LARGEST: Final = 1 << 16  # beyond, a number stands for "all", or an axis is too long to be tried
_STEP: Final = 16  # sizes grow by multiples: many models divide them by powers of two
_BOUNDS: Final = ("Clip", "Max", "Min", "Range")  # operators whose constants may bound sizes, also as floats
_CRASHING: Final = frozenset({"AttnLSTM", "DynamicQuantizeLSTM", "Einsum", "GRU", "LSTM", "RNN", "STFT"})
"""Operators whose kernels end the process when an axis is empty, instead of raising an error."""
_GROWING: Final[tuple[tuple[Purpose, ...], ...]] = (("sequence", "past", "space"), ("batch",))
_EMPTY: Final[tuple[Purpose, ...]] = ("past", "sequence", "space", "batch")


def written_sizes(model: onnx.ModelProto) -> list[int]:
    """The numbers with which a model may compare sizes, in order.

    Small integer constants (ends of slices, shapes, bounds), bounds that are floats, and the lengths of stored tables.
    """
    found: set[int] = set()
    for nodes, initializers in _graphs(model):
        tensors = {tensor.name: tensor for tensor in initializers}
        for node in nodes:
            for attribute in node.attribute:
                if node.op_type == "Constant" and attribute.type == onnx.AttributeProto.TENSOR:
                    tensors[node.output[0]] = attribute.t
                elif node.op_type in ("Constant", *_BOUNDS):
                    found |= _whole([*attribute.ints, attribute.i, *attribute.floats, attribute.f])
        bounds = {name for node in nodes if node.op_type in _BOUNDS for name in node.input}
        for name, tensor in tensors.items():
            found.update(tensor.dims[:1] if len(tensor.dims) > 1 else ())
            if is_integer(tensor.data_type) or (name in bounds and is_float(tensor.data_type)):
                found |= _whole(_numbers(tensor))
    return sorted(size for size in found if 1 < size < _LARGEST)


def _graphs(model: onnx.ModelProto) -> Iterator[tuple[Sequence[onnx.NodeProto], Sequence[onnx.TensorProto]]]:
    """Nodes and initializers of all graphs, subgraphs and functions included."""
    pending: list[tuple[Sequence[onnx.NodeProto], Sequence[onnx.TensorProto]]] = [(model.graph.node, model.graph.initializer)]
    pending += [(function.node, ()) for function in model.functions]
    while pending:
        nodes, initializers = pending.pop()
        yield nodes, initializers
        bodies = (a.g for node in nodes for a in node.attribute if a.type == onnx.AttributeProto.GRAPH)
        pending += [(body.node, body.initializer) for body in bodies]


def _numbers(tensor: onnx.TensorProto) -> list[float]:
    if is_external(tensor) or math.prod(tensor.dims) > _SMALL:
        return []
    numbers: list[float] = np.asarray(numpy_helper.to_array(tensor)).astype(np.float64).reshape(-1).tolist()
    return numbers


def _whole(numbers: Iterable[float]) -> set[int]:
    return {math.ceil(abs(number)) for number in numbers if abs(number) < _LARGEST}


class Ends:
    """Assignments of sizes at both ends, made from one on which the original runs.

    Args:
        specs: the inputs.
        model: the model.
        base: the assignment.
        fixed: sizes that the user has chosen.
    """

    def __init__(self, specs: Sequence[InputSpec], model: onnx.ModelProto, base: Sizes, fixed: Mapping[str, int]) -> None:
        self._purposes = open_dimensions(specs)
        self._base = base
        self._free = {name: purpose for name, purpose in self._purposes.items() if name not in fixed and name in base}
        self._written = written_sizes(model) if self._free else []
        self._leading = {name for spec in specs for entry in (spec.shape or ())[:2] for name in names_in(entry)}
        operators = {node.op_type for nodes, _ in _graphs(model) for node in nodes}
        self._may_be_empty = () if operators & _CRASHING else _EMPTY[:1] if operators & WINDOWED else _EMPTY

    def large(self) -> list[list[Sizes]]:
        """Assignments with increasing sizes; of the entries of one rung, the caller runs the first that can be run.

        All lengths grow by the same number, so that equal ones stay equal. Batches grow with the lengths, or not.
        """
        groups = [[name for name in self._free if self._free[name] in group] for group in _GROWING]
        growing = groups[0] or groups[1]
        if not growing:
            return []
        first = min(self._base[name] for name in growing)
        steps = {_STEP * ((size - first) // _STEP + more) for size in self._written for more in (0, 1)}
        rungs = []
        for step in sorted(step for step in steps if step > 0):
            alone = self._grown(dict.fromkeys(growing, step))
            rungs.append([alone | self._grown(dict.fromkeys(groups[0] + groups[1], step)), alone] if groups[0] else [alone])
        return rungs

    def empty(self) -> Iterator[Sizes]:
        """Assignments in which all axes of one purpose are empty, the strongest test first; none when that could crash."""
        for purpose in self._may_be_empty:
            mine = [name for name in self._free if self._free[name] == purpose]
            names = [name for name in mine if purpose == "past" or name not in self._leading]
            if any(self._base[name] for name in names):
                yield self._grown({name: -self._base[name] for name in names})

    def _grown(self, steps: Mapping[str, int]) -> Sizes:
        """The base with sizes changed; totals cover past and sequence."""
        change = {self._purposes[name]: step for name, step in steps.items()}
        total = change.get("past", 0) + change.get("sequence", 0)
        totals = {name: total for name, purpose in self._free.items() if purpose == "total"}
        grown = self._base | {name: self._base[name] + step for name, step in {**totals, **steps}.items()}
        return {name: max(size, 0) for name, size in grown.items()}
