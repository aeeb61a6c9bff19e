"""The activations between quantized operators, and the operators that read and compute them.

A *function* is a group of operators whose results depend on one activation only. It ends before
the next MatMul, normalization, Softmax, or operator that reads another activation. Examples are a
Gelu, a rotary embedding and an RMSNorm, with the data movement around them. A function is quantized
as one operator, because compilers fuse it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import onnx

from xoptim.match.quantization import FEWEST_STORED
from xoptim.operators.registry import Trait, has_trait
from xoptim.precision.calibration import KEEPING

_NORMALIZATIONS: Final = frozenset(
    f"{kind}Normalization" for kind in ("Layer", "RMS", "Group", "Instance", "Batch")
)
"""Operators that are quantized on their own, with QDQ on both sides."""
_MASKING: Final = frozenset(("Add", "Sub", "Where", "Max", "Min"))
"""Operators that may apply an attention mask. Samples without padding do not show the large
negative numbers that a mask adds, so the range of such a result is not known.
"""
_MULTIPLYING: Final = frozenset(("MatMul", "FusedMatMul", "Gemm", "Conv", "ConvTranspose"))
"""Operators that compute with integers, whatever type their result has."""
_FUSED: Final = frozenset(("Relu", "Clip"))
"""Activation functions that runtimes fuse with the preceding MatMul or convolution."""
_MOVING: Final = KEEPING | {"Split"}
_CONVERSIONS: Final = frozenset(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"))


@dataclass(frozen=True, slots=True)
class ActivationReader:
    """An operator, or a function, and the activations around it.

    Attributes:
        reads: the activations that it reads quantized; none for a Softmax, which takes twice the
            time in onnxruntime and OpenVINO when it reads integers.
        result: the activation that it computes; empty for a MatMul or convolution, and for an
            output of the model that no operator reads, which need not be quantized.
        weights_result: the result of a MatMul or convolution by constant weights, which is
            quantized with its weights or not at all; empty for others.
        op_type: of the operator; empty for a function.
    """

    reads: tuple[str, ...]
    result: str
    weights_result: str = ""
    op_type: str = ""


@dataclass(frozen=True, slots=True)
class Activations:
    """The activations of a model between its operators.

    Attributes:
        copies: for each activation, the tensors that consist of its elements and are quantized
            with it, itself included.
        readers: the operators and functions that read them.
    """

    copies: Mapping[str, tuple[str, ...]]
    readers: tuple[ActivationReader, ...]

    def useful(
        self, candidates: Collection[str], quantized: Collection[str], weighted: Collection[str]
    ) -> set[str]:
        """The candidates that at least one quantized operator needs.

        An operator is quantized if its constant weights, if any, and all activations around it are.
        It needs the activations that it reads, and its result only if none of `readers` reads this
        result.

        Args:
            candidates: the activations to select from.
            quantized: activations that are quantized already.
            weighted: results of the operators whose weights are quantized.
        """
        kept = {*candidates}
        read_names = {name for reader in self.readers for name in reader.reads}
        while True:
            names = {*kept, *quantized}
            operators = [
                reader for reader in self.readers if _is_quantized(reader, names, weighted)
            ]
            needed = {name for reader in operators for name in reader.reads}
            needed |= {reader.result for reader in operators} - read_names
            if kept <= needed:
                return kept
            kept &= needed


def _is_quantized(
    reader: ActivationReader, activations: Collection[str], weighted: Collection[str]
) -> bool:
    if reader.weights_result and reader.weights_result not in weighted:
        return False
    needed = (*reader.reads, reader.result) if reader.result else reader.reads
    return all(name in activations for name in needed)


def find_activations(model: onnx.ModelProto, ranges: Collection[str]) -> Activations:
    """The activations of the main graph of a float32 model.

    Args:
        model: the model.
        ranges: names of the tensors that can be quantized.

    Returns:
        No activations for a model that is quantized already.
    """
    if any(node.op_type in _CONVERSIONS for node in model.graph.node):
        return Activations({}, ())
    return _ActivationFinder(model, ranges).activations()


class _ActivationFinder:
    """Finds the activation that determines each tensor, in the order of the graph.

    Args: see `find_activations`.
    """

    def __init__(self, model: onnx.ModelProto, ranges: Collection[str]) -> None:
        graph = model.graph
        self._ranges = ranges
        self._outputs = {value.name for value in graph.output}
        self._sizes = {tensor.name: prod(tensor.dims) for tensor in graph.initializer}
        self._uses: dict[str, int] = {}
        self._roots = {  # the activation from which each tensor is computed
            value.name: value.name
            for value in graph.input
            if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
            and value.name not in self._sizes
        }
        # computed without any activation, such as masks and shapes
        self._inactive = {value.name for value in graph.input} - self._roots.keys()
        self._sources: dict[str, str] = {}  # the operand of a data movement, by its result
        self._masked: set[str] = set()
        self._bare: set[str] = set()  # results of operators with weights, before their bias
        self._operators: list[onnx.NodeProto] = []
        for node in graph.node:
            for name in node.input:
                self._uses[name] = self._uses.get(name, 0) + 1
        for node in graph.node:
            self._visit(node)

    def activations(self) -> Activations:
        readers = [self._reader(node) for node in self._operators]
        ends = {name for reader in readers for name in reader.reads}
        ends |= {reader.result for reader in readers if reader.result}
        ends |= self._outputs & self._roots.keys()
        functions = [
            ActivationReader((root,), end)
            for end in sorted(ends)
            if (root := self._roots[end]) != self._source(end)
        ]
        groups: dict[str, list[str]] = {}
        for name in sorted({*ends, *(root for function in functions for root in function.reads)}):
            if self._is_quantizable(name):
                groups.setdefault(self._source(name), []).append(name)
        copies = {
            name: tuple(dict.fromkeys((name, *group)))
            for name, group in groups.items()
            if self._is_quantizable(name)
        }
        return Activations(copies, tuple(map(self._by_source, (*readers, *functions))))

    def _visit(self, node: onnx.NodeProto) -> None:
        names = [name for name in node.input if name in self._roots]
        roots = {self._roots[name] for name in names}
        if has_trait(node.domain, node.op_type, Trait.MEASURES):
            self._inactive.update(node.output)
        elif not names:
            self._start(node)
        elif self._is_operator(node) or len(roots) > 1:
            self._operators.append(node)
            self._roots.update((name, name) for name in node.output if name)
            if _has_weights(node, self._sizes) and self._uses.get(node.output[0]) == 1:
                self._bare.add(node.output[0])
        else:
            self._continue(node, names)
        if self._may_apply_mask(node, names):
            self._masked.update(node.output)

    def _start(self, node: onnx.NodeProto) -> None:
        """Record a node that reads no activation.

        Its result is an activation if the node reads an embedding.
        """
        sizes = [self._sizes.get(name, 0) for name in node.input if name]
        if all(name in self._sizes for name in node.input if name):
            self._sizes.update((name, max(sizes, default=0)) for name in node.output)
        elif max(sizes) >= FEWEST_STORED:
            self._roots.update((name, name) for name in node.output if name)
        else:
            self._inactive.update(node.output)

    def _continue(self, node: onnx.NodeProto, names: list[str]) -> None:
        """Record a node that reads one activation.

        A fused bias, Relu or Clip computes another activation. Other nodes belong to the function
        of the activation that they read.
        """
        if names[0] in self._bare and _is_fused(node, self._sizes):
            self._bare.discard(names[0])
            self._roots[node.output[0]] = node.output[0]
            if self._uses.get(node.output[0]) == 1 and node.op_type not in _FUSED:
                self._bare.add(node.output[0])
            return
        self._roots.update((name, self._roots[names[0]]) for name in node.output if name)
        if node.op_type in _MOVING and not node.domain and node.input[0] == names[0]:
            self._sources.update((name, names[0]) for name in node.output if name)
        if self._masked.intersection(names):
            self._masked.update(node.output)

    def _is_operator(self, node: onnx.NodeProto) -> bool:
        return node.op_type in _NORMALIZATIONS or any(
            has_trait(node.domain, node.op_type, trait)
            for trait in (Trait.SUMS_PRODUCTS, Trait.SOFTMAX)
        )

    def _may_apply_mask(self, node: onnx.NodeProto, names: Iterable[str]) -> bool:
        """Whether a node may apply a mask: an operand has no range, or is computed from inputs
        that are no activations.
        """
        if node.op_type not in _MASKING:
            return False
        condition = node.input[0] if node.op_type == "Where" else ""
        have_ranges = all(name in self._ranges for name in names if name != condition)
        return not have_ranges or not self._inactive.isdisjoint(node.input)

    def _reader(self, node: onnx.NodeProto) -> ActivationReader:
        reads: tuple[str, ...] = ()
        if not has_trait(node.domain, node.op_type, Trait.SOFTMAX):  # it computes in float32
            reads = tuple(dict.fromkeys(name for name in node.input if name in self._roots))
        weighted = node.output[0] if _has_weights(node, self._sizes) else ""
        result = "" if node.op_type in _MULTIPLYING else node.output[0]
        return ActivationReader(reads, result, weighted, node.op_type)

    def _source(self, name: str) -> str:
        """The tensor whose elements data movement copies to a tensor, else the tensor itself."""
        while name in self._sources:
            name = self._sources[name]
        return name

    def _is_quantizable(self, name: str) -> bool:
        return (
            name in self._ranges
            and self._source(name) in self._ranges
            and name not in self._masked
            and (name not in self._outputs or self._uses.get(name, 0) > 0)
        )

    def _by_source(self, reader: ActivationReader) -> ActivationReader:
        reads = tuple(dict.fromkeys(self._source(name) for name in reader.reads))
        is_output = reader.result in self._outputs and not self._uses.get(reader.result)
        result = "" if is_output else self._source(reader.result)
        return replace(reader, reads=reads, result=result)


def _has_weights(node: onnx.NodeProto, constants: Collection[str]) -> bool:
    if not has_trait(node.domain, node.op_type, Trait.SUMS_PRODUCTS):
        return False
    return any(name in constants for name in node.input[:2])


def _is_fused(node: onnx.NodeProto, constants: Collection[str]) -> bool:
    """Whether runtimes fuse a node with a preceding MatMul or convolution: a bias, or a clip."""
    if node.op_type in _FUSED:
        return True
    return node.op_type == "Add" and any(name in constants for name in node.input)
