"""Models that nobody should write and somebody does: refused in one line, or optimized as any other."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.command import RELU, TRANSPOSES, Xopt, files, types_in, write
from tests.support import parse

NEWEST = onnx.defs.onnx_opset_version()
TERA = 1 << 40  # elements that no machine has room for
BRANCHES = "c) <then_branch = t () => (float[2] u) { u = Neg(x) }, else_branch = e () => (float[2] v) { v = Abs(x) }>"

# -------------------------------------------------------------------- refused


def without(field: str) -> bytes:
    """A model that lacks a part."""
    model = parse(RELU)
    model.ClearField(field)
    return bytes(model.SerializeToString())


def external(location: str, **more: str) -> bytes:
    """A model with one weight of 16 bytes in another file."""
    model = parse("agraph (float[4] x) => (float[4] y) { y = Add(x, w) }")
    tensor = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=value)
    return bytes(model.SerializeToString())


def damaged() -> bytes:
    model = parse("agraph (float[4] x) => (float[4] y) <float[4] w = {1,2,3,4}> { y = Add(x, w) }")
    model.graph.initializer[0].ClearField("float_data")
    model.graph.initializer[0].raw_data = b"1234567"
    return bytes(model.SerializeToString())


def nested(depth: int) -> bytes:
    """A chain of If, one in a branch of the next."""
    model = onnx.ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 18)])
    graph = model.graph
    graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]))
    for level in range(depth):
        graph.name = "g"
        graph.output.append(helper.make_tensor_value_info(f"y{level}", TensorProto.FLOAT, [2]))
        node = graph.node.add(op_type="If", input=["c"], output=[f"y{level}"])
        other = node.attribute.add(name="else_branch", type=onnx.AttributeProto.GRAPH).g
        other.CopyFrom(parse("e () => (float[2] v) { v = Abs(x) }").graph)
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
    graph.CopyFrom(parse("t () => (float[2] u) { u = Neg(x) }").graph)
    return bytes(model.SerializeToString())


RECURSIVE = """
agraph (float[n] x) => (float[n] y) { y = local.f(x) }
<domain: "local", opset_import: ["" : 18, "local" : 1]> f (a) => (b) { b = local.g(a) }
<domain: "local", opset_import: ["" : 18, "local" : 1]> g (a) => (b) { b = local.f(a) }"""


def text(graph: str, domains: Mapping[str, int] | None = None) -> Callable[[], bytes]:
    return lambda: bytes(parse(graph, domains=domains).SerializeToString())


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "random bytes": (lambda: np.random.default_rng(0).bytes(4096), "'model.onnx' is not an ONNX model"),
    "text": (lambda: b"The quick brown fox jumps over the lazy dog.\n" * 9, "'model.onnx' is not an ONNX model"),
    "nothing": (lambda: b"", "'model.onnx' is not an ONNX model"),
    "another protobuf": (
        lambda: bytes(numpy_helper.from_array(np.ones(5, np.float32), "x").SerializeToString()),
        "'model.onnx' is not an ONNX model",
    ),
    "zip": (lambda: b"PK\x03\x04" + bytes(99), "'model.onnx' is not an ONNX model"),
    "truncated": (lambda: text(TRANSPOSES)()[:-9], "'model.onnx' is not an ONNX model, or it is truncated"),
    "no graph": (lambda: without("graph"), "it has no graph or imports no operator set"),
    "no operator set": (lambda: without("opset_import"), "it has no graph or imports no operator set"),
    "missing weights": (lambda: external("absent.bin"), "absent.bin' is missing; put it beside the model"),
    "truncated weights": (lambda: external("short.bin"), "short.bin' is too short; it may be truncated"),
    "weights beyond the end": (lambda: external("long.bin", offset="60"), "long.bin' is too short"),
    "weights too few": (lambda: external("long.bin", length="8"), "long.bin' is too short"),
    "weights before the start": (lambda: external("long.bin", offset="-16"), "long.bin' is too short"),
    "weights at no place": (lambda: external("long.bin", offset="here"), "the place of its external data is not a number"),
    "weights above": (lambda: external("../up.bin"), "external data '../up.bin' is outside the model's folder"),
    "weights of the system": (lambda: external("/etc/passwd"), "external data '/etc/passwd' is outside the model's folder"),
    "weights in a link": (lambda: external("link.bin"), "external data 'link.bin' is outside the model's folder"),
    "weights in a folder": (lambda: external("."), "is missing; put it beside the model"),
    "damaged weights": (damaged, "tensor 'w' is damaged"),
    "cycle": (text("agraph (float[n] x) => (float[n] y) { y = Add(x, u) u = Neg(y) }"), "the nodes form a cycle through 'Add'"),
    "cycle of one": (text("agraph (float[n] x) => (float[n] y) { y = Add(x, y) }"), "the nodes form a cycle"),
    "undefined input": (
        text("agraph (float[n] x) => (float[n] y) { y = Add(x, u) }"),
        "'Add' reads 'u', which nothing defines",
    ),
    "undefined output": (text("agraph (float[n] x) => (float[n] z) { y = Neg(x) }"), "graph output 'z' is not produced"),
    "undefined in a branch": (
        text(f"agraph (bool c) => (float[2] y) {{ y = If ({BRANCHES.replace('Abs(x)', 'Abs(c)')} }}"),
        "reads 'x', which nothing defines",
    ),
    "result twice": (text("agraph (float[n] x) => (float[n] y) { y = Neg(x) y = Abs(x) }"), "result 'y' is produced twice"),
    "result is an input": (text("agraph (float[n] x) => (float[n] y) { x = Neg(y) y = Abs(x) }"), "and is an input"),
    "input twice": (text("agraph (float[n] x, float[n] x) => (float[n] y) { y = Neg(x) }"), "input 'x' is declared twice"),
    "recursive function": (text(RECURSIVE, domains={"local": 1}), "local function 'f' calls itself"),
    # 300 levels are three times as many messages as any protobuf library reads.
    "nested too deeply": (lambda: nested(300), "'model.onnx' is not an ONNX model"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(xopt: Xopt, name: str) -> None:
    make, message = REFUSED[name]
    Path("../up.bin").write_bytes(bytes(16))
    Path("link.bin").symlink_to("../up.bin")
    Path("short.bin").write_bytes(bytes(15))
    Path("long.bin").write_bytes(bytes(64))
    Path("model.onnx").write_bytes(make())
    before = files()
    outcome = xopt("model.onnx")
    assert message in outcome._replace(err="".join(outcome.err.splitlines(keepends=True)[-1:])).error
    assert all(line.startswith("xopt: warning: ") for line in outcome.err.splitlines()[:-1])
    assert files() == before


def test_a_file_that_is_missing(xopt: Xopt) -> None:
    assert xopt("model.onnx").error == "cannot read 'model.onnx': No such file or directory"
    assert xopt("folder/model.onnx", "-o", "here.onnx").error == "cannot read 'folder/model.onnx': No such file or directory"
    assert files() == set()


def test_a_folder(xopt: Xopt) -> None:
    Path("model.onnx").mkdir()
    for more in ((), ("--in-place",)):
        assert xopt("model.onnx", *more).error == "cannot read 'model.onnx': Is a directory"
    assert files() == {"model.onnx"}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(xopt: Xopt) -> None:
    write(RELU).chmod(0)
    assert xopt("model.onnx").error == "cannot read 'model.onnx': Permission denied"


# -------------------------------------------------------------------- optimized as any other


@pytest.mark.parametrize("name", ["two words.onnx", "modèle.onnx", "模型.onnx", "-dash.onnx", "semi;colon&.onnx", "näme ☃"])
def test_names_of_files(xopt: Xopt, name: str) -> None:
    write(TRANSPOSES, name)
    target = f"{Path(name).stem}.opt.onnx"
    outcome = xopt("optimize", "--", name)
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == f"written     {target}"
    assert types_in(target) == ["Relu"]


def test_names_of_results(xopt: Xopt) -> None:
    model = parse("agraph (float[n] x) => (float[n] y) { t = Identity(x) y = Relu(t) }")
    strange = "größe / 模型 :0\n"
    model.graph.input[0].name = strange
    model.graph.node[0].input[0] = strange
    write(model)
    assert xopt("model.onnx", "--strict").code == 0
    assert onnx.load("model.opt.onnx").graph.node[0].input == [strange]


def test_nodes_out_of_order(xopt: Xopt) -> None:
    write("agraph (float[n] x) => (float[n] y) { y = Exp(t) t = Abs(x) }")
    outcome = xopt("model.onnx", "--patterns", "Cast")
    assert outcome.code == 0
    assert outcome.warnings == ["the nodes of graph 'agraph' are not in order; they were sorted"]
    assert "validation  cpu: equal" in outcome.out
    assert types_in("model.opt.onnx") == ["Abs", "Exp"]


def typed(type_name: str) -> str:
    return f"agraph ({type_name}[n,2] x) => ({type_name}[n,2] y) {{ t = Identity(x) u = Transpose(t) y = Transpose(u) }}"


PLAIN = "agraph (float[2] x) => (float[2] y) {{ {} }}"
ACCEPTED: dict[str, str] = {
    "empty graph": "agraph () => () { }",
    "no nodes": "agraph (float[n] x) => (float[n] x) { }",
    "no inputs": "agraph () => (float[2] y) { y = RandomNormal <shape = [2], seed = 1.0> () }",
    "constants": "agraph () => (float[2] y) <float[2] a = {1, 2}> { t = Neg(a) u = Exp(t) y = Add(u, a) }",
    "one constant": "agraph () => (float[2] y) <float[2] a = {1, 2}> { y = Neg(a) }",
    "output is an initializer": "agraph (float[2] x) => (float[2] a, float[2] y) <float[2] a = {1, 2}> { y = Neg(x) }",
    "output is an input": "agraph (float[2] x) => (float[2] x, float[2] y) { y = Neg(x) }",
    "output is an output": "agraph (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Identity(y) }",
    "output twice": "agraph (float[2] x) => (float[2] y, float[2] y) { y = Neg(x) }",
    "unused inputs": "agraph (float[2] x, float[3] z, string s) => (float[2] y) { y = Neg(x) }",
    "unused results": "agraph (float[2] x) => (float[2] y) { u, v = Split <num_outputs = 2> (x) y = Neg(x) }",
    "dimension 0": "agraph (float[0,n] x) => (float[0,n] y) { t = Neg(x) y = Exp(t) }",
    "rank 0": "agraph (float x) => (float y) { t = Identity(x) y = Exp(t) }",
    "sequence": "agraph (seq(float[n]) s) => (float[n] y) <int64 i = {0}> { t = SequenceAt(s, i) y = Neg(t) }",
    "optional": "agraph (optional(float[n]) s) => (float[n] y) { t = OptionalGetElement(s) y = Neg(t) }",
    "optional sequence": "agraph (optional(seq(float[n])) s) => (bool y) { y = OptionalHasElement(s) }",
    "If": f"agraph (bool c, float[2] x) => (float[2] y) {{ y = If ({BRANCHES} }}",
    "missing operands": "agraph (float[n] x) => (float[n] y) <float high = {1}> { y = Clip(x, , high) }",
    "functions": "agraph (float[n] x) => (float[n] y) { y = local.f(x) } "
    '<domain: "local", opset_import: ["" : 18, "local" : 1]> f (a) => (b) { c = local.g(a) b = Neg(c) } '
    '<domain: "local", opset_import: ["" : 18]> g (a) => (b) { c = Abs(a) b = Identity(c) }',
    "traditional learning": "agraph (float[n,2] x) => (float[n,2] y) "
    "{ t = ai.onnx.ml.Scaler <offset = [1.0, 2.0], scale = [1.0, 2.0]> (x) y = Identity(t) }",
    **{t: typed(t) for t in ("double", "float16", "bfloat16", "float8e4m3fn", "float8e5m2", "uint16", "int8", "string")},
}
DOMAINS = {"local": 1, "ai.onnx.ml": 3}


@pytest.mark.parametrize("name", ACCEPTED)
def test_optimized_as_any_other(xopt: Xopt, name: str) -> None:
    model = parse(ACCEPTED[name], 21, domains=DOMAINS)
    write(model)
    outcome = xopt("model.onnx", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    (report,) = outcome.json["validation"]
    # onnxruntime refuses a model that computes nothing
    assert report["status"] == ("equal" if model.graph.output else "not validated"), report
    result = onnx.load("model.opt.onnx")
    for given, found in ((model.graph.input, result.graph.input), (model.graph.output, result.graph.output)):
        assert [v.SerializeToString() for v in found] == [v.SerializeToString() for v in given]


UNRUNNABLE: dict[str, tuple[str, int, int]] = {
    "unknown operator": (PLAIN.format("t = Frobnicate(x) u = Identity(t) y = Neg(u)"), 18, 10),
    "unknown domain": (PLAIN.format("t = acme.Frobnicate(x) u = Identity(t) y = Neg(u)"), 18, 10),
    "domain without import": (PLAIN.format("t = absent.Frobnicate(x) u = Identity(t) y = Neg(u)"), 18, 10),
    "first operators": (PLAIN.format("t = Identity(x) y = Relu <consumed_inputs = [0]> (t)"), 1, 3),
    "operators of the future": (PLAIN.format("t = Identity(x) y = Relu(t)"), NEWEST + 40, 99),
    "complex numbers": ("agraph (complex64[n,2] x) => (complex64[2,n] y) { t = Identity(x) y = Transpose(t) }", 21, 10),
    "wrong operands": (PLAIN.format("t = Identity(x) y = Add(t)"), 18, 10),
    "wrong attributes": (PLAIN.format('t = Identity(x) y = Softmax <axis = "last", axes = 3> (t)'), 18, 10),
    "wrong types": ("agraph (string[n] x) => (string[n] y) { t = Identity(x) y = Neg(t) }", 18, 10),
    "wrong shapes": ("agraph (float[2] x, float[3] z) => (float[2] y) { t = Identity(x) y = Add(t, z) }", 18, 10),
    "wrong rank": ("agraph (float[2] x) => (float[2] y) { t = Identity(x) y = Transpose <perm = [5, 5]> (t) }", 18, 10),
    "no types": ("agraph (x) => (y) { t = Identity(x) y = Neg(t) }", 18, 10),
}


@pytest.mark.parametrize("name", UNRUNNABLE)
def test_what_onnxruntime_cannot_run_is_optimized_and_said(xopt: Xopt, name: str) -> None:
    graph, opset, version = UNRUNNABLE[name]
    write(graph, opset=opset, ir_version=version, domains={"acme": 1} if "acme" in graph else None)
    outcome = xopt("model.onnx")
    assert outcome.code == 0
    assert len(outcome.warnings) <= 1
    assert "\nvalidation  cpu: not validated: onnxruntime cannot " in outcome.out
    assert "Identity" not in types_in("model.opt.onnx")
    assert xopt("model.onnx", "--strict", "-o", "strict.onnx").code == 1
    assert not Path("strict.onnx").exists()


@pytest.mark.parametrize("type_name", ["int4", "uint4", "bfloat16", "float8e4m3fn"])
def test_narrow_weights(xopt: Xopt, type_name: str) -> None:
    """They are carried through bit by bit."""
    outputs = f"{type_name}[3,2] y, {type_name}[3,2] z"
    model = parse(f"agraph ({type_name}[2,3] x) => ({outputs}) {{ y = Transpose(w) z = Transpose(x) }}", 21)
    tensor = TensorProto.DataType.Value(type_name.upper())
    model.graph.initializer.append(helper.make_tensor("w", tensor, [2, 3], [1, 2, 3, -4 % 8, 5, 0]))
    write(model)
    assert xopt("model.onnx").code == 0
    assert xopt("verify", "model.onnx", "model.opt.onnx", "--exact").code == 0


def test_strings_as_weights(xopt: Xopt) -> None:
    model = parse("agraph (bool c) => (string[2] y) { t = Identity(w) y = Where(c, t, t) }")
    model.graph.initializer.append(numpy_helper.from_array(np.array(["naïve", "模型"], dtype=object), "w"))
    write(model)
    outcome = xopt("model.onnx", "--strict", "-q")
    assert outcome == (0, "", "")


def test_the_newest_operators(xopt: Xopt) -> None:
    write(PLAIN.format("t = Identity(x) y = Relu(t)"), opset=NEWEST, ir_version=onnx.IR_VERSION)
    assert xopt("model.onnx").code == 0
    assert types_in("model.opt.onnx") == ["Relu"]


def test_an_unknown_rank(xopt: Xopt) -> None:
    model = parse("agraph (float[n] x) => (float[n] y) { t = Identity(x) y = Exp(t) }")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    write(model)
    assert xopt("model.onnx", "--strict", "-q") == (0, "", "")


def test_initializers_that_are_inputs(xopt: Xopt) -> None:
    """Constants before version 4 of the format, defaults that a caller may override from then on."""
    graph = "agraph (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1,2}> { t = Neg(w) y = Add(t, x) }"
    write(graph, opset=8, ir_version=3)
    assert xopt("model.onnx", "--strict").code == 0
    old = onnx.load("model.opt.onnx").graph
    assert [node.op_type for node in old.node] == ["Add"]
    assert {value.name for value in old.input} == {"x", *(tensor.name for tensor in old.initializer)}
    write(graph)
    assert xopt("model.onnx", "--strict", "--patterns", "Cast").code == 0
    new = onnx.load("model.opt.onnx").graph
    assert [node.op_type for node in new.node] == ["Neg", "Add"]
    assert [value.name for value in new.input] == ["x", "w"]


def test_sparse_weights(xopt: Xopt) -> None:
    model = parse("agraph (float[2,3] x) => (float[2,3] y) { t = Add(x, w) y = Identity(t) }")
    sparse = model.graph.sparse_initializer.add(dims=[2, 3])
    sparse.values.CopyFrom(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([0, 4], np.int64), ""))
    write(model)
    assert xopt("model.onnx", "--strict").code == 0
    assert types_in("model.opt.onnx") == ["Add"]
    assert onnx.load("model.opt.onnx").graph.sparse_initializer == model.graph.sparse_initializer


def test_training(xopt: Xopt) -> None:
    """What a training step reads and writes stays."""
    model = parse("agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { t = Mul(x, w) y = Identity(t) }")
    training = model.training_info.add()
    training.algorithm.CopyFrom(parse("step (float[2] w) => (float[2] next) { next = Neg(w) }").graph)
    training.update_binding.add(key="w", value="next")
    write(model)
    assert xopt("model.onnx", "--strict").code == 0
    result = onnx.load("model.opt.onnx")
    assert result.training_info == model.training_info
    assert [tensor.name for tensor in result.graph.initializer] == ["w"]


# -------------------------------------------------------------------- large


LARGE = {
    "ConstantOfShape": f"s = Constant <value = int64[1] {{{TERA}}}> () c = ConstantOfShape(s) d = Neg(c) y = Add(d, x)",
    "Expand": f"s = Constant <value = int64[1] {{{TERA}}}> () o = Constant <value = float {{1}}> () "
    "c = Expand(o, s) d = Neg(c) y = Add(d, x)",
    "Tile": f"s = Constant <value = int64[1] {{{TERA}}}> () o = Constant <value = float[1] {{1}}> () "
    "c = Tile(o, s) d = Neg(c) y = Add(d, x)",
    "Range": f"a = Constant <value = float {{0}}> () b = Constant <value = float {{{TERA}}}> () "
    "o = Constant <value = float {1}> () c = Range(a, b, o) d = Neg(c) y = Add(d, x)",
    "Pad": f"a = Constant <value = float[1] {{0}}> () p = Constant <value = int64[2] {{{TERA}, 0}}> () "
    "c = Pad(a, p) d = Neg(c) y = Add(d, x)",
    "Einsum": "s = Constant <value = int64[1] {1048576}> () c = ConstantOfShape(s) "
    'd = Einsum <equation = "i,j->ij"> (c, c) e = Neg(d) y = Add(e, x)',
    "RandomNormal": f"c = RandomNormal <shape = [{TERA}]> () d = Neg(c) y = Add(d, x)",
}


@pytest.mark.parametrize("name", LARGE)
def test_terabytes_are_not_folded(xopt: Xopt, name: str) -> None:
    write(f"agraph (float x) => (y) {{ {LARGE[name]} }}")
    outcome = xopt("model.onnx", "--no-verify", "--strict", "-q")
    assert outcome == (0, "", "")
    assert Path("model.opt.onnx").stat().st_size < 10_000


def test_a_long_chain(xopt: Xopt) -> None:
    count = 20_000
    nodes = [helper.make_node(("Sin", "Exp", "Identity")[i % 3], [f"x{i}"], [f"x{i + 1}"]) for i in range(count)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x0", f"x{count}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    assert xopt("model.onnx", "--no-verify", "-q") == (0, "", "")
    assert len(types_in("model.opt.onnx")) == count - count // 3


def test_a_long_chain_that_folds(xopt: Xopt) -> None:
    count = 5_000
    nodes = [helper.make_node("Neg", [f"x{i}"], [f"x{i + 1}"]) for i in range(count)]
    nodes.append(helper.make_node("Add", [f"x{count}", "x"], ["y"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], [numpy_helper.from_array(np.ones(2, np.float32), "x0")])
    write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    assert xopt("model.onnx", "--no-verify", "-q") == (0, "", "")
    assert types_in("model.opt.onnx") == ["Add"]


def test_branches_within_branches(xopt: Xopt) -> None:
    Path("model.onnx").write_bytes(nested(30))
    summary = xopt("model.onnx", "--strict", "--json").json
    assert summary["operators_before"] == {"Abs": 30, "If": 30, "Neg": 1}
    assert summary["validation"][0]["status"] == "equal"


def test_functions_within_functions(xopt: Xopt) -> None:
    depth = 100
    head = '<domain: "local", opset_import: ["" : 18, "local" : 1]>'
    functions = [f"{head} f{level} (a) => (b) {{ b = local.f{level + 1}(a) }}" for level in range(depth)]
    functions.append(f"{head} f{depth} (a) => (b) {{ b = Neg(a) }}")
    write("agraph (float[n] x) => (float[n] y) { y = local.f0(x) } " + "\n".join(functions), domains={"local": 1})
    assert xopt("model.onnx", "--no-verify", "-q") == (0, "", "")
    assert len(onnx.load("model.opt.onnx").functions) == depth + 1
