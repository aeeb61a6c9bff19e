"""A server of the Model Context Protocol: an agent optimizes, explains and compares models.

``xopt mcp FOLDER`` runs it over standard input and output. Each tool runs the command ``xopt`` in a
process of its own, so that neither a crash of a runtime nor its output reaches the server. All
files lie in one folder.
"""

from __future__ import annotations

import inspect
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
from xoptim.integrations.mcp_answers import FAILED, meaning_of, remarks_of, summary_of
from xoptim.integrations.mcp_arguments import (
    OptimizeArguments,
    argument_faults,
    argument_text,
    repeated,
    software_option,
    with_arguments,
)
from xoptim.system.machine import start_python

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_sdk = lazy_module("mcp.server.mcpserver")
_tools = lazy_module("mcp.server.mcpserver.tools")
_errors = lazy_module("mcp.server.mcpserver.exceptions")
_types = lazy_module("mcp.types")

SKILL: Final = Path(__file__).with_name("SKILL.md")
"""What an agent should know about the tools."""
_MOST_NAMED: Final = 20  # files in the message about one that is missing
_USABLE: Final = (0, 1, 3)  # exit codes of answers that are no errors
_COMMAND: Final = "import sys; from xoptim.cli.main import run; sys.exit(run(sys.argv[1:]))"


