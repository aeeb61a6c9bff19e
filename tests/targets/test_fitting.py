"""The search for lowerings, with answers that are made up."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx

from tests.plugged import needs
from tests.support import parse, run, types
from xoptim import Example, PatternOptimization, resolve
from xoptim.facts.protos import every_node
from xoptim.targets import PlacedNode, Placement, named, place, smallest_failing
from xoptim.targets.fitting import (
    MOST_QUESTIONS,
    Find,
    fit,
    lowered_by,
    lowerings,
    name_nodes,
    unfit_for,
)

GELU = "agraph (float[n,4] x, float[4,4] w) => (float[n,4] y) { t = MatMul(x, w) y = Gelu(t) }"
SUMS = (
    "agraph (float[n] x, float[n] z) => (float[n] y) { a = Sum(x, z, x) b = Ceil(a) y = Relu(b) }"
)
LAYER = (
    "agraph (float[n,4] x, float[4] k, float[4] c) => (float[n,4] y) { t = Relu(x) "
    "u = LayerNormalization(t, k, c) y = Neg(u) }"
)


def without(*lacking: str) -> Callable[[onnx.ModelProto], Placement]:
    """A target that lacks some operators."""

    def ask(model: onnx.ModelProto) -> Placement:
        nodes = list(every_node(model.graph.node))
        placed: list[PlacedNode] = []
        part, is_inside = -1, False
        for node in nodes:
            is_taken = node.op_type not in lacking
            part += is_taken and not is_inside
            is_inside = is_taken
            provider = "Fake" if is_taken else "CPU"
            reason = "" if is_taken else "there is no kernel"
            placed.append(
                PlacedNode(
                    node.name, node.op_type, node.domain, provider, part if is_taken else -1, reason
                )
            )
        return Placement("fake", tuple(placed))

    return ask


def test_nothing_is_to_be_done() -> None:
    model = parse(GELU, opset=20)
    found = fit(model, without())
    assert (found.steps, found.questions) == ((), 1)
    assert found.model is model
    assert found.before == found.after


def test_a_node_is_lowered() -> None:
    model = parse(GELU, opset=20)
    found = fit(model, without("Gelu"))
    assert "Gelu" not in types(found.model)
    assert (len(found.before.left), len(found.after.left)) == (1, 0)
    assert [(step.operator, step.count, step.reason) for step in found.steps] == [
        ("Gelu", 1, "there is no kernel")
    ]
    feeds = {"x": np.ones((2, 4), np.float32), "w": np.eye(4, dtype=np.float32)}
    np.testing.assert_allclose(run(found.model, feeds)[0], run(model, feeds)[0], rtol=1e-5)


def test_several_operators_at_once() -> None:
    found = fit(parse(SUMS), without("Sum", "Ceil"))
    assert {step.operator for step in found.steps} == {"Sum", "Ceil"}
    assert found.after.left == ()
    assert found.questions == 2


def test_only_the_nodes_that_are_left() -> None:
    """One Ceil is taken, the other is not."""
    text = "agraph (float[n] x) => (float[n] y, float[n] z) { y = Ceil(x) a = Relu(x) z = Ceil(a) }"
    model = parse(text)
    name_nodes(model)
    chosen = model.graph.node[0].name

    def ask(given: onnx.ModelProto) -> Placement:
        nodes = [
            PlacedNode(
                node.name,
                node.op_type,
                "",
                "CPU" if node.name == chosen else "Fake",
                -(node.name == chosen),
            )
            for node in given.graph.node
        ]
        return Placement("fake", tuple(nodes))

    found = fit(model, ask)
    assert sum(op_type == "Ceil" for op_type in types(found.model)) == 1
    assert [(step.pattern, step.count) for step in found.steps] == [("LowerCeil", 1)]


def test_a_lowering_that_does_not_help_is_undone() -> None:
    """The formula has operators that the target lacks as well."""
    model = parse(LAYER)
    found = fit(model, without("LayerNormalization", "Sqrt", "ReduceMean"))
    assert found.steps == ()
    assert types(found.model) == types(model)


def test_an_unhelpful_lowering_does_not_hide_a_helpful_one() -> None:
    text = (
        "agraph (float[n,4] x, float[4] k) => (float[n,4] y) { t = Ceil(x) "
        "u = LayerNormalization(t, k) y = Neg(u) }"
    )
    found = fit(parse(text), without("LayerNormalization", "Ceil", "Sqrt", "ReduceMean", "Div"))
    assert [step.operator for step in found.steps] == ["Ceil"]
    assert "LayerNormalization" in types(found.model)


def test_lowerings_in_a_row() -> None:
    """BiasGelu is written with Gelu, or with what Gelu is written with."""
    text = (
        "agraph (float[n,4] x, float[4] b) => (float[n,4] y) { y = com.microsoft.BiasGelu(x, b) }"
    )
    found = fit(parse(text, opset=20, domains={"com.microsoft": 1}), without("BiasGelu", "Gelu"))
    assert not {"BiasGelu", "Gelu"} & set(types(found.model))
    assert found.after.left == ()


def without_64_bits(model: onnx.ModelProto) -> Placement:
    """The placement on a target that computes with nothing of 64 bits."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    elements = {
        each.name: each.type.tensor_type.elem_type for each in (*graph.input, *graph.value_info)
    }
    placed = []
    for node in graph.node:
        is_taken = elements[node.input[0]] != onnx.TensorProto.INT64
        placed.append(
            PlacedNode(
                node.name, node.op_type, "", "Fake" if is_taken else "CPU", 0 if is_taken else -1
            )
        )
    return Placement("fake", tuple(placed))


