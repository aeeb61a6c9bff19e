"""Forms of subgraphs."""

from itertools import permutations

from lab.discovery.mining import Inner, Leaf, PieceCall, canonical

X, Y, C = Leaf("value", 0), Leaf("value", 1), Leaf("constant", 0)


def call(op_type: str, *operands: Leaf | Inner, domain: str = "") -> PieceCall:
    return PieceCall(domain, op_type, operands)


def test_operands_of_commutative_operators_stand_in_any_order() -> None:
    orders = ((Inner(0, 0), Y), (Y, Inner(0, 0)))
    forms = {canonical((call("Neg", X), call("Add", *each))) for each in orders}
    assert forms == {"Add(Neg(a), b)"}
    assert canonical((call("Neg", X), call("Sub", Y, Inner(0, 0)))) == "Sub(a, Neg(b))"


def test_results_stand_in_any_order() -> None:
    shared = call("Add", X, Y)
    for first, second in permutations((call("Sin", Inner(0, 0)), call("Cos", Inner(0, 0)))):
        assert canonical((shared, first, second)) == "t1 = Add(a, b); Cos(t1); Sin(t1)"


def test_which_operands_are_equal_counts() -> None:
    assert canonical((call("Mul", X, X), call("Add", Inner(0, 0), Y))) == "Add(Mul(a, a), b)"
    assert canonical((call("Mul", X, Y), call("Add", Inner(0, 0), Y))) == "Add(Mul(a, b), a)"
    assert (
        canonical((call("Mul", X, Y), call("Add", Inner(0, 0), Inner(0, 0))))
        == "t1 = Mul(a, b); Add(t1, t1)"
    )


def test_leaves_results_and_domains() -> None:
    split = call("Split", X, C, Leaf("text", "_"), Leaf("text", "0.5"))
    assert (
        canonical((split, call("Gelu", Inner(0, 1), domain="acme")))
        == "acme::Gelu(Split(a, A, _, 0.5)[1])"
    )


def test_letters_go_on_after_z() -> None:
    many = [Leaf("value", number) for number in range(28)]
    assert canonical((call("Concat", *many),)).endswith("y, z, a1, b1)")
