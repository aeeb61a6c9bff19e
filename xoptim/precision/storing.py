"""Constants that are stored in fewer bits, one by one, whatever reads them.

Everything is computed in float32.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from xoptim.facts.protos import every_node, inner_graphs
from xoptim.graph.names import Names
from xoptim.match.rounding import FEWEST_STORED, StoringPattern
from xoptim.precision.products import Form, QuantizableOp
from xoptim.preparation.ports import defined_names
from xoptim.verification.protos import tensor_array, tensor_bytes

_HALVES: Final = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_NARROW: Final = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4)
_QUANTIZED: Final = ("Quant", "QLinear", "NBits", "Bnb4", "MatMulInteger", "ConvInteger")
"""Parts of the names of operators whose float32 constants are scales."""
_TABLES: Final = ("Gather", "GatherND")
"""Operators that read a part of their first operand, so that it is widened after them."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant that can be stored in fewer bits.

    Attributes:
        name: by which operators read it in float32: of the initializer, or of the result of the
            Cast that widens it.
        tensor: the initializer, of 16 bits where a Cast widens it.
        readers: the nodes that read it.
    """

    name: str
    tensor: onnx.TensorProto
    readers: Sequence[onnx.NodeProto]

    @property
    def bits(self) -> int:
        """Bits of a number in the file."""
        return 32 if self.tensor.data_type == TensorProto.FLOAT else 16

    def numbers(self, folder: Path | None) -> np.ndarray:
        """The float32 numbers."""
        found: np.ndarray = tensor_array(self.tensor, folder).astype(np.float32, copy=False)
        return found


def large_constants(model: onnx.ModelProto) -> dict[str, Constant]:
    """The float32 constants of `FEWEST_STORED` numbers or more, and constants of 16 bits that a
    Cast widens, by name.

    All graphs are searched. What the caller may override, outputs, and scales of integers are left
    out.
    """
    graphs = [model.graph, *inner_graphs(model.graph.node)]
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in every_node(model.graph.node):
        for name in dict.fromkeys(node.input):
            readers.setdefault(name, []).append(node)
    fixed = {value.name for graph in graphs for value in graph.output} | _scales(model)
    fixed |= {value.name for value in model.graph.input} if model.ir_version >= 4 else set()
    found = list[Constant]()
    for tensor in (each for graph in graphs for each in graph.initializer):
        if math.prod(tensor.dims) < FEWEST_STORED or tensor.name in fixed:
            continue
        first = readers.get(tensor.name, [])
        if tensor.data_type == TensorProto.FLOAT:
            found.append(Constant(tensor.name, tensor, first))
        elif tensor.data_type in _HALVES and len(first) == 1 and _is_widening(first[0]):
            name = first[0].output[0]
            found.append(Constant(name, tensor, readers.get(name, [])))
    return {each.name: each for each in found if each.readers and each.name not in fixed}


def _scales(model: onnx.ModelProto) -> set[str]:
    """The names that quantized operators read, and what is computed from integers that a Cast
    widens.
    """
    narrow = {
        each.name
        for graph in (model.graph, *inner_graphs(model.graph.node))
        for each in graph.initializer
        if each.data_type in _NARROW
    }
    integers, found = set[str](), set[str]()
    for node in every_node(model.graph.node):
        is_scaling = node.op_type in ("Mul", "Sub") and not integers.isdisjoint(node.input)
        if is_scaling or any(word in node.op_type for word in _QUANTIZED):
            found.update(node.input)
        if (is_scaling and node.op_type == "Sub") or (
            node.op_type == "Cast" and node.input[0] in narrow
        ):
            integers.update(node.output)
    return found


def _is_widening(node: onnx.NodeProto) -> bool:
    return node.op_type == "Cast" and any(
        each.name == "to" and each.i == TensorProto.FLOAT for each in node.attribute
    )


class Weights:
    """The large constants of a model, and the numbers that they have in fewer bits.

    Args:
        model: the model.
        folder: of its external data.
        patterns: that store constants.
    """

    def __init__(
        self, model: onnx.ModelProto, folder: Path | None, patterns: Iterable[type[StoringPattern]]
    ) -> None:
        self._constants = large_constants(model)
        self._folder = folder
        self._patterns = {cls.name(): cls for cls in patterns}
        self._kept: dict[Form, np.ndarray] = {}

    @property
    def names(self) -> list[str]:
        """The names by which operators read the constants."""
        return [*self._constants]

    def products(self, others: Iterable[QuantizableOp]) -> list[QuantizableOp]:
        """The forms in which each constant can be stored.

        Args:
            others: operators that can be quantized. A constant that is computed from such a weight
                is another form of it.
        """
        owners = {each.weights: each.leader or each.result for each in others if each.weights}
        found = list[QuantizableOp]()
        for name, each in self._constants.items():
            numbers = each.numbers(self._folder)
            owner = owners.get(each.tensor.name, name)
            shape = math.prod(each.tensor.dims[:-1]), each.tensor.dims[-1]
            reader = each.readers[0]
            found += [
                QuantizableOp(
                    owner,
                    reader.name or reader.output[0],
                    pattern,
                    reader.op_type,
                    shape,
                    name,
                    share=1.0,
                    bits=cls.width + 8 * self._overhead(name, cls) / numbers.size,
                    wide=each.bits,
                    width=int(cls.width),
                    is_stored=True,
                )
                for pattern, cls in self._patterns.items()
                if cls.width < each.bits and cls.fits(numbers)
            ]
        return found

    def _overhead(self, name: str, pattern: type[StoringPattern]) -> int:
        """Bytes of the nodes that widen a constant."""
        numbers, writer = (
            np.ones(FEWEST_STORED, np.float32),
            _Writer(onnx.ModelProto(), name, Names()),
        )
        return writer.written(pattern, numbers) - round(pattern.width * FEWEST_STORED / 8)

    def feeds(self, forms: Mapping[str, str]) -> dict[str, np.ndarray]:
        """The numbers of constants in fewer bits, and of those that a Cast widens.

        The last ones are kept for the next call.

        Args:
            forms: the pattern that stores each constant.
        """
        wanted = dict.fromkeys(forms.items())
        wanted |= {
            (name, ""): None
            for name, each in self._constants.items()
            if each.bits < 32 and name not in forms
        }
        self._kept = {
            form: self._kept[form] if form in self._kept else self._widened(*form)
            for form in wanted
        }
        return {name: array for (name, _), array in self._kept.items()}

    def _widened(self, name: str, pattern: str) -> np.ndarray:
        numbers = self._constants[name].numbers(self._folder)
        return self._patterns[pattern].widened(numbers) if pattern else numbers

    def open(self, model: onnx.ModelProto) -> None:
        """Let a session of the model, or of a copy with further nodes, be fed with other numbers of
        the constants; in place.
        """
        model.ir_version = max(model.ir_version, 4)  # before, an input with a default cannot be fed
        listed = {value.name for value in model.graph.input}
        for graph in (model.graph, *inner_graphs(model.graph.node)):
            _remove(
                graph.node, [place for place, node in enumerate(graph.node) if self._is_cast(node)]
            )
            own = [
                place
                for place, each in enumerate(graph.initializer)
                if each.name in self._constants
            ]
            if graph is model.graph:
                continue
            model.graph.initializer.extend(graph.initializer[place] for place in own)
            _remove(graph.initializer, own)
        for name, each in self._constants.items():
            if name not in listed:
                model.graph.input.append(
                    helper.make_tensor_value_info(name, TensorProto.FLOAT, each.tensor.dims)
                )

    def store(
        self, model: onnx.ModelProto, forms: Mapping[str, str]
    ) -> tuple[onnx.ModelProto, dict[str, str]]:
        """A copy of a model with some constants stored in fewer bits, and the pattern of each that
        was there.

        Args:
            model: the model, or one in which some operators were quantized.
            forms: the pattern that stores each constant.
        """
        made = onnx.ModelProto()
        made.CopyFrom(model)
        present = large_constants(made)
        done = {name: pattern for name, pattern in forms.items() if name in present}
        names = Names()
        names.reserve(defined_names(made), {})
        for name, pattern in done.items():
            numbers = present[name].numbers(self._folder)
            _Writer(made, name, names).write(self._patterns[pattern], numbers)
        return made, done

    def _is_cast(self, node: onnx.NodeProto) -> bool:
        return bool(node.output) and node.op_type == "Cast" and node.output[0] in self._constants


class _Writer:
    """Writes one constant in fewer bits to the graph that has it.

    Args:
        model: changed in place.
        name: by which operators read the constant.
        names: in use.
    """

    def __init__(self, model: onnx.ModelProto, name: str, names: Names) -> None:
        self._model, self._name, self._names = model, name, names
        self._nodes: list[onnx.NodeProto] = []
        self._tensors: list[onnx.TensorProto] = []

    def write(self, pattern: type[StoringPattern], numbers: np.ndarray) -> None:
        """Store the numbers, and give what widens them the name of the constant."""
        home = self._removed()
        pattern.stored(self, self._store, numbers)
        home.initializer.extend(self._tensors)
        if len(self._nodes) == 1 and self._is_table():
            self._widen_afterwards(self._nodes[0].input[0])
            return
        self._nodes[-1].output[0] = self._name
        for place, node in enumerate(self._nodes):
            home.node.insert(place, node)

    def written(self, pattern: type[StoringPattern], numbers: np.ndarray) -> int:
        """Make the nodes and the initializers only; returns their bytes."""
        pattern.stored(self, self._store, numbers)
        return sum(each.ByteSize() for each in (*self._nodes, *self._tensors))

    def __getattr__(self, op_type: str) -> Any:
        """The maker of nodes of an operator, which returns the name of the result."""
        return partial(self._make, op_type)

    def _make(self, op_type: str, *names: str, **attributes: Any) -> str:
        result = self._names.fresh(f"{self._name}_{op_type}")
        self._nodes.append(helper.make_node(op_type, names, [result], name=result, **attributes))
        return result

    def _store(self, array: np.ndarray, word: str) -> str:
        name = self._names.fresh(f"{self._name}_{word or array.dtype.name}")
        self._tensors.append(numpy_helper.from_array(array, name))
        return name

    def _graphs(self) -> list[onnx.GraphProto]:
        return [self._model.graph, *inner_graphs(self._model.graph.node)]

    def _removed(self) -> onnx.GraphProto:
        """Remove the constant, and the Cast that widens it; returns the graph that had it."""
        stored = self._name
        for graph in self._graphs():
            casts = [place for place, node in enumerate(graph.node) if self._name in node.output]
            if casts:
                stored = graph.node[casts[0]].input[0]
                _remove(graph.node, casts)
        home = next(
            graph
            for graph in self._graphs()
            if any(each.name == stored for each in graph.initializer)
        )
        fields: tuple[Any, ...] = (home.initializer, home.input, home.value_info)
        for values in fields:
            _remove(values, [place for place, each in enumerate(values) if each.name == stored])
        return home

    def _is_table(self) -> bool:
        """Whether nothing but parts of the constant is read."""
        readers = [node for node in every_node(self._model.graph.node) if self._name in node.input]
        return all(
            node.op_type in _TABLES and not node.domain and node.input[0] == self._name
            for node in readers
        )

    def _widen_afterwards(self, stored: str) -> None:
        """Let operators read parts of the stored constant, and cast these."""
        for graph in self._graphs():
            for place in reversed(range(len(graph.node))):
                node = graph.node[place]
                if self._name not in node.input:
                    continue
                result = node.output[0]
                node.input[0], node.output[0] = stored, self._names.fresh(f"{result}_part")
                cast = helper.make_node("Cast", [node.output[0]], [result], to=TensorProto.FLOAT)
                graph.node.insert(place + 1, cast)


def _remove(field: Any, places: Sequence[int]) -> None:
    for place in reversed(places):
        del field[place]


def float32_bytes(model: onnx.ModelProto) -> dict[str, int]:
    """The bytes of float32 constants, by the operator that reads them first, largest first."""
    first = {
        name: node.op_type
        for node in reversed([*every_node(model.graph.node)])
        for name in node.input
    }
    found = dict[str, int]()
    for graph in (model.graph, *inner_graphs(model.graph.node)):
        for tensor in graph.initializer:
            if tensor.data_type == TensorProto.FLOAT:
                op_type = first.get(tensor.name, "outputs")
                found[op_type] = found.get(op_type, 0) + tensor_bytes(tensor)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
