"""Tables on narrow terminals: nothing that one would copy is cut, and no word is broken."""

import io

import pytest
from rich.console import Console

from tests.cli.command import Xopt, write
from xoptim import installed_patterns
from xoptim.cli.tables import Rows

_SCOPE = "/model/decoder/layers.17/self_attn"
LONG = f"{_SCOPE}/a_very_long_name_of_a_module/which_goes_on_and_on_and_on/MatMul_output_0"


def shown(rows: Rows, width: int) -> list[str]:
    stream = io.StringIO()
    rows.print(Console(file=stream, width=width, markup=False))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def table() -> Rows:
    rows = Rows("node", "count", "reason", "place", prose={"reason"}, right={"count"})
    rows.add("Add", "7", "the operand is not a constant", "add.py:12")
    rows.add_title("others")
    rows.add("MatMul", "12", "two words", "matmul.py:7")
    return rows


def test_what_fits_is_a_table() -> None:
    assert shown(table(), 80) == [
        "node    count  reason                         place",
        "Add         7  the operand is not a constant  add.py:12",
        "others",
        "MatMul     12  two words                      matmul.py:7",
    ]


def test_sentences_go_below() -> None:
    assert shown(table(), 28) == [
        "node    count  place",
        "Add     7      add.py:12",
        "    the operand is not a",
        "    constant",
        "others",
        "MatMul  12     matmul.py:7",
        "    two words",
    ]


def test_everything_goes_below() -> None:
    rows = Rows("node", "reason", "place", prose={"reason"})
    rows.add(LONG, "unknown shape", "a/very/long/path/of/a/file.py:1234")
    assert shown(rows, 40) == [
        "node",
        LONG,
        "    unknown shape",
        "    place a/very/long/path/of/a/file.py:1234",
    ]


@pytest.fixture
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command believes that it writes to a terminal of 80 columns."""

    def terminal() -> Console:
        return Console(markup=False, emoji=False, soft_wrap=True, width=80, color_system=None)

    for module in ("list", "explain"):
        monkeypatch.setattr(f"xoptim.cli.commands.{module}.open_console", terminal)


@pytest.mark.usefixtures("_narrow")
def test_lists_at_80_columns(xopt: Xopt) -> None:
    lines = xopt("list").out.splitlines()
    names = [
        name
        for name in installed_patterns()
        if not any(line.startswith(f"  {name}  ") for line in lines)
    ]
    assert names == []
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    words = {word for cls in installed_patterns().values() for word in cls.arrow().split()}
    assert words <= set(" ".join(lines).split())


@pytest.mark.usefixtures("_narrow")
def test_explanations_at_80_columns(xopt: Xopt) -> None:
    write(
        f'agraph (float[a,b] x) => (float[a,b] y) {{ ["first"] t = Tanh(x) ["{LONG}"] '
        'u = Tanh(t) ["last"] y = Tanh(u) }'
    )
    out = xopt("explain", "model.onnx", "FastGelu").out
    assert LONG in out
    found = xopt("explain", "model.onnx", "FastGelu", "--json").json["explanations"]
    assert all(f"{each['file']}:{each['line']}" in out for each in found if each["line"])
    assert "…" not in out
