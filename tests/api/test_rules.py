"""The Python door to rules in text form."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest

from tests.dialects.rules import HEADER, PRODUCT, RELU, SQUARE, pair
from tests.support import parse, run, same_results, types
from xoptim import (
    Example,
    PatternOptimization,
    database,
    optimize,
    parse_rules,
    read_rules,
    rewrite_rule,
    select,
)
from xoptim.api.rules import SubgraphRewriter, register_rewrite
from xoptim.catalogue.discovery import patterns_of
from xoptim.facts.errors import TextRuleError
from xoptim.testing import check_example, check_near_misses

RULES = Path(__file__).parents[2] / "examples" / "rules"
POWERS = """agraph (float[n] x) => (float[n] z) <float two = {2}, float
  three = {3}> { y = Pow(x, two) z = Pow(y, three) }"""
CUBE = "f (x) => (y) { three = Constant <value_float = 3.0> ()  y = Pow (x, three) }"
CUBED = "f (x) => (y) { t = Mul (x, x)  y = Mul (t, x) }"


@pytest.fixture
def _database() -> Iterator[None]:
    """Takes out what a test registers."""
    before = database().names()
    yield
    for name in database().names() - before:
        database().unregister(name)


# -------------------------------------------------------------------- files


def test_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a.onnxtxt", tmp_path / "b.onnxtxt"
    first.write_text(
        pair("match (x) => (y) { y = Abs (x) }")
        + pair("match (x) => (y) { y = Sin (x) }").replace('"R"', '"S"')
    )
    second.write_text(pair("match (x) => (y) { y = Cos (x) }").replace('"R"', '"A"'))
    rules = read_rules(first, str(second))
    assert [(cls.name(), cls.priority) for cls in rules] == [("R", 0), ("S", 1), ("A", 2)]
    assert all(issubclass(cls, PatternOptimization) for cls in rules)
    assert [p.name() for p in select(rules)] == ["R", "S", "A"]
    with pytest.raises(TextRuleError) as caught:
        read_rules(first, first)
    assert str(caught.value).startswith(f"{first}:2:1: rule 'R' ")
    assert str(caught.value).endswith(f" {first}:2")
    assert read_rules() == []
    first.write_bytes(b"\xef\xbb\xbf" + pair("match (x) => (y) {\r\n y = Abs (x) }").encode())
    (rule,) = read_rules(first)
    assert (rule.rule.match.place.line, rule.rule.match.calls[0].place.line) == (2, 3)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "model.onnx"
    binary.write_bytes(b"\x08\xff\xfe")
    missing, folder = tmp_path / "none.onnxtxt", tmp_path
    for path, reason in (
        (missing, os.strerror(errno.ENOENT)),
        (folder, os.strerror(errno.EISDIR)),
        (binary, "UTF-8"),
    ):
        with pytest.raises(TextRuleError, match=f"^{path}: .*{reason}"):
            read_rules(path)


SQUARES = Example(
    "agraph (float[n] x) => (float[n] y) { c = Constant <value_float = 2.0> () y = Pow(x, c) }",
    "agraph (float[n] x) => (float[n] y) { y = Mul(x, x) }",
)
GEMM = "agraph (float[m,4] x, float[4,3] w, float[3] b) => (float[m,3] y) "
PLAIN = Example(GEMM + "{ y = Gemm(x, w, b) }", GEMM + "{ t = MatMul(x, w) y = Add(t, b) }")
SCALED = Example(
    GEMM + "{ y = Gemm <alpha = 0.5, beta = 3.0> (x, w, b) }",
    GEMM
    + "<float h = {0.5}, float k = {3}> { s = MatMul(x, w) t = Mul(s, h) u = Mul(b, k) y = Add(t,"
    " u) }",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "name", "example"),
    [
        ("square", "SquareToMul", SQUARES),
        ("addmm", "UnpackAddmmPlain", PLAIN),
        ("addmm", "UnpackAddmm", SCALED),
    ],
)
def test_the_examples_are_proved(file: str, name: str, example: Example) -> None:
    rules = {cls.name(): cls for cls in read_rules(RULES / f"{file}.onnxtxt")}
    check_example(rules[name], example)
    assert check_near_misses(rules[name], example)["fired"]


# -------------------------------------------------------------------- registering


@pytest.mark.usefixtures("_database")
def test_a_registered_rule_runs_by_default() -> None:
    model = parse("agraph (float[n] x) => (float[n] y) { y = Sinh(x) }")
    assert types(optimize(model)) == ["Sinh"]
    made = register_rewrite(
        "f (x) => (y) { y = Sinh (x) }",
        "f (x) => (y) { y = Asinh (x) }",
        name="Silly",
        exactness="approximate",
        tags=["odd"],
    )
    assert (made.name(), made.exactness, made.tags) == ("Silly", "approximate", ("odd",))
    assert types(optimize(model)) == ["Asinh"]
    assert types(optimize(model, patterns="default-Silly")) == ["Sinh"]
    assert types(optimize(model, patterns="odd")) == ["Asinh"]
    assert types(optimize(model, patterns="TransposeTranspose")) == ["Sinh"]
    with pytest.raises(ValueError, match="'Silly'"):
        register_rewrite(
            "f (x) => (y) { y = Cosh (x) }", "f (x) => (y) { y = Acosh (x) }", name="Silly"
        )
    database().unregister("Silly")
    assert types(optimize(model)) == ["Sinh"]


@pytest.mark.usefixtures("_database")
def test_names_that_are_made_up() -> None:
    names = [register_rewrite(SQUARE, PRODUCT).name() for _ in range(3)]
    assert names == ["PowToMul", "PowToMul2", "PowToMul3"]
    header = '<domain: "Named", opset_import: ["" : 18]>'
    assert register_rewrite(header + "anything (x) => (y) { y = Sinh (x) }", RELU).name() == "Named"


def test_functions() -> None:
    """A pair of protobufs says the same.

    Names of operands and results correspond by their places.
    """
    match = onnx.parser.parse_function('<opset_import: ["" : 18]>' + CUBE)
    replace = onnx.parser.parse_function(
        '<opset_import: ["" : 18]> g (a) => (b) { t = Mul (a, a)  b = Mul (t, a) }'
    )
    cls = rewrite_rule(match, replace, name="Cube", priority=4, examples=[Example(POWERS, POWERS)])
    assert (cls.name(), cls.priority, cls.arrow()) == ("Cube", 4, "Pow(x, 3) → Mul(Mul(a, a), a)")
    assert cls.examples == (Example(POWERS, POWERS),)
    after = optimize(parse(POWERS), patterns=[cls])
    assert types(after) == ["Pow", "Mul", "Mul"]
    same_results(parse(POWERS), after, {"x": np.array([1.5, -2], np.float32)})
    match.node[1].input[0] = "q"
    with pytest.raises(TextRuleError, match=r"^pattern: .*'q' of Pow"):
        rewrite_rule(match, replace)


def test_texts_of_functions() -> None:
    for text, where in (
        ("", "pattern:1:1: .* 0$"),
        (RELU + "\n" + RELU, "pattern:2:1: .* 2$"),
    ):
        with pytest.raises(TextRuleError, match=f"^{where}"):
            rewrite_rule(text, PRODUCT)
    with pytest.raises(TextRuleError, match=r"^replacement:2:4: "):
        rewrite_rule(RELU, "f (x) =>\n(y { y = Abs (x) }")
    with pytest.raises(TextRuleError, match=r"^pattern:1:1: .*'prio'"):
        rewrite_rule(RELU, PRODUCT, prio=1)
    assert rewrite_rule(HEADER + RELU, PRODUCT).name() == "R"
    stated = rewrite_rule(
        "f (x) => (y) { s = rule.settings <priority = 3> () y = Abs (x) }",
        PRODUCT,
        priority=2,
        max_opset=20,
    )
    assert (stated.priority, stated.max_opset) == (3, 20)
    assert parse_rules(pair("match (x) => (y) { y = Abs (x) }"))[0].name() == "R"


def test_rules_of_a_pack() -> None:
    """A rule at the top of a module is found as the patterns there are."""
    module = ModuleType("pack")
    vars(module).update(match=SQUARE, replace=PRODUCT)
    exec(
        "from xoptim import rewrite_rule\nrule = rewrite_rule(match, replace, name='Packed')",
        vars(module),
    )
    assert [cls.name() for cls in patterns_of(module)] == ["Packed"]


# -------------------------------------------------------------------- rewriter


def test_a_rewriter_does_nothing_else() -> None:
    rewriter = SubgraphRewriter()
    body = "{ a = Neg(w) b = Relu(x) c = Relu(x) d = Add(b, c) y = Add(d, a) }"
    model = parse(f"agraph (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {body}")
    assert types(rewriter.run(model)) == types(model)
    first = rewriter.register_rewrite(
        RELU, "f (x) => (y) { y = Abs (x) }", phase="target", priority=9
    )
    assert rewriter.patterns == [first]
    rewriter.patterns.clear()
    given = model.SerializeToString()
    assert types(rewriter.run(model)) == ["Neg", "Abs", "Abs", "Add", "Add"]
    assert model.SerializeToString() == given
    assert types(rewriter.run(model, merge=True, constant_folding=True)) == ["Abs", "Add", "Add"]
    assert types(onnx.load_from_string(rewriter.run(given))) == ["Neg", "Abs", "Abs", "Add", "Add"]


def test_a_rewriter_keeps_the_order_of_registration() -> None:
    """Whatever names, phases and priorities say."""
    model = parse("agraph (float[2] x) => (float[2] y) { y = Sin(x) }")
    rules = [
        ("Z", "Sin", "Cos", "target"),
        ("B", "Sin", "Tan", "canonicalize"),
        ("A", "Cos", "Exp", "specialize"),
    ]
    rewriter = SubgraphRewriter()
    for name, given, made, phase in rules:
        rewriter.register_rewrite(
            f"f (x) => (y) {{ y = {given} (x) }}",
            f"f (x) => (y) {{ y = {made} (x) }}",
            name=name,
            phase=phase,
        )
    assert [cls.name() for cls in rewriter.patterns] == ["Z", "B", "A"]
    applied: list[str] = []
    after = rewriter.run(
        model, on_event=lambda e: applied.append(e.pattern) if e.kind == "applied" else None
    )
    assert types(after) == ["Exp"]
    assert applied == ["Z", "A"]
    with pytest.raises(ValueError, match="'A' is taken"):
        rewriter.register_rewrite(RELU, PRODUCT, name="A")


def test_a_rule_is_done_before_the_next_one_begins() -> None:
    rewriter = SubgraphRewriter()
    rewriter.register_rewrite(
        "f (x) => (y) { t = Exp (x) y = Exp (t) }", "f (x) => (y) { y = Exp (x) }"
    )
    rewriter.register_rewrite("f (x) => (y) { y = Exp (x) }", "f (x) => (y) { y = Cos (x) }")
    model = parse(
        "agraph (float[2] x) => (float[2] y) { a = Exp(x) b = Exp(a) c = Exp(b) d = Exp(c) "
        "y = Exp(d) }"
    )
    assert types(rewriter.run(model)) == ["Cos"]


def test_rewriting_gives_the_same_numbers() -> None:
    rewriter = SubgraphRewriter()
    rewriter.register_rewrite(SQUARE, PRODUCT)
    rewriter.register_rewrite(CUBE, CUBED)
    after = rewriter.run(parse(POWERS))
    assert types(after) == ["Mul", "Mul", "Mul"]
    x = np.array([0.5, -1.5, 2.0], np.float32)
    np.testing.assert_allclose(run(after, {"x": x})[0], x**6, rtol=1e-6)
