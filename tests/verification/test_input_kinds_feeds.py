import math
from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from xoptim import verify
from xoptim.verification.errors import FeedError
from xoptim.verification.inputs.dims import (
    assignments,
    concrete_shape,
    input_specs,
    open_dimensions,
    size_of,
)
from xoptim.verification.inputs.feed_style import Style
from xoptim.verification.inputs.feed_values import make_feeds
from xoptim.verification.inputs.input_kinds import InputKind, input_kinds
from xoptim.verification.runs.session import Value

HEAD = (
    '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1, "ai.onnx.ml" : 4, "local" : 1]> '
)


def model_of(text: str) -> onnx.ModelProto:
    return parser.parse_model(HEAD + text)


def roles_of(model: onnx.ModelProto) -> dict[str, InputKind]:
    return input_kinds(model, {spec.name: spec.element_type for spec in input_specs(model)})


def feeds_of(model: onnx.ModelProto, seed: int = 0, **style: bool | int) -> dict[str, Value]:
    sizes = next(assignments(input_specs(model), model, {}))
    return make_feeds(input_specs(model), roles_of(model), sizes, seed, Style(**style))  # type: ignore[arg-type]


def array(feeds: Mapping[str, Value], name: str) -> np.ndarray:
    value = feeds[name]
    assert isinstance(value, np.ndarray)
    return value


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("g (int64[B,S] x, float[30,4] t) => (float y) { y = Gather(t, x) }", [(30, 0)]),
        (
            "g (int64[B,S] x, float[4,30] t) => (float y) { y = Gather <axis = 1> (t, x) }",
            [(30, 0)],
        ),
        (
            (
                "g (float[B,S] x, float[30,4] t) => (float y) { i = Cast <to = 7> (x) "
                "y = Gather(t, i) }"
            ),
            [(30, 0)],
        ),
        (
            (
                "g (int64[B,S] x, float[30,4] t) => (float y) <int64 two = {2}> { i = Add(two, x) "
                "y = Gather(t, i) }"
            ),
            [(30, 2)],
        ),
        (
            (
                "g (int64[B,S] x, float[30,4] t) => (float y) <int64 one = {1}> { i = Sub(x, one) "
                "y = Gather(t, i) }"
            ),
            [(30, -1)],
        ),
        (
            "g (int64[B,1] x, float[B,9] t) => (float y) { y = GatherElements <axis = 1> (t, x) }",
            [(9, 0)],
        ),
        (
            "g (int64[B,2] x, float[7,5,3] t) => (float y) { y = GatherND(t, x) }",
            [(7, 0), (5, 0), (3, 0)],
        ),
        (
            (
                "g (int64[B,S] x, float16[30,4] t) => (float y) { u = Cast <to = 1> (t) "
                "y = Gather(u, x) }"
            ),
            [(30, 0)],
        ),
        (
            (
                "g (int64[B,S] x, float[4,30] t) => (float y) { u = Transpose <perm = [1, 0]> (t) "
                "y = Gather(u, x) }"
            ),
            [(30, 0)],
        ),
        (
            (
                "g (int32[B,S] x, int32[B,S] s, float[30,4] w, float[20,4] p, float[2,4] t, "
                "float[4] n) => (float y, int32 m) { "
                "y, m = com.microsoft.EmbedLayerNormalization(x, s, w, p, t, n, n) }"
            ),
            [(30, 0)],
        ),
        (
            (
                "g (bool c, int64[B,S] x, float[30,4] t) => (float y) { "
                "y = If (c) <then_branch = a () "
                "=> (float z) { z = Gather(t, x) }, else_branch = b () => (float z) { "
                "z = Identity(t) }> }"
            ),
            [(30, 0)],
        ),
    ],
)
def test_indices_stay_inside_the_table(text: str, limits: list[tuple[int, int]]) -> None:
    model = model_of(text)
    role = roles_of(model)["x"]
    assert (role.kind, role.limits) == ("index", limits)
    x = array(feeds_of(model), "x")
    assert x.min() >= max(0, *(-offset for _, offset in limits))
    assert x.max() < min(size - offset for size, offset in limits)


def test_a_depth_without_elements_is_unknown() -> None:
    """onnxruntime refuses the model; the optimizer must not fail before that."""
    model = model_of(
        "g (int64[B] x) => (float[B,N] y) <int64[0] d = {}, float[2] v = {0, 1}> { "
        "y = OneHot(x, d, v) }"
    )
    role = roles_of(model)["x"]
    assert (role.kind, role.limits) == ("index", [(1, 0)])


