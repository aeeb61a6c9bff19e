"""A worker process of a batch, which runs the command lines that it reads from standard input.

Each command runs in a fork of this process. If the system cannot fork, this process ends after the
first command. No thread may run here: the forks import onnxruntime, which starts threads.
"""

import gc
import json
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

from xoptim.system.dependent import end_with_parent
from xoptim.system.machine import end_idle_threads, limit_data, same_signals, without_output

from .guard import leave, supervised
from .start import begin

_MODULES: Final = ("xoptim.cli.main", "xoptim.cli.commands.optimize", "numpy.ma")
"""Modules that each command needs."""
_SIGNALED: Final = 128
"""Exit codes from this one on mean that a signal ended the process."""
_MAX_READ_BYTES: Final = 1 << 16


def main(words: Sequence[str]) -> None:
    """Run commands, and write the exit code of each to the file descriptor in ``words``.

    Without ``words``, only one command is run. A line of standard input is a list in JSON: a limit
    of private memory in bytes (0 for none), and the words of the command line. The command
    considers the limit when it chooses how to verify a model.
    """
    begin(partial(_run_all, int(words[0])) if words else _run_one)


def _run_one() -> None:
    code = _code_of(_request())
    if code is not None:
        leave(code)


def _run_all(answers: int) -> None:
    """Run commands until the batch ends, or a signal ends a command."""
    os.set_inheritable(answers, False)
    while request := _request():
        _load()
        with same_signals():
            code = _code_of(request)
            if code is None:
                return
            if code >= _SIGNALED:
                leave(code)
            os.write(answers, str(code).encode())


def _code_of(request: list[Any]) -> int | None:
    """The exit code of a command; ``None`` in the process in which the command has run."""
    limit, *sys.argv[1:] = request
    return supervised(partial(_run, limit))


def _request() -> list[Any]:
    """The next line of standard input, an empty list at its end."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, _MAX_READ_BYTES)  # `sys.stdin` might read more than a line
        if not part:
            return []
        line += part
    request: list[Any] = json.loads(line)
    return request


@cache
def _load() -> None:
    """Import the modules that each command needs, before this process is forked.

    The commands report modules that cannot be imported.
    """
    with without_output(), suppress(Exception):
        for name in _MODULES:
            import_module(name)
        import_module("xoptim.catalogue.registry").compile_patterns()
    end_idle_threads()
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the memory of all objects


def _run(limit: int) -> None:
    """Run the command line of this process, which ends when the batch ends."""
    if limit:
        limit_data(limit, for_good=True)
    threading.Thread(target=end_with_parent, daemon=True).start()
    import_module("xoptim.cli.main").main()
