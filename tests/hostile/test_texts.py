"""Texts in a model and on the command line that would take regular expressions, arithmetic or the
parser too long.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lab.fuzzing.run import Limits
from tests.cli.command import RELU, Xopt, files, write
from tests.hostile.cases import Case, check, listed, not_verified, optimized, refused
from tests.support import parse, values_in
from xoptim import optimize
from xoptim.facts.assumptions import ENTRY, Assumptions, SizeFact
from xoptim.facts.dim_formulas import formula_of
from xoptim.facts.errors import AssumptionError
from xoptim.facts.nesting import is_too_deep
from xoptim.facts.words import byte_amount, whole_number
from xoptim.verification.errors import LoadError
from xoptim.verification.runs.session import Session

pytestmark = pytest.mark.slow

PRIMES = [n for n in range(2, 900) if all(n % k for k in range(2, n))][:150]
DIGITS = "9" * 5000
HEADER = '<ir_version: 10, opset_import: ["" : 18]>\n'
WEIGHTS = "agraph (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }"
DEEP = {
    "types": f"{HEADER}g ({'seq(' * 100_000}float{')' * 100_000} x) => (float y) {{ y = Neg(x) }}",
    "subgraphs": (
        f"{HEADER}g (float x) => (float y) {{ {'y = If (x) <a = g () => (float y) { ' * 20_000}"
    ),
    "lists": f"{HEADER}g (float x) => (float y) {{ {'y = Neg <a = [g () => (float y) { ' * 20_000}",
    "attributes": (
        f"{HEADER}g (float x) => (float y) {{ y = Neg <a : type_proto = {'map(int64, ' * 100_000}"
    ),
}


def assuming(entry: str) -> Callable[[], onnx.ModelProto]:
    def make() -> onnx.ModelProto:
        model = parse(RELU)
        model.metadata_props.add(key=ENTRY, value=entry)
        return model

    return make


def sized(name: str) -> Callable[[], onnx.ModelProto]:
    """A model with a name of a dimension."""

    def make() -> onnx.ModelProto:
        model = parse(RELU)
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = name
        return model

    return make


def outside(**entries: str) -> Callable[[], onnx.ModelProto]:
    """A model whose weights are in a file, with more entries about it."""

    def make() -> onnx.ModelProto:
        model = parse(WEIGHTS)
        (tensor,) = model.graph.initializer
        Path("weights.bin").write_bytes(numpy_helper.to_array(tensor).tobytes())
        tensor.ClearField("float_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": "weights.bin", **entries}.items():
            tensor.external_data.add(key=key, value=value)
        return model

    return make


def of_rank(rank: int) -> Callable[[], onnx.ModelProto]:
    def make() -> onnx.ModelProto:
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1] * rank) for name in "xy"]
        graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ends[:1], ends[1:])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)

    return make


def stored(*shape: int) -> Callable[[], onnx.ModelProto]:
    def make() -> onnx.ModelProto:
        model = outside()()
        model.graph.initializer[0].dims[:] = shape
        return model

    return make


def squares() -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, [f"d{n}"]) for n in range(60)]
    nodes = [helper.make_node("Shape", [f"x{n}"], [f"s{n}"]) for n in range(60)]
    nodes += [helper.make_node("Mul", [f"s{n}", f"s{n}"], [f"q{n}"]) for n in range(60)]
    nodes.append(helper.make_node("Concat", [f"q{n}" for n in range(60)], ["q"], axis=0))
    nodes.append(helper.make_node("ConstantOfShape", ["q"], ["y"]))
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", ends, [end])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def chain(length: int) -> Callable[[], onnx.ModelProto]:
    """Local functions each of which calls the next one."""

    def make() -> onnx.ModelProto:
        model = parse(
            "agraph (float[4] x) => (float[4] y) { y = local.f0(x) }", domains={"local": 1}
        )
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
        for number in range(length):
            last = number == length - 1
            call = helper.make_node(
                "Relu" if last else f"f{number + 1}", ["x"], ["y"], domain="" if last else "local"
            )
            model.functions.append(
                helper.make_function("local", f"f{number}", ["x"], ["y"], [call], opsets)
            )
        return model

    return make


def misspelt(field: str) -> Callable[[], bytes]:
    """A model with a text that is not UTF-8."""

    def make() -> bytes:
        model = parse(RELU)
        (node,) = model.graph.node
        node.attribute.append(helper.make_attribute("ATTRIBUTE", 1))
        node.doc_string, model.producer_name = "DOCUMENT", "PRODUCER"
        node.metadata_props.add(key="NODEKEY", value="VALUE")
        model.metadata_props.add(key="KEY1", value="TEXT")
        raw = bytes(model.SerializeToString())
        assert field.encode() in raw
        return raw.replace(field.encode(), b"\xff" * len(field))

    return make


LONGER, IGNORED = (
    "is longer than 400 characters",
    "the metadata entry xoptim.assumptions is ignored",
)
CASES = [
    *(
        optimized(
            f"text-metadata-{name}",
            f"assumptions in the metadata: {what}",
            assuming(entry),
            "Relu",
            warnings=(IGNORED,),
        )
        for name, what, entry in (
            ("open", "`finite(` and 4,000 spaces", "finite(" + " " * 4000),
            ("spaces", "a name and 80,000 spaces", f"n{' ' * 80_000}x >= 1"),
            (
                "remainders",
                "150 remainders of one size",
                "; ".join(f"n % {prime} == 1" for prime in PRIMES),
            ),
            ("number", "a number of 5,000 digits", f"n >= {DIGITS}"),
            ("many", "100,000 of them", "; ".join(f"n{number} >= 1" for number in range(100_000))),
        )
    ),
    *(
        optimized(f"text-dimension-{name}", f"a dimension called by {what}", sized(entry), "Relu")
        for name, what, entry in (
            ("long", "a sum of 80,000 names", "n+" * 80_000 + "n"),
            ("digits", "a multiple of 190 digits", f"n*{DIGITS[:190]}"),
            ("nested", "100 parentheses in parentheses", f"{'(' * 90}n+1{')' * 90}"),
        )
    ),
    *(
        refused(
            f"text-external-{name}",
            f"external data whose {name} has 5,000 digits",
            outside(**{name: DIGITS}),
            "not a number",
        )
        for name in ("offset", "length")
    ),
    not_verified(
        "text-external-held",
        "external data with an entry `held`",
        outside(held="x"),
        "onnxruntime",
        "Add",
    ),
    not_verified("text-rank", "an input of 65 axes", of_rank(65), "has 65 dimensions", "Neg"),
    refused(
        "text-rank-more",
        "an input of 20,000 axes",
        of_rank(20_000),
        "a value of 20000 axes is declared",
    ),
    refused("text-rank-weights", "weights of 65 axes", stored(*[1] * 65), "has 65 axes"),
    refused(
        "text-elements",
        "weights of 2^124 elements in a file",
        stored(1 << 62, 1 << 62),
        "has 2^63 elements or more",
    ),
    optimized(
        "text-squares", "a shape that is computed by squaring the sizes of 60 inputs", squares
    ),
    refused(
        "text-chain",
        "300 local functions, each of which calls the next, with `--inline`",
        chain(300),
        "onnx cannot replace the calls of local functions",
        options=("--inline",),
    ),
    *(
        refused(
            f"text-utf8-{field.lower()}",
            f"a text that is not UTF-8: {what}",
            misspelt(field),
            "is not UTF-8",
        )
        for field, what in (
            ("ATTRIBUTE", "the name of an attribute"),
            ("DOCUMENT", "the documentation of a node"),
            ("PRODUCER", "the producer"),
            ("NODEKEY", "a key of the metadata of a node"),
            ("KEY1", "a key of the metadata"),
        )
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_texts(xopt: Xopt, case: Case) -> None:
    with Limits():
        check(case, xopt)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--assume", "finite(" + " " * 4000), LONGER),
        (("--assume", f"n >= {DIGITS[:99]}"), "a dimension is below 2^63"),
        (("--assume", f"n % {DIGITS[:99]} == 1"), "with a divisor of at most"),
        (("--dim", f"batch={DIGITS}"), "write it as NAME=SIZE"),
        (("--fix", f"batch={DIGITS}"), "write it as NAME=SIZE"),
        (("--run-limit", f"1{' ' * 100_000}x"), "is not a time above 0"),
        (("--max-growth", DIGITS), "a size such as 500kB, a share"),
        (("--opset", DIGITS), "is neither a number nor"),
        (("--patterns", "+" * 100_000), "a word is missing"),
    ],
)
def test_options(xopt: Xopt, words: tuple[str, ...], message: str) -> None:
    write(RELU)
    with Limits():
        error = xopt("model.onnx", *words).error
    assert message in error
    assert len(error) < 6000
    assert files() == {"model.onnx"}


def test_a_position_of_many_digits(xopt: Xopt) -> None:
    write(RELU)
    error = xopt("explain", "model.onnx", "Gelu", "--at", f"#{DIGITS}").error
    assert f"'#{DIGITS[:20]}" in error


def test_memory_of_many_digits(xopt: Xopt) -> None:
    write(RELU)
    assert (
        "below 2^63 bytes"
        in xopt("batch", "model.onnx", "-o", "out", "--memory", DIGITS[:90]).error
    )


def test_more_threads_than_any_machine_has(xopt: Xopt) -> None:
    write(RELU)
    assert "'--threads'" in xopt("bench", "model.onnx", "--threads", DIGITS[:30]).error


def test_the_message_of_onnxruntime_is_read_in_part() -> None:
    model = parse("agraph (float[4] x) => (float[4] y) { y = other.Op(x) }", domains={"other": 1})
    for name in ("/" * 80_000, "/a.cc:1 b) " * 8000):
        model.graph.node[0].op_type = name
        with Limits(), pytest.raises(LoadError, match="Fatal error") as error:
            Session(model)
        assert len(str(error.value)) < 700


def test_an_equation_of_many_letters(xopt: Xopt) -> None:
    model = parse(RELU)
    model.graph.node[0].op_type = "Einsum"
    model.graph.node[0].attribute.append(helper.make_attribute("equation", "a" * 100_000 + "!"))
    write(model)
    with Limits():
        assert xopt("model.onnx").code == 3


@listed(
    "text-strings",
    "texts that StringConcat or Concat doubles 40 times",
    "optimized in moments, not folded",
)
@pytest.mark.parametrize("operator", ["StringConcat", "Concat <axis = 0> "])
def test_texts_that_grow_are_not_folded(operator: str) -> None:
    steps = " ".join(f"c{n + 1} = {operator}(c{n}, c{n})" for n in range(40))
    start = 'c0 = Constant <value_strings = ["ab"]> () d0 = StringConcat(c0, c0)'
    text = (
        f"agraph (string[1] x) => (string[n] y) {{ {start} {steps} "
        "y = Concat <axis = 0> (x, d0, c40) }"
    )
    with Limits():
        found = optimize(parse(text, opset=20), patterns="default")
    kinds = [node.op_type for node in found.graph.node]
    assert 20 < len(kinds) < 41
    assert [
        list(tensor.string_data) for tensor in found.graph.initializer if list(tensor.dims) == [1]
    ].count([b"abab"]) == 1
    assert sum(tensor.ByteSize() for tensor in found.graph.initializer) < 3_000_000


@listed(
    "text-deep",
    "a model in text form, nested 20,000 or 100,000 deep",
    "error: “… is nested too deeply …”",
)
@pytest.mark.parametrize("kind", DEEP)
def test_text_forms_that_are_nested_deeply(xopt: Xopt, kind: str) -> None:
    Path("model.onnxtxt").write_text(DEEP[kind], encoding="utf-8")
    assert "too deeply" in xopt("model.onnxtxt", "-o", "new.onnx").error
    assert is_too_deep(DEEP[kind])
    assert files() == {"model.onnxtxt"}


@pytest.mark.parametrize(
    "body",
    [
        "y = If (c) <a = g () => (float y) { " * 20_000,
        f"y = Neg <a : type_proto = {'seq(' * 100_000}> (x)",
    ],
)
def test_rules_that_are_nested_deeply(xopt: Xopt, body: str) -> None:
    write(RELU)
    Path("rules.onnxtxt").write_text(
        f"match (x) => (y) {{ {body} }}\nreplace (x) => (y) {{ y = Neg(x) }}", encoding="utf-8"
    )
    assert "too deeply" in xopt("model.onnx", "--rewrite", "rules.onnxtxt").error


@pytest.mark.parametrize(
    ("given", "deep"),
    [
        ("(" * 201, True),
        ("(" * 200 + ")" * 200, False),
        ("()" * 1000, False),
        ('"' + "(" * 999 + '"', False),
        ("# " + "{" * 999 + "\n(", False),
        ("a = g () => (y) {" * 201, True),
        ('"' + '\\"' * 100_000, False),
    ],
)
def test_the_depth_of_a_text(given: str, deep: bool) -> None:
    with Limits():
        assert is_too_deep(given) is deep


@pytest.mark.parametrize(
    "size",
    [
        f"<ir_version: {DIGITS}, opset_import: []>\ng (float x) => (float y) {{ }}",
        f"{HEADER}g (float[{DIGITS}] x) => (float y) {{ }}",
    ],
)
def test_numbers_in_text_forms(xopt: Xopt, size: str) -> None:
    Path("model.onnxtxt").write_text(size, encoding="utf-8")
    assert "too large" in xopt("model.onnxtxt", "-o", "new.onnx").error


@pytest.mark.parametrize("kind", ["V7", "V4", "M8[s]", "f4,i4"])
def test_values_of_other_types(xopt: Xopt, kind: str) -> None:
    write(RELU)
    np.savez("feeds.npz", x=np.zeros((2, 4), kind))
    outcome = xopt("model.onnx", "--feeds", "feeds.npz", "-o", "new.onnx")
    if kind == "V4":  # the bytes of a float
        assert outcome.code == 0
    else:
        assert values_in(outcome.error)[0] == "x"


@pytest.mark.parametrize(
    "content",
    ["tool = 5\n", 'tool = "x"\n', "tool = [1]\n", "[[tool]]\nx = 1\n", "[tool]\nxoptim = 5\n"],
)
def test_project_files_of_others(xopt: Xopt, content: str) -> None:
    write(RELU)
    Path("pyproject.toml").write_text(content, encoding="utf-8")
    assert xopt("model.onnx", "-o", "new.onnx").code == 0
    assert "[tool.xoptim]" in xopt("model.onnx", "--config", "pyproject.toml").error


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
@pytest.mark.parametrize(
    "words", [("--feeds",), ("--rewrite",), ("-o",), ("--config",), ("--test-data",)]
)
def test_names_of_files_that_are_not_utf8(xopt: Xopt, words: tuple[str, ...]) -> None:
    write(RELU)
    name = os.fsdecode(b"no\xff\xfe/such")
    assert r"no\udcff\udcfe" in xopt("model.onnx", *words, name).error


def test_remainders_of_one_size() -> None:
    """By the Chinese remainder theorem, and not by trying."""
    assert SizeFact(divisor=4, rest=2).meet(SizeFact(divisor=6)) == SizeFact(divisor=12, rest=6)
    assert SizeFact(divisor=4, rest=1).meet(SizeFact(divisor=6)) is None
    facts = [SizeFact(divisor=a, rest=b) for a in range(1, 13) for b in range(a)]
    for first in facts:
        for second in facts:
            met = first.meet(second)
            holds = [size for size in range(300) if first.holds(size) and second.holds(size)]
            assert holds == (
                [] if met is None else [size for size in range(300) if met.holds(size)]
            )
    with pytest.raises(AssumptionError, match="may have a common multiple of at most"):
        Assumptions.of(["n % 1048573 == 1", "n % 1048571 == 1"])


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ("0", 0),
        ("007", 7),
        (str((1 << 63) - 1), (1 << 63) - 1),
        (str(1 << 63), None),
        (DIGITS, None),
        ("", None),
        ("-1", None),
        ("1_0", None),
        ("٣", None),
        ("²", None),
        ("1.0", None),
    ],
)
def test_whole_numbers(given: str, number: int | None) -> None:
    assert whole_number(given) == number


def test_amounts_and_formulas_of_many_digits() -> None:
    with pytest.raises(ValueError, match="below 2\\^63 bytes"):
        byte_amount(DIGITS[:60])
    assert formula_of(f"n*{DIGITS[:150]}") is None
    assert formula_of(f"{DIGITS[:15]}*{DIGITS[:15]}*{DIGITS[:15]}") is None