def test_indices_inside_functions_and_loops() -> None:
    model = model_of(
        "g (int64[B,S] x, float[30,4] t) => (float y) { "
        'y = local.Embed(t, x) }<domain: "local", opset_import: ["" : 21]> Embed (w, i) => (e) { '
        "j = Identity(i) e = Gather(w, j) }"
    )
    assert roles_of(model)["x"].limits == [(30, 0)]
    body = (
        "n (int64 i, bool c, int64[S] s) => (bool d, int64[S] r) { d = Identity(c) "
        "r = Identity(s) }"
    )
    model = model_of(
        "g (int64 n, bool c, int64[S] x, float[30] t) => (float y) { "
        f"s = Loop (n, c, x) <body = {body}> y = Gather(t, s) }}"
    )
    assert roles_of(model)["x"].limits == [(30, 0)]
    assert roles_of(model)["n"].kind == "count"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("g (int64[B,S] x) => (bool y) { y = Cast <to = 9> (x) }", "mask"),
        ("g (int64[B,S] x) => (bool y) <int64 one = {1}> { y = Equal(x, one) }", "mask"),
        (
            (
                "g (float[B,S] x) => (float y) <float one = {1}, float big = {-10000}> { "
                "d = Sub(one, x) y = Mul(d, big) }"
            ),
            "mask",
        ),
        (
            (
                "g (float[B,S] x) => (float y) <float one = {1}, float two = {2}> { "
                "d = Sub(one, x) y = Mul(d, two) }"
            ),
            "free",
        ),
        ("g (bool[B,S] x, float a, float b) => (float y) { y = Where(x, a, b) }", "mask"),
        ("g (float[B,S] x) => (float y) { y = Sqrt(x) }", "positive"),
        ("g (float[B,S] x) => (float y) { u = Identity(x) y = Log(u) }", "positive"),
        ("g (int64[B,S] x, int64[B,S] z) => (int64 y) { y = Div(z, x) }", "positive"),
        ("g (int64[2] x, float[B,S] z) => (float y) { y = Reshape(z, x) }", "keep"),
        ("g (int64[2] x, float[B,S] z) => (float y) { y = ReduceSum(z, x) }", "axes"),
        ("g (int64[2] x, float[B,S] z, int64[2] s) => (float y) { y = Slice(z, s, x) }", "all"),
        ("g (float[B,S] x) => (float y) { y = Neg(x) }", "free"),
        (
            (
                "g (string[B] x) => (int64 y) { "
                'y = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "b"], values_int64s = [0, '
                "1]> (x) }"
            ),
            "choice",
        ),
    ],
)
def test_roles(text: str, kind: str) -> None:
    assert roles_of(model_of(text))["x"].kind == kind


def test_scalars_that_are_entries_of_a_target_shape() -> None:
    model = model_of(
        "g (float[2,3,4] x, int64 a, int64 b) => (float y) <int64[1] i = {0}> "
        "{ u = Unsqueeze(a, i) v = Unsqueeze(b, i) t = Concat <axis = 0> (u, v) y = Reshape(x, t) }"
    )
    pairs = {
        tuple(int(array(feeds_of(model, seed), name)) for name in ("a", "b")) for seed in range(40)
    }
    assert pairs == {(-1, -1), (-1, 1), (1, -1), (1, 1)}
    report = verify(model, model)
    assert report.status == "equal"
    assert len(report.runs) > 1  # values that are not -1 or 1 as well


def test_names_that_exporters_use() -> None:
    model = model_of(
        "g (int64[B,S] attention_mask, int64[B,S] position_ids, float[B,S] position_bias, "
        "bool[B,S] pad_mask) => (int64 y) { y = Add(attention_mask, position_ids) }"
    )
    kinds = {name: role.kind for name, role in roles_of(model).items()}
    assert kinds == {
        "attention_mask": "mask",
        "position_ids": "position",
        "position_bias": "free",
        "pad_mask": "mask",
    }
    feeds = feeds_of(model)
    assert array(feeds, "position_ids").tolist() == [[0, 1, 2, 3, 4, 5]] * 2
    assert array(feeds, "pad_mask").dtype == np.bool_


