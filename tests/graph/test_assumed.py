"""Assumptions about the sizes of a model."""

import logging

import onnx
import pytest

from tests.support import parse, types
from xoptim import GraphBuilder, optimize
from xoptim.facts.assumptions import DEFAULTS, ENTRY, Assumptions
from xoptim.facts.dims import bounds, is_nonzero, mod
from xoptim.facts.errors import AssumptionError
from xoptim.graph.assumed import assumed_of, note, noted, unused
from xoptim.graph.load import load_model

TEXT = (
    "agraph (float[b,p,w] x, float[b,?,4] z, float[sum] m) => (float[b,q,w] y) { t = Neg(x) "
    "y = Abs(t) }"
)


def given(text: str = TEXT) -> onnx.ModelProto:
    """A model; a dimension ``sum`` is called ``p + b``."""
    proto = parse(text)
    for value in proto.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "sum":
                dim.dim_param = "p + b"
    return proto


def model(*texts: str, text: str = TEXT) -> GraphBuilder:
    return GraphBuilder(given(text), assume=texts)


def test_names_of_sizes_are_known_better() -> None:
    builder = model("p >= 1", "w % 8 == 0", "b == 2", "3 <= z:1 <= 9")
    batch, past, width = builder.get_shape("y")
    assert (batch, str(past), str(width)) == (2, "p", "8*(w//8)")
    assert is_nonzero(past)
    assert mod(width, 4) == 0
    assert bounds(builder.get_shape("z")[1]) == (3, 9)
    assert bounds(builder.get_shape("m")[0])[0] == 3, "a formula of sizes"
    plain = model().get_shape("y")
    assert not is_nonzero(plain[1]), "names of another model are other names"


def test_equal_sizes_are_one() -> None:
    builder = model("p == b", "b >= 3")
    shape = builder.get_shape("x")
    assert shape[0] is shape[1]
    assert bounds(shape[0])[0] == 3


def test_limits_hold_for_sizes_that_must_be_equal() -> None:
    builder = model(
        "n >= 2", text="agraph (float[b,k] x, float[n,4] y) => (float[b,4] r) { r = MatMul(x, y) }"
    )
    assert {bounds(builder.get_shape("x")[1])[0], bounds(builder.get_shape("y")[0])[0]} == {2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pst >= 1", "dimension 'pst'; .* b, p, w, z:1"),
        ("x:1 >= 1", "x:1 'p'"),
        ("z:2 == 5", "'z:2 == 5' contradicts the size"),
        ("p == b + k", "dimension 'k'"),
        ("bool(k)", "input 'k'; .* x, z, m"),
    ],
)
def test_assumptions_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(AssumptionError, match=message.replace("+", r"\+")) as error:
        model(text)
    assert "\n" not in str(error.value)


def test_declarations_stay_and_the_result_says_what_was_assumed() -> None:
    before = parse(
        "agraph (float[b,p,w] x) => (float[b,p,w] y) <int64[3] s = {0, 0, -1}> { t = Reshape(x, s) "
        "y = Abs(t) }"
    )
    found = optimize(before, assume=["w % 8 == 0", "b == 1"])
    assert (found.graph.input, found.graph.output) == (before.graph.input, before.graph.output)
    assert [(each.key, each.value) for each in found.metadata_props] == [
        (ENTRY, "b == 1; w % 8 == 0")
    ]
    again = optimize(found, assume_from_model=True)
    assert again.SerializeToString() == found.SerializeToString(), "they are taken over"
    more = optimize(found, assume=["p >= 1"])
    assert str(noted(more)) == "b == 1; p >= 1; w % 8 == 0", (
        "it was made from a model that relies on them"
    )
    with pytest.raises(AssumptionError, match="'b >= 2' cannot hold: b == 1"):
        optimize(found, assume=["b >= 2"], assume_from_model=True)


