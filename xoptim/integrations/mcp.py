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
from xoptim.integrations.mcp_answers import summary_of
from xoptim.system.machine import start_python

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_sdk = lazy_module("mcp.server.mcpserver")
_tools = lazy_module("mcp.server.mcpserver.tools")
_errors = lazy_module("mcp.server.mcpserver.exceptions")

SKILL: Final = Path(__file__).with_name("SKILL.md")
"""What an agent should know about the tools."""
_MOST_NAMED: Final = 20  # files in the message about one that is missing
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
        include: str = "",
        opset: str = "",
        fix: Sequence[str] = (),
        assume: Sequence[str] = (),
    ) -> ToolAnswer:
        """Optimize an ONNX model, verify by running both that it computes the same, and write it.

        Args:
            model: the file of the model.
            output: the file to write; model.opt.onnx next to the model by default.
            target: where it will run: cpu, cuda, openvino, webgpu, qnn, tensorrt, coreml, nnapi,
                webnn or onnx (operators of the standard only).
            precision: int8, int4, float16 or bfloat16 to quantize it, and the error that this may
                make: "int8 1%".
            include: further patterns: "onnxruntime" for operators that only ONNX Runtime has, or
                the name of a pattern that "explain" says is not selected.
            opset: the operator set of the result: a number, or "newest", which has Attention.
            fix: sizes of open dimensions to write into the model, such as "batch=1", with the names
                that "stats" gives.
            assume: what holds for all inputs, such as "past >= 1".
        """
        words = [self._existing(model)]
        if output:
            words += ["-o", self._inside(output)]
        scheme, _, tolerance = precision.partition(" ")
        for name, value in (
            ("--target", target),
            ("--precision", scheme),
            ("--tolerance", tolerance),
            ("--include", include),
            ("--opset", opset),
        ):
            if value:
                words.append(f"{name}={value}")
        words += [*_each("--fix", fix), *_each("--assume", assume)]
        return self._run("optimize", *words, "--json", detail=False)

    def explain(self, model: str, pattern: str, node: str = "", detail: bool = False) -> ToolAnswer:
        """Say where a pattern applies in a model, and why it does not apply elsewhere: the nearest
        misses, with the condition that fails.

        Args:
            model: the file of the model: the result of "optimize", as constants are not folded in
                an original.
            pattern: the name of a pattern, such as "Gelu" or "LayerNormalization"; a wrong name
                gives similar ones.
            node: the name of a node, or of its result, at which to look; everywhere by default.
            detail: return all places and all alternatives, which may be a million characters.
        """
        place = [f"--at={node}"] if node else []
        words = (*place, "--json", "--", self._existing(model), pattern)
        return self._run("explain", *words, detail=detail)

    def place(
        self,
        model: str,
        target: str,
        fix: Sequence[str] = (),
        software_device: bool = False,
        detail: bool = False,
    ) -> ToolAnswer:
        """Ask an execution provider which nodes of a model it takes, and why it leaves the others.

        Args:
            model: the file of the model.
            target: openvino, webgpu, qnn, tensorrt, cuda, cpu, coreml, nnapi, webnn or onnx.
            fix: sizes of open dimensions, such as "batch=1"; some targets need all of them.
            software_device: ask WebGPU on the processor where there is no GPU.
            detail: also list the nodes that the target takes.
        """
        words = [self._existing(model), f"--target={target}", *_each("--fix", fix)]
        words += _software(software_device)
        return self._run("place", *words, "--json", detail=detail)

    def verify(self, original: str, other: str, detail: bool = False) -> ToolAnswer:
        """Run two models on the same values in ONNX Runtime and compare the results.

        Args:
            original: the file of the model to trust.
            other: the file of the model to judge.
            detail: also return each run.
        """
        files = self._existing(original), self._existing(other)
        return self._run("verify", *files, "--json", detail=detail)

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
            raise McpError(
                f"{path!r} is not a path in the folder of the server, {self._root}: paths are "
                "relative to it, and stay in it"
            )
        return f"./{place.relative_to(self._root).as_posix()}"

    def _existing(self, path: str) -> str:
        """A file of the folder that exists."""
        place = self._inside(path)
        if not (self._root / place).is_file():
            raise McpError(f"there is no file {path!r} in {self._root}{self._meant()}")
        return place

    def _meant(self) -> str:
        """The models in the folder, as the end of a sentence."""
        found = sorted(path for path in self._root.rglob("*.onnx") if path.is_file())
        names = [path.relative_to(self._root).as_posix() for path in found[:_MOST_NAMED]]
        more = f" and {len(found) - len(names)} more" if len(found) > len(names) else ""
        return f"; it has {', '.join(names)}{more}" if names else "; it has no models"

    def _run(self, *words: str, detail: bool = True) -> ToolAnswer:
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
        dropped = ""
        if not detail:
            answer, dropped = summary_of(words[0], answer)
        how = "`place` lists them" if words[0] == "optimize" else "detail=true shows them"
        notes = [f"{dropped}; {how}"] if dropped else []
        return {
            "exit_code": code,
            "meaning": self._meanings.get(code, "the process ended unexpectedly"),
            "result": answer,
            "messages": [*err.decode(errors="replace").splitlines(), *notes],
        }


def _software(is_wanted: bool) -> list[str]:
    return ["--software-device"] if is_wanted else []


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
    tools = Tools(root, meanings)
    methods = (
        tools.optimize,
        tools.explain,
        tools.place,
        tools.verify,
        tools.stats,
        tools.diff,
    )
    try:
        made: MCPServer[Any] = _sdk.MCPServer(
            "xoptim",
            instructions=SKILL.read_text(encoding="utf-8"),
            tools=[_strict(_tools.Tool.from_function(_told(method))) for method in methods],
        )
    except ImportError:
        raise McpError("xopt mcp needs its SDK: pip install 'xoptim[mcp]'") from None
    return made


def _strict(tool: Any) -> Any:
    """A tool that refuses arguments that it does not have: the SDK leaves them out silently."""
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = arguments.model_json_schema(by_alias=True)
    return tool


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
