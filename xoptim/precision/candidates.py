"""First stage of quantization: operators that can be quantized, with facts that need no run.

A candidate is one operator in one form. The next stage is `xoptim.precision.measured`.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.helper import get_node_attr_value

from xoptim.facts.dtypes import bits as element_bits
from xoptim.facts.protos import every_node, inner_graphs
from xoptim.match.quantization import Observed, QuantizationPattern, first_result
from xoptim.match.rewrite import Rewrite
from xoptim.match.view import Cpu
from xoptim.precision.calibration import KEEPING
from xoptim.precision.fake_quantization import fake_quantized
from xoptim.precision.subgraphs import ResultSubgraph, original_subgraph, replaced_subgraphs
from xoptim.verification.runs.protos import tensor_bytes

Form: TypeAlias = tuple[str, str]
"""The name of a result, and of the pattern that quantizes its operands."""
_MATRIX_RANK = 2
_LSTM_RANK = 3
_GATES = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """An operator that can be quantized, or a constant that can be stored in lower precision, in
    one form.

    Attributes:
        result: name of the operator's result. For a constant, its own name, or the result of an
            operator that reads it.
        node: name of the operator's node.
        pattern: name of the pattern that quantizes the operator or constant.
        op_type: type of the operator; ``Gather`` if it reads rows of an embedding.
        shape: rows and columns of the weights, where rows are the terms of a sum; zeros without
            weights.
        weights: name of the constant that is quantized.
        shared_with: result of the first operator with the same weights; empty for that one.
        reads: results and tensors that an operator without weights reads.
        relative_time: typical time of operators in this form, as a fraction of the float32 time.
        bits: bits of a weight in the file in this form, with its share of the scales.
        original_bits: bits of a weight in the original file.
        element_bits: bits of a stored number, for constants that are only stored in lower
            precision; 0 for operators.
        largest: largest magnitude of int8 weights; less than 127 where sums of two products would
            otherwise exceed 16 bits. 0 for other weights.
        quantizes_result: whether the quantized operator allows an operator that reads its result to
            be quantized as well.
        is_weight_only: whether this is a constant that is only stored in lower precision.
    """

    result: str
    node: str
    pattern: str
    op_type: str
    shape: tuple[int, int]
    weights: str = ""
    # The first operator represents all with the same weights, so that these are not stored twice
    shared_with: str = ""
    # An operator without weights is quantized as soon as all of its inputs are
    reads: tuple[str, ...] = ()
    relative_time: float = 0.0
    bits: float = 0
    original_bits: int = 32
    element_bits: int = 0
    largest: int = 0
    quantizes_result: bool = True
    is_weight_only: bool = False

    @property
    def form(self) -> Form:
        """The result and the pattern, which identify the candidate."""
        return self.result, self.pattern

    def touches(self, values: Collection[str]) -> bool:
        """Whether the result or the weights of the candidate are among some values."""
        return self.result in values or self.weights in values

    @property
    def is_independent(self) -> bool:
        """Whether the candidate is chosen on its own, and not quantized because others are."""
        return not self.reads and not self.shared_with


def find_candidates(
    model: onnx.ModelProto,
    folder: Path | None,
    patterns: Sequence[type[Rewrite]],
    provider: str,
    observed: Observed | None = None,
    only: Collection[str] | None = None,
    cpu: Cpu = "any",
) -> tuple[list[Candidate], dict[Form, ResultSubgraph]]:
    """The candidates of a model in all forms, in the order of the graph, and the quantized subgraph
    of each.

    Args: see `fake_quantized`.
    """
    alternatives = [
        cls for cls in patterns if issubclass(cls, QuantizationPattern) and cls.is_alternative
    ]
    defaults = [cls for cls in patterns if cls not in alternatives]
    computing = [cls for cls in defaults if not issubclass(cls, QuantizationPattern)]
    candidates, subgraphs = list[Candidate](), dict[Form, ResultSubgraph]()
    for group in (defaults, *([cls, *computing] for cls in alternatives)):
        quantized, applied = fake_quantized(model, folder, group, only, provider, observed, cpu)
        replaced = replaced_subgraphs(model, quantized, applied)
        classes = {cls.name(): cls for cls in group if issubclass(cls, QuantizationPattern)}
        operators = _OperatorFacts(model, replaced)
        for result, subgraph in replaced.items():
            candidate = operators.candidate(result, classes[applied[result]])
            subgraphs[candidate.form] = subgraph
            candidates.append(candidate)
    nodes = enumerate(every_node(model.graph.node))
    order = {name: index for index, node in nodes for name in node.output}
    candidates = _without_float_readers(model, candidates, subgraphs)
    candidates.sort(key=lambda candidate: order[candidate.result])
    candidates = _with_shared_weights(candidates)
    return candidates, {candidate.form: subgraphs[candidate.form] for candidate in candidates}


def _without_float_readers(
    model: onnx.ModelProto,
    candidates: Sequence[Candidate],
    subgraphs: Mapping[Form, ResultSubgraph],
) -> list[Candidate]:
    """The candidates, except those whose weights a float32 operator reads as well: such weights
    would be stored in both forms.
    """
    makers = {name: node for node in every_node(model.graph.node) for name in node.output}
    originals = (
        original_subgraph(makers, candidate.result, subgraphs[candidate.form].reads)
        for candidate in candidates
    )
    results = {first_result(node) for subgraph in originals for node in subgraph.nodes}
    floats = {
        value.name
        for graph in (model.graph, *inner_graphs(model.graph.node))
        for value in graph.output
    }
    for node in reversed([*every_node(model.graph.node)]):
        if node.op_type == "Transpose" and not floats.intersection(node.output):
            continue
        if first_result(node) not in results:
            floats.update(node.input)
    return [candidate for candidate in candidates if candidate.weights not in floats - {""}]


def _with_shared_weights(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates; `shared_with` of each is set to the first candidate with the same weights."""
    # embeddings come last: an embedding follows the MatMul that has the same weights
    ranked = sorted(candidates, key=lambda candidate: candidate.op_type == "Gather")
    owners = dict[str, str]()
    for candidate in ranked:
        owners.setdefault(candidate.weights, candidate.result)

    def with_owner(candidate: Candidate) -> Candidate:
        owner = owners[candidate.weights]
        if not candidate.weights or owner == candidate.result:
            return candidate
        return replace(candidate, shared_with=owner)

    return [with_owner(candidate) for candidate in candidates]


