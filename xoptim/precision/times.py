"""How long operators take, in float32 and quantized."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from xoptim.bench.rounds import best_times
from xoptim.facts.protos import proto_reads
from xoptim.precision.budget import SearchBudget
from xoptim.precision.calibration import Probe
from xoptim.precision.candidates import Candidate, Form, sharing_weights
from xoptim.precision.measured import OperatorCost
from xoptim.precision.progress import counted
from xoptim.precision.subgraphs import ResultSubgraph, original_subgraph
from xoptim.verification.protos import tensor_array
from xoptim.verification.session import Session, Value
from xoptim.verification.session_settings import SessionSettings

_SECONDS = 0.1
"""Measured for each kind of operator. A pass of `xoptim.bench` takes ten times as long."""


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
    """The cost of each candidate, on the shapes of one sample; ``on_step`` is called before each.
    None is measured after the budget.

    Operators are of one kind when their nodes and the shapes of all that they read are the same;
    each kind is measured once. What is quantized because of others saves nothing alone, and is not
    measured; neither are operators of subgraphs, whose operands no sample shows.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    alone = [each for each in candidates if not each.reads and each.result in makers]
    originals = {
        each.form: original_subgraph(makers, each.result, subgraphs[each.form].reads)
        for each in alone
    }
    both = [(originals[each.form], subgraphs[each.form]) for each in alone]
    read = {name for pair in both for subgraph in pair for name in subgraph.reads}
    read |= {each.result for each in alone}
    values = Probe(model, folder, read & makers.keys(), settings).run(feeds)

    def operand(name: str) -> np.ndarray:
        if name in initializers:
            return tensor_array(initializers[name], folder)
        return np.asarray(values[name])

    known: dict[tuple[object, ...], tuple[float, float]] = {}
    costs = {each.form: _unmeasured(each, makers) for each in candidates}
    for each in counted(alone, "measuring the time of each operator", on_step):
        if budget.is_over():
            break
        original, quantized = originals[each.form], subgraphs[each.form]
        operands = {name: operand(name) for name in sorted({*original.reads, *quantized.reads})}
        kind = (*_kind(each, original), *(value.shape for value in operands.values()))
        if kind not in known:
            pair = original, quantized
            known[kind] = _seconds(
                model, pair, each.result, operands, initializers.keys(), settings
            )
        multiplications = max(np.asarray(values[each.result]).size * each.shape[0], 1)
        costs[each.form] = OperatorCost(multiplications, *known[kind])
    return _with_sharing(candidates, costs)


def _kind(candidate: Candidate, original: ResultSubgraph) -> tuple[object, ...]:
    """What operators that take the same time share, next to the shapes of their operands."""
    nodes = (
        (node.op_type, *(attribute.SerializeToString() for attribute in node.attribute))
        for node in original.nodes
    )
    return candidate.pattern, *nodes


def _unmeasured(candidate: Candidate, makers: Mapping[str, onnx.NodeProto]) -> OperatorCost:
    """The cost of an operator before it is measured: in a subgraph, multiplications of one row."""
    return OperatorCost(1 if candidate.result in makers else math.prod(candidate.shape))


def _with_sharing(
    candidates: Sequence[Candidate], costs: Mapping[Form, OperatorCost]
) -> dict[Form, OperatorCost]:
    """The costs, where the first operator of those that share weights has the sums of all."""
    found = {**costs}
    for form, others in sharing_weights(candidates).items():
        all_costs = [found[form], *(found[other] for other in others)]
        multiplications, before, after = zip(*all_costs, strict=True)
        found[form] = OperatorCost(sum(multiplications), sum(before), sum(after))
    return found


def _alone(
    model: onnx.ModelProto,
    subgraph: ResultSubgraph,
    result: str,
    given: Mapping[str, np.ndarray],
    constants: Iterable[str],
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one operator, and its inputs.

    Operands that are constants of the model are constants here too.

    Between quantized operators nothing is quantized or dequantized, so that an operator that begins
    and ends in this way is measured without it.
    """
    quantized = {
        node.output[0]: node
        for node in subgraph.nodes
        if node.op_type == "QuantizeLinear" and node.input[0] in given
    }
    last = subgraph.nodes[-1]
    ends = bool(quantized) and last.op_type == "DequantizeLinear"
    nodes = [
        node
        for node in subgraph.nodes
        if node.output[0] not in quantized and not (ends and node is last)
    ]
    read = {name for node in nodes for name in proto_reads(node)}
    inside = {*constants} & read & given.keys()
    values = {name: value for name, value in given.items() if name in read - inside}
    values |= {
        name: np.zeros(given[node.input[0]].shape, np.uint8) for name, node in quantized.items()
    }
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in values.items()
    ]
    output = helper.make_tensor_value_info(
        last.input[0] if ends else result, TensorProto.UINT8 if ends else TensorProto.FLOAT, None
    )
    tensors = [
        *subgraph.initializers,
        *(numpy_helper.from_array(given[name], name) for name in sorted(inside)),
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
    given: Mapping[str, np.ndarray],
    constants: Iterable[str],
    settings: SessionSettings,
) -> tuple[float, float]:
    """The best time of an operator in float32 and quantized."""
    both = [_alone(model, subgraph, result, given, constants) for subgraph in subgraphs]
    settings = replace(settings, isolated=False)  # pipes to another process would be measured too
    runs = [Session(each, settings).runner(values) for each, values in both]
    before, after = best_times(runs, settings, _SECONDS)
    return before, after
