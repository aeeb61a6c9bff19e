"""Errors in rules in text form name the place, and so do the reasons why a rule does not match."""

import pytest

from tests.dialects.rules import HEADER, pair
from tests.match.matching import find
from xoptim import XoptimError
from xoptim.dialects.text import TextPattern, parse_rules
from xoptim.facts.errors import TextRuleError
from xoptim.match.refusal import Refusal, listening


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        (pair("match (x) => (y) {\n  y = Relu (x; }"), "3:14", "expected ')'"),
        (pair("match (x) => (y) {\n  # ä ;\n  é = Relu (x) }"), "4:3", "expected '='"),
        (pair('match (x) => (y) {\n  y = Relu <a = "ää"; > (x) }'), "3:21", "expected '>'"),
        (
            HEADER + '\nmatch (x) => (y) { y = Relu <a = "b> (x) }',
            "2:43",
            "incomplete string literal",
        ),
        (HEADER + "\nmatch (x) => (y) {\n y = Relu (x)", "3:14", "expected '='"),
        ("nonsense", "1:9", "expected '('"),
        (
            HEADER + "\nmatch (x) => (y) {\n y = Elu <alpha = 1e> (x) }",
            "3:19",
            "Failed to parse float",
        ),
        (pair("match (x) => (y) { y = Elu <alpha = > (x) }"), "2:37", "expected a value"),
        (HEADER + " # c\nmatch (x) => (y) { y = Relu (x) }", "2:1", "rule 'R' has no 'replace'"),
        (HEADER + "\n\n replace (x) => (y) { y = Relu (x) }", "3:2", "rule 'R' has no 'match'"),
        ("match (x) => (y) { y = Relu (x) }", "1:1", "the rule has no name"),
        (HEADER + "search (x) => (y) { y = Relu (x) }", "1:39", "function 'search'"),
        (pair("match (x) => (y) { y = Abs (x) }") * 2, "6:1", "rule 'R' has a second 'match'"),
        (
            pair("match (x) => (y) { y = Abs (x) }").replace('"R"', '"a-b"'),
            "2:1",
            "'a-b' cannot be the name of a rule",
        ),
        (
            pair("match (x) => (y) { y = Abs (x) }", "replace (x, z) => (y) { y = Abs (x) }"),
            "4:1",
            "different inputs: (x) and",
        ),
        (
            pair(
                "match (x) => (y) { y = Abs (x) }",
                "replace (x) => (y, z) { y = Abs (x) z = Neg (x) }",
            ),
            "4:1",
            "different outputs",
        ),
        (
            pair(
                "match (a, x) => (y) { y = Pow (a, x) }", "replace (x, a) => (y) { y = Pow (a, x) }"
            ),
            "4:1",
            "different inputs",
        ),
        (
            pair("match <a> (x) => (y) { y = Elu <alpha = @a> (x) }"),
            "4:1",
            "different attributes: <a> and <>",
        ),
        (
            pair(
                "match <a: float = 1.0> (x) => (y) { y = Elu <alpha = @a> (x) }",
                "replace <a> (x) => (y) { y = Abs (x) }",
            ),
            "4:1",
            "'a' has different defaults",
        ),
        (
            pair("match (x) => (z) {\n y = Abs (x) }"),
            "2:1",
            "unknown result 'z': no operator of 'match' makes it",
        ),
        (
            pair("match (x) => (y) { y = Abs (x) }", "replace (x) => (z) { y = Abs (x) }"),
            "4:1",
            "unknown result 'z'",
        ),
        (
            pair("match (x, x) => (y) { y = Abs (x) }"),
            "2:1",
            "two inputs of 'match' have the same name",
        ),
        (pair("match (x) => (y, y) { y = Abs (x) }"), "2:1", "result 'y' is returned twice"),
        (
            pair("match (x) => (y) { y = Abs (x) }").replace('"R"', '"Pattern"'),
            "2:1",
            "the rule has no name",
        ),
        (
            HEADER.replace("R", "RPattern")
            + "match (x) => (y) { y = Abs (x) }"
            + pair("match (x) => (y) { y = Abs (x) }"),
            "2:1",
            "second",
        ),
        (pair("match (x) => (x) { }"), "2:1", "no operator in 'match'"),
        (
            pair("match (x) => (x) { y = Abs (x) }"),
            "2:1",
            "the output 'x' of 'match' is not the result of an operator",
        ),
        (
            pair("match (x, z) => (y) { y = Abs (x) }", "replace (x, z) => (y) { y = Add (x, z) }"),
            "2:1",
            "reads the input 'z'",
        ),
        (
            pair("match (x) => (y) {\n y = Add (x, z)\n z = Abs (x) }"),
            "3:2",
            "operand 'z' of Add is not defined before it",
        ),
        (
            pair("match (x) => (y) { y = Abs (x) }", "replace (x) => (y) {\n# \n  y = Neg (t) }"),
            "6:3",
            "operand 't' of Neg",
        ),
        (
            pair("match (x) => (y) { y = Abs (x)\n y = Neg (x) }"),
            "3:2",
            "result 'y' is defined twice",
        ),
        (pair("match (x) => (x) { x = Abs (x) }"), "2:20", "result 'x' is defined twice"),
        (
            pair("match (x) => (y) { y = Elu <alpha = @a> (x) }"),
            "2:20",
            "@a is not an attribute of 'match'",
        ),
        (
            pair(
                "match <a> (x) => (y) { y = Abs (x) }",
                "replace <a> (x) => (y) {\n y = Elu <alpha = @a> (x) }",
            ),
            "5:2",
            "@a is used here, but no operator of 'match' has it",
        ),
        (
            pair(
                "match <y> (x) => (y) { y = Elu <alpha = @y> (x) }",
                "replace <y> (x) => (z) { z = Abs (x) }",
            ),
            "2:24",
            "'y' is the name of an attribute and of a result",
        ),
        (
            pair(
                "match <x> (x) => (y) { y = Elu <alpha = @x> (x) }",
                "replace <x> (x) => (y) { y = Abs (x) }",
            ),
            "2:1",
            "'x' is the name of an attribute and of an input",
        ),
        (
            pair(
                "match (c, x) => (y) {\n"
                " y = Abs (x)\n"
                " z = If <then_branch = g () => (t) { t = Abs (x) }> (c) }"
            ),
            "4:2",
            "attribute 'then_branch' of If: subgraphs are not supported in rules",
        ),
        (
            pair("match (x) => (y) { y = Softmax <axs = 1> (x) }"),
            "2:20",
            "Softmax has no attribute 'axs'",
        ),
        (
            pair("match (x) => (y) { y = Abs (x) }", "replace (x) => (y) { y = Abss (x) }"),
            "4:22",
            "no operator 'Abss'",
        ),
        (
            pair(
                "match (x, z) => (y, t) { y = Abs (x)\n t = Cos (z) }",
                "replace (x, z) => (y, t) { y = Cos (x) t = Abs (z) }",
            ),
            "2:1",
            "of match_pattern in rules is not connected",
        ),
        (
            pair("match (x) => (y) { y = Abs (x)\n  ok = filter.same_shap (x, y) }"),
            "3:3",
            "unknown filter 'same_shap'; known are",
        ),
        (
            pair("match (x) => (y) { y = Abs (x)\n  ok = filter.same_shape (x) }"),
            "3:3",
            "filter.same_shape: missing a required",
        ),
        (
            pair("match (x) => (y) { y = Abs (x)\n  ok = filter.is_float <size = 2> (x) }"),
            "3:3",
            "filter.is_float: got an unexpected",
        ),
        (
            pair(
                "match (x) => (y) { y = Abs (x) }",
                "replace (x) => (y) { o = filter.is_float (x) y = Neg (x) }",
            ),
            "4:22",
            "use it in 'match'",
        ),
        (
            pair(
                "match (x) => (y) { c = Constant <value_int = 1> ()\n"
                " o = filter.is_float (c)\n"
                " y = Add (x, c) }"
            ),
            "3:2",
            "has the operand 'c', which the rule itself gives",
        ),
        (
            pair("match (x) => (y) { s = rule.settings <prio = 1> ()\n y = Abs (x) }"),
            "2:20",
            "unknown setting 'prio'; there are",
        ),
        (
            pair("match (x) => (y) { s = rule.setings <priority = 1> () y = Abs (x) }"),
            "2:20",
            "has rule.settings",
        ),
        (
            pair("match (x) => (y) { y = Abs (x) s = rule.settings <exactness = 1> () }"),
            "2:32",
            "'exactness' is one of exact, ",
        ),
        (
            pair('match (x) => (y) { y = Abs (x) s = rule.settings <priority = "1"> () }'),
            "2:32",
            "'priority' is a whole number",
        ),
        (
            pair("match (x) => (y) { y = Abs (x) s = rule.settings <tags = [1, 2]> () }"),
            "2:32",
            "'tags' is a list of words",
        ),
        (
            pair("match (x) => (y) { y = Abs (x) s = rule.settings <keep_names = 2> () }"),
            "2:32",
            "'keep_names' is 0 or 1",
        ),
        (
            pair(
                "match <a> (x) => (y) { y = Elu <alpha = @a> (x) "
                "s = rule.settings <priority = @a> () }"
            ),
            "2:49",
            "settings must be values",
        ),
        (
            pair('match (x) => (y) { y = Abs (x) s = rule.settings <anchors = "Neg"> () }'),
            "2:1",
            "no node with an operator",
        ),
        (
            pair('match (x) => (y) { c = Constant <value_string = "a"> ()\n y = Add (x, c) }'),
            "2:1",
            "'c' is not a number",
        ),
        (
            pair("match (x) => (y) { c = Constant ()\n y = Add (x, c) }"),
            "2:20",
            "a Constant has one attribute",
        ),
        (
            pair("match <a> (x) => (y) { c = Constant <value_int = @a> ()\n y = Add (x, c) }"),
            "2:24",
            "a Constant in 'match' needs a value",
        ),
        (
            pair("match (x) => (y) { c = Constant <other = 1> ()\n y = Add (x, c) }"),
            "2:20",
            "with the attribute 'other'",
        ),
        (
            pair("match (x) => (y) { c = Constant <value = float[2] {1}> ()\n y = Add (x, c) }"),
            "2:20",
            "cannot be read",
        ),
    ],
)
def test_errors_name_the_place(text: str, where: str, what: str) -> None:
    with pytest.raises(TextRuleError) as caught:
        parse_rules(text)
    message = str(caught.value)
    assert isinstance(caught.value, XoptimError)
    assert message.startswith(f"rules:{where}: "), message
    assert what in message
    assert "\n" not in message