def test_an_entry_that_fits_no_longer(caplog: pytest.LogCaptureFixture) -> None:
    proto = given()
    note(proto, Assumptions.of(["p >= 1", "gone >= 1", "bool(gone)", "nothing"]))
    assert noted(proto).texts == ("nothing", "p >= 1")
    assert assumed_of(proto, ["b >= 1"], from_model=True).texts == ("nothing", "b >= 1", "p >= 1")
    assert assumed_of(proto, ["b >= 1"]).texts == ("b >= 1",)
    note(proto, Assumptions())
    assert noted(proto).texts == ("nothing", "p >= 1")
    proto.metadata_props[0].value = "p is positive"
    with caplog.at_level(logging.WARNING):
        assert noted(proto) == Assumptions()
    assert "is ignored" in caplog.text


def test_a_model_that_is_built() -> None:
    builder = GraphBuilder(18, assume=["n >= 4"])
    builder.make_tensor_input("x", onnx.TensorProto.FLOAT, ["n"])
    builder.make_tensor_output(builder.op.Relu("x"))
    assert bounds(builder.get_shape("x")[0])[0] == 4
    assert noted(builder.to_onnx()).texts == ("n >= 4",)


def test_longer_axes_without_the_default_set() -> None:
    proto = given()
    usual, long = load_model(proto), load_model(proto, assumptions=Assumptions.of(["nothing"]))
    most = [
        [bounds(dim)[1] for dim in each.graph.info_of("x").shape or ()] for each in (usual, long)
    ]
    assert most == [[2**48 - 1] * 3, [2**63 - 1] * 3]


WRAPPED = (
    "agraph (float[n,m,6] x) => (float[a,b,c] y) { s = Shape(x) i = Cast <to = 6> (s) "
    "t = Cast <to = 7> (i) r = Reshape(x, t) y = Neg(r) }"
)
ATTENTION = (
    "agraph (float[b,s,2,4] x) => (float[b,2,s,4] y) { q = Transpose <perm = [0, 2, 1, 3]> (x) "
    "p = Transpose <perm = [0, 2, 3, 1]> (x) a = MatMul(q, p) w = Softmax <axis = -1> (a) "
    "y = MatMul(w, q) }"
)
CUT = (
    "agraph (float[n] x) => (float[n] y) <int64[1] s = {0}, int64[1] e = {2147483647}> { "
    "t = Slice(x, s, e) y = Neg(t) }"
)


@pytest.mark.parametrize(
    ("text", "words", "gone"),
    [
        (WRAPPED, ("addressable", "small_empty"), "Cast"),
        (ATTENTION, ("nonempty",), "Softmax"),
        (CUT, ("open_ends",), "Slice"),
    ],
)
def test_each_word_of_the_default_set_is_needed(
    text: str, words: tuple[str, ...], gone: str
) -> None:
    proto = parse(text, 23)
    assert gone not in types(optimize(proto))
    assert gone not in types(optimize(proto, assume=["nothing", *words]))
    for word in words:
        found = optimize(proto, assume=["nothing", *({*DEFAULTS} - {word})])
        assert gone in types(found)
        assert (
            optimize(found, assume_from_model=True).SerializeToString() == found.SerializeToString()
        )


def test_sizes_that_are_computed_from_a_multiple_are_known() -> None:
    proto = parse(
        "agraph (float[b,w] x) => (float[b,p] y, int64[1] r) <int64 one = {1}, int64[1] z = {0}, "
        "int64[1] o = {1}, int64 eight = {8}> { s = Shape(x) k = Gather(s, one) d = Div(k, eight) "
        "e = Mul(d, eight) u = Unsqueeze(e, z) v = Slice(x, z, u, o) y = Relu(v) "
        "m = Mod(k, eight) r = Unsqueeze(m, z) }"
    )
    found = optimize(proto, assume=["w % 8 == 0"], verify=True)
    assert types(found) == ["Relu", "Constant"]
    assert {"Shape", "Div"} <= set(types(optimize(proto)))
    assert "Mod" not in types(optimize(proto, assume=["w % 8 == 3"]))


def test_assumptions_that_follow_from_others_are_in_force() -> None:
    known = Assumptions.of(["n >= 4", "m % 8 == 0", "finite"])
    followed = ("n >= 2", "m % 4 == 0", "finite(x)", "nothing", "open_ends")
    assert unused((*followed, "n >= 5", "k == 1", "n == 3"), known) == (
        "n >= 5",
        "k == 1",
        "n == 3",
    )
