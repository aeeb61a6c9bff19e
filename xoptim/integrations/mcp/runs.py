"""The calls of the tools of a server: each runs the command in a folder of its own."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from xoptim.integrations.mcp.files import CODE, SCRATCH, McpError, Output, ServedFiles, word
from xoptim.system.confined import Parts
from xoptim.system.dependent import GRACE
from xoptim.system.journal import ScratchFolder
from xoptim.system.supervised import CommandResult, run_code

_MAX_RUNNING: Final = 4
"""Tools that run at the same time; other calls wait."""
_PERIOD: Final = 0.25  # seconds between two looks at whether a call that waits is still needed
STOPPED: ContextVar[threading.Event] = ContextVar("stopped")
"""Set when the client no longer needs the answer to the call that runs here."""


@dataclass(frozen=True)
class Call:
    """A call of a tool: its command line but for the name, and its files."""

    tool: str
    words: Sequence[str]
    models: Sequence[Parts]
    output: Output | None = None
    detail: bool = field(kw_only=True)


class Runner:
    """Runs the command in temporary folders; see `ServedFiles`.

    Args:
        files: the served files.
        seconds: after which a tool is ended.
    """

    def __init__(self, files: ServedFiles, seconds: float) -> None:
        self._files = files
        self._seconds = seconds
        self._running = threading.BoundedSemaphore(_MAX_RUNNING)
        self._is_closed = False

    def close(self) -> None:
        """End the tools that run, and refuse further calls: the client has left."""
        self._is_closed = True
        for _ in range(_MAX_RUNNING):  # each of them removes what it has begun
            self._running.acquire(timeout=2 * GRACE)

    def run(self, call: Call) -> CommandResult:
        """Run the command, and publish what it has written.

        Raises `McpError` when it takes too long, or nobody needs its answer any more; nothing is
        written then.
        """
        with self._turn(), ScratchFolder(prefix=SCRATCH) as name:
            scratch = Path(name).resolve()
            self._files.stage(call.models, call.output, scratch)
            end = self._execute(call, scratch)
            answer = document_of(end.out)
            if call.output is not None and isinstance(answer, dict):
                self._publish(scratch, call.output, answer)
        return end

    def _execute(self, call: Call, scratch: Path) -> CommandResult:
        """Run the command in a folder; its output shows the served folder's path instead."""
        folder = self._files.folder
        words = [str(folder.handle), str(folder.root), call.tool, str(len(call.models))]
        words += [*map(word, call.models), "--no-config", call.tool, *call.words]
        end = run_code(
            CODE,
            words,
            timeout=self._seconds,
            is_needed=self._is_needed,
            cwd=scratch,
            **folder.passed_on(),
        )
        if end.cut_off == "timeout":
            raise McpError(f"xopt {call.tool} took more than {self._seconds:g} seconds")
        self._check_needed()
        scratch_path, root_path = str(scratch), str(folder.root)
        out = end.out.replace(_escaped(scratch_path), _escaped(root_path))
        return replace(end, out=out, err=end.err.replace(scratch_path, root_path))

    def _publish(self, scratch: Path, output: Output, answer: Mapping[str, Any]) -> None:
        names = [Path(path).name for path in answer.get("written", ())]
        if output.path[-1] in names:
            self._check_needed()
            self._files.publish(scratch, output, names)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until a tool may run."""
        while not self._running.acquire(timeout=_PERIOD):
            self._check_needed()
        try:
            self._check_needed()
            yield
        finally:
            self._running.release()

    def _check_needed(self) -> None:
        if not self._is_needed():
            raise McpError("the call was cancelled; nothing was written")

    def _is_needed(self) -> bool:
        stopped = STOPPED.get(None)
        return not self._is_closed and (stopped is None or not stopped.is_set())


def document_of(output: str) -> Any:
    """The JSON document that a command has written, or its text."""
    try:
        return json.loads(output) if output.strip() else None
    except (ValueError, RecursionError):
        return output


def _escaped(text: str) -> str:
    """A text as it is in JSON."""
    return json.dumps(text)[1:-1]