def test_casts_of_the_last_lowering_are_joined() -> None:
    text = (
        "agraph (bool[n] x) => (int32[n] y) <int64 axis = {0}> "
        "{ a = Cast <to = 7> (x) s = CumSum(a, axis) t = Cast <to = 6> (s) y = Add(t, t) }"
    )
    found = fit(parse(text), without_64_bits)
    assert types(found.model) == ["Cast", "CumSum", "Add"]
    assert found.after.left == ()
    feeds = {"x": np.array([True, False, True])}
    np.testing.assert_array_equal(run(found.model, feeds)[0], [2, 2, 4])


def test_a_movement_of_booleans_is_not_joined_again() -> None:
    """A Cast of Booleans, its Slice, and the Cast back are what was wanted."""
    text = (
        "agraph (bool[n] x, float[n] v) "
        "=> (bool[m] y, float[n] u) <int64[1] s = {0}, int64[1] e = {2}> { t = Slice(x, s, e) "
        "u = Ceil(v) y = Not(t) }"
    )

    def ask(model: onnx.ModelProto) -> Placement:
        casts = {node.output[0] for node in model.graph.node if node.op_type == "Cast"}
        placed = []
        for node in model.graph.node:
            is_taken = node.op_type != "Ceil" and (
                node.op_type != "Slice" or node.input[0] in casts
            )
            placed.append(
                PlacedNode(
                    node.name,
                    node.op_type,
                    "",
                    "Fake" if is_taken else "CPU",
                    0 if is_taken else -1,
                )
            )
        return Placement("fake", tuple(placed))

    found = fit(parse(text), ask)
    assert found.after.left == ()
    assert types(found.model).count("Cast") == 2


def test_a_lowering_that_is_dropped() -> None:
    assert fit(parse(SUMS), without("Ceil"), drop=["LowerCeil"]).steps == ()


def test_no_more_questions_than_allowed() -> None:
    count = 0

    def ask(model: onnx.ModelProto) -> Placement:
        nonlocal count
        count += 1
        return without("Sum", "Ceil", "Relu", "Add", "Neg", "Floor")(model)

    found = fit(parse(SUMS), ask)
    assert found.questions == count <= MOST_QUESTIONS


def test_no_time_is_left() -> None:
    found = fit(parse(SUMS), without("Sum"), seconds=0.0)
    assert (found.steps, found.questions) == ((), 1)


def test_the_same_result_twice() -> None:
    models = [
        fit(parse(SUMS), without("Sum", "Ceil")).model.SerializeToString(deterministic=True)
        for _ in range(2)
    ]
    assert models[0] == models[1]


def test_nodes_get_names_that_are_free() -> None:
    model = parse("agraph (float[n] x) => (float[n] y) { a = Relu(x) b = Relu(a) y = Relu(b) }")
    model.graph.node[1].name = "Relu_2"
    name_nodes(model)
    names = [node.name for node in model.graph.node]
    assert names[1] == "Relu_2"
    assert len(set(names)) == 3
    assert all(names)


def test_all_lowerings_are_known() -> None:
    found = lowerings()
    assert found["", "LayerNormalization"]
    assert found["com.microsoft", "FusedGemm"] == ["LowerFusedGemm"]
    assert "LowerFusedGemm" not in lowerings(["LowerFusedGemm"]).get(
        ("com.microsoft", "FusedGemm"), []
    )


def stopping(*stops: str) -> tuple[Callable[[onnx.ModelProto], Placement], Find]:
    """A target whose compiler stops at some operators, and the search for the first of them."""

    def ask(model: onnx.ModelProto) -> Placement:
        nodes = list(every_node(model.graph.node))
        compiles = not {node.op_type for node in nodes} & {*stops}
        part = 0 if compiles else -1
        placed = tuple(
            PlacedNode(node.name, node.op_type, node.domain, "Fake", part) for node in nodes
        )
        return Placement("fake", placed, compiles=compiles, error="" if compiles else "it stops")

    def find(model: onnx.ModelProto, whole: Placement, seconds: float) -> list[str]:
        assert not whole.compiles
        assert seconds > 0
        return [node.name for node in every_node(model.graph.node) if node.op_type in stops][:1]

    return ask, find


