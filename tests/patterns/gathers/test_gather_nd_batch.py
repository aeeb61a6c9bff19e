"""Positions of a batch are shortened only where they are not those of a corner."""

from tests.support import parse, types
from xoptim import optimize


def test_a_corner_is_found_although_its_columns_are_shortened_later() -> None:
    """The second column counts only after the sum with 0 is gone."""
    model = parse(
        "agraph (int64[b,c] ids, float[b,e] x, bool[b] p, bool[c] q) "
        "=> (float[b,c] y) <int64 i = {0}, int64 j = {1}, int64[1] k = {-1}> { s = Shape(ids) "
        "n = Size(p) m = Size(q) r = Range(i, n, j) a = Range(i, m, j) c = Add(a, i) "
        "u = Unsqueeze(r, k) v = Expand(u, s) w = Expand(c, s) f = Unsqueeze(v, k) "
        "h = Unsqueeze(w, k) t = Concat <axis = -1> (f, h) y = GatherND(x, t) }"
    )
    assert sorted(types(optimize(model, verify=True))) == ["Shape", "Slice"]
