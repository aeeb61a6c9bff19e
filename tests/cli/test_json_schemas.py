"""Every JSON document of the command is as its schema says, and each command that prints one has a
schema and cases here.
"""

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator

import xoptim
from lab.json_schemas import DOCUMENTS, TypeSchemas, descriptions, schema_of, text
from tests.cli.command import Outcome, Xopt, check_document, closed_schema, write
from tests.preparation.test_pairing import DECODER, ENCODER
from xoptim import XoptimError
from xoptim.api.schemas import FILE, VERSION, schema_names
from xoptim.cli.commands import COMMANDS
from xoptim.cli.tables import print_json
from xoptim.facts.json_results import JsonForm, JsonResult, count, member, within
from xoptim.facts.json_values import AnyFloat

MODEL = """agraph (float[n,3] x) => (float[n,3] y)
    { a = Neg(x) b = Neg(a) c = Exp(b) y = Relu(c) }"""
NOTHING = "agraph (float[n] x) => (float[n] x) { }"
UNKNOWN = "agraph (float[n,3] x) => (float[n,3] y) { y = NoSuch(x) }"
INFINITE = "agraph (float[n,3] x) => (float[n,3] y) <float o = {0}> { y = Div(x, o) }"
QUICK = ("--seconds", "0.1", "--threads", "1")
WRONG = ("--patterns", "default+WrongRelu")
CASES: dict[str, dict[str, tuple[int, tuple[str, ...]]]] = {
    "optimize": {
        "written": (0, ("model.onnx",)),
        "each rewrite checked": (0, ("model.onnx", "--check", "each")),
        "each rewrite proved": (0, ("model.onnx", "--prove")),
        "left out": (0, ("model.onnx", *WRONG)),
        "refused": (1, ("model.onnx", *WRONG, "--strict")),
        "a wrong rewrite": (1, ("model.onnx", *WRONG, "--strict", "--check", "each")),
        "not verified": (3, ("unknown.onnx",)),
        "not verified, and refused": (1, ("unknown.onnx", "--strict")),
        "not compared": (0, ("model.onnx", "--no-verify")),
        "a page": (0, ("model.onnx", "--report", "page.html", "--dry-run")),
        "hints": (0, ("model.onnx", "--no-config", "--patterns", "Gelu")),
        "for a target": (0, ("model.onnx", "--target", "onnx")),
        "quantized": (0, ("model.onnx", "--precision", "float16")),
        "infinities": (3, ("infinite.onnx",)),
    },
    "apply": {
        "written": (0, ("model.onnx", "NegNeg", "--at", "b", "-o", "out.onnx")),
        "no match": (1, ("model.onnx", "NegNeg", "--at", "c", "-o", "out.onnx")),
    },
    "extract": {
        "moved": (0, ("decoder.onnx", "--into", "encoder.onnx", "-o", "out")),
        "not verified": (0, ("decoder.onnx", "--into", "encoder.onnx", "-o", "o", "--no-verify")),
    },
    "bench": {
        "one": (0, ("model.onnx", *QUICK)),
        "different": (1, ("model.onnx", "other.onnx", *QUICK)),
        "several sizes": (0, ("model.onnx", *QUICK, "--dim", "n=1,2")),
        "operators": (0, ("model.onnx", *QUICK, "--profile")),
    },
    "bisect": {
        "nothing": (0, ("model.onnx",)),
        "found": (1, ("model.onnx", *WRONG)),
        "not verified": (3, ("unknown.onnx",)),
    },
    "check": {
        "fine": (0, ("renamed.onnx", "--max-shrink", "60%")),
        "failed": (1, ("model.onnx", "other.onnx")),
        "a target": (0, ("model.onnx", "--target", "onnx")),
    },
    "diff": {
        "none": (0, ("model.onnx", "model.onnx")),
        "nodes": (1, ("model.onnx", "other.onnx")),
        "values": (1, ("model.onnx", "other.onnx", "--values")),
        "no values": (0, ("model.onnx", "model.onnx", "--values")),
    },
    "doctor": {"all": (0, ()), "a model": (0, ("model.onnx",))},
    "explain": {
        "a miss": (0, ("model.onnx", "NegNeg")),
        "nowhere": (0, ("other.onnx", "NegNeg")),
        "for a target": (0, ("model.onnx", "NegNeg", "--target", "onnx")),
        "matches": (0, ("model.onnx", "NegNeg", "--matches")),
        "no matches": (0, ("other.onnx", "NegNeg", "--matches")),
    },
    "list": {
        "all": (0, ()),
        "one": (0, ("--patterns", "NegNeg")),
        "words": (0, ("--tags",)),
    },
    "place": {
        "by table": (0, ("model.onnx", "--target", "onnx")),
        "too many": (1, ("unknown.onnx", "--target", "onnx", "--max-left", "0")),
        "all": (0, ("model.onnx",)),
    },
    "replay": {
        "wrong": (1, ("dumps",)),
        "damaged": (2, ("damaged",)),
    },
    "stats": {
        "a model": (0, ("model.onnx",)),
        "nothing": (0, ("nothing.onnx",)),
        "unknown": (0, ("unknown.onnx",)),
    },
    "tune": {"a model": (0, ("model.onnx", "--budget", "1", "--threads", "1"))},
    "verify": {
        "equal": (0, ("model.onnx", "model.onnx")),
        "different": (1, ("model.onnx", "other.onnx")),
        "not verified": (3, ("unknown.onnx", "unknown.onnx")),
        "infinite": (1, ("model.onnx", "infinite.onnx")),
        "other inputs": (1, ("model.onnx", "renamed.onnx")),
    },
}
"""Real cases by command and name: the exit code and the words."""
FILES = ("batch", "certificate", "export", "mcp")
"""Documents that are not named after a command with an option ``--json``."""


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch, xopt: Xopt, bad_patterns: None) -> None:
    """The models of the cases, and dumps of rewrites."""
    write(MODEL)
    write(MODEL.replace("Neg(a)", "Abs(a)").replace("Exp", "Sigmoid"), "other.onnx")
    write(MODEL.replace("(x)", "(z)").replace("] x)", "] z)"), "renamed.onnx")
    write(NOTHING, "nothing.onnx")
    write(UNKNOWN, "unknown.onnx")
    write(INFINITE, "infinite.onnx")
    write(ENCODER, "encoder.onnx")
    write(DECODER, "decoder.onnx")
    monkeypatch.setenv("DUMPPATTERNS", "dumps")
    assert xopt("model.onnx", *WRONG, "-o", "dumped.onnx").code == 0
    monkeypatch.delenv("DUMPPATTERNS")