def test_only_what_does_not_compile_is_lowered() -> None:
    """A search by all nodes would lower the Sum too."""
    ask, find = stopping("Ceil")
    found = fit(parse(SUMS), ask, find=find)
    assert [(step.operator, step.count) for step in found.steps] == [("Ceil", 1)]
    assert "Sum" in types(found.model)
    assert (found.before.compiles, found.after.compiles) == (False, True)


def test_parts_that_do_not_compile_one_after_the_other() -> None:
    ask, find = stopping("Sum", "Ceil")
    found = fit(parse(SUMS), ask, find=find)
    assert [step.operator for step in found.steps] == ["Sum", "Ceil"]
    assert found.after.compiles


def test_a_lowering_after_which_the_same_part_does_not_compile() -> None:
    ask, find = stopping("LayerNormalization", "Sqrt")
    model = parse(LAYER)
    found = fit(model, ask, find=find)
    assert found.steps == ()
    assert types(found.model) == types(model)
    assert not found.after.compiles


def test_what_helps_is_kept_where_the_rest_cannot_be_lowered() -> None:
    """Tanh has no lowering: the model does not compile, but more of it does."""
    ask, find = stopping("Sum", "Tanh")
    found = fit(parse(SUMS.replace("Relu", "Tanh")), ask, find=find)
    assert [step.operator for step in found.steps] == ["Sum"]
    assert not found.after.compiles


def test_without_a_part_all_nodes_are_lowered() -> None:
    ask, _ = stopping("Ceil")
    found = fit(parse(SUMS), ask, find=lambda *_: [])
    assert "Ceil" not in types(found.model)
    assert found.after.compiles


def test_operators_of_a_lowering() -> None:
    assert lowered_by("LowerCeil") == {("", "Ceil")}
    assert lowered_by("TransposeTranspose") == set()


def test_patterns_that_are_dropped_for_a_target() -> None:
    found = {each.name(): each for each in resolve("all")}
    chosen, other = found["SmoothedNormalization"], found["TransposeTranspose"]
    assert "cpu" in unfit_for(chosen, named("webgpu"))
    assert unfit_for(chosen, named("cpu")) == unfit_for(other, named("webgpu")) == ""
    hindered = replace(named("webgpu"), families=(other.family(),))
    assert other.family() in unfit_for(other, hindered)
    for name in ("cpu", "webgpu"):
        assert "cuda" in unfit_for(found["SkipLayerNormalization"], named(name))
        assert unfit_for(found["Float16Compute"], named(name)) == ""
    assert unfit_for(found["SkipLayerNormalization"], named("cuda")) == ""


def test_patterns_that_write_what_a_table_lacks() -> None:
    patterns = {pattern.name(): pattern for pattern in resolve("all")}
    for name, lacking, having in (
        ("GeluErf", "nnapi", "webnn"),
        ("LayerNormalization", "nnapi", "coreml"),
        ("LogSoftmaxExp", "webnn", "onnx"),
        ("StridedSlicesSpaceToDepth", "coreml", "onnx"),
    ):
        assert lacking in unfit_for(patterns[name], named(lacking)), name
        assert unfit_for(patterns[name], named(having)) == "", name
    # It writes Squeeze in some examples only.
    assert unfit_for(patterns["ShapeBasedReshape"], named("nnapi")) == ""
    # A provider is asked, in place of a table.
    assert unfit_for(patterns["GeluErf"], named("openvino")) == ""


def test_examples_with_metadata_do_not_say_what_a_pattern_writes() -> None:
    graph = "agraph (float[2] x) => (float[2] y)"

    class PlainPattern(PatternOptimization):
        examples = Example.only(f"{graph} {{ y = Neg(x) }}", f"{graph} {{ y = Gelu(x) }}")

    class NotedPattern(PatternOptimization):
        examples = Example.only(
            f'<metadata_props: ["k" : "v"]> {graph} {{ y = Neg(x) }}', f"{graph} {{ y = Gelu(x) }}"
        )

    assert "Gelu" in unfit_for(PlainPattern, named("nnapi"))
    assert unfit_for(NotedPattern, named("nnapi")) == ""


@needs("qnn")
def test_a_mask_that_qnn_does_not_compile() -> None:
    text = (
        "agraph (int64[1,64] m) => (float16[1,64] y) <float one = {1}, float16 k = {60416}> { "
        "a = Cast <to = 1> (m) b = Sub(one, a) c = Cast <to = 9> (b) d = Cast <to = 10> (b) "
        "y = Where(c, k, d) }"
    )
    target = named("qnn")

    def find(model: onnx.ModelProto, whole: Placement, seconds: float) -> Sequence[str]:
        part = smallest_failing(model, target, seconds=seconds, whole=whole)
        assert part is not None
        return part.nodes

    found = fit(parse(text, opset=18), lambda model: place(model, target), find=find)
    assert (found.before.compiles, found.after.compiles, found.after.partitions) == (False, True, 1)
    assert [step.pattern for step in found.steps] == ["LowerToFloat16"]
