"""The guard for queries that see no key, as the exporter of transformers writes it."""

import pytest

from tests.support import parse, types
from xoptim import optimize

GUARD = (
    "m = Cast <to = 1> (mask) count = ReduceSum(m, last) guard = Less(count, one) "
    "y = Where(guard, c, z)"
)
PAST = (
    "agraph (int64[b,n] ids, int64[b,p] cache, {more}float[b,2,n,4] z) => (float[b,2,n,4] y) "
    "<int64 zero = {{0}}, int64 step = {{1}}, int64[1] first = {{0}}, int64[1] second = {{1}}, "
    "int64[1] last = {{-1}}, float one = {{{one}}}, {c}> {{ "
    "s = Shape <start = 1> (ids) n = Squeeze(s) t = Shape <start = 1> (cache) p = Squeeze(t) "
    "{lines} " + GUARD + " }}"
)
QUERIES = "q0 = Range(zero, n, step) q1 = Add(q0, p) q = Unsqueeze(q1, second) "
KEYS = "total = Add(n, p) k = Range(zero, total, step) "
CAUSAL = (
    QUERIES + KEYS + "le = LessOrEqual(k, q) f = Unsqueeze(le, first) mask = Unsqueeze(f, first)"
)


def graph_of(lines: str = CAUSAL, one: float = 1, more: str = "", c: str = "float c = {0}") -> str:
    """A guarded value with a mask for new queries after earlier keys."""
    return PAST.format(lines=lines, one=one, more=more, c=c)


def test_queries_after_earlier_keys() -> None:
    after = optimize(parse(graph_of()))
    assert types(after) == ["Identity"]


def test_all_layers_read_one_guard() -> None:
    text = graph_of().replace("float[b,2,n,4] y)", "float[b,2,n,4] y, float[b,2,n,4] w)")
    text = text.replace("y = Where(guard, c, z)", "y = Where(guard, c, z) w = Where(guard, c, y)")
    after = optimize(parse(text))
    assert set(types(after)) == {"Identity"}


@pytest.mark.parametrize(
    "changed",
    [
        graph_of(CAUSAL.replace("LessOrEqual(k, q)", "Less(k, q)")),
        graph_of(CAUSAL.replace("LessOrEqual(k, q)", "LessOrEqual(q, k)")),
        graph_of(one=2),
        graph_of(more="bool[b,1,1,t] hidden, ").replace(
            "m = Cast <to = 1> (mask)", "both = And(mask, hidden) m = Cast <to = 1> (both)"
        ),
        graph_of(c="float[2,1,1,1,1] c = {0, 0}"),
        graph_of(
            CAUSAL.replace("mask = Uns", "seen = Uns") + "mask = Where(seen, c, low) ",
            c="float c = {0}, float low = {-1e30}",
        ),
    ],
    ids=[
        *("strictly earlier keys", "later keys", "two keys", "hidden keys", "a larger result"),
        "a mask of numbers",
    ],
)
def test_guards_that_may_matter_stay(changed: str) -> None:
    after = optimize(parse(changed.replace("=> (float[b,2,n,4] y)", "=> (y)")))
    assert "Where" in types(after)


def test_fewer_keys_than_queries() -> None:
    """The first queries come before the first key."""
    lines = (
        "n4 = Shape <start = 1> (cache) total = Squeeze(n4) k = Range(zero, total, step) "
        "q0 = Range(zero, n, step) d = Sub(total, n) q1 = Add(q0, d) q = Unsqueeze(q1, second) "
        "le = LessOrEqual(k, q) f = Unsqueeze(le, first) mask = Unsqueeze(f, first)"
    )
    after = optimize(parse(graph_of(lines)))
    assert "Where" in types(after)


@pytest.mark.parametrize("shape", ["1,1,0,5", "1,1,3,0", "0,1,3,5"])
def test_constant_masks_without_elements_stay(shape: str) -> None:
    model = parse(
        f"agraph (float[{shape}] z) => (float[{shape}] y) <bool[{shape}] mask = {{}}, "
        f"float c = {{0}}, int64[1] last = {{-1}}, float one = {{1}}> {{ {GUARD} }}"
    )
    after = optimize(model, patterns="CausalMaskGuard", constant_folding=False, strict=True)
    assert types(after) == types(model)