class ToolAnswer(TypedDict):
    """The answer of a tool, also to wrong arguments.

    A result with exit code 2, or of a process that ended unexpectedly, has ``isError``.

    Attributes:
        exit_code: the exit code of the command that the tool runs; 2 for wrong arguments.
        meaning: the exit code in words, for this tool.
        result: the JSON document of that command, or its text; null without output.
        messages: lines that it wrote to standard error, what is wrong with the arguments, and what
            the document does not show.
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

    def optimize(self, model: str, **arguments: Any) -> ToolAnswer:  # noqa: D417
        """Optimize an ONNX model, verify by running both that it computes the same, and write it.

        Args:
            model: the file of the model.
            output: the file to write; model.opt.onnx next to the model by default.
            target: where it will run: cpu, cuda, openvino, webgpu, qnn, tensorrt, coreml, nnapi,
                webnn or onnx (operators of the standard only). qnn and coreml convert the model to
                float16.
            precision: int8, int4, float16 or bfloat16 to quantize it, and the error that this may
                make: "int8 1%".
            include: further patterns, separated by commas: "onnxruntime" for operators that only
                ONNX Runtime has, or the names of patterns that "explain" says are not selected.
            opset: the operator set of the result: a number, or "newest", which has Attention.
            fix: sizes of dynamic dimensions to write into the model, such as "batch=1", with the
                names that "stats" gives.
            assume: what holds for all inputs: "past >= 1", or "finite" if no input and no result
                is NaN or infinite.
            software_device: with target webgpu, run on the CPU where there is no GPU.
            detail: also return all operators that can be quantized, all placed nodes, each run,
                times, and empty fields.
        """
        asked = OptimizeArguments(**arguments)
        words = [self._existing(model)]
        if asked.output:
            words += ["-o", self._inside(asked.output)]
        return self._run("optimize", *words, *asked.words(), "--json", detail=asked.detail)

    def explain(
        self,
        model: str,
        pattern: str,
        node: str = "",
        target: str = "",
        assume: Sequence[str] = (),
        detail: bool = False,
    ) -> ToolAnswer:
        """Say where a pattern applies in a model, and why it does not apply elsewhere: the nearest
        misses, with the condition that fails.

        Args:
            model: the file of the model: the result of "optimize", as constants are not folded in
                an original.
            pattern: the name of a pattern, such as "Gelu" or "LayerNormalization"; a wrong name
                gives similar ones.
            node: the name of a node, or of its result, at which to look; everywhere by default.
            target: also say whether this target drops the pattern.
            assume: what holds for all inputs, as in "optimize".
            detail: return all nodes and all alternatives, which may be a million characters.
        """
        place = [f"--at={node}"] if node else ["--all"]
        there = [f"--target={target}"] if target else []
        known = repeated("--assume", assume)
        words = (*place, *there, *known, "--json", "--", self._existing(model), pattern)
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
            model: the file of the model. ONNX Runtime expands some of its nodes into several, such
                as Range; `taken`, `left` and `absent` count these, and "stats" does not.
            target: openvino, webgpu, qnn, tensorrt, cuda, cpu, coreml, nnapi, webnn or onnx.
            fix: sizes of dynamic dimensions, such as "batch=1"; some targets need all of them.
            software_device: with target webgpu, ask on the CPU where there is no GPU.
            detail: also list the nodes that the target takes.
        """
        words = [self._existing(model), f"--target={target}", *repeated("--fix", fix)]
        words += software_option(software_device)
        return self._run("place", *words, "--json", detail=detail)

    def verify(
        self,
        original: str,
        other: str,
        dim: Sequence[str] = (),
        rtol: float | None = None,
        atol: float | None = None,
        assume: Sequence[str] = (),
        detail: bool = False,
    ) -> ToolAnswer:
        """Run two models on the same values in ONNX Runtime and compare the results.

        Args:
            original: the file of the model to trust.
            other: the file of the model to judge.
            dim: sizes of dynamic dimensions for the runs, such as "batch=1".
            rtol: relative tolerance; by default, what rounding can explain.
            atol: absolute tolerance; by default, what rounding can explain.
            assume: what holds for all inputs, as in "optimize". A model that "optimize" wrote with
                it is compared on such inputs only.
            detail: also return each run.
        """
        words = [self._existing(original), self._existing(other)]
        words += [*repeated("--dim", dim), *repeated("--assume", assume)]
        tolerances = {"--rtol": rtol, "--atol": atol}
        words += [f"{name}={value}" for name, value in tolerances.items() if value is not None]
        return self._run("verify", *words, "--json", detail=detail)

    def stats(self, model: str, detail: bool = False) -> ToolAnswer:
        """Describe a model: inputs, outputs, operators, sizes of weights, estimated work.

        Args:
            model: the file of the model.
            detail: return all inputs, outputs, repeated blocks and layers.
        """
        return self._run("stats", self._existing(model), "--json", detail=detail)

    def diff(self, first: str, second: str, detail: bool = False) -> ToolAnswer:
        """List how two models differ in their graphs, whatever their nodes are called.

        Args:
            first: the file of a model.
            second: the file of another one.
            detail: return all differences.
        """
        files = self._existing(first), self._existing(second)
        return self._run("diff", *files, "--json", detail=detail)

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

    def _run(self, tool: str, *words: str, detail: bool) -> ToolAnswer:
        """Run the command in the folder: its exit code, its answer and its messages."""
        process = start_python(
            _COMMAND,
            "--no-config",
            tool,
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
            raise McpError(f"xopt {tool} took more than {self._seconds:g} seconds") from None
        told = [argument_text(tool, line, ARGUMENTS) for line in _lines(err)]
        try:
            answer: Any = json.loads(out) if out.strip() else None
        except ValueError:
            answer = out.decode(errors="replace")
        told += remarks_of(tool, answer)
        if not detail:
            answer, hidden = summary_of(tool, answer)
            told += [f"{hidden}; detail=true shows them"] if hidden else []
        answer = with_arguments(tool, answer, ARGUMENTS)
        return self.answer(tool, process.returncode, told, answer)

    def answer(
        self, tool: str, code: int, messages: Sequence[str], result: Any = None
    ) -> ToolAnswer:
        """The answer of a tool to an exit code."""
        return {
            "exit_code": code,
            "meaning": meaning_of(tool, code, self._meanings, result),
            "result": result,
            "messages": list(messages),
        }


def _lines(output: bytes) -> list[str]:
    return output.decode(errors="replace").splitlines()


def _signature(method: Callable[..., Any]) -> inspect.Signature:
    """The signature of a tool, with the arguments of ``optimize`` one by one."""
    found = inspect.signature(method, eval_str=True)
    parameters = [one for one in found.parameters.values() if one.kind is not one.VAR_KEYWORD]
    if len(parameters) < len(found.parameters):
        further = inspect.signature(OptimizeArguments, eval_str=True)
        parameters += further.parameters.values()
    return found.replace(parameters=parameters)


TOOLS: Final = (
    Tools.optimize,
    Tools.explain,
    Tools.place,
    Tools.verify,
    Tools.stats,
    Tools.diff,
)
ARGUMENTS: Final = {method.__name__: list(_signature(method).parameters)[1:] for method in TOOLS}
"""The names of the arguments of each tool."""


def server(root: Path, meanings: Mapping[int, str]) -> MCPServer[Any]:
    """A server whose tools read and write files of one folder.

    ``meanings`` says what the exit codes of the command mean.

    Raises:
        McpError: when there is no such folder, or the SDK is not installed.
    """
    if not root.is_dir():
        raise McpError(f"there is no folder {str(root)!r}")
    tools = Tools(root, meanings)
    try:
        made: MCPServer[Any] = _server_class(tools)(
            "xoptim",
            instructions=SKILL.read_text(encoding="utf-8"),
            tools=[_strict(_tools.Tool.from_function(_told(tools, name))) for name in ARGUMENTS],
        )
    except ImportError:
        raise McpError("xopt mcp needs its SDK: pip install 'xoptim[mcp]'") from None
    return made


def _server_class(tools: Tools) -> Any:
    """A server that answers wrong arguments as it answers right ones: the SDK has plain text."""
    base: Any = _sdk.MCPServer

    class Server(base):  # type: ignore[misc]  # the SDK is imported when a server is made
        async def call_tool(self, name: str, arguments: dict[str, Any], *args: Any) -> Any:
            try:
                return await super().call_tool(name, arguments, *args)
            except _errors.ToolError as error:
                errors = getattr(error.__cause__, "errors", None)
                # A subclass is for defects of the tool.
                if name not in ARGUMENTS or errors is None or type(error) is not _errors.ToolError:
                    raise
                faults = argument_faults(name, errors(), ARGUMENTS[name])
                return _failed(tools.answer(name, FAILED, list(faults)))

    return Server


def _failed(answer: ToolAnswer) -> Any:
    """An answer as a result that is an error."""
    text = _types.TextContent(type="text", text=json.dumps(answer, indent=2))
    return _types.CallToolResult(content=[text], structured_content=answer, is_error=True)


def _strict(tool: Any) -> Any:
    """A tool that refuses arguments that it does not have: the SDK leaves them out silently."""
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = arguments.model_json_schema(by_alias=True)
    return tool


def _told(tools: Tools, name: str) -> Callable[..., Any]:
    """A tool whose errors reach the agent: the SDK keeps the texts of others to itself."""
    method = getattr(tools, name)

    @wraps(method)
    def told(*args: Any, **kwargs: Any) -> Any:
        try:
            answer: ToolAnswer = method(*args, **kwargs)
        except XoptimError as error:
            answer = tools.answer(name, FAILED, [str(error)])
        return answer if answer["exit_code"] in _USABLE else _failed(answer)

    vars(told)["__signature__"] = _signature(method)
    return told


def serve(root: Path, meanings: Mapping[int, str]) -> None:
    """Answer on standard input and output until they are closed; raises as `server` does."""
    made = server(root, meanings)
    # the SDK writes bytes, whatever stands for the standard output of the command
    with redirect_stdout(sys.__stdout__):
        made.run("stdio")
