"""Names in a model hold control characters, line breaks and markup: no command lets them reach the
terminal.
"""

import io
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.command import Xopt, files, write
from tests.support import parse
from xoptim.cli.commands import COMMANDS
from xoptim.cli.main import run
from xoptim.cli.terminal import SafeConsole, escaped, escaped_output, in_line, say

FORGED = "xopt: error: forged"
BAD = f"\x1b[31m[red]\x07\x9b2J\u202e\rx\n{FORGED}\x1b]0;t\x07"
MODEL = """agraph (float[N,4] x, float[4] w) => (float[N,4] y) <float[4] one = {1, 1, 1, 1}> {
    t = Transpose(x) u = Transpose(t) v = Mul(u, one) r = Relu(v) z = Add(r, w) q = Tanh(z)
      y = Sigmoid(q)
}"""
NAMES = ("t", "u", "v", "r", "z", "q", "one", "x", "w", "y")
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def bad(name: str) -> str:
    return f"{name}{BAD}{name}"


def spoiled() -> onnx.ModelProto:
    """A model in which each text holds control characters."""
    model = parse(MODEL, domains={bad("d"): 1})
    graph = model.graph
    for node in graph.node:
        node.name, node.doc_string = bad(f"{node.op_type}_{node.output[0]}"), BAD
        node.input[:] = [bad(name) for name in node.input]
        node.output[:] = [bad(name) for name in node.output]
        node.metadata_props.add(key=BAD, value=BAD)
    for value in (*graph.input, *graph.output):
        value.name, value.doc_string = bad(value.name), BAD
    for tensor in graph.initializer:
        tensor.name, tensor.doc_string = bad(tensor.name), BAD
    for value in (*graph.input, *graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_param = bad("N") if dim.dim_param else ""
            if not dim.dim_param:
                dim.dim_value = 4
    for each in (model, graph):
        each.doc_string = BAD
        each.metadata_props.add(key=BAD, value=BAD)
    graph.name, model.producer_name, model.producer_version, model.domain = BAD, BAD, BAD, BAD
    return model


def prepare(folder: Path) -> None:
    """The files that the command lines name."""
    np.savez(
        folder / "feeds.npz",
        **{bad("x"): np.ones((2, 4), np.float32), bad("w"): np.ones(4, np.float32)},  # type: ignore[arg-type]
    )
    other = onnx.load("bad.onnx")
    other.graph.node[-1].op_type = "HardSigmoid"
    onnx.save(other, "other.onnx")
    missing = onnx.load("bad.onnx")
    missing.graph.node[1].input[0] = bad("missing")
    onnx.save(missing, "missing.onnx")
    unknown = onnx.load("bad.onnx")
    unknown.graph.node[-1].op_type, unknown.graph.node[-1].domain = bad("Op"), bad("d")
    onnx.save(unknown, "unknown.onnx")
    (folder / BAD.replace("/", "_")).write_bytes(b"nothing")


def lines_of(folder: Path) -> dict[str, list[Sequence[str]]]:
    """Command lines of each command."""
    prepare(folder)
    node = bad("Transpose_t")
    short = ("--seconds", "0.01")
    pair = ["other.onnx", "--into", "bad.onnx", "-o", "pair"]
    return {
        "optimize": [
            ["bad.onnx"],
            ["bad.onnx", "-v", "-o", "1.onnx"],
            ["bad.onnx", "-vv", "-o", "2.onnx", "--check", "each", "--benchmark"],
            ["bad.onnx", "-o", "3.onnx", "--dim", f"{bad('N')}=3", "--feeds", "feeds.npz"],
            [
                "bad.onnx",
                "-o",
                "4.onnx",
                "--assume",
                f"{bad('N')} >= 2",
                "--assume",
                f"finite({bad('q')})",
            ],
            ["bad.onnx", "-o", "5.onnx", "--fix", f"{bad('no')}=2"],
            ["bad.onnx", "-o", "6.onnx", "--drop", bad("Pattern")],
            ["bad.onnx", "-o", BAD.replace("/", "_")],
            ["missing.onnx"],
            ["unknown.onnx"],
            [BAD],
            [BAD.replace("/", "_")],
        ],
        "fast": [["bad.onnx", "-o", "7.onnx"]],
        "verify": [
            ["bad.onnx", "other.onnx"],
            ["bad.onnx", "bad.onnx"],
            ["bad.onnx", "missing.onnx"],
        ],
        "diff": [
            ["bad.onnx", "other.onnx"],
            ["--values", "bad.onnx", "other.onnx"],
            ["bad.onnx", "1.onnx", "--html", "page.html"],
        ],
        "place": [
            ["bad.onnx", "--target", "onnx"],
            ["bad.onnx", "--target", "cpu", "-v"],
            ["bad.onnx", "--target", bad("x")],
        ],
        "stats": [
            ["bad.onnx"],
            ["bad.onnx", "--layers"],
            ["bad.onnx", "--dim", f"{bad('N')}=3"],
            ["unknown.onnx"],
        ],
        "explain": [
            ["bad.onnx", "TransposeTranspose", "--all"],
            ["bad.onnx", "MulOne", "-v"],
            ["bad.onnx", bad("P")],
            ["bad.onnx", "TransposeTranspose", "--matches"],
            ["unknown.onnx", "MatMulAdd", "--matches"],
        ],
        "apply": [
            ["bad.onnx", "TransposeTranspose", "--at", node, "-o", "8.onnx"],
            ["bad.onnx", "TransposeTranspose", "--at", bad("Relu_r"), "-o", "8.onnx"],
            ["bad.onnx", "TransposeTranspose", "--at", bad("absent"), "-o", "8.onnx"],
        ],
        "bisect": [["bad.onnx"], ["unknown.onnx"]],
        "bench": [["bad.onnx", "other.onnx", *short], ["bad.onnx", "--profile", *short]],
        "tune": [["bad.onnx", "-o", "9.onnx", "--budget", "1"]],
        "extract": [
            ["bad.onnx", "-o", "10.onnx", "--inputs", bad("v"), "--outputs", bad("q")],
            ["bad.onnx", "-o", "a.onnx"],
            ["missing.onnx", "-o", "b.onnx"],
            [*pair, "--link", f"{bad('x')}={bad('y')}"],
            [*pair, "--link", f"{bad('x')}={bad('n')}"],
            pair,
        ],
        "check": [["bad.onnx", "unknown.onnx"]],
        "list": [["--with", bad("P")], ["--has", bad("P")], [bad("P")]],
        "replay": [["dump"], [bad("dump")]],
        "batch": [["list.txt", "-o", "results"]],
        "new-pattern": [
            [
                "Mine",
                "--from",
                "bad.onnx",
                "--nodes",
                f"{node},{bad('Transpose_u')}",
                "--pack",
                "pack",
            ]
        ],
        "doctor": [[]],
        "mcp": [["--skill"]],
    }


def check(texts: Sequence[str], words: Sequence[str]) -> None:
    for text in texts:
        assert not UNSAFE.search(text), (words, text)
        forged = [line for line in text.splitlines() if line.startswith((FORGED, "\\nxopt"))]
        assert not forged, (words, text)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*COMMANDS, "fast"])