def cases() -> Iterator[Any]:
    """The cases, as parameters of a test."""
    for command, each in CASES.items():
        for name, (code, words) in each.items():
            marks = pytest.mark.slow if command == "tune" else ()
            yield pytest.param(command, code, words, id=f"{command}: {name}", marks=marks)


@pytest.mark.usefixtures("models", "brief")
@pytest.mark.parametrize(("command", "code", "words"), list(cases()))
def test_cases(xopt: Xopt, command: str, code: int, words: tuple[str, ...]) -> None:
    if words == ("damaged",):
        _damage(Path("dumps"), Path("damaged"))
    found = xopt(command, *words, "--json")  # which compares it with the schema
    assert found.code == code, found.err
    assert found.out


def _damage(dumps: Path, target: Path) -> None:
    """Copy one dump, with a model that cannot be read."""
    target.mkdir()
    first = sorted(dumps.glob("*.txt"))[0]
    for path in dumps.glob(f"{first.stem}*"):
        (target / path.name).write_bytes(b"" if path.suffix == ".onnx" else path.read_bytes())


def _with_json() -> set[str]:
    """The commands that have an option ``--json``."""
    return {
        name
        for name, command in COMMANDS.items()
        if any("--json" in param.opts for param in command.params)
    }


def test_each_command_with_json_has_a_schema_and_cases() -> None:
    assert _with_json() == set(CASES)
    assert _with_json() | set(FILES) == set(DOCUMENTS)


def test_the_file_is_as_generated() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "`make docs` writes it"
    assert schema_names() == sorted(DOCUMENTS)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_has_what_its_type_has(name: str) -> None:
    """In the same order."""
    schema = xoptim.json_schema(name)
    assert json.dumps(schema) == json.dumps(schema_of(name))
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:xoptim:schema:{VERSION}:{name}"


def test_each_member_is_described() -> None:
    definitions = [
        definition for name in DOCUMENTS for definition in schema_of(name)["$defs"].items()
    ]
    assert len(dict(definitions)) > 40
    for title, definition in definitions:
        for key, schema in definition["properties"].items():
            assert re.fullmatch(r"\S.*\w.*\.", schema["description"]), f"{title}.{key}"