@pytest.mark.parametrize("run", range(4))
def test_masks_are_zeros_and_ones_and_never_all_zeros(run: int) -> None:
    model = model_of(
        "g (int64[B,S] mask, float[B,H,S,S] float_mask) => (int64 y) { y = Identity(mask) }"
    )
    for name in ("mask", "float_mask"):
        mask = array(feeds_of(model, seed=run, run=run), name)
        assert set(np.unique(mask)) <= {0, 1}
        assert np.all(mask[..., 0] == 1)
        if run % 2 == 0:
            assert np.all(np.diff(mask) <= 0)  # a tail is hidden
    assert np.all(array(feeds_of(model, run=run, gentle=True), "mask") == 1)


def test_values_that_the_model_compares_with_occur() -> None:
    model = model_of(
        "g (int64[B,S] x, float[1000,4] t) => (float y, bool z) <int64 end = {777}> { "
        "y = Gather(t, x) z = Equal(x, end) }"
    )
    for seed in range(5):
        assert np.all(np.any(array(feeds_of(model, seed=seed), "x") == 777, axis=1))


@pytest.mark.parametrize(
    "number", [n for n in TensorProto.DataType.values() if n not in (0, 27, 28)]
)
def test_every_element_type(number: int) -> None:
    value = helper.make_tensor_value_info("x", number, ["batch", "seq", 50])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    x = array(feeds_of(model), "x")
    again = array(feeds_of(model), "x")
    assert x.shape == (2, 6, 50)
    assert x.dtype == helper.tensor_dtype_to_np_dtype(number)
    assert x.tobytes() == again.tobytes() or x.dtype == object
    distinct = {str(v) for v in x.reshape(-1)}
    assert len(distinct) > 1
    if number not in (TensorProto.STRING, TensorProto.BOOL):
        assert np.all(np.abs(x.astype(np.complex128)) < 300)


def test_seeds_change_the_values() -> None:
    model = model_of("g (float[B] x) => (float y) { y = Neg(x) }")
    assert not np.array_equal(array(feeds_of(model, 0), "x"), array(feeds_of(model, 1), "x"))


def test_kinds_that_are_not_tensors() -> None:
    model = model_of(
        "g (seq(float[N]) s, optional(int64[N]) o) => (float y) { y = SequenceAt(s, o) }"
    )
    feeds = feeds_of(model)
    assert isinstance(feeds["s"], list)
    assert len(feeds["s"]) == 2
    assert array(feeds, "o").dtype == np.int64
    sparse = onnx.ValueInfoProto(name="x")
    sparse.type.sparse_tensor_type.elem_type = 1
    model.graph.input.append(sparse)
    with pytest.raises(FeedError, match="'x', a sparse_tensor"):
        input_specs(model)
    assert [spec.name for spec in input_specs(model, ["x"])] == ["s", "o"]


def test_one_size_for_each_name() -> None:
    model = model_of(
        "g (float[batch,seq] a, float[seq,batch] b, float[batch,?] c) => (float y) { y = Neg(a) }"
    )
    specs = input_specs(model)
    tried = list(assignments(specs, model, {"batch": 4}))
    assert all(sizes["batch"] == 4 for sizes in tried)
    assert len({tuple(sizes.items()) for sizes in tried}) == len(tried)
    assert set(tried[0]) == {"batch", "seq", "c:1"}
    assert concrete_shape(specs[0], tried[0]) == concrete_shape(specs[1], tried[0])[::-1]


def test_sizes_with_many_elements_come_last_and_are_few() -> None:
    model = model_of("g (float[a,b,c,d,e] x) => (float y) { y = Neg(x) }")
    specs = input_specs(model)
    elements = [
        math.prod(concrete_shape(specs[0], sizes)) for sizes in assignments(specs, model, {})
    ]
    assert sum(elements) < 1 << 28
    assert max(elements[:12]) <= 1 << 23
    assert min(elements) == 0
    large = model_of("g (float[N,3,2048,2048] x) => (float y) { y = Neg(x) }")
    sizes = [sizes["N"] for sizes in assignments(input_specs(large), large, {})]
    assert sizes[:3] == [1, 2, 3]
    fixed = model_of("g (float[30000,30000] x) => (float y) { y = Neg(x) }")
    assert list(assignments(input_specs(fixed), fixed, {})) == [{}]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ("int64[batch,seq] input_ids, int64[batch,seq] attention_mask", {"batch": 1, "seq": 128}),
        ("int64[s48,s41] input_ids", {"s48": 1, "s41": 128}),
        (
            "int64[b,seq] input_ids, int64[b,total] mask, float[b,2,past_len,8] past_key_0",
            {"b": 1, "seq": 128, "total": 640, "past_len": 512},
        ),
        ("float[N,3,height,width] image", {"N": 1, "height": 224, "width": 224}),
        ("float[N,3,64,64] image", {"N": 1}),
        ("float[N,80,frames] input_features", {"N": 1, "frames": 1000}),
        ("float[N,T] input_values", {"N": 1, "T": 16000}),
        ("float[N,1,T] waveform", {"N": 1, "T": 16000}),
        ("float[rows,12] table", {"rows": 1}),
        ("float[N,64,T] hidden", {"N": 1, "T": 128}),
    ],
)
def test_typical_sizes_come_first(inputs: str, expected: dict[str, int]) -> None:
    model = model_of(f"g ({inputs}) => (float y) {{ y = Constant <value = float {{1}}> () }}")
    tried = list(assignments(input_specs(model), model, {}, typical=True))
    assert tried[0] == expected
    small = [
        sizes for sizes in assignments(input_specs(model), model, {}) if 0 not in sizes.values()
    ]
    assert [sizes for sizes in small if sizes not in tried] == []
    assert len({tuple(sizes.items()) for sizes in tried}) == len(tried)
    assert not any(0 in sizes.values() for sizes in tried)


