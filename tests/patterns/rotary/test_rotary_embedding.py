"""The forms in which exporters write rotary embeddings."""

from typing import Any

import numpy as np
import onnx
import pytest

import xoptim
from tests.support import parse, run, types

NUMBERS = (
    "int64[1] a0 = {0}, int64[1] a1 = {1}, int64[1] a2 = {2}, int64[1] a3 = {3}, int64[1] a4 = "
    "{4}, int64[1] a8 = {8}, int64[1] two = {2}, int64[1] far = {9223372036854775807}, int64 n0 = "
    "{0}, int64 n1 = {1}, float scale = {1.25}, int64[4] flat = {0, 0, 0, 8}, int64[5] paired = "
    "{0, 0, 0, 4, 2}, int64[3] doubled = {0, 0, 8}, int64[4] copies = {1, 1, 1, 2}"
)
HALVES = "f = Slice(x, a0, a4, a3) s = Slice(x, a4, far, a3)"
STRIDES = "f = Slice(x, a0, far, a3, two) s = Slice(x, a1, far, a3, two)"
UNBOUND = "v = Reshape(x, paired) f = Gather <axis = 4> (v, n0) s = Gather <axis = -1> (v, n1)"
SPLIT = (
    "v = Reshape(x, paired) f5, s5 = Split <axis = 4, num_outputs = 2> (v) f = Squeeze(f5, a4) "
    "s = Squeeze(s5, a4)"
)
ROTATED = "n = Neg(s) t = Concat <axis = -1> (n, f)"
ROTATED_PAIRS = (
    "n = Neg(s) n5 = Unsqueeze(n, a4) f6 = Unsqueeze(f, a4) t5 = Concat <axis = -1> (n5, f6) "
    "t = Reshape(t5, flat)"
)
WHOLE = "p = Mul(x, c) q = Mul(t, i) y = Add(p, q)"
PARTS = (
    "fc = Mul(f, c) si = Mul(s, i) l = Sub(fc, si) sc = Mul(s, c) fi = Mul(f, i) r = Add(sc, fi)"
)
JOINED = "y = Concat <axis = 3> (l, r)"
JOINED_PAIRS = (
    "l5 = Unsqueeze(l, a4) r5 = Unsqueeze(r, a4) y5 = Concat <axis = 4> (l5, r5) "
    "y = Reshape(y5, flat)"
)
ANGLES = "c3 = Cos(d) i3 = Sin(d)"
REPEATED = f"d = Concat <axis = -1> (w, w) {ANGLES}"
DOUBLED = (
    f"w1 = Unsqueeze(w, a3) d4 = Concat <axis = -1> (w1, w1) d = Reshape(d4, doubled) {ANGLES}"
)
EXPANDED = f"w1 = Unsqueeze(w, a3) d4 = Expand(w1, copies) d = Reshape(d4, doubled) {ANGLES}"
HEADS = "c = Unsqueeze(c3, a1) i = Unsqueeze(i3, a1)"
POSITIONS = "c = Unsqueeze(c3, a2) i = Unsqueeze(i3, a2)"
SCALED = "c2 = Mul(c3, scale) i2 = Mul(scale, i3) c = Unsqueeze(c2, a1) i = Unsqueeze(i2, a1)"
SINGLE = "c = Cos(wu) i = Sin(wu)"

FORMS = {
    "halves of a head": (REPEATED, HEADS, HALVES, ROTATED, WHOLE),
    "with a factor": (REPEATED, SCALED, HALVES, ROTATED, WHOLE),
    "half by half": ("wu = Unsqueeze(w, a1)", SINGLE, HALVES, PARTS, JOINED),
    "strides": (DOUBLED, HEADS, STRIDES, ROTATED_PAIRS, WHOLE),
    "strides, expanded angles": (EXPANDED, HEADS, STRIDES, ROTATED_PAIRS, WHOLE),
    "pairs": ("wu = Unsqueeze(w, a1)", SINGLE, UNBOUND, PARTS, JOINED_PAIRS),
    "pairs by Split": ("wu = Unsqueeze(w, a1)", SINGLE, SPLIT, PARTS, JOINED_PAIRS),
}


def model_of(parts: tuple[str, ...], x: str, w: str) -> onnx.ModelProto:
    return parse(
        f"agraph (float[{x}] x, float[{w}] w) "
        f"=> (float[{x}] y) <{NUMBERS}> {{ {' '.join(parts)} }}",
        23,
    )


def check(model: onnx.ModelProto, x: tuple[int, ...], w: tuple[int, ...]) -> list[str]:
    """Optimize a model and compare the numbers; returns the operators of the result."""
    found = xoptim.optimize(model)
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {
        "x": rng.standard_normal(x, dtype=np.float32),
        "w": rng.standard_normal(w, dtype=np.float32),
    }
    expected = run(model, feeds)[0]
    for optimized in (False, True):
        np.testing.assert_allclose(
            run(found, feeds, optimized=optimized)[0], expected, rtol=1e-5, atol=1e-6
        )
    return types(found)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch", ["b", "1"])
def test_forms(form: str, batch: str) -> None:
    model = model_of(FORMS[form], "b,3,s,8", f"{batch},s,4")
    for b in (1, 3):
        for length in (1, 7, 64, 512):
            found = check(model, (b, 3, length, 8), (b if batch == "b" else 1, length, 4))
            assert found.count("RotaryEmbedding") == 1
            assert {"Neg", "Slice", "Split"}.isdisjoint(found)


