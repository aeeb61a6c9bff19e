"""Every built-in pattern has documentation, a name and a file by the same rules."""

import ast
import inspect
import re
from collections.abc import Collection
from pathlib import Path
from typing import get_args

import onnx
import pytest

from tests.meta.sources import ROOT, Source, sources
from xoptim import PatternOptimization, installed_patterns, select
from xoptim.facts.dtypes import Exactness
from xoptim.facts.operators import has_kernel
from xoptim.facts.schema import schema
from xoptim.match.pattern import CONSTANT_OPERAND, operator_key
from xoptim.match.rewrite import PHASES
from xoptim.testing.variant import all_nodes, parse

BUILT_IN = [
    cls for cls in installed_patterns().values() if cls.__module__.startswith("xoptim.patterns.")
]


def snake_case(name: str) -> str:
    """``MatMulAdd`` as ``mat_mul_add``; groups of letters and digits stay together."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def documentation(pattern: type[PatternOptimization]) -> str:
    """The docstring of the class itself."""
    return inspect.cleandoc(vars(pattern).get("__doc__") or "")


def check_docstring(pattern: type[PatternOptimization]) -> None:
    text = documentation(pattern)
    first, _, rest = text.partition("\n\n")
    assert "→" in first, "the first paragraph shows the rewrite"
    headings = re.findall(r"^(What|Why|Refuses when):", rest, re.MULTILINE)
    assert headings == ["What", "Why", "Refuses when"]
    what, why, refusals = re.split(r"^(?:What|Why|Refuses when):", rest, flags=re.MULTILINE)[1:]
    assert what.strip()
    assert why.strip()
    numbers = [int(n) for n in re.findall(r"^(\d+)\. \S", refusals, re.MULTILINE)]
    assert numbers
    assert numbers == list(range(1, len(numbers) + 1))


def code_of(file: Path, bases: Collection[str]) -> str:
    """The text of a file without the patterns in it that are none of these."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name not in bases and node.name[0] != "_":
            place = slice(node.lineno - 1, node.end_lineno)
            lines[place] = [""] * len(lines[place])
    return "\n".join(lines)


def check_refusals_are_next_to_the_code(pattern: type[PatternOptimization]) -> None:
    """Each refusal is referred to as (1), (2), ... in the code of the pattern, or of the one that
    it inherits.

    Exceptions are remarks, which are in brackets, and refusals by the matcher for all patterns.
    """
    refusals = re.findall(r"^(\d+)\. (\S.*)", documentation(pattern), re.MULTILINE)
    bases = {c.__name__: c for c in pattern.__mro__ if c.__module__.startswith("xoptim.patterns.")}
    files = {Path(inspect.getsourcefile(c) or "").resolve() for c in bases.values()}
    code = "".join(
        re.sub(r"Refuses when:.*?\"{3}", "", code_of(file, bases), flags=re.DOTALL)
        for file in files
    )
    own = [
        number for number, text in refusals if not text.startswith("(") and "matcher" not in text
    ]
    assert [number for number in own if f"({number})" not in code] == []


def check_examples(pattern: type[PatternOptimization]) -> None:
    examples = pattern.examples
    assert examples
    assert len({example.before for example in examples}) == len(examples)
    assert all(example.before != example.after for example in examples)


def check_metadata(pattern: type[PatternOptimization]) -> None:
    newest = onnx.defs.onnx_opset_version()
    assert pattern.phase in PHASES
    assert pattern.exactness in get_args(Exactness)
    assert pattern.status in ("stable", "preview", "deprecated")
    assert 1 <= pattern.min_opset <= (pattern.max_opset or newest) <= newest
    assert isinstance(pattern.priority, int)
    assert all(
        isinstance(words, tuple) for words in (pattern.tags, pattern.providers, pattern.produces)
    )
    assert all(provider == provider.lower() for provider in pattern.providers)
    near = set(pattern.near) - {CONSTANT_OPERAND}
    keys = [*pattern().anchor_keys(), *map(operator_key, (*pattern.anchors, *sorted(near)))]
    # onnxruntime adds some
    kernels = [key for key in keys if has_kernel("cpu", *key, onnx.TensorProto.FLOAT, newest)]
    unknown = [
        key
        for key in keys
        if not key[0] and schema(key[1], "", newest) is None and key not in kernels
    ]
    assert unknown == [], "an anchor is not an operator"


