"""Deductions about shapes across several operators, which a single pattern could not make."""

import xoptim
from xoptim.facts.dims import broadcast, dim_min, named
from xoptim.testing.variant import parse


def _operators(text: str, opset: int = 18) -> list[str]:
    result = xoptim.optimize(parse(text, opset), strict=True)
    return [node.op_type for node in result.graph.node]


def test_a_cut_dimension_broadcasts_with_the_whole_only_where_nothing_is_cut() -> None:
    n = named("n")
    assert broadcast(n, dim_min(n, 5)) is n
    assert broadcast(dim_min(n, 5), n) is n
    assert broadcast(n, dim_min(n, 1)) is not n, "one row broadcasts with any number"
    assert broadcast(n, dim_min(n, named("m"))) is not n


def test_shapes_that_follow_from_a_folded_constant() -> None:
    """The padding is known only after folding; the Reshape behind it needs its result."""
    assert _operators(
        "agraph (float[a,3] x) => (float[a,4] y) <int64[2,2] p = {0, 0, 0, 1}, "
        "int64[1] all = {-1}, int64[1] four = {4}> { t = Transpose(p) r = Reshape(t, all) "
        "q = Pad(x, r) s = Shape(q) b = Shape <end = 1> (x) u = Concat <axis = 0> (b, four) "
        "y = Reshape(q, u) }"
    ) == ["Pad"]


def test_the_mask_of_a_decoder() -> None:
    """A lower triangle made of counts, and a padding mask indexed element by element."""
    found = _operators(
        "agraph (int64[b,s] ids, bool[b,t] mask, float[b,h,s,s] x) "
        "=> (float[b,h,s,s] y) <int64 i = {0}, int64 j = {1}, int64[1] z = {0}, int64[1] k = {1}, "
        "int64[1] m = {-1}, float low = {-1000}, float no = {0}> { shape = Shape(ids) "
        "n = Gather(shape, i) o = Gather(shape, j) r = Range(i, n, j) c = Range(i, o, j) "
        "u = Unsqueeze(r, k) v = Expand(u, shape) w = Expand(c, shape) f = Unsqueeze(v, m) "
        "g = Unsqueeze(w, m) t = Concat <axis = -1> (f, g) p = GatherND(mask, t) "
        "q = Unsqueeze(p, k) e = Unsqueeze(q, k) col = Unsqueeze(c, k) le = LessOrEqual(c, col) "
        "both = And(le, e) bias = Where(both, no, low) y = Add(x, bias) }"
    )
    assert "GatherND" not in found
    assert "Expand" not in found
    assert len(found) <= 11


def test_the_only_computed_dimension_of_a_reshape_is_inferred() -> None:
    """The others determine it, although it may be 0 or negative where it stands."""
    shape = "s = Shape(x) b = Gather(s, first) n = Gather(s, second)"
    start = "agraph (float[b,n,c,d] x, float[p,q] z) => (float[b,n,u,v] y) <int64[1] first = {0}, "
    for computed in ("Mul(e, f)", "Sub(e, f)", "Div(e, f)"):
        text = (
            f"{start} int64[1] second = {{1}}, "
            f"int64[1] four = {{4}}> {{ {shape} r = Shape(z) e = Gather(r, first) "
            f"f = Gather(r, second) m = {computed} t = Concat <axis = 0> (b, n, m, four) "
            "y = Reshape(x, t) }"
        )
        assert _operators(text) == ["Reshape"]
        assert len(_operators(text.replace("(b, n, m, four)", "(m, n, e, four)"))) > 1, "two"


def test_a_slice_is_not_dropped_for_declared_names() -> None:
    text = (
        "agraph (float[a,b] x, int64[1] k) => (float[p,q] y) <float[a,b] s, int64[1] z = {0}, "
        "int64[1] one = {1}> { s = Slice(x, z, k, one) y = Relu(s) }"
    )
    assert _operators(text) == ["Slice", "Relu"]


def test_a_gather_is_not_dropped_for_declared_names() -> None:
    text = (
        "agraph (float[a,b] x, int64 k) => (float[p,b] y) <int64[a] r, int64 z = {0}, "
        "int64 one = {1}> { r = Range(z, k, one) s = Gather(x, r) y = Relu(s) }"
    )
    assert _operators(text) == ["Range", "Gather", "Relu"]
