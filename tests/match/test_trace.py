# mypy: disable-error-code="no-any-return"
import inspect

import numpy as np
import pytest

from xoptim.match import trace as module
from xoptim.match.trace import (
    ANY,
    AnyOf,
    Capture,
    Constant,
    Optional,
    PatternBuilder,
    Scalar,
    Symbol,
    trace,
)


def test_what_is_written_down() -> None:
    def pattern(  # type: ignore[no-untyped-def]
        g: PatternBuilder,
        x: Symbol,
        w: Constant,
        k: Scalar,
        low: Optional,
        n: "module.Scalar | None" = None,
    ):
        t = g.op.Clip(x, low, None, domain="d", mode="m", attributes=ANY)
        return g.op.Add(t, 1.5), w

    (found,) = trace(pattern)
    clip, add = found.nodes
    assert [(s.name, s.kind) for s in found.symbols[:5]] == [
        ("x", None), ("w", Constant), ("k", Scalar), ("low", Optional), ("n", None),
    ]  # fmt: skip
    assert (clip.op_type, clip.domain, clip.attributes, clip.others) == (
        "Clip",
        "d",
        {"mode": "m"},
        ANY,
    )
    assert clip.inputs == [found.symbols[0], found.symbols[3], None]
    assert add.inputs[0] is clip.outputs[0]
    assert add.inputs[1] is not None
    assert add.inputs[1].literal == 1.5
    assert add.outputs[0].producer is add
    assert found.outputs == [add.outputs[0], found.symbols[1]]
    first = inspect.getsourcelines(pattern)[1]
    assert (found.file, clip.line, add.line) == (__file__, first + 8, first + 9)
    assert [symbol.index for symbol in found.symbols] == list(range(len(found.symbols)))


def test_operands() -> None:
    builder = PatternBuilder(())
    x = builder.symbol("x")
    builder.op.Op(x, None, True, 1, 0.5, [1, 2], (3,), np.array([4]), np.float32(0.1), np.int64(5))
    symbols = builder.trace.nodes[0].inputs
    assert symbols[:2] == [x, None]
    literals = [symbol.literal for symbol in symbols[2:] if symbol is not None]
    assert literals[:3] == [True, 1, 0.5]
    assert [array.tolist() for array in literals[3:6]] == [[1, 2], [3], [4]]
    assert [type(number) for number in literals[6:]] == [float, int]
    with pytest.raises(TypeError, match=r"'text' .*operand"):
        builder.op.Op("text")
    with pytest.raises(AttributeError):
        builder.op.__wrapped__  # noqa: B018


def test_results() -> None:
    builder = PatternBuilder(())
    assert isinstance(builder.op.Op(), Symbol)
    assert len(builder.op.Op(outputs=3)) == 3
    assert builder.capture("a") == Capture("a")
    assert builder.any_of(1, 2) == AnyOf((1, 2))
    assert repr(builder.ANY) == "ANY"


def test_options_are_tried_both_ways() -> None:
    def pattern(g: PatternBuilder, x: Symbol) -> Symbol:
        if g.option("a"):
            x = g.op.A(x)
            if g.option("b"):
                x = g.op.B(x)
        assert g.option("a") == g.option("a")
        return g.op.C(x) if g.option("c") else g.op.D(x)

    variants = trace(pattern)
    assert variants[0].options == {"a": True, "b": True, "c": True}
    found = {"".join(node.op_type for node in variant.nodes) for variant in variants}
    assert found == {"ABC", "ABD", "AC", "AD", "C", "D"}
    assert len(variants) == 6