def check_other_domains_are_declared(pattern: type[PatternOptimization]) -> None:
    """The pattern ``produces`` every domain that its examples use only after the rewrite."""
    made = {
        domain
        for e in pattern.examples
        for domain, _ in e.domains
        if f"{domain}." in e.after.replace(" ", "")
    }
    given = {
        domain
        for e in pattern.examples
        for domain, _ in e.domains
        if f"{domain}." in e.before.replace(" ", "")
    }
    assert made - given <= set(pattern.produces)


def check_operators_that_the_standard_lacks_are_declared(
    pattern: type[PatternOptimization],
) -> None:
    """The command warns about a model that ``onnx.checker`` refuses."""
    made = {
        node.op_type
        for e in pattern.examples
        for node in all_nodes(parse(e.after, e.opset, e.domains))
        if not node.domain and schema(node.op_type, "", e.opset) is None
    }
    assert made == set(pattern.unchecked)


def _root(pattern: type[PatternOptimization]) -> type:
    """The class that all patterns of a file extend; the pattern itself when it is the only one."""
    return [cls for cls in pattern.__mro__ if cls.__module__ == pattern.__module__][-1]


def check_name_and_file(pattern: type[PatternOptimization]) -> None:
    """Patterns of one file extend one class, and the file has the name of that class."""
    assert pattern.__name__.endswith("Pattern")
    path = Path(inspect.getsourcefile(pattern) or "").resolve()
    assert path.parent.parent == ROOT / "patterns"
    assert path.stem == snake_case(
        _root(pattern).__name__.removeprefix("_").removesuffix("Pattern")
    )
    assert path.parent.name == pattern.family()


def check_no_state(pattern: type[PatternOptimization]) -> None:
    """A pattern has neither a constructor nor attributes of its own: everything that `match` finds
    is in the match.
    """
    assert "__init__" not in vars(pattern)
    assert vars(pattern()) == {}


CHECKS = (
    *(
        check_docstring,
        check_refusals_are_next_to_the_code,
        check_examples,
        check_metadata,
        check_other_domains_are_declared,
    ),
    *(check_operators_that_the_standard_lacks_are_declared, check_name_and_file, check_no_state),
)


@pytest.mark.parametrize("pattern", BUILT_IN, ids=[cls.name() for cls in BUILT_IN])
def test_rules(pattern: type[PatternOptimization]) -> None:
    for check in CHECKS:
        check(pattern)


def test_every_family_says_what_belongs_to_it() -> None:
    """The index of the pages shows the docstring of the package."""
    packages = [
        s for s in sources("patterns") if s.path.endswith("/__init__.py") and s.path.count("/") == 2
    ]
    assert {s.path.split("/")[1] for s in packages} == {cls.family() for cls in BUILT_IN}
    assert [s.path for s in packages if len(s.tree.body) != 1] == []
    assert [s.path for s in packages if not ast.get_docstring(s.tree)] == []


def _written(source: Source) -> list[str]:
    """Names of the pattern classes of a file."""
    return [
        n.name
        for n in source.tree.body
        if isinstance(n, ast.ClassDef) and n.name.endswith("Pattern")
    ]


def test_helpers_hold_no_patterns() -> None:
    """Names of helpers start with an underscore; all other files contain patterns."""
    for source in sources("patterns"):
        is_helper = source.path.rpartition("/")[2].startswith("_")
        assert bool(_written(source)) is not is_helper, source.path


def test_all_patterns_are_installed() -> None:
    """No class is missing, and no two classes have one name."""
    assert sorted(name for s in sources("patterns") for name in _written(s)) == sorted(
        cls.__name__ for cls in BUILT_IN
    )


def test_each_pattern_belongs_to_a_preset_or_says_why_not() -> None:
    chosen = {
        p.name()
        for preset in ("default", "onnxruntime", "finite", "approximate")
        for p in select(preset)
    }
    asked_for = {
        c.name()
        for c in BUILT_IN
        if "extra" in c.tags or c.status == "deprecated" or c.phase == "lower"
    }
    left = [c.name() for c in BUILT_IN if c.name() not in chosen | asked_for]
    assert left == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TransposeTranspose", "transpose_transpose"),
        ("MatMulAdd", "mat_mul_add"),
        ("GeluOrt", "gelu_ort"),
        ("LSTMConcat", "lstm_concat"),
        ("ConvBiasNull", "conv_bias_null"),
        ("Cast", "cast"),
    ],
)
def test_snake_case(name: str, expected: str) -> None:
    assert snake_case(name) == expected
