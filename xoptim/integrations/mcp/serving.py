"""A server of the Model Context Protocol: an agent optimizes, explains and compares models.

``xopt mcp FOLDER`` runs it over standard input and output. Each tool runs the command ``xopt`` in a
process of its own, so that neither a crash of a runtime nor its output reaches the server. All
files lie in one folder, in which no link is followed.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial, wraps
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast

from xoptim.facts.errors import XoptimError
from xoptim.facts.lazy import lazy_module
from xoptim.facts.words import shortened
from xoptim.integrations.mcp.answers import FAILED, bounded, meaning_of, remarks_of, summary_of
from xoptim.integrations.mcp.arguments import (
    OptimizeArguments,
    argument_faults,
    repeated,
    software_option,
)
from xoptim.integrations.mcp.files import McpError as McpError, ServedFiles, default_output, word
from xoptim.integrations.mcp.runs import STOPPED, Call, Runner, document_of
from xoptim.integrations.mcp.streams import Requests
from xoptim.system.journal import JOURNAL
from xoptim.system.machine import on_closed_output

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_sdk = lazy_module("mcp.server.mcpserver")
_tools = lazy_module("mcp.server.mcpserver.tools")
_errors = lazy_module("mcp.server.mcpserver.exceptions")
_types = lazy_module("mcp.types")
_threads = lazy_module("anyio.to_thread")

SKILL: Final = files("xoptim.integrations.mcp") / "SKILL.md"
"""The instructions for agents."""
_CLOSED: Final = 141
"""The exit code of a process whose output nobody reads, as in the shell."""
_USABLE: Final = (0, 1, 3)  # exit codes of answers that are no errors


class ToolAnswer(TypedDict):
    """The answer of a tool, also to wrong arguments.

    A result with exit code 2, or of a process that ended unexpectedly, has ``isError``.

    Attributes:
        exit_code: the exit code of the command that the tool runs; 2 for wrong arguments.
        meaning: the exit code in words, for this tool.
        result: the JSON document of that command, or its text, cut where the answer would be too
            long; null without output.
        messages: lines that the command wrote to standard error, mistakes in the arguments, and
            the parts of the document that are not shown.
    """

    exit_code: int
    meaning: str
    result: Any
    messages: list[str]


class Tools:
    """The tools of the server.

    Args:
        root: the folder to which all paths are confined.
        meanings: of the exit codes of the command.
        seconds: after which a tool is ended.
    """

    def __init__(self, root: Path, meanings: Mapping[int, str], seconds: float = 600.0) -> None:
        self._files = ServedFiles(root)
        self._runner = Runner(self._files, seconds)
        self._meanings = meanings

    def optimize(self, model: str, **arguments: Any) -> ToolAnswer:  # noqa: D417
        """Optimize an ONNX model, verify by running both that it computes the same, and write it.

        Args:
            model: the file of the model.
            output: the file to write, whose name ends in .onnx; model.opt.onnx next to the model
                by default.
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
            overwrite: replace a file that is not a result of this session.
            detail: also return all operators that can be quantized, all placed nodes, each run,
                times, and empty fields.
        """
        options = OptimizeArguments(**arguments)
        source = self._files.existing(model)
        path = options.output or default_output(source)
        output = self._files.output(path, overwrite=options.overwrite)
        words = [word(source), "-o", word(output.path), *options.words(), "--json"]
        call = Call("optimize", words, (source,), output, detail=options.detail)
        return self._run(call)

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
        nodes = [f"--at={node}"] if node else ["--all"]
        target_option = [f"--target={target}"] if target else []
        assumptions = repeated("--assume", assume)
        source = self._files.existing(model)
        words = [*nodes, *target_option, *assumptions, "--json", "--", word(source), pattern]
        return self._run(Call("explain", words, (source,), detail=detail))

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
        source = self._files.existing(model)
        words = [word(source), f"--target={target}", *repeated("--fix", fix)]
        words += [*software_option(software_device), "--json"]
        return self._run(Call("place", words, (source,), detail=detail))

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
        sources = self._files.existing(original), self._files.existing(other)
        words = [*map(word, sources), "--json"]
        words += [*repeated("--dim", dim), *repeated("--assume", assume)]
        tolerances = {"--rtol": rtol, "--atol": atol}
        words += [f"{name}={value}" for name, value in tolerances.items() if value is not None]
        return self._run(Call("verify", words, sources, detail=detail))

    def stats(self, model: str, detail: bool = False) -> ToolAnswer:
        """Describe a model: inputs, outputs, operators, sizes of weights, estimated work.

        Args:
            model: the file of the model.
            detail: return all inputs, outputs, repeated blocks and layers.
        """
        source = self._files.existing(model)
        return self._run(Call("stats", [word(source), "--json"], (source,), detail=detail))

    def diff(self, first: str, second: str, detail: bool = False) -> ToolAnswer:
        """List how two models differ in their graphs, whatever their nodes are called.

        Args:
            first: the file of a model.
            second: the file of another one.
            detail: return all differences.
        """
        sources = self._files.existing(first), self._files.existing(second)
        words = [*map(word, sources), "--json"]
        return self._run(Call("diff", words, sources, detail=detail))

    def close(self) -> None:
        """End the tools that run, and refuse further calls: the client has left."""
        self._runner.close()

    def _run(self, call: Call) -> ToolAnswer:
        """Run the command: its exit code, its answer and its messages."""
        end = self._runner.run(call)
        answer = document_of(end.out)
        messages = [*end.err.splitlines(), *remarks_of(call.tool, answer)]
        if not call.detail:
            answer, hidden = summary_of(call.tool, answer)
            messages += [f"{hidden}; detail=true shows them"] if hidden else []
        return self.answer(call.tool, end.code, messages, answer)

    def answer(
        self, tool: str, code: int, messages: Sequence[str], result: Any = None
    ) -> ToolAnswer:
        """The answer of a tool to an exit code."""
        answer: ToolAnswer = {
            "exit_code": code,
            "meaning": meaning_of(tool, code, self._meanings, result),
            "result": result,
            "messages": list(messages),
        }
        return cast("ToolAnswer", bounded(answer))


def _signature(method: Callable[..., Any]) -> inspect.Signature:
    """The signature of a tool, with the arguments of ``optimize`` one by one."""
    signature = inspect.signature(method, eval_str=True)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    if len(parameters) < len(signature.parameters):
        options_signature = inspect.signature(OptimizeArguments, eval_str=True)
        parameters += options_signature.parameters.values()
    return signature.replace(parameters=parameters)


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
    return _server_of(_tools_of(root, meanings))


def _tools_of(root: Path, meanings: Mapping[int, str]) -> Tools:
    if not root.is_dir():
        raise McpError(f"there is no folder {str(root)!r}")
    return Tools(root, meanings)


def _server_of(tools: Tools) -> MCPServer[Any]:
    try:
        mcp_server: MCPServer[Any] = _server_class(tools)(
            "xoptim",
            instructions=SKILL.read_text(encoding="utf-8"),
            tools=[_strict(_tools.Tool.from_function(_tool(tools, name))) for name in ARGUMENTS],
        )
    except ImportError:
        raise McpError("xopt mcp needs its SDK: pip install 'xoptim[mcp]'") from None
    return mcp_server


def _server_class(tools: Tools) -> Any:
    """A server that answers wrong arguments with a `ToolAnswer`: the SDK uses plain text."""
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
    """A tool that refuses arguments that it does not have: the SDK ignores them."""
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = arguments.model_json_schema(by_alias=True)
    return tool


def _tool(tools: Tools, name: str) -> Callable[..., Any]:
    """A tool whose errors reach the agent: the SDK hides the texts of other errors."""
    method = getattr(tools, name)

    def answer_of(**arguments: Any) -> ToolAnswer:
        try:
            answer: ToolAnswer = method(**arguments)
        except XoptimError as error:
            answer = tools.answer(name, FAILED, [str(error)])
        except (ValueError, OSError) as error:  # arguments that no command line can have
            reason = getattr(error, "strerror", None) or shortened(str(error))
            answer = tools.answer(name, FAILED, [f"xopt {name} cannot be run: {reason}"])
        return answer

    @wraps(method)
    async def tool(**arguments: Any) -> Any:
        stopped = threading.Event()
        token = STOPPED.set(stopped)
        try:
            work = partial(answer_of, **arguments)
            answer = await _threads.run_sync(work, abandon_on_cancel=True)
        finally:  # also when the client cancels the call, or leaves
            stopped.set()
            STOPPED.reset(token)
        return answer if answer["exit_code"] in _USABLE else _failed(answer)

    vars(tool)["__signature__"] = _signature(method)
    return tool


def serve(root: Path, meanings: Mapping[int, str]) -> None:
    """Answer on standard input and output until they are closed; raises as `server` does."""
    tools = _tools_of(root, meanings)
    mcp_server = _server_of(tools)

    def leave() -> None:
        tools.close()
        JOURNAL.clean()
        os._exit(_CLOSED)  # a thread waits for requests, and cannot be ended

    on_closed_output(leave)
    stdin, sys.stdin = sys.stdin, SimpleNamespace(buffer=Requests(sys.stdin.buffer))
    try:
        # the SDK writes bytes, whatever stands for the standard output of the command
        with redirect_stdout(sys.__stdout__):
            mcp_server.run("stdio")
    finally:
        sys.stdin = stdin
        tools.close()
