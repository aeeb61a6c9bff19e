from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.engine.rules import NegNegPattern
from tests.support import load, parse, run, same_results, types, verify
from xoptim.api.optimizing import optimize
from xoptim.engine.events import Event, EventStream
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.constants import constant_array
from xoptim.graph.load import load_model
from xoptim.graph.redirect import redirect
from xoptim.operators.evaluate.regions import evaluate_with_onnxruntime
from xoptim.optimizing.builder import GraphBuilder
from xoptim.passes import fold
from xoptim.passes.fold import FoldConstants
from xoptim.passes.growth import Growth

FEEDS = {"x": np.array([1, -2], np.float32)}


def folded(
    text: str | onnx.ModelProto, opset: int = 18, **options: Any
) -> tuple[onnx.ModelProto, list[Event]]:
    """The model after folding alone, and the events of the run."""
    heard: list[Event] = []
    model = parse(text, opset) if isinstance(text, str) else text
    return optimize(model, patterns=None, merge=False, on_event=heard.append, **options), heard


def values(model: onnx.ModelProto) -> dict[str, Any]:
    return {t.name: numpy_helper.to_array(t).tolist() for t in model.graph.initializer}


def reasons(heard: list[Event]) -> list[str]:
    return [event.text for event in heard if event.kind == "refused"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("a = Add(w, w) y = Add(x, a)", {"a": [2, 4]}),
        ("a = Add(w, w) b = Mul(a, w) c = Sub(b, a) y = Add(x, c)", {"c": [0, 4]}),
        ("k = Constant <value = float[2] {5, 6}> () y = Add(x, k)", {"k": [5, 6]}),
        ("k = Constant <value_float = 5.0> () y = Add(x, k)", {"k": 5}),
        ("k = Constant <value_int = 3> () a = Cast <to = 1> (k) y = Add(x, a)", {"a": 3}),
        (
            (
                'a = Einsum <equation = "i,i->i"> (w, w) b = Einsum <equation = "i,i->i"> (a, w) y'
                " = Add(x, b)"
            ),
            {"b": [1, 8]},
        ),
        ("s = Shape(w) c = Cast <to = 1> (s) y = Add(x, c)", {"c": [2]}),
        ("a, i = TopK <axis = 0> (w, one) y = Add(x, a)", {"a": [2]}),
    ],
)
def test_what_depends_on_constants_only(nodes: str, expected: dict[str, Any]) -> None:
    text = (
        "agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}, "
        f"int64[1] one = {{1}}> {{ {nodes} }}"
    )
    after, heard = folded(text)
    assert types(after) == ["Add"]
    assert values(after) == expected
    same_results(parse(text), after, FEEDS)
    assert all(event.pattern == "fold" for event in heard if event.kind == "folded")


def test_a_region_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = evaluate_with_onnxruntime

    def counting(nodes: Any, *rest: Any) -> Any:
        sizes.append(len(nodes))
        return original(nodes, *rest)

    monkeypatch.setattr(fold, "evaluate_with_onnxruntime", counting)
    chain = " ".join(
        f'e{i + 1} = Einsum <equation = "i,i->i"> (e{i}, w) f{i} = Neg(e{i + 1})' for i in range(10)
    )
    reads = ", ".join(f"f{i}" for i in range(10))
    text = (
        f"agraph (float[2] x) => (y, z) <float[2] w = {{1, 1}}, float[2] e0 = {{1, 2}}> {{ {chain} "
        f"k = Concat <axis = 0> ({reads}) y = Neg(k) z = Add(k, x) }}"
    )
    after, _ = folded(text)
    assert sizes == [22]
    assert types(after) == ["Constant", "Add"]


