"""How long operators take, in float32 and quantized."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from xoptim.bench.rounds import best_times
from xoptim.facts.progress import with_progress
from xoptim.facts.protos import proto_reads
from xoptim.precision.budget import SearchBudget
from xoptim.precision.calibration import Probe
from xoptim.precision.candidates import Candidate, Form, sharing_weights
from xoptim.precision.measured import OperatorCost
from xoptim.precision.subgraphs import ResultSubgraph, original_subgraph
from xoptim.verification.runs.protos import tensor_array
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.runs.session_settings import SessionSettings

_SECONDS = 0.1
"""Seconds to measure each kind of operator: a tenth of a measurement of `xoptim.bench`."""


def measure_costs(
    model: onnx.ModelProto,
    folder: Path | None,
    candidates: Sequence[Candidate],
    subgraphs: Mapping[Form, ResultSubgraph],
    feeds: Mapping[str, Value],
    settings: SessionSettings,
    on_step: Callable[[str], object],
    budget: SearchBudget,
) -> dict[Form, OperatorCost]:
    """The cost of each candidate on the shapes of one sample; none is measured after the budget.

    Equal operators on equal shapes are measured once. Operators in subgraphs are not measured, as
    their operands are unknown, nor those quantized because of others, as they gain nothing alone.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    operators = [
        candidate for candidate in candidates if not candidate.reads and candidate.result in makers
    ]
    originals = {
        candidate.form: original_subgraph(makers, candidate.result, subgraphs[candidate.form].reads)
        for candidate in operators
    }
    pairs = [(originals[candidate.form], subgraphs[candidate.form]) for candidate in operators]
    names = {name for pair in pairs for subgraph in pair for name in subgraph.reads}
    names |= {candidate.result for candidate in operators}
    values = Probe(model, folder, names & makers.keys(), settings).run(feeds)

    def operand(name: str) -> np.ndarray:
        if name in initializers:
            return tensor_array(initializers[name], folder)
        return np.asarray(values[name])

    times: dict[tuple[object, ...], tuple[float, float]] = {}
    costs = {candidate.form: _unmeasured(candidate, makers) for candidate in candidates}
    for candidate in with_progress(operators, "measuring the time of each operator", on_step):
        if budget.is_over():
            break
        original, quantized = originals[candidate.form], subgraphs[candidate.form]
        operands = {name: operand(name) for name in sorted({*original.reads, *quantized.reads})}
        kind = (*_kind(candidate, original), *(value.shape for value in operands.values()))
        if kind not in times:
            pair = original, quantized
            times[kind] = _seconds(
                model, pair, candidate.result, operands, initializers.keys(), settings
            )
        multiplications = max(np.asarray(values[candidate.result]).size * candidate.shape[0], 1)
        costs[candidate.form] = OperatorCost(multiplications, *times[kind])
    return _with_sharing(candidates, costs)


def _kind(candidate: Candidate, original: ResultSubgraph) -> tuple[object, ...]:
    """A key that is equal for operators that take the same time on operands of equal shapes."""
    nodes = (
        (node.op_type, *(attribute.SerializeToString() for attribute in node.attribute))
        for node in original.nodes
    )
    return candidate.pattern, *nodes


def _unmeasured(candidate: Candidate, makers: Mapping[str, onnx.NodeProto]) -> OperatorCost:
    """The cost of an operator before it is measured; in a subgraph, that of one row.

    The times are 0.
    """
    return OperatorCost(1 if candidate.result in makers else math.prod(candidate.shape))


def _with_sharing(
    candidates: Sequence[Candidate], costs: Mapping[Form, OperatorCost]
) -> dict[Form, OperatorCost]:
    """The costs; the first of several operators with the same weights gets the sum of all."""
    sums = {**costs}
    for form, sharers in sharing_weights(candidates).items():
        all_costs = [sums[form], *(sums[sharer] for sharer in sharers)]
        multiplications, before, after = zip(*all_costs, strict=True)
        sums[form] = OperatorCost(sum(multiplications), sum(before), sum(after))
    return sums


def _operator_model(
    model: onnx.ModelProto,
    subgraph: ResultSubgraph,
    result: str,
    operands: Mapping[str, np.ndarray],
    constants: Iterable[str],
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one operator, and its inputs.

    Constants of the original model stay constants. QuantizeLinear at the start and DequantizeLinear
    at the end are skipped, as quantized operators pass on integers.
    """
    quantized = {
        node.output[0]: node
        for node in subgraph.nodes
        if node.op_type == "QuantizeLinear" and node.input[0] in operands
    }
    last = subgraph.nodes[-1]
    drops_last = bool(quantized) and last.op_type == "DequantizeLinear"
    nodes = [
        node
        for node in subgraph.nodes
        if node.output[0] not in quantized and not (drops_last and node is last)
    ]
    names = {name for node in nodes for name in proto_reads(node)}
    constant_names = {*constants} & names & operands.keys()
    values = {name: value for name, value in operands.items() if name in names - constant_names}
    values |= {
        name: np.zeros(operands[node.input[0]].shape, np.uint8) for name, node in quantized.items()
    }
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in values.items()
    ]
    output = helper.make_tensor_value_info(
        last.input[0] if drops_last else result,
        TensorProto.UINT8 if drops_last else TensorProto.FLOAT,
        None,
    )
    tensors = [
        *subgraph.initializers,
        *(numpy_helper.from_array(operands[name], name) for name in sorted(constant_names)),
    ]
    graph = helper.make_graph(nodes, "operator", inputs, [output], tensors)
    return (
        helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version),
        values,
    )


def _seconds(
    model: onnx.ModelProto,
    subgraphs: Sequence[ResultSubgraph],
    result: str,
    operands: Mapping[str, np.ndarray],
    constants: Iterable[str],
    settings: SessionSettings,
) -> tuple[float, float]:
    models = [
        _operator_model(model, subgraph, result, operands, constants) for subgraph in subgraphs
    ]
    settings = replace(settings, isolated=False)  # the pipes of an isolated session would take time
    runs = [Session(proto, settings).runner(values) for proto, values in models]
    before, after = best_times(runs, settings, _SECONDS)
    return before, after