class _OperatorFacts:
    """The facts about the operators that were quantized in a model.

    Args:
        model: the float32 model.
        subgraphs: the nodes that compute the result of each quantized operator.
    """

    def __init__(self, model: onnx.ModelProto, subgraphs: Mapping[str, ResultSubgraph]) -> None:
        graphs = (model.graph, *inner_graphs(model.graph.node))
        self._nodes = {name: node for node in every_node(model.graph.node) for name in node.output}
        self._initializers = {
            tensor.name: tensor for graph in graphs for tensor in graph.initializer
        }
        self._subgraphs = subgraphs

    def candidate(self, result: str, pattern: type[QuantizationPattern]) -> Candidate:
        """The operator with a result, in the form that a pattern gives it."""
        node, subgraph = self._nodes[result], self._subgraphs[result]
        original = original_subgraph(self._nodes, result, subgraph.reads)
        candidate = Candidate(
            result,
            node.name,
            pattern.name(),
            node.op_type,
            _weights_shape(subgraph),
            relative_time=pattern.time,
            quantizes_result=pattern.quantizes_result,
        )
        replaced = {*original.reads} - {*subgraph.reads}
        constants = sorted(replaced & self._initializers.keys())
        weights = max(constants, key=self._elements, default="")
        reads = self._reads(subgraph) if candidate.shape == (0, 0) else ()
        if reads or not weights:
            return replace(candidate, reads=reads)
        shape, dims = candidate.shape, self._initializers[weights].dims
        if node.op_type == "Gather":
            shape = dims[0], math.prod(dims[1:])
        bits = element_bits(self._initializers[weights].data_type)
        saved = sum(tensor_bytes(self._initializers[name]) for name in constants)
        extra = subgraph.byte_size - original.byte_size - saved
        return replace(
            candidate,
            shape=shape,
            weights=weights,
            bits=bits + 8 * extra / math.prod(shape),
            original_bits=bits,
            largest=_largest_integer(subgraph),
        )

    def _elements(self, name: str) -> int:
        return math.prod(self._initializers[name].dims)

    def _reads(self, subgraph: ResultSubgraph) -> tuple[str, ...]:
        """The quantized results that a subgraph reads, and other tensors except constants."""
        names = (name for name in subgraph.reads if name not in self._initializers)
        return tuple(sorted({self._source(name) for name in names}))

    def _source(self, name: str) -> str:
        """Follow operators that only move elements back to a quantized result or another node."""
        while name not in self._subgraphs and name in self._nodes:
            node = self._nodes[name]
            if node.op_type not in KEEPING:
                break
            name = node.input[0]
        return name