def test_one_bad_node_spoils_only_itself() -> None:
    text = """agraph (float[2] x) => (float[2] y, float[2] z, r) <float[2] w = {1, 2}, int64[2]
      bad = {5, 6}> {
      a = Einsum <equation = "i,i->i"> (w, w) g = GatherND(w,
        bad) b = Einsum <equation = "i,i->i"> (a, a)
      y = Add(x, b) r = Neg(g) z = Neg(x)
    }"""
    after, heard = folded(text)
    assert types(after) == ["GatherND", "Add", "Neg", "Neg"]
    assert values(after)["b"] == [1, 16]
    assert len(reasons(heard)) == 1


def test_growth_is_refused_with_the_reason() -> None:
    text = (
        "agraph (float[4000] x) => (float[4000] y) <int64[1] n = {4000}, float k = {2}> { "
        "a = Expand(k, n) y = Add(x, a) }"
    )
    after, heard = folded(text, max_growth=1000)
    assert types(after) == ["Expand", "Add"]
    assert reasons(heard) == [fold._TOO_LARGE]
    assert next(e.node.op_type for e in heard if e.node is not None) == "Expand"
    after, heard = folded(text)
    assert types(after) == ["Add"]
    assert not reasons(heard)


def test_a_result_may_be_as_large_as_what_goes() -> None:
    weight = numpy_helper.from_array(np.ones((100, 100), np.float32), "w")
    text = (
        "agraph (float[3,100] x) => (float[3,100] y{}) {{ t = Transpose <perm = [1, 0]> (w) "
        "y = MatMul(x, t) {} }}"
    )
    for outputs, more, expected in (
        ("", "", ["MatMul"]),
        (", float[100,100] z", "z = Neg(w)", ["Transpose", "MatMul", "Neg"]),
    ):
        proto = parse(text.format(outputs, more))
        proto.graph.initializer.append(weight)
        after, _ = folded(proto, max_growth=1000)
        assert types(after) == expected


@pytest.mark.parametrize(
    "nodes",
    [
        "r = RandomNormalLike(w) y = Add(x, r)",
        "r = RandomUniform <shape = [2]> () y = Add(x, r)",
        "r = Dropout(w) y = Add(x, r)",
        "r = test.Thing(w) y = Add(x, r)",
        "r = Add(o, w) y = Add(x, r)",
        "r = DequantizeLinear(q, k, z) y = Add(x, r)",
        "y = Identity(w)",
        "y = ConstantOfShape(n)",
    ],
)
def test_what_is_not_folded(nodes: str) -> None:
    text = (
        "agraph (float[2] x, float[2] o) "
        "=> (float[2] y) <float[2] w = {1, 2}, float[2] o = {1, 1}, int8[2] q = {1, 2}, "
        f"float k = {{0.5}}, int8 z = {{0}}, int64[1] n = {{2}}> {{ {nodes} }}"
    )
    model = parse(text, domains={"test": 1})
    after, _ = folded(model)
    assert types(after) == types(model)


def test_huge_constants_are_not_made() -> None:
    text = (
        "agraph (float[1] x) => (y) <int64[1] n = {1099511627776}, int64[1] one = {1}> "
        "{ a = ConstantOfShape(n) b = Neg(a) c = Slice(b, one, one) y = Add(x, c) }"
    )
    after, heard = folded(text)
    assert types(after)[:2] == ["ConstantOfShape", "Neg"]
    assert fold._TOO_LARGE in reasons(heard)
    assert sum(len(t.raw_data) for t in after.graph.initializer) < 100