@pytest.mark.slow
@pytest.mark.usefixtures("models")
def test_lines_of_a_batch(xopt: Xopt) -> None:
    Path("models").mkdir()
    for name in ("model", "unknown"):
        Path(f"{name}.onnx").rename(f"models/{name}.onnx")
    Path("models/broken.onnx").write_bytes(b"no model")
    assert xopt("batch", "models", "-o", "out").code == 2
    lines = Path("out/results.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert {each["status"] for each in records} == {"done", "not verified", "failed"}
    for each in records:
        check_document("batch", each)


@pytest.mark.usefixtures("models")
def test_an_additional_field_is_accepted_by_the_published_schema_only(xopt: Xopt) -> None:
    report = xopt("verify", "model.onnx", "model.onnx", "--json").json
    newer = copy.deepcopy(report)
    newer[0]["runs"][0]["a_new_field"] = 1
    published = Draft202012Validator(xoptim.json_schema("verify"))
    assert published.is_valid(report)
    assert published.is_valid(newer)
    assert not closed_schema("verify").is_valid(newer)
    del newer[0]["status"]
    assert not published.is_valid(newer)


def test_the_command_prints_a_schema(xopt: Xopt) -> None:
    for words in (("--json-schema", "verify"), ("--json-schema=verify",)):
        found = xopt(*words)
        assert (found.code, found.err) == (0, "")
        assert found.json == xoptim.json_schema("verify") == schema_of("verify")


def test_an_unknown_schema_is_an_error() -> None:
    with pytest.raises(XoptimError, match=r"'verfy'.* 'verify'"):
        xoptim.json_schema("verfy")


def test_numbers_that_json_lacks_are_texts(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [float("nan"), float("inf")], "b": (float("-inf"), 1.5)})
    found = Outcome(0, *capsys.readouterr()).json
    assert found == {"a": ["nan", "inf"], "b": ["-inf", 1.5]}


class _Leaf(NamedTuple):
    """A leaf.

    Attributes:
        name: a name that
            goes on.
    """

    name: str


@dataclass(frozen=True, slots=True)
class _Tree(JsonResult):
    """A tree.

    Attributes:
        leaf: its only leaf; ``None`` without one.
        children: further trees.
        size: a size.
    """

    __json__ = JsonForm(
        *within("leaf", _Leaf),
        "is_leaf children",
        member("count=children", count, "number of children."),
        member("size", is_optional=True),
        name="Plant",
    )
    leaf: _Leaf | None
    children: list["_Tree"] = field(default_factory=list)
    size: AnyFloat | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether it has no ``children``."""
        return not self.children


def test_the_schema_of_a_result() -> None:
    types = TypeSchemas(is_closed=True)
    assert types.of(_Tree) == {"$ref": "#/$defs/Plant"}
    (schema,) = types.definitions.values()
    assert list(schema["properties"]) == ["name", "is_leaf", "children", "count", "size"]
    assert schema["required"] == ["name", "is_leaf", "children", "count"]
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "name": {"type": ["string", "null"], "description": "a name that goes on."},
        "is_leaf": {"type": "boolean", "description": "whether it has no `children`."},
        "children": {
            "type": "array",
            "items": {"$ref": "#/$defs/Plant"},
            "description": "further trees.",
        },
        "count": {"type": "integer", "description": "number of children."},
        "size": {
            "anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}],
            "description": "a size.",
        },
    }


def test_results_are_as_their_schema_says() -> None:
    types = TypeSchemas(is_closed=True)
    schema = Draft202012Validator({**types.of(_Tree), "$defs": types.definitions})
    for tree in (_Tree(None), _Tree(_Leaf("x"), [_Tree(None)], float("inf"))):
        assert schema.is_valid(tree.to_json())
        assert not schema.is_valid({**tree.to_json(), "size": None})


def test_a_line_without_a_description_is_an_error() -> None:
    class Unclear:
        """Attributes without a description.

        Attributes:
            name
        """

    with pytest.raises(ValueError, match="'name'"):
        descriptions(Unclear)


def test_a_member_without_a_description_is_an_error() -> None:
    @dataclass(frozen=True, slots=True)
    class Undescribed(JsonResult):
        """A result."""

        name: str

    with pytest.raises(ValueError, match=r"Undescribed\.name "):
        TypeSchemas().of(Undescribed)


@pytest.mark.parametrize("kind", [complex, dict[int, str], tuple[int, str]])
def test_types_without_a_schema(kind: Any) -> None:
    with pytest.raises(TypeError, match="JSON Schema"):
        TypeSchemas().of(kind)