def test_errors_name_the_file() -> None:
    with pytest.raises(
        TextRuleError, match=r"^a/b\.onnxtxt:1:1: 'match' .* has no name|^a/b\.onnxtxt:1:1: "
    ):
        parse_rules("match (x) => (y) { y = Relu (x) }", "a/b.onnxtxt")


def test_refusals_name_the_line() -> None:
    text = """# match (x) => (y) { s = Sin (x) }
<domain: "R", opset_import: ["" : 18], doc_string: "s = Sin(x)
y = Cos(s)">
match (x) => (y)
{
    # s = Sin (x)
    s = Sin (x)   # y = Neg (s)

    y, other = custom.Cos <t = float[2] {1, 2},
        s = "y = Neg (s)"> (s)
    fits = filter.has_rank <rank = 3> (x)
}
<domain: "R", opset_import: ["" : 18]> replace (x) => (y) { y = Neg (x) }
"""
    pattern = parse_rules(text, "file.onnxtxt")[0]()
    cos = '{ s = %s(x) y, o = custom.Cos <t = float[2] {1, 2}, s = "y = Neg (s)%s"> (s) }'
    domains = {"custom": 1}
    assert (
        find(pattern, "agraph (float[1,2,3] x) => (y)" + cos % ("Sin", ""), domains=domains)
        is not None
    )
    for model, line, reason in (
        (("Tan", ""), 7, "expected Sin"),
        (("Sin", "."), 9, "attribute s="),
        (("Sin", ""), 11, "filter"),
    ):
        body = "agraph (float[2,3] x) => (y)" + cos % model
        (refusal,) = _refusals(pattern, body, domains)
        assert (refusal.file, refusal.line, refusal.exit_point) == (
            "file.onnxtxt",
            line,
            f"file.onnxtxt:{line}",
        )
        assert reason in refusal.reason
        assert refusal.pattern == "R"


def _refusals(pattern: TextPattern, text: str, domains: dict[str, int]) -> list[Refusal]:
    heard: list[Refusal] = []
    with listening(heard.append):
        assert find(pattern, text, domains=domains) is None
    return heard