def test_smaller_typical_sizes_follow_of_one_purpose_first() -> None:
    model = model_of(
        "g (int64[batch,seq] ids, float[batch,2,past,8] past_key) => (float y) { "
        "y = Neg(past_key) }"
    )
    tried = list(assignments(input_specs(model), model, {"batch": 4}, typical=True))
    assert [tuple(sizes.values()) for sizes in tried[:3]] == [
        (4, 128, 512),
        (4, 64, 512),
        (4, 32, 512),
    ]
    assert {"batch": 4, "seq": 128, "past": 64} in tried[:9]
    assert {"batch": 4, "seq": 64, "past": 256} in tried[9:13]


def test_longer_sequences_come_before_larger_batches() -> None:
    """A window of audio needs more than 128 samples; 256 windows at a time are not typical."""
    model = model_of("g (float[batch,sequence] x) => (float y) { y = Neg(x) }")
    tried = list(assignments(input_specs(model), model, {}, typical=True))
    long = next(sizes for sizes in tried if sizes["sequence"] > 128)
    assert long == {"batch": 1, "sequence": 256}


def test_typical_sizes_that_no_memory_holds_are_omitted() -> None:
    model = model_of("g (float[a,b,c,d,e] x) => (float y) { y = Neg(x) }")
    specs = input_specs(model)
    assert all(
        math.prod(concrete_shape(specs[0], s)) <= 1 << 27
        for s in assignments(specs, model, {}, typical=True)
    )


def test_past_and_total_go_together() -> None:
    model = model_of(
        "g (int64[batch,seq] input_ids, int64[batch,total] attention_mask, "
        "float[batch,2,past,8] past_key_0, float[batch,2,present,8] other) => (float y) { "
        "y = Neg(other) }"
    )
    model.graph.input[3].type.tensor_type.shape.dim[2].dim_param = "past_sequence_length + seq"
    specs = input_specs(model)
    sizes = next(assignments(specs, model, {}))
    assert sizes["total"] == sizes["past"] + sizes["seq"]
    assert concrete_shape(specs[3], sizes)[2] == sizes["past_sequence_length"] + sizes["seq"]
    counted = model_of(
        "g (int64[s0,s1] input_ids, int64[s2,s3] attention_mask, float[s0,2,s4,8] past_key_0, "
        "float[s0,2,s5,8] past_value_0) => (float y) { y = Neg(past_key_0) }"
    )
    sizes = next(assignments(input_specs(counted), counted, {}))
    assert sizes["s3"] == sizes["s4"] + sizes["s1"]
    assert sizes["s0"] == sizes["s2"]
    assert sizes["s4"] == sizes["s5"]
    frozen = model_of(
        "g (int64[1,1] input_ids, int64[1,total] attention_mask, float[1,2,48,8] past_key_0) "
        "=> (float y) { y = Neg(past_key_0) }"
    )
    assert next(assignments(input_specs(frozen), frozen, {}))["total"] == 48 + 1


def test_names_with_formulas() -> None:
    assert size_of("past + 2 * seq // 3", {"past": 4, "seq": 6}) == 8
    assert size_of("batch-size", {"batch-size": 3}) == 3
    assert size_of("a + unknown", {"a": 1}) is None
    assert size_of("a // 0", {"a": 1}) is None
    assert size_of("max(a + 1, 2)", {"a": 1}) is None
    assert list(
        open_dimensions(input_specs(model_of("g (float[n,n] x) => (float y) { y = Neg(x) }")))
    ) == ["n"]