@pytest.mark.usefixtures("brief")
def test_names_of_a_model_do_not_control_the_terminal(
    name: str, tmp_path: Path, xopt: Xopt
) -> None:
    write(spoiled(), "bad.onnx")
    if name == "replay":
        (tmp_path / "dump").mkdir()
        for kind in ("before", "after"):
            write(spoiled(), f"dump/1_{kind.upper()}.{kind}.onnx")
    Path("list.txt").write_text("bad.onnx\nmissing.onnx\n", encoding="utf-8")
    command_lines = lines_of(tmp_path)[str(name)]
    if name == "report":
        xopt("bad.onnx", "-o", "1.onnx")
    printed = 0
    for words in command_lines:
        outcome = xopt(*([] if name == "optimize" else [str(name)]), *words)
        assert "internal error" not in outcome.err, (words, outcome)
        check((outcome.out, outcome.err), words)
        printed += len(outcome.out) + len(outcome.err)
    assert printed


def test_every_command_is_tried(tmp_path: Path) -> None:
    write(spoiled(), "bad.onnx")
    assert lines_of(tmp_path).keys() == {*COMMANDS, "fast"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_the_styles_of_the_command_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    with escaped_output():
        SafeConsole().print(f"name {BAD}", style="bold")
        say(BAD)
        sys.stdout.write(BAD)
        sys.stdout.writelines([BAD])
    text = terminal.getvalue()
    styled = re.sub("\x1b\\[[0-9;]*m", "", text)
    assert styled != text
    assert not UNSAFE.search(styled)
    assert f"name {in_line(BAD)}" in styled
    assert "\x1b[31m" not in text


def test_what_is_escaped() -> None:
    assert escaped("a\tb\n→é[red]") == "a\tb\n→é[red]"
    assert escaped("\x1b\x07\r\x9b\u2028\udc80") == r"\x1b\x07\r\x9b\u2028\udc80"
    assert in_line("a\tb\nc") == r"a\tb\nc"


def test_json_is_as_it_is(xopt: Xopt) -> None:
    write(spoiled(), "bad.onnx")
    found = xopt("stats", "bad.onnx", "--json").json
    assert bad("x") in found["inputs"]


def test_a_file_name_that_is_not_utf_8(xopt: Xopt) -> None:
    name = os.fsdecode(b"m\xff\xfe.onnx")
    write(
        "agraph (float[N,4] x) => (float[N,4] y) { t = Transpose(x) u = Transpose(t) y = Relu(u) }",
        name,
    )
    outcome = xopt(name, "-v")
    assert (outcome.code, outcome.err) == (0, "")
    assert r"m\udcff\udcfe.opt.onnx" in outcome.out
    assert files() == {name, os.fsdecode(b"m\xff\xfe.opt.onnx")}
    assert "internal error" not in xopt("diff", name, "--html", "page.html").err
    assert run(["stats", name, "--json"]) == 0
