import random
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.passes.blocks.canonical import canonical
from tests.passes.blocks.rows import row
from tests.passes.repeated.towers import STEPS, WIDTH, Sketch, feeds
from tests.support import in_parts, parse, run, verify as verify_tables
from xoptim import GraphBuilder, optimize, outline
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.graph.splice import inline_functions
from xoptim.passes.blocks.outlining import Outline

LAYER = "m{n} = MatMul(x{n}, w{n}) a{n} = Add(m{n}, b{n}) x{o} = Tanh(a{n})"
X = {"x0": np.arange(6, dtype=np.float32).reshape(3, 2)}


def chain(
    layer: str, times: int = 3, *, header: str = "", results: str = "", weights: bool = True
) -> str:
    """A model in text: copies of a layer, numbered ``n``, from ``x0`` to ``x{times}``."""
    rng = random.Random(3)
    stored = []
    for n in range(times if weights else 0):
        stored.append(
            f"float[2,2] w{n} = {{{', '.join(f'{rng.uniform(-1, 1):.3f}' for _ in range(4))}}}"
        )
        stored.append(f"float[2] b{n} = {{{rng.uniform(-1, 1):.3f}, {rng.uniform(-1, 1):.3f}}}")
    nodes = " ".join(layer.format(n=n, o=n + 1) for n in range(times))
    given = f"<{', '.join(stored)}>" if stored else ""
    return f"agraph (float[k,2] x0{header}) => (float[k,2] x{times}{results}) {given} {{ {nodes} }}"


def with_constant(layer: str, constants: str) -> str:
    """The same with further constants that all layers read."""
    return chain(layer).replace("<", f"<{constants}, ", 1)


def outlined(model: onnx.ModelProto, values: Mapping[str, Any] | None = None) -> onnx.ModelProto:
    """A model with its blocks as functions: checked, equal in onnxruntime bit by bit, and the same
    model when inlined.
    """
    before = model.SerializeToString(deterministic=True)
    loaded = load_model(model)
    Outline().run(loaded)
    verify_tables(loaded)
    after = export_model(loaded)
    assert model.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(
        after, full_check=all(entry.domain != "com.microsoft" for entry in model.opset_import)
    )
    assert canonical(inline_functions(after)) == canonical(inline_functions(model))
    for expected, got in zip(
        run(model, X if values is None else values),
        run(after, X if values is None else values),
        strict=True,
    ):
        np.testing.assert_array_equal(got, expected)
    return after


def calls(model: onnx.ModelProto) -> list[str]:
    """The functions that are called, in order."""
    return [node.op_type for node in model.graph.node if node.domain == "outlined"]


def test_layers_become_one_function() -> None:
    after = outlined(parse(chain(LAYER)))
    assert [node.op_type for node in after.graph.node] == ["MatMul_Add_Tanh_3"] * 3
    (function,) = after.functions
    assert (function.domain, [node.op_type for node in function.node]) == (
        "outlined",
        ["MatMul", "Add", "Tanh"],
    )
    assert [list(node.input) for node in after.graph.node] == [
        [f"x{n}", f"w{n}", f"b{n}"] for n in range(3)
    ]
    assert list(function.input) == ["x0", "w0", "b0"]
    assert [(o.domain, o.version) for o in function.opset_import] == [("", 18)]
    assert {(o.domain, o.version) for o in after.opset_import} == {("", 18), ("outlined", 1)}


@in_parts("part", 4)
def test_random_blocks(part: int) -> None:
    for seed in range(10):
        rng = random.Random(77 * part + seed)
        model, copies = row(
            rng, rng.sample(sorted(STEPS), rng.randint(3, 6)), times=rng.randint(3, 5)
        )
        after = outlined(model, feeds(model, rows=3))
        assert len(calls(after)) >= len(copies)


