from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from tests.support import parse, run
from xoptim.api.optimizing import optimize
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.errors import ModelError
from xoptim.graph.sources import Source
from xoptim.optimizing.builder import GraphBuilder

FEEDS = {"x": np.array([1, -2], np.float32)}


def model() -> onnx.ModelProto:
    proto = parse(
        "agraph (float[2] x) => (float[2] y) { t = Identity(x) u = Add(t, w) y = Add(u, w) }"
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    return proto


class FakeProgram:
    """A stand-in for the object that torch returns."""

    def __init__(self, graph: ir.Model) -> None:
        self.model = graph


FakeProgram.__module__ = "torch.onnx._internal.exporter"
FakeProgram.__name__ = "ONNXProgram"


def check(proto: onnx.ModelProto) -> None:
    assert [n.op_type for n in proto.graph.node] == ["Add", "Add"]
    assert run(proto, FEEDS)[0].tolist() == [3, 0]


def test_each_kind_gives_the_same_kind(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model(), path)
    given: onnx.ModelProto = model()
    check(optimize(given, patterns=None))
    assert given == model(), "what is given is not modified"
    raw = model().SerializeToString()
    for source in (raw, bytearray(raw), memoryview(raw)):
        result: Any = optimize(source, patterns=None)
        assert isinstance(result, bytes)
        check(onnx.load_from_string(result))
    for where in (path, str(path)):
        result = optimize(where, patterns=None)
        assert isinstance(result, onnx.ModelProto)
        check(result)
    assert onnx.load(path) == model()


def test_onnx_ir(tmp_path: Path) -> None:
    source = ir.from_proto(model())
    result = optimize(source, patterns=None)
    assert isinstance(result, ir.Model)
    check(ir.to_proto(result))
    assert len(source.graph) == 3
    onnx.save(
        model(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    result = optimize(ir.load(tmp_path / "m.onnx"), patterns=None)
    weight = result.graph.initializers["w"].const_value
    assert isinstance(weight, ir.ExternalTensor)
    assert weight.numpy().tolist() == [1, 1], "the folder of the weights is not forgotten"


def test_the_program_of_torch_takes_the_new_model_over(tmp_path: Path) -> None:
    program = FakeProgram(ir.from_proto(model()))
    assert optimize(program, patterns=None) is program
    check(ir.to_proto(program.model))
    onnx.save(
        model(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    program = FakeProgram(ir.load(tmp_path / "m.onnx"))
    optimize(program, patterns=None)
    weight = program.model.graph.initializers["w"].const_value
    assert weight is not None
    assert weight.numpy().tolist() == [1, 1]


def test_external_data_of_a_path(tmp_path: Path) -> None:
    onnx.save(
        model(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    source = Source(tmp_path / "m.onnx")
    assert (source.kind, source.base_dir) == ("path", tmp_path)
    result: Any = optimize(tmp_path / "m.onnx", patterns=None)
    (tmp_path / "w.bin").unlink()
    assert onnx.numpy_helper.to_array(result.graph.initializer[0]).tolist() == [
        1,
        1,
    ], "the model holds its weights"
    with pytest.raises(ModelError, match=r"w\.bin"):
        Source(tmp_path / "m.onnx")


def test_a_graph_and_a_function_alone() -> None:
    builder = GraphBuilder(model().graph, optimization_options=OptimizationOptions(patterns=None))
    assert (builder.input_names, builder.output_names, builder.main_opset) == (["x"], ["y"], 21)
    check(builder.to_onnx(optimize=True))
    proto = parse(
        'agraph (float[2] x) => (float[2] y) { y = l.f(x) } <domain: "l", opset_import: ["" : 17]>'
        " f (u) => (v) { v = Neg(u) }",
        domains={"l": 1},
    )
    builder = GraphBuilder(proto.functions[0])
    assert (builder.input_names, builder.output_names, builder.opsets) == (["u"], ["v"], {"": 17})
    assert [n.op_type for n in builder.nodes] == ["Neg"]


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (b"not a model", ModelError, "these bytes are not an ONNX model"),
        (b"", ModelError, "it is empty"),
        ("no/such/file.onnx", ModelError, "No such file"),
        (3.5, TypeError, "a model is expected .* not float"),
        (None, TypeError, "not NoneType"),
    ],
)
def test_what_is_not_a_model(source: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        optimize(source)