@pytest.mark.parametrize("form", ["halves of a head", "strides"])
def test_heads_behind_positions(form: str) -> None:
    parts = tuple(part if part != HEADS else POSITIONS for part in FORMS[form])
    found = check(model_of(parts, "b,s,3,8", "1,s,4"), (2, 5, 3, 8), (1, 5, 4))
    assert found.count("RotaryEmbedding") == 1


@pytest.mark.parametrize("form", ["halves of a head", "strides", "pairs"])
def test_a_part_of_each_head(form: str) -> None:
    cut = "x = Slice(xx, a0, a8, a3) rest = Slice(xx, a8, far, a3)"
    parts = (*FORMS[form], "z = Concat <axis = -1> (y, rest)")
    model = parse(
        "agraph (float[b,3,s,12] xx, float[b,s,4] w) "
        f"=> (float[b,3,s,12] z) <{NUMBERS}> {{ {cut} {' '.join(parts)} }}",
        23,
    )
    found = xoptim.optimize(model)
    rng = np.random.default_rng(0)
    feeds = {
        "xx": rng.standard_normal((2, 3, 5, 12), dtype=np.float32),
        "w": rng.standard_normal((2, 5, 4), dtype=np.float32),
    }
    np.testing.assert_allclose(run(found, feeds)[0], run(model, feeds)[0], rtol=1e-5, atol=1e-6)
    assert types(found).count("RotaryEmbedding") == 1
    assert "Concat" not in types(found)


def test_a_stored_table() -> None:
    rows = np.tile(np.random.default_rng(1).standard_normal((16, 4), dtype=np.float32), 2)
    tables = [
        onnx.numpy_helper.from_array(function(rows), name)
        for name, function in (("ct", np.cos), ("st", np.sin))
    ]
    gathered = "c3 = Gather(ct, w) i3 = Gather(st, w)"
    parts = " ".join((gathered, HEADS, HALVES, ROTATED, WHOLE))
    inputs = "float[b,3,s,8] x, int64[b,s] w, float[16,8] ct, float[16,8] st"
    model = parse(f"agraph ({inputs}) => (float[b,3,s,8] y) <{NUMBERS}> {{ {parts} }}", 23)
    del model.graph.input[2:]
    model.graph.initializer.extend(tables)
    found = xoptim.optimize(model)
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((2, 3, 5, 8), dtype=np.float32),
        "w": rng.integers(-16, 16, (2, 5)),
    }
    np.testing.assert_allclose(run(found, feeds)[0], run(model, feeds)[0], rtol=1e-5, atol=1e-6)
    assert sorted(types(found)) == ["Gather", "Gather", "RotaryEmbedding"]


DIFFERENT = {
    "halves swapped": (
        REPEATED,
        HEADS,
        "s = Slice(x, a0, a4, a3) f = Slice(x, a4, far, a3)",
        ROTATED,
        WHOLE,
    ),
    "strides of repeated angles": (REPEATED, HEADS, STRIDES, ROTATED_PAIRS, WHOLE),
    "halves of doubled angles": (DOUBLED, HEADS, HALVES, ROTATED, WHOLE),
    "two angles": (
        f"v = Neg(w) d = Concat <axis = -1> (w, v) {ANGLES}",
        HEADS,
        HALVES,
        ROTATED,
        WHOLE,
    ),
    "a difference": (REPEATED, HEADS, HALVES, ROTATED, "p = Mul(x, c) q = Mul(t, i) y = Sub(p, q)"),
    "the second half turned": (
        REPEATED,
        HEADS,
        HALVES,
        "n = Neg(f) t = Concat <axis = -1> (s, n)",
        WHOLE,
    ),
}


@pytest.mark.parametrize("form", DIFFERENT)
def test_other_arithmetic_stays(form: str) -> None:
    assert "RotaryEmbedding" not in check(
        model_of(DIFFERENT[form], "b,3,s,8", "b,s,4"), (2, 3, 5, 8), (2, 5, 4)
    )


def test_an_axis_that_may_be_empty_on_a_gpu() -> None:
    """The kernel of CUDA fails for no positions."""
    example = xoptim.installed_patterns()["RotaryEmbedding"].examples[1]
    for provider, assume, fuses in (
        ("cpu", "", True),
        ("cuda", "", False),
        ("cuda", "s >= 1", True),
    ):
        model = parse(example.before, example.opset)
        result = xoptim.optimize(
            model, patterns="RotaryEmbedding", provider=provider, assume=[assume] if assume else ()
        )
        assert ("RotaryEmbedding" in types(result)) is fuses, (provider, assume)


def test_a_number_of_heads_that_the_shape_has_as_well() -> None:
    model = parse(
        "agraph (float[b,s,12] a, float[b,s,2] c, float[b,s,2] i) => (float[b,3,s,4] y) "
        "<int64[4] n = {0, 0, 3, 4}> { x = Reshape(a, n) t = Transpose <perm = [0, 2, 1, 3]> (x) "
        "y = RotaryEmbedding <num_heads = 3> (t, c, i) }",
        23,
    )
    merged = xoptim.optimize(model, patterns="RotaryEmbeddingHeads", strict=True)
    assert types(merged) == ["Reshape", "Reshape", "RotaryEmbedding", "Reshape", "Transpose"]
    random = np.random.default_rng(0)
    shapes = {"a": (2, 5, 12), "c": (2, 5, 2), "i": (2, 5, 2)}
    feeds = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    np.testing.assert_allclose(run(merged, feeds)[0], run(model, feeds)[0], rtol=1e-6)