def test_layers_of_several_widths_become_one_function() -> None:
    """A function has no shapes."""
    widths = (2, 3, 3, 3, 3, 1, 1)
    weights = "".join(
        f", float[{a},{b}] w{n} = {{{', '.join(['0.5'] * a * b)}}}"
        for n, (a, b) in enumerate(pairwise(widths))
    )
    nodes = "".join(
        f"m{n} = MatMul(x{n}, w{n}) a{n} = Tanh(m{n}) x{n + 1} = Neg(a{n}) " for n in range(6)
    )
    model = parse(f"agraph (float[k,2] x0) => (float[k,1] x6) <{weights[2:]}> {{ {nodes} }}")
    after = outlined(model)
    assert calls(after) == ["MatMul_Tanh_Neg_3"] * 6


def test_a_model_without_repeats_is_left_unchanged() -> None:
    model = parse("agraph (float[k,2] x) => (float[k,2] y) { a = Neg(x) b = Exp(a) y = Tanh(b) }")
    assert outline(model) == model


def test_outlining_twice_changes_nothing() -> None:
    once = outline(parse(chain(LAYER)))
    assert outline(once) == once


@pytest.mark.parametrize("version", [3, 4, 7, 8, 10])
def test_the_file_format_is_raised_to_the_first_version_with_functions(version: int) -> None:
    model = parse(chain(LAYER), opset=13, ir_version=version)
    if version < 4:  # initializers are listed among the inputs, and stay constants
        model.graph.input.extend(
            helper.make_tensor_value_info(t.name, t.data_type, t.dims)
            for t in model.graph.initializer
        )
    after = outlined(model)
    assert after.ir_version == max(version, 8)
    assert [value.name for value in after.graph.input] == ["x0"]


def test_names_of_functions_that_the_model_has_are_not_taken() -> None:
    text = chain(LAYER).replace("x3 = Tanh(a2)", "y = Tanh(a2) x3 = outlined.layer(y)")
    model = parse(
        f'{text} <domain: "outlined", opset_import: ["" : 18]> layer (u) => (v) {{ v = Neg(u) }}',
        domains={"outlined": 1},
    )
    for number, node in enumerate(model.graph.node):
        node.name = f"/layer.{number // 3}/{node.op_type}"
    after = outlined(model)
    assert [f.name for f in after.functions] == ["layer", "layer_1"]
    assert calls(after) == ["layer_1", "layer_1", "layer_1", "layer"]


def test_a_function_with_the_name_of_an_operator_is_called_inside() -> None:
    text = chain(
        "t{n} = com.microsoft.Gelu(x{n}) m{n} = MatMul(t{n}, w{n}) a{n} = Add(m{n}, "
        "b{n}) x{o} = Tanh(a{n})"
    )
    function = '<domain: "com.microsoft", opset_import: ["" : 18]> Gelu (u) => (v) { v = Neg(u) }'
    after = outlined(parse(f"{text} {function}", domains={"com.microsoft": 1}))
    assert sorted(node.domain for node in after.functions[-1].node) == ["", "", "com.microsoft"]
    assert {(o.domain, o.version) for o in after.functions[-1].opset_import} == {
        ("", 18),
        ("com.microsoft", 1),
    }


def test_optional_operands_that_are_omitted() -> None:
    after = outlined(
        parse(
            chain(
                "m{n} = MatMul(x{n}, w{n}) c{n} = Clip(m{n}, , h) x{o} = Add(c{n}, b{n})"
            ).replace("<", "<float h = {0.5}, ", 1)
        )
    )
    (function,) = after.functions
    assert [list(node.input)[1:] for node in function.node if node.op_type == "Clip"] == [["", "h"]]


def test_results_that_are_omitted() -> None:
    layer = (
        "l{n}, L{n}, i{n} = LayerNormalization(x{n}, b{n}) m{n} = Mul(l{n}, "
        "i{n}) x{o} = MatMul(m{n}, w{n})"
    )
    model = parse(chain(layer))
    for node in model.graph.node:
        if node.op_type == "LayerNormalization":
            node.output[1] = ""
    after = outlined(model)
    assert len(calls(after)) == 3
    assert next(list(node.output) for node in after.functions[0].node) == ["l0", "", "i0"]