def test_outputs_stay_outputs() -> None:
    text = """agraph (float[2] x) => (float[2] y, float[2] a) <float[2] w = {1, 2}> {
      a = Add(w, w) k = Constant <value_float = 2.0> () b = Mul(a, k) y = Add(x, b)
    }"""
    after, _ = folded(text)
    assert [o.name for o in after.graph.output] == ["y", "a"]
    same_results(parse(text), after, FEEDS)
    assert types(after) == ["Constant", "Add"]
    constant = "agraph () => (float[2] y) { y = Constant <value = float[2] {1, 2}> () }"
    assert types(folded(constant)[0]) == ["Constant"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("a = Neg(w) y = Exp(a)", ["Constant"]),
        (
            'a = Einsum <equation = "i,j->ij"> (w, w) y = Einsum <equation = "ij->i"> (a)',
            ["Constant"],
        ),
        ("a = Neg(w) y = Exp(a) z = Abs(y)", ["Constant", "Constant"]),
        ("y, z = TopK <axis = 0> (w, n)", ["Constant", "Constant"]),
        ("y = Neg(w) a = Add(x, y) z = Exp(a)", ["Constant", "Add", "Exp"]),
        ("s = Shape(x) y = Cast <to = 1> (s)", ["Constant"]),
        ("y = Shape(x)", ["Constant"]),
        ("y = Neg(v) a = Exp(y) z = Add(a, x)", ["Neg", "Exp", "Add"]),
    ],
)
def test_a_constant_output_is_one_constant(nodes: str, expected: list[str]) -> None:
    ends = "y, z" if "z" in nodes else "y"
    text = (
        "agraph (float[2] x, float[1] v) "
        f"=> ({ends}) <float[2] w = {{1, 2}}, int64[1] n = {{1}}, float[1] v = {{3}}> {{ {nodes} }}"
    )
    after, _ = folded(text)
    assert types(after) == expected
    for expected_value, got in zip(run(parse(text), FEEDS), run(after, FEEDS), strict=True):
        assert got.dtype == expected_value.dtype
        np.testing.assert_allclose(got, expected_value, rtol=1e-6)
    assert folded(after)[0] == after


def test_a_constant_output_of_a_megabyte_stays_computed() -> None:
    text = (
        "agraph () => (float[n] y) <int64 o = {0}, int64 e = {300000}, int64 i = {1}> { "
        "r = Range(o, e, i) y = Neg(r) }"
    )
    assert types(folded(text, max_growth="unlimited")[0]) == ["Neg"]


def test_a_branch_that_returns_constants() -> None:
    text = """agraph (bool c, float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}> {
      y, z = If (c) <then_branch = t () => (float[2] p,
        float[2] q) { a = Neg(w) p = Exp(a) q = Abs(a) },
                     else_branch = u () => (float[2] r, float[2] s) { r = Neg(w) s = Add(x, r) }>
    }"""
    after, _ = folded(text)
    branches = [attribute.g for attribute in after.graph.node[0].attribute]
    assert [types(branch) for branch in branches] == [["Constant", "Constant"], ["Constant", "Add"]]
    for condition in (True, False):
        same_results(parse(text), after, {"c": np.array(condition), **FEEDS})


def test_shapes_that_are_known_without_weights() -> None:
    text = """agraph (float[N,4] x) => (float[M] y) <int64 one = {1}, int64[1] axis = {0}> {
      s = Shape(x) n = Gather(s, one) u = Unsqueeze(n, axis) m = Concat <axis = 0> (u, u)
        y = Reshape(x, m)
    }"""
    after, _ = folded(text)
    assert types(after) == ["Reshape"]
    assert values(after) == {"m": [4, 4]}
    whole, _ = folded(
        text.replace("Gather(s, one)", "Gather(s, zero)").replace(
            "<int64 one", "<int64 zero = {0}, int64 one"
        )
    )
    assert types(whole) == ["Shape", "Gather", "Unsqueeze", "Concat", "Reshape"]


def test_subgraphs_and_functions() -> None:
    text = """agraph (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
      a = Add(w, w) d = l.f(x)
      y = If (c) <then_branch = t () => (float[2] p)
        { k = Constant <value_float = 2.0> () b = Mul(a, k) p = Add(d, b) },
                  else_branch = u () => (float[2] p) { b = Mul(w, w) p = Add(b, d) }>
    } <domain: "l", opset_import: ["" : 18]> f (u) => (v) { k = Constant <value_float = 2.0> ()
      m = Mul(k, k) v = Mul(u, m) }"""
    proto = parse(text, domains={"l": 1})
    gr = GraphBuilder(proto, optimization_options=OptimizationOptions(patterns=None))
    after = gr.to_onnx()
    verify(gr.model)
    branches = [
        attribute.g
        for node in after.graph.node
        if node.op_type == "If"
        for attribute in node.attribute
    ]
    assert [types(branch) for branch in branches] == [["Add"], ["Add"]]
    assert types(after) == ["f", "If"]
    assert [node.op_type for node in after.functions[0].node] == ["Constant", "Mul"]
    for condition in (True, False):
        same_results(proto, after, {"c": np.array(condition), **FEEDS})


