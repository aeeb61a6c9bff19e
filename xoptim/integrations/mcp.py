"""A server of the Model Context Protocol: an agent optimizes, explains and compares models.

``xopt mcp FOLDER`` runs it over standard input and output. Each tool runs the command ``xopt`` in a
process of its own, so that neither a crash of a runtime nor its output reaches the server. All
files lie in one folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from xoptim.facts.errors import XoptimError
from xoptim.facts.lazy import lazy_module
from xoptim.system.machine import start_python

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_sdk = lazy_module("mcp.server.mcpserver")
_errors = lazy_module("mcp.server.mcpserver.exceptions")

SKILL: Final = Path(__file__).with_name("SKILL.md")
"""What an agent should know about the tools."""
_COMMAND: Final = "import sys; from xoptim.cli.main import run; sys.exit(run(sys.argv[1:]))"


class ToolAnswer(TypedDict):
    """The answer of a tool.

    Attributes:
        exit_code: the exit code of the command that the tool runs.
        meaning: the exit code in words.
        result: the JSON document of that command, or its text; null without output.
        messages: lines that it wrote to standard error.
    """

    exit_code: int
    meaning: str
    result: Any
    messages: list[str]


class McpError(XoptimError):
    """The server cannot be run, or a tool cannot do what is asked."""


class Tools:
    """The tools of the server.

    Args:
        root: the folder to which all paths are confined.
        meanings: of the exit codes of the command.
        seconds: after which a tool is ended.
    """

    def __init__(self, root: Path, meanings: Mapping[int, str], seconds: float = 600.0) -> None:
        self._root = root.resolve()
        self._meanings = meanings
        self._seconds = seconds

    def optimize(
        self,
        model: str,
        output: str = "",
        target: str = "",
        precision: str = "",
        tolerance: str = "",
        include: str = "",
        fix: Sequence[str] = (),
        assume: Sequence[str] = (),
    ) -> ToolAnswer:
        """Optimize an ONNX model, verify by running both that it computes the same, and write it.

        Args:
            model: the file of the model.
            output: the file to write; model.opt.onnx next to the model by default.
            target: where it will run: cpu, cuda, openvino, webgpu, qnn, tensorrt, coreml, nnapi,
                webnn or onnx (operators of the standard only).
            precision: int8, int4, float16 or bfloat16 to quantize it; with a tolerance.
            tolerance: the error that quantization may make, such as "1%".
            include: further patterns: "onnxruntime" for operators that only ONNX Runtime has.
            fix: sizes of open dimensions to write into the model, such as "batch=1".
            assume: what holds for all inputs, such as "past >= 1".
        """
        words = [self._existing(model)]
        if output:
            words += ["-o", self._inside(output)]
        for name, value in (
            ("--target", target),
            ("--precision", precision),
            ("--tolerance", tolerance),
            ("--include", include),
        ):
            if value:
                words.append(f"{name}={value}")
        words += [*_each("--fix", fix), *_each("--assume", assume)]
        return self._run("optimize", *words, "--json")

    def explain(self, model: str, pattern: str, node: str = "") -> ToolAnswer:
        """Say where a pattern applies in a model, and why it does not apply elsewhere: the nearest
        misses, with the condition that fails.

        Args:
            model: the file of the model.
            pattern: the name of a pattern, such as "Gelu" or "LayerNormalization"; a wrong name
                gives similar ones.
            node: the name of a node, or of its result, at which to look; everywhere by default.
        """
        place = [f"--at={node}"] if node else []
        return self._run("explain", *place, "--json", "--", self._existing(model), pattern)

    def place(self, model: str, target: str, fix: Sequence[str] = ()) -> ToolAnswer:
        """Ask an execution provider which nodes of a model it takes, and why it leaves the others.

        Args:
            model: the file of the model.
            target: openvino, webgpu, qnn, tensorrt, cuda, cpu, coreml, nnapi, webnn or onnx.
            fix: sizes of open dimensions, such as "batch=1"; some targets need all of them.
        """
        words = [self._existing(model), f"--target={target}", *_each("--fix", fix)]
        return self._run("place", *words, "--json")

    def verify(self, original: str, other: str) -> ToolAnswer:
        """Run two models on the same values in ONNX Runtime and compare the results.

        Args:
            original: the file of the model to trust.
            other: the file of the model to judge.
        """
        return self._run("verify", self._existing(original), self._existing(other), "--json")

    def stats(self, model: str) -> ToolAnswer:
        """Describe a model: inputs, outputs, operators, sizes of weights, estimated work.

        Args:
            model: the file of the model.
        """
        return self._run("stats", self._existing(model), "--json")

    def diff(self, first: str, second: str) -> ToolAnswer:
        """List how two models differ in their graphs, whatever their nodes are called.

        Args:
            first: the file of a model.
            second: the file of another one.
        """
        return self._run("diff", self._existing(first), self._existing(second), "--json")

    def _inside(self, path: str) -> str:
        """A path that lies in the folder.

        Raises:
            McpError: when it leads out of it.
        """
        place = (self._root / path).resolve()
        if place == self._root or not place.is_relative_to(self._root):
            raise McpError(f"{path!r} is not a file in the folder of the server, {self._root}")
        return f"./{place.relative_to(self._root).as_posix()}"

    def _existing(self, path: str) -> str:
        """A file of the folder that exists."""
        place = self._inside(path)
        if not (self._root / place).is_file():
            raise McpError(f"there is no file {path!r} in {self._root}")
        return place

    def _run(self, *words: str) -> ToolAnswer:
        """Run the command in the folder: its exit code, its answer and its messages."""
        process = start_python(
            _COMMAND,
            "--no-config",
            *words,
            cwd=self._root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            out, err = process.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise McpError(f"xopt {words[0]} took more than {self._seconds:g} seconds") from None
        code = process.returncode
        try:
            answer: Any = json.loads(out) if out.strip() else None
        except ValueError:
            answer = out.decode(errors="replace")
        return {
            "exit_code": code,
            "meaning": self._meanings.get(code, "the process ended unexpectedly"),
            "result": answer,
            "messages": err.decode(errors="replace").splitlines(),
        }


def _each(option: str, values: Sequence[str]) -> list[str]:
    """An option for each of some values."""
    return [f"{option}={value}" for value in values]


def server(root: Path, meanings: Mapping[int, str]) -> MCPServer[Any]:
    """A server whose tools read and write files of one folder.

    ``meanings`` says what the exit codes of the command mean.

    Raises:
        McpError: when there is no such folder, or the SDK is not installed.
    """
    if not root.is_dir():
        raise McpError(f"there is no folder {str(root)!r}")
    try:
        made: MCPServer[Any] = _sdk.MCPServer(
            "xoptim", instructions=SKILL.read_text(encoding="utf-8")
        )
    except ImportError:
        raise McpError("xopt mcp needs its SDK: pip install 'xoptim[mcp]'") from None
    tools = Tools(root, meanings)
    for tool in (
        tools.optimize,
        tools.explain,
        tools.place,
        tools.verify,
        tools.stats,
        tools.diff,
    ):
        made.add_tool(_told(tool))
    return made


def _told(tool: Callable[..., ToolAnswer]) -> Callable[..., ToolAnswer]:
    """A tool whose errors reach the agent: the SDK keeps the texts of others to itself."""

    @wraps(tool)
    def told(*args: Any, **kwargs: Any) -> ToolAnswer:
        try:
            return tool(*args, **kwargs)
        except XoptimError as error:
            raise _errors.ToolError(str(error)) from None

    return told


def serve(root: Path, meanings: Mapping[int, str]) -> None:
    """Answer on standard input and output until they are closed; raises as `server` does."""
    made = server(root, meanings)
    # the SDK writes bytes, whatever stands for the standard output of the command
    with redirect_stdout(sys.__stdout__):
        made.run("stdio")