def test_outputs_of_the_graph_inside_of_a_block() -> None:
    """The hidden states of all layers, and one value within a layer."""
    after = outlined(parse(chain(LAYER, results=", float[k,2] x1, float[k,2] x2, float[k,2] a1")))
    assert [list(node.output) for node in after.graph.node] == [
        ["a0", "x1"],
        ["a1", "x2"],
        ["a2", "x3"],
    ]


def test_weights_that_a_caller_may_override() -> None:
    text = chain(LAYER, header=", float[2,2] w1, float[2] b2")
    after = outlined(parse(text))
    assert len(calls(after)) == 3
    given = {**X, "w1": np.full((2, 2), 0.25, np.float32), "b2": np.full(2, 3, np.float32)}
    np.testing.assert_array_equal(run(after, given)[0], run(parse(text), given)[0])


def test_values_that_a_subgraph_reads() -> None:
    """A branch outside of the blocks captures a value inside of one: it is a result of the call."""
    text = chain(LAYER, results=", float[k,2] y")
    branches = (
        "then_branch = th () => (float[k,2] q) { "
        "q = Neg(a1) }, else_branch = el () => (float[k,2] r) { r = Identity(x2) }"
    )
    text = (
        text[: text.rindex("}")]
        + f"s = ReduceMax <keepdims = 0> (x3) z = Cast <to = 9> (s) y = If (z) <{branches}> }}"
    )
    after = outlined(parse(text))
    assert calls(after) == ["MatMul_Add_Tanh_3"] * 3
    assert "a1" in after.graph.node[1].output


def test_nodes_with_subgraphs_are_not_in_blocks() -> None:
    branches = (
        "then_branch = th () => (float[k,2] q{n}) {{ q{n} = Neg(a{n}) }}, "
        "else_branch = el () => (float[k,2] r{n}) {{ r{n} = Abs(m{n}) }}"
    )
    first, second = (
        "m{n} = MatMul(x{n}, w{n}) t{n} = Tanh(m{n}) a{n} = Add(t{n}, b{n})",
        "z{n} = Exp(y{n}) v{n} = Neg(z{n})",
    )
    layer = f"{first} y{{n}} = If (c) <{branches}> {second} x{{o}} = Erf(v{{n}})"
    after = outlined(parse(chain(layer, header=", bool c")), {**X, "c": np.array(True)})
    assert sum(node.op_type == "If" for node in after.graph.node) == 3
    assert {node.op_type for f in after.functions for node in f.node} == {
        "MatMul",
        "Tanh",
        "Add",
        "Exp",
        "Neg",
        "Erf",
    }


def test_values_with_quantization_annotations_stay() -> None:
    model = parse(chain(LAYER))
    scale = numpy_helper.from_array(np.array(0.5, np.float32), "scale")
    model.graph.initializer.append(scale)
    annotation = model.graph.quantization_annotation.add(tensor_name="a1")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    after = outlined(model)
    assert "a1" in {name for node in after.graph.node for name in node.output}
    assert after.graph.quantization_annotation == model.graph.quantization_annotation


def test_quantized_weights() -> None:
    g = Sketch()
    x = g.input("n", WIDTH)
    for number in range(4):
        w = g.constant(
            np.random.default_rng(number).integers(-99, 99, (WIDTH, WIDTH)).astype(np.int8)
        )
        scale, zero = (
            g.constant(np.array(0.01 * (number + 1), np.float32)),
            g.constant(np.array(number, np.int8)),
        )
        q = g.add(
            "QuantizeLinear",
            x,
            g.constant(np.array(0.1, np.float32)),
            g.constant(np.array(3, np.uint8)),
        )
        x = g.add(
            "DequantizeLinear",
            q,
            g.constant(np.array(0.1, np.float32)),
            g.constant(np.array(3, np.uint8)),
        )
        x = g.add("MatMul", x, g.add("DequantizeLinear", w, scale, zero))
    model = g.model(x)
    after = outlined(model, feeds(model, rows=3))
    assert [len(f.node) for f in after.functions] == [4]
    assert len(calls(after)) == 4
    for optimized in (False, True):  # its quantized kernels too
        values = feeds(model, rows=3)
        np.testing.assert_array_equal(
            run(after, values, optimized=optimized)[0], run(model, values, optimized=optimized)[0]
        )