def test_what_folding_makes_known_helps_patterns() -> None:
    text = """agraph (float[2,3] x, bool c) => (float[6] y) <float[1] w = {6}> {
      s = Cast <to = 7> (w) r = Reshape(x, s) a = Neg(r) y0 = Neg(a) y = Abs(y0)
    }"""
    after = optimize(parse(text), patterns=NegNegPattern)
    assert types(after) == ["Reshape", "Abs"]


def external(folder: Path, size: int = 100) -> Path:
    proto = parse(f"agraph (float[{size}] x) => (float[{size}] y) {{ a = Neg(w) y = Add(x, a) }}")
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(size, np.float32), "w"))
    onnx.save(
        proto, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    return folder / "m.onnx"


def test_external_weights_within_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = external(tmp_path)
    after: Any = optimize(path, patterns=None)
    assert types(after) == ["Add"]
    assert run(after, {"x": np.zeros(100, np.float32)})[0].tolist() == [-1] * 100
    for limit in ("EXTERNAL_LIMIT", "EXTERNAL_BUDGET"):
        with monkeypatch.context() as patch:
            patch.setattr(fold, limit, 100)
            heard: list[Event] = []
            after = optimize(path, patterns=None, on_event=heard.append)
            assert types(after) == ["Neg", "Add"]
            (reason,) = reasons(heard)
            assert "external data" in reason


def test_the_promise_is_weaker_after_folding_numbers() -> None:
    for text, expected in (
        (
            (
                "agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add(w, w) "
                "y = Add(x, a) }"
            ),
            "rounding",
        ),
        ("agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }", "exact"),
    ):
        gr = GraphBuilder(parse(text), optimization_options=OptimizationOptions(patterns=None))
        gr.optimize()
        assert gr.report().exactness == expected


def test_a_constant_output_is_computed_ahead_of_time_where_it_can_be() -> None:
    text = (
        "agraph (float[2,3] x) => (int64[2] y, float[2,3] z) { s = Shape(x) y = Neg(s) z = Neg(x) }"
    )
    model = optimize(parse(text), patterns=None)
    same_results(parse(text), model, {"x": np.zeros((2, 3), np.float32)})
    assert "Shape" not in types(model)


def test_a_constant_output_of_integers_stays_a_node_where_a_constant_holds_floats_only() -> None:
    text = (
        "agraph (float[n,3] x) => (int64[1] y) { s = Shape(x) "
        "y = Slice <starts = [1], ends = [2], axes = [0]> (s) }"
    )
    assert types(folded(text, opset=8)[0]) == ["Shape", "Slice"]
    assert types(
        folded("agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Neg(w) }", opset=8)[
            0
        ]
    ) == ["Constant"]


def test_what_depends_on_constants_after_a_rewrite_is_known_to() -> None:
    """The output `k` is not folded, nor is `q`, which no constant is known for before the If is
    replaced by its branch.
    """
    model = parse(
        "agraph (float[n] x) => (float[n] y, float[1] k) <float[1] a = {2}, float[1] b = {3}, "
        "bool c = {1}> { k = Neg(a) d = If (c) <then_branch = g () => (float[1] t) { "
        "t = Identity(k) }, else_branch = h () => (float[1] e) { e = Abs(a) }> q = Exp(d) "
        "m = Mul(x, q) y = Mul(m, b) }"
    )
    once = optimize(model)
    assert types(once).count("Mul") == 1
    assert types(once) == types(optimize(once))
    same_results(model, once, {"x": np.array([1.5, -2], np.float32)})


def test_what_could_not_be_computed_is_tried_again_after_a_rewrite() -> None:
    """Nothing evaluates a sequence; another operand takes its place."""
    graph = load(
        "agraph (float[n] x) => (float[1] k) <float[1] a = {2}, int64 z = {0}> "
        "{ s = SequenceConstruct(a, a) t = SequenceAt(s, z) k = Neg(t) }"
    ).graph
    assert constant_array(graph, "k") is None
    assert redirect(graph, "t", "a")
    FoldConstants(Growth(None, 0), EventStream().send).run_on(graph)
    assert constant_array(graph, "k") == [-2]


@pytest.mark.parametrize(("ir_version", "opset"), [(4, 9), (8, 18)])
def test_a_model_without_standard_operators_imports_those_of_its_time(
    ir_version: int, opset: int
) -> None:
    """A Constant takes the place of the output.

    Version 1 of the standard set would be too old for whatever reads the model.
    """
    model = onnx.parser.parse_model(
        f'<ir_version: {ir_version}, opset_import: ["ai.onnx.ml" : 1]> agraph () => (float[1,2] y) '
        "<float[1,2] w = {1, 2}> { y = ai.onnx.ml.Binarizer <threshold = 1.5> (w) }"
    )
    after, _ = folded(model)
    assert types(after) == ["Constant"]
    assert {each.domain: each.version for each in after.opset_import} == {
        "ai.onnx.ml": 1,
        "": opset,
    }
    same_results(model, after, {})


def test_a_number_that_is_folded_becomes_known_in_the_vectors_that_contain_it() -> None:
    """Sizes that converters compute in floating point, as a square root, are elements of shapes
    next to sizes of inputs.
    """
    model = parse(
        "agraph (float[b,16,3] x) => (float[b,n,m,k] y) <float f = {16}, int64[1] z = {0}, "
        "int64[1] k = {3}> { r = Sqrt(f) c = Cast<to = 7>(r) u = Unsqueeze(c, z) "
        "s = Shape<end = 1>(x) t = Concat<axis = 0>(s, u, u, k) y = Reshape(x, t) }"
    )
    after = optimize(model)
    assert types(after) == ["Reshape"]
    assert types(optimize(after)) == ["Reshape"]


def test_a_number_that_is_folded_becomes_known_to_a_conversion() -> None:
    """The other operand of CastLike gives the type only; it need not be constant."""
    nodes = "{ r = Sqrt(f) c = CastLike(r, x) y = Mul(x, c) }"
    after = optimize(
        parse(f"agraph (float[a,2] x) => (float[a,2] y) <float f = {{16}}> {nodes}"), patterns=None
    )
    assert types(after) == ["Mul"]


@pytest.mark.parametrize(
    ("node", "attribute"),
    [
        ("Elu <alpha: float = @k> (c)", "k = 2.0"),
        ("CumSum <reverse: int = @k> (c, axis)", "k = 1"),
        ("Einsum <equation: string = @k> (c)", 'k = "ij->ji"'),
    ],
)
def test_an_attribute_that_the_caller_of_a_function_gives_is_not_folded(
    node: str, attribute: str
) -> None:
    kind = {"2": "float", "1": "int", '"': "string"}[attribute[4]]
    model = parse(
        f"agraph (float[2,2] x) => (float[2,2] y) {{ y = d.f <{attribute}> (x) }} "
        f'<domain: "d", opset_import: ["" : 18]> f <k: {kind}> (x) => (y) {{ '
        "c = Constant <value = float[2,2] {-1, 2, -3, 4}> () axis = Constant <value_int = 0> () "
        f"b = {node} y = Add(b, x) }}",
        domains={"d": 1},
    )
    after = optimize(model)
    assert node.split()[0] in types(load_model(after).functions[0].body)
    same_results(model, after, {"x": np.eye(2, dtype=np.float32)})
