"""Facts about models with subgraphs, checked against the onnx package and against runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto

from tests.operators.inference.context import Body, FakeContext, Input, array_info
from tests.operators.inference.oracle import check_run, compare_with_onnx, session
from xoptim.facts.attributes import decode_attribute
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.operators.inference.fallback import infer_with_onnx
from xoptim.operators.inference.types import type_proto_to_info
from xoptim.operators.registry import operator_of

Known = dict[str, Info]
Opsets = Mapping[str, int]


def infer_outputs(
    graph: onnx.GraphProto, opsets: Opsets, outer: Known, given: Sequence[Info | None] | None = None
) -> list[Info]:
    """Facts about the outputs of a graph or of a body, whose inputs have the facts given, else the
    types declared.
    """
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    known = {**outer, **{name: array_info(array) for name, array in constants.items()}}
    for index, value in enumerate(graph.input):
        info = given[index] if given is not None and index < len(given) else None
        known[value.name] = (
            type_proto_to_info(value.type) if info is None or info is UNKNOWN else info
        )
    for node in graph.node:
        for name, info in zip(
            node.output, _infer_node(node, opsets, known, constants), strict=False
        ):
            known[name] = info or UNKNOWN
            if node.op_type == "Constant" and node.attribute[0].HasField("t"):
                constants[name] = onnx.numpy_helper.to_array(node.attribute[0].t)
    return [known.get(value.name, UNKNOWN) for value in graph.output]


def _infer_node(
    node: onnx.NodeProto, opsets: Opsets, known: Known, constants: Mapping[str, np.ndarray]
) -> Sequence[Info | None]:
    inputs: list[Input] = [
        constants.get(name, known.get(name, UNKNOWN)) if name else None for name in node.input
    ]
    attributes = {a.name: decode_attribute(a) for a in node.attribute}
    bodies = {
        a.name: _body(a.g, opsets, known) for a in node.attribute if a.type == AttributeProto.GRAPH
    }
    opset = opsets.get(node.domain, 1)
    context = FakeContext(
        node.op_type,
        inputs,
        attributes,
        opset=opset,
        num_outputs=len(node.output),
        bodies=bodies,
        domain=node.domain,
    )
    formula = operator_of(node.domain, node.op_type).formula
    if formula is None:
        return infer_with_onnx(node, opset, context.inputs, context.constant)
    return formula(context)


def _body(graph: onnx.GraphProto, opsets: Opsets, known: Known) -> Body:
    return lambda inputs: infer_outputs(graph, opsets, known, inputs)


def check_model(
    text: str, feeds: Sequence[Mapping[str, Any]] = (), *, strict: bool = True, opset: int = 17
) -> list[Info]:
    """Facts about the outputs of a model in the text form of ONNX, types of inputs only.

    The symbols take the values that the shapes of the feeds give them. ``strict=False`` leaves out
    the onnx package.
    """
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')
    infos = infer_outputs(model.graph, {"": opset}, {})
    if strict:
        compare_with_onnx(model, infos, {s for v in model.graph.input for s in _symbols(v)})
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        for value, info in zip(inferred.graph.output, infos, strict=True):
            assert_not_less(info, type_proto_to_info(value.type))
    if feeds:
        runner = session(model)
    for feed in feeds:
        values: dict[str, int] = {}
        for value in model.graph.input:
            shape = np.shape(feed[value.name])
            values.update({s: shape[i] for i, s in enumerate(_symbols(value)) if s})
        for info, result in zip(infos, runner.run(None, dict(feed)), strict=True):
            check_value(info, result, values)
    return infos


def assert_not_less(mine: Info, theirs: Info) -> None:
    """Facts about sequences and optionals say no less than a type does, and nothing else."""
    if theirs.container:
        assert mine.container == theirs.container
        assert_not_less(mine.element or UNKNOWN, theirs.element or UNKNOWN)
    elif theirs.dtype:
        assert mine.dtype == theirs.dtype
        if theirs.shape is not None:
            assert mine.shape is not None
            assert len(mine.shape) == len(theirs.shape)
            assert all(
                a == b for a, b in zip(mine.shape, theirs.shape, strict=True) if type(b) is int
            )


def _symbols(value: onnx.ValueInfoProto) -> list[str]:
    return [dim.dim_param for dim in value.type.tensor_type.shape.dim]


def check_value(info: Info, result: Any, values: dict[str, int]) -> None:
    """Facts hold for a tensor, for every item of a sequence, or for what an optional holds."""
    if info.container == "optional":
        check_value(info.element or UNKNOWN, result, values)
    elif isinstance(result, list):
        assert info.container == "sequence"
        for item in result:
            check_value(info.element or UNKNOWN, item, dict(values))
    else:
        assert info.container == ""
        check_run(info, np.asarray(result), values)