def test_operators_of_other_domains() -> None:
    text = chain(
        "m{n} = MatMul(x{n}, w{n}) g{n} = com.microsoft.BiasGelu(m{n}, b{n}) x{o} = Tanh(g{n})"
    )
    after = outlined(parse(text, domains={"com.microsoft": 1}))
    assert {(o.domain, o.version) for o in after.functions[0].opset_import} == {
        ("", 18),
        ("com.microsoft", 1),
    }


def test_the_names_of_modules() -> None:
    """Functions and calls have the names of the scopes that the exporter left, with which names
    inside do not begin.
    """
    model = parse(chain(LAYER))
    for number, node in enumerate(model.graph.node):
        node.name = (
            f"/encoder/layer.{number // 3}/{('dense', 'dense', 'act')[number % 3]}/{node.op_type}"
        )
    after = outlined(model)
    assert calls(after) == ["encoder_layer"] * 3
    assert [node.name for node in after.graph.node] == [
        f"encoder/layer.{number}" for number in range(3)
    ]
    assert [node.name for node in after.functions[0].node] == [
        "dense/MatMul",
        "dense/Add",
        "act/Tanh",
    ]


def test_metadata_that_differ_between_copies_are_omitted() -> None:
    model = parse(chain(LAYER))
    for number, node in enumerate(model.graph.node):
        node.doc_string = "kept" if node.op_type == "Tanh" else f"of layer {number}"
        node.metadata_props.add(key="same", value="1")
        node.metadata_props.add(
            key="namespace",
            value=f"a: A/a.b.{number // 3}: B/a.b.{number // 3}.{node.op_type}: C/op",
        )
    after = outlined(model)
    assert calls(after) == ["a_b"] * 3
    for node in after.functions[0].node:
        assert [(p.key, p.value) for p in node.metadata_props] == [("same", "1")]
        assert node.doc_string == ("kept" if node.op_type == "Tanh" else "")


def test_training_information_keeps_its_names() -> None:
    model = parse(chain(LAYER))
    training = model.training_info.add()
    training.algorithm.node.add(op_type="Neg", input=["a1"], output=["t"])
    loaded = load_model(model)
    Outline().run(loaded)
    assert loaded.graph.producer("a1") is not None


def test_after_the_patterns() -> None:
    """The patterns run first, so that the functions hold their nodes.

    Inlined and optimized again, the model is the same.
    """
    layer = (
        "u{n} = Identity(x{n}) m{n} = MatMul(u{n}, w{n}) a{n} = Add(m{n}, "
        "b{n}) s{n} = Sigmoid(a{n}) x{o} = Mul(a{n}, s{n})"
    )
    model = parse(chain(layer))
    plain = optimize(model)
    reports: list[Any] = []
    after = optimize(model, outline=True, verify=True, report=reports.append)
    (block,) = reports[0].repetitions
    assert (block.times, block.nodes, block.form) == (3, len(plain.graph.node) // 3, "function")
    assert canonical(inline_functions(after)) == canonical(plain)
    assert canonical(optimize(after, inline=True)) == canonical(plain)
    assert GraphBuilder(after).count_types()["outlined::" + block.name] == 3


def test_sequences() -> None:
    layer = (
        "s{n} = SplitToSequence <axis = 1> (x{n}, one) e{n} = SequenceAt(s{n}, "
        "one) f{n} = SequenceInsert(s{n}, "
        "e{n}) c{n} = ConcatFromSequence <axis = 1> (f{n}) x{o} = Slice(c{n}, zero, two, zero)"
    )
    model = with_constant(layer, "int64 one = {1}, int64[1] zero = {1}, int64[1] two = {3}")
    assert len(calls(outlined(parse(model.replace("two, zero)", "two, zero)"))))) == 3
