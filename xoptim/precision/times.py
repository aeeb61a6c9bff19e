"""How long products take, with floats and with fewer bits."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from xoptim.bench.rounds import clock_for
from xoptim.precision.products import Form, QuantizableOp, followers
from xoptim.precision.switched import Part, original_part
from xoptim.precision.values import Probe
from xoptim.verification.protos import tensor_array
from xoptim.verification.session import Session, Value
from xoptim.verification.session_settings import SessionSettings

_SECONDS = 0.1
"""Measured for each kind of product. A pass of `xoptim.bench` takes ten times as long."""
_FEWEST_ROUNDS = 5
_WARM_ROUNDS = 2


def measure_products(
    model: onnx.ModelProto,
    folder: Path | None,
    products: Sequence[QuantizableOp],
    parts: Mapping[Form, Part],
    feeds: Mapping[str, Value],
    settings: SessionSettings,
) -> None:
    """Measure each kind of product with floats and with fewer bits, on the sizes of one sample, and
    note the seconds.

    Products are of one kind when their operators and the shapes of all that they read are the same.
    What goes along with others saves nothing alone, and is not measured; neither are products of
    subgraphs, whose operands no sample shows.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    alone = [each for each in products if not each.reads and each.result in makers]
    plain = {
        each.form: original_part(makers, each.result, parts[each.form].reads) for each in alone
    }
    read = {name for part in plain.values() for name in part.reads} | {
        each.result for each in alone
    }
    values = Probe(model, folder, read & makers.keys(), settings).run(feeds)
    known: dict[tuple[object, ...], tuple[float, float]] = {}
    for each in alone:
        part, rounded = plain[each.form], parts[each.form]
        each.work = max(np.asarray(values[each.result]).size * each.shape[0], 1)
        given = {
            name: tensor_array(stored[name], folder) if name in stored else np.asarray(values[name])
            for name in sorted({*part.reads, *rounded.reads})
        }
        operators = [
            (node.op_type, *(a.SerializeToString() for a in node.attribute)) for node in part.nodes
        ]
        kind = (each.pattern, *operators, *(value.shape for value in given.values()))
        if kind not in known:
            known[kind] = _seconds(
                model, [part, rounded], each.result, given, stored.keys(), settings
            )
        each.before, each.after = known[kind]
    for each in products:
        if each.result not in makers:
            each.work = math.prod(each.shape)
    _add_up(products)


def _add_up(products: Sequence[QuantizableOp]) -> None:
    """Count the figures of products that share weights with the first of them, which represents
    all.
    """
    known = {each.form: each for each in products}
    for form, others in followers(products).items():
        leader = known[form]
        for each in (known[other] for other in others):
            leader.work += each.work
            leader.before += each.before
            leader.after += each.after


def _alone(
    model: onnx.ModelProto,
    part: Part,
    result: str,
    given: Mapping[str, np.ndarray],
    constants: Iterable[str],
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one product, and its inputs.

    Operands that are constants of the model are constants here too.

    Between products of integers nothing is quantized or dequantized, so that a product that begins
    and ends in this way is measured without it.
    """
    quantized = {
        node.output[0]: node
        for node in part.nodes
        if node.op_type == "QuantizeLinear" and node.input[0] in given
    }
    last = part.nodes[-1]
    ends = bool(quantized) and last.op_type == "DequantizeLinear"
    nodes = [
        node
        for node in part.nodes
        if node.output[0] not in quantized and not (ends and node is last)
    ]
    read = {name for node in nodes for name in node.input}
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
        *part.stored,
        *(numpy_helper.from_array(given[name], name) for name in sorted(inside)),
    ]
    graph = helper.make_graph(nodes, "product", inputs, [output], tensors)
    return (
        helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version),
        values,
    )


def _seconds(
    model: onnx.ModelProto,
    parts: Sequence[Part],
    result: str,
    given: Mapping[str, np.ndarray],
    constants: Iterable[str],
    settings: SessionSettings,
) -> tuple[float, float]:
    """The best time of a product in two forms."""
    both = [_alone(model, part, result, given, constants) for part in parts]
    settings = replace(settings, isolated=False)  # pipes to another process would be measured too
    runs = [Session(each, settings).runner(values) for each, values in both]
    before, after = best_times(runs, settings, _SECONDS)
    return before, after


def best_times(
    runs: Sequence[Callable[[], object]], settings: SessionSettings, seconds: float
) -> list[float]:
    """The shortest time of each session, which run in turn, for some seconds and at least
    `_FEWEST_ROUNDS` times.
    """
    clock, best = clock_for([settings]), [float("inf")] * len(runs)
    end, rounds = time.perf_counter() + seconds, -_WARM_ROUNDS
    while rounds < _FEWEST_ROUNDS or time.perf_counter() < end:
        for place, run in enumerate(runs):
            start = clock()
            run()
            taken = clock() - start
            best[place] = min(best[place], taken) if rounds >= 0 else best[place]
        rounds += 1
    return best
