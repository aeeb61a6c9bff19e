import numpy as np
import pytest

from tests.patterns.attention.comparison import LEVELS, assert_same, session
from tests.patterns.attention.forms import GUARDED, HEADS
from tests.patterns.attention.models import Form, model_of
from tests.support import parse, run, types
from xoptim import optimize

pytestmark = pytest.mark.slow

ODD = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38], dtype=np.float32)


@pytest.mark.parametrize(
    ("groups", "keys"), [(HEADS, "merged batches"), (2, "merged batches"), (2, "swapped")]
)
@pytest.mark.parametrize("mask", GUARDED)
def test_the_guard_of_exporters(groups: int, keys: str, mask: str) -> None:
    before = model_of(Form("root", keys, "plain", mask, groups))
    after = optimize(before)
    found = types(after)
    assert found.count("Attention") == 1
    assert not {"Softmax", "Transpose", "Tile"} & set(found)
    assert_same(before, after)


def test_heads_that_the_operator_does_not_split_or_merge() -> None:
    assert "Attention" not in types(optimize(model_of(Form(mask="guarded", packed=False))))


@pytest.mark.parametrize("groups", [HEADS, 2])
def test_earlier_keys_and_values(groups: int) -> None:
    before = model_of(Form("root", "swapped", "plain", "guarded", groups, past=True))
    after = optimize(before)
    found = types(after)
    assert found.count("Attention") == 1
    assert not {"Softmax", "Transpose", "Gather"} & set(found)
    assert_same(before, after, lengths=(1, 7), past=(0, 1, 30))


@pytest.mark.parametrize("past", [None, 0, 3])
@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("keys", [1, 5, 17])
def test_numbers_that_are_not_finite(keys: int, groups: int, past: int | None) -> None:
    """NaN and infinities in any operand, masks that hide all keys of a query, and the lowest number
    next to -infinity.
    """
    members = ", ".join(str(i * groups // 4) for i in range(4))
    repeat = "{0} = Gather <axis = 1> ({1}, members)" if groups != 4 else "{0} = Identity({1})"
    move = "Transpose <perm = [0, 2, 1, 3]>"
    earlier, joined = (
        "",
        (
            "k2 = Identity(k1) "
            f"v2 = Identity(v1) {repeat.format('kk', 'k2')} {repeat.format('vv', 'v2')}"
        ),
    )
    if past is not None:
        earlier = f", float[b,{groups},p,4] pk, float[b,{groups},p,4] pv"
        joined = joined.replace("Identity(k1)", "Concat <axis = 2> (pk, k1)")
        joined = joined.replace("Identity(v1)", "Concat <axis = 2> (pv, v1)")
    before = parse(
        f"agraph (float[b,n,16] q, float[b,t,{4 * groups}] k, float[b,t,{4 * groups}] v, "
        f"float[b,1,n,u] m{earlier}) => (float[b,n,16] y) <float zero = {{0}}, "
        f"int64[4] members = {{{members}}}, int64[4] split = {{0, 0, {groups}, 4}}, int64[4] "
        "split_q = {0, 0, 4, 4}, int64[3] whole = {0, 0, 16}> { q0 = Reshape(q, split_q) "
        f"q1 = {move} (q0) k0 = Reshape(k, split) k1 = {move} (k0) v0 = Reshape(v, split) "
        f"v1 = {move} (v0) {joined} kt = Transpose <perm = [0, 1, 3, 2]> (kk) a = MatMul(q1, kt) "
        "e = Add(a, m) w = Softmax <axis = -1> (e) i = IsNaN(w) u = Where(i, zero, w) "
        f"y4 = MatMul(u, vv) yt = {move} (y4) y = Reshape(yt, whole) }}",
        23,
    )
    after = optimize(before)
    assert "Attention" in types(after)
    assert "Softmax" not in types(after)
    reference, judged = session(before), [session(after, level) for level in LEVELS]
    rng = np.random.default_rng(keys)
    seen = 0
    for _ in range(200):
        shapes = {"q": (2, 3, 16), "k": (2, keys, 4 * groups), "v": (2, keys, 4 * groups)}
        feeds = {
            name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()
        }
        if past is not None:
            feeds |= {
                name: rng.standard_normal((2, groups, past, 4), dtype=np.float32)
                for name in ("pk", "pv")
            }
        lows = np.array([-np.inf, np.finfo(np.float32).min, -1e30], dtype=np.float32)
        low = rng.choice(lows, (2, 1, 3, keys + (past or 0)))
        feeds["m"] = np.where(rng.random(low.shape) < 0.4, low, np.float32(0))
        if rng.random() < 0.3:
            feeds["m"][0, 0, 0] = low[0, 0, 0]
        for name in rng.choice(list(feeds), 2):
            if rng.random() < 0.5 and feeds[name].size:
                feeds[name].reshape(-1)[rng.integers(feeds[name].size)] = rng.choice(ODD)
        expected = reference.run(None, feeds)[0]
        seen += bool(np.isnan(expected).any())
        for each in judged:
            np.testing.assert_allclose(each.run(None, feeds)[0], expected, rtol=1e-4, atol=1e-5)
    assert seen > 5


def test_a_single_head_of_keys_and_values_without_an_axis() -> None:
    """As where one head serves all queries: its axis is made by an Unsqueeze of two axes."""
    repeated = "{0}u = Unsqueeze({0}, a) {0}e = Expand({0}u, e) {0}r = Reshape({0}e, z)"
    before = parse(
        f"""agraph (float[b,2,3,4] q, float[b,5,4] k, float[b,5,4] v,
          float[b,1,3,5] m) => (float[b,3,8] y)
        <int64[2] a = {{1, 2}}, int64[5] e = {{1, 1, 2, 1, 1}}, int64[4] z = {{0, 2, -1, 4}},
        float zero = {{0}},
        int64[3] h = {{0, 0, 8}}>
        {{ {repeated.format("k")} {repeated.format("v")} p = Transpose <perm = [0, 1, 3, 2]> (kr)
          c = MatMul(q, p) d = Add(c, m)
        w = Softmax <axis = -1> (d) n = IsNaN(w) u = Where(n, zero, w) o = MatMul(u, vr)
        r = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape(r, h) }}""",
        opset=23,
    )
    after = optimize(before, verify=True, strict=True)
    assert types(after).count("Attention") == 1
    mask = np.zeros((2, 1, 3, 5), np.float32)
    mask[0, :, 1] = -np.inf
    random = np.random.default_rng(0)
    shapes = {"q": (2, 2, 3, 4), "k": (2, 5, 4), "v": (2, 5, 4)}
    feeds = {
        name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    } | {"m": mask}
    expected, actual = (run(each, feeds)[0] for each in (before, after))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
