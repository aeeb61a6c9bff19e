# mypy: disable-error-code="no-any-return"
"""The order in which the nodes of a pattern are looked for."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import load
from xoptim.match.pattern import CONSTANT
from xoptim.match.program import Program, compile_trace, literal_key, operand_orders, worth_trying
from xoptim.match.trace import PatternBuilder, Scalar, Symbol, trace


def compiled(function: Callable[..., Any]) -> Program:
    (only,) = trace(function)
    return compile_trace(only)


def steps(program: Program) -> list[tuple[str, str]]:
    return [(step.kind, step.node.op_type) for step in program.steps]


def test_a_chain_is_walked_up_from_its_end() -> None:
    def pattern(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Neg(g.op.Abs(g.op.Exp(x)))

    program = compiled(pattern)
    assert program.anchor_key == ("", "Neg")
    assert steps(program) == [
        ("inputs", "Neg"), ("up", "Abs"), ("inputs", "Abs"), ("up", "Exp"), ("inputs", "Exp"),
    ]  # fmt: skip
    (need,) = program.needs
    assert (need.key, [deeper.key for deeper in need.needs]) == (("", "Abs"), [("", "Exp")])
    assert (program.size, program.reach) == (4, 3)


def test_a_rare_operator_is_the_anchor_of_common_ones() -> None:
    def pattern(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Add(g.op.Mul(g.op.Erf(x), 0.5), 1.0)

    program = compiled(pattern)
    assert program.anchor_key == ("", "Erf")
    assert steps(program) == [
        ("inputs", "Erf"),
        ("down", "Mul"),
        ("inputs", "Mul"),
        ("down", "Add"),
        ("inputs", "Add"),
    ]
    assert (program.needs, program.consumers, program.reach) == ((), (("", "Mul"),), 3)


def test_every_node_is_visited_once_whatever_the_shape() -> None:
    def pattern(g: PatternBuilder, x: Symbol, z: Symbol) -> tuple[Symbol, Symbol]:
        t = g.op.Softmax(x)
        a, b = g.op.Split(t, outputs=2)
        return g.op.Add(a, z), g.op.Mul(b, t)

    program = compiled(pattern)
    for kind in ("inputs",):
        assert sorted(op for k, op in steps(program) if k == kind) == [
            "Add",
            "Mul",
            "Softmax",
            "Split",
        ]
    assert len([s for s in program.steps if s.kind != "inputs"]) == 3


def test_a_constant_operand_tells_where_to_look() -> None:
    def literal(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Mul(x, 2.0)

    def scalar(g: PatternBuilder, x: Symbol, k: Scalar) -> Symbol:
        return g.op.Mul(x, k)

    assert compiled(literal).path == (literal_key(2),)
    assert compiled(scalar).path == (CONSTANT,)


def test_a_literal_that_may_be_rounded_does_not_tell_where_to_look() -> None:
    def inexact(g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Mul(x, 0.044715)

    assert compiled(inexact).path == (CONSTANT,)
    assert literal_key(0.0) == literal_key(-0.0) == literal_key(False)


def test_a_deep_pattern_of_many_ways_up_is_compiled() -> None:
    def squares(g: PatternBuilder, x: Symbol) -> Symbol:
        for _ in range(2000):
            x = g.op.Mul(x, x)
        return x

    needs, levels = compiled(squares).needs, 0
    while needs:
        (need,) = needs
        needs, levels = need.needs, levels + 1
    assert levels == 4


def test_the_readers_of_a_result_are_listed_once_for_all_variants() -> None:
    def pattern(g: PatternBuilder, x: Symbol) -> Any:
        reader = g.choice("reader", "Add", "Sub", "Mul", "Div")
        return getattr(g.op, reader)(g.op.Erf(x), 1.0)

    graph = load("agraph (float[n] x) => (float[n] y) { e = Erf(x) y = Sub(e, x) }").graph
    erf, _ = graph.nodes
    listed: list[str] = []
    consumers = graph.consumers

    def listing(name: str) -> Any:
        listed.append(name)
        return consumers(name)

    graph.consumers = listing
    chosen = worth_trying([compile_trace(variant) for variant in trace(pattern)], graph, erf)
    assert [program.consumers for program in chosen] == [(("", "Sub"),)]
    assert listed == ["e"]


def test_operand_orders() -> None:
    def pattern(g: PatternBuilder, x: Symbol, z: Symbol) -> tuple[Symbol, ...]:
        return (
            g.op.Add(x, z),
            g.op.Add(x, x),
            g.op.Sub(x, z),
            g.op.Max(x, z, 1.0),
            g.op.Add(x, z, domain="test"),
        )

    (found,) = trace(pattern)
    assert [operand_orders(node) for node in found.nodes] == [
        ((0, 1), (1, 0)), ((0, 1),), ((0, 1),), (), ((0, 1),),
    ]  # fmt: skip


def empty(g: PatternBuilder, x: Symbol) -> Symbol:
    return x


def nothing(g: PatternBuilder, x: Symbol) -> tuple[Symbol, ...]:
    return ()


def apart(g: PatternBuilder, x: Symbol, z: Symbol) -> tuple[Symbol, Symbol]:
    return g.op.Neg(x), g.op.Abs(z)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (empty, "must return results of g.op calls"),
        (nothing, "must return"),
        (apart, "is not connected to the rest"),
    ],
)
def test_patterns_that_cannot_be_searched(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(TypeError, match=message) as error:
        compiled(function)
    assert __file__ in str(error.value)