def with_dependents(chosen: Iterable[Candidate], candidates: Sequence[Candidate]) -> dict[str, str]:
    """The results of chosen candidates and of their dependents, each with its pattern.

    A dependent reads nothing but quantized tensors, or has the weights of a chosen operator. If
    several forms of an operator are chosen, the last one counts.

    Args:
        chosen: candidates.
        candidates: all candidates, in the order of the graph.
    """
    chosen = [*chosen]
    forms, sharing = dict(candidate.form for candidate in chosen), sharing_weights(candidates)
    in_float = {
        candidate.form
        for candidate in (*chosen, *candidates)
        if candidate.is_weight_only or not candidate.quantizes_result
    }

    def is_quantized(name: str) -> bool:
        return name in forms and (name, forms[name]) not in in_float

    for candidate in candidates:
        if candidate.is_independent:
            continue
        if candidate.shared_with:
            owner = candidate.shared_with, forms.get(candidate.shared_with, "")
            is_implied = candidate.form in sharing.get(owner, ())
        else:
            is_implied = all(map(is_quantized, candidate.reads))
        if is_implied:
            forms[candidate.result] = candidate.pattern
    return forms


def sharing_weights(candidates: Sequence[Candidate]) -> dict[Form, list[Form]]:
    """For each form of an operator, the forms of the other operators that share its weights.

    An operator that shares weights takes the pattern of the owner's form if this pattern applies to
    it. Otherwise, as for some embeddings, it takes its own first form, which has the fewest bits.
    """
    forms = dict[str, list[str]]()
    for candidate in candidates:
        if not candidate.is_weight_only:  # a constant is stored once, whatever reads it
            forms.setdefault(candidate.result, []).append(candidate.pattern)
    sharing = dict[Form, list[Form]]()
    owners = {
        candidate.result: candidate.shared_with for candidate in candidates if candidate.shared_with
    }
    for result, owner in owners.items():
        # an owner that is not worthwhile is missing: operators that share its weights are skipped
        for pattern in forms.get(owner, ()):
            own_pattern = pattern if pattern in forms[result] else forms[result][0]
            sharing.setdefault((owner, pattern), []).append((result, own_pattern))
    return sharing


def _largest_integer(subgraph: ResultSubgraph) -> int:
    """The largest magnitude of the int8 weights of an operator, 0 where it has none."""
    tensors = [tensor for tensor in subgraph.initializers if tensor.data_type == TensorProto.INT8]
    arrays = [numpy_helper.to_array(tensor).astype(np.int32) for tensor in tensors]
    return max((int(np.abs(array).max(initial=0)) for array in arrays), default=0)


def _weights_shape(subgraph: ResultSubgraph) -> tuple[int, int]:
    """The rows and columns of the quantized weights, as `Candidate.shape` has them."""
    # (directions, terms, 4 · hidden): weights of the input, and of the hidden state
    if subgraph.nodes[-1].op_type == "DynamicQuantizeLSTM":
        weights = [
            tensor.dims for tensor in subgraph.initializers if len(tensor.dims) == _LSTM_RANK
        ]
        return _GATES * sum(dims[1] for dims in weights), weights[0][0] * weights[0][2] // _GATES
    for node in subgraph.nodes:
        if node.op_type == "MatMulNBits":
            return get_node_attr_value(node, "K"), get_node_attr_value(node, "N")
        if node.op_type == "QMoE":
            return _experts_shape(node, subgraph)
    tensor = max(
        subgraph.initializers, key=lambda tensor: (math.prod(tensor.dims), len(tensor.dims))
    )
    tensors = {tensor.name: tensor for tensor in subgraph.initializers}
    shapes = (
        tensors[node.input[1]]
        for node in subgraph.nodes
        if node.op_type == "Reshape" and node.input[1] in tensors
    )
    shape = next((numpy_helper.to_array(constant).tolist() for constant in shapes), tensor.dims)
    if len(shape) == _MATRIX_RANK:
        transposes = [node for node in subgraph.nodes if _transposes(node)]
        is_transposed = len(transposes) % 2
        return shape[is_transposed], shape[1 - is_transposed]
    return (math.prod(shape[1:]), shape[0]) if shape else (0, 0)


def _experts_shape(node: onnx.NodeProto, subgraph: ResultSubgraph) -> tuple[int, int]:
    """The terms that an element of the result sums, over the experts chosen for it, and a number of
    columns such that the product of both is the number of weights.
    """
    dims = {tensor.name: tensor.dims for tensor in subgraph.initializers}
    first, last = (dims[node.input[index]] for index in (2, 5))  # (experts, columns, bytes)
    terms = first[1] + last[2] * 8 // get_node_attr_value(node, "expert_weight_bits")
    choices = get_node_attr_value(node, "k")
    return choices * terms, last[0] * last[1] // choices


def _transposes(node: onnx.NodeProto) -> bool:
    """Whether a node transposes the weights, or reads them transposed."""
    is_gemm = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
    return is_gemm or node.op_type == "Transpose"
