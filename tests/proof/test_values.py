from tests.support import load
from xoptim.facts.shapes import UNKNOWN
from xoptim.proof.chain import Chain
from xoptim.proof.values import Value, Values


def _applied(values: Values, label: str, *operands: Value | None) -> Value:
    return values.apply(label, operands, [UNKNOWN])[0]


def test_equal_terms_are_one_value() -> None:
    values = Values()
    x, y = (values.leaf(name, UNKNOWN) for name in "xy")
    assert _applied(values, "f", x, y).is_same(_applied(values, "f", x, y))
    assert not _applied(values, "f", x, y).is_same(_applied(values, "f", y, x))
    assert _applied(values, "f", x, None).is_same(_applied(values, "f", x))
    assert not _applied(values, "f", None, x).is_same(_applied(values, "f", x))


def test_what_is_computed_from_equal_values_is_equal() -> None:
    values = Values()
    x, y, z = (values.leaf(name, UNKNOWN) for name in "xyz")
    pairs = [(v, v) for v in (x, y, z)]
    for _ in range(3):
        pairs = [(_applied(values, "f", a, b), _applied(values, "g", b)) for a, b in pairs]
    (fx, gx), (fy, gy), (fz, _) = pairs
    values.unite(x, y)
    assert (fx.is_same(fy), gx.is_same(gy), fx.is_same(fz)) == (True, True, False)
    values.unite(z, y)
    assert fx.is_same(fz)


def test_a_value_may_be_computed_from_itself() -> None:
    values = Values()
    x = values.leaf("x", UNKNOWN)
    fx = _applied(values, "f", x)
    ffx = _applied(values, "f", fx)
    values.unite(x, fx)
    assert x.is_same(ffx)


def test_swapped_operands() -> None:
    values = Values()
    x, y, z = (values.leaf(name, UNKNOWN) for name in "xyz")
    (one,) = values.apply("f", (x, y), [UNKNOWN], is_commutative=True)
    (other,) = values.apply("f", (z, x), [UNKNOWN], is_commutative=True)
    assert not one.is_same(other)
    values.unite(y, z)
    assert one.is_same(other)


def test_results_that_one_of_two_equal_terms_lacks() -> None:
    values = Values()
    x, y = (values.leaf(name, UNKNOWN) for name in "xy")
    (one,) = values.apply("f", (x,), [UNKNOWN])
    two = values.apply("f", (y,), [UNKNOWN, UNKNOWN])
    values.unite(x, y)
    assert values.apply("f", (x,), [UNKNOWN, UNKNOWN])[1].is_same(two[1])
    assert one.is_same(two[0])


def test_what_is_computed_from_constants() -> None:
    model = load(
        "g (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> "
        "{ a = Neg(w) b = Add(a, w) c = Add(b, x) y = Exp(c) }"
    )
    chain = Chain(model)
    names = {name: value.root.is_fixed for name, value in chain.names.items()}
    assert names == {"x": False, "w": True, "a": True, "b": True, "c": False, "y": False}
    chain.values.unite(chain.names["x"], chain.names["a"])
    assert all(value.root.is_fixed for value in chain.names.values())
