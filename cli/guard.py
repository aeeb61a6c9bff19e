"""Run a command in a child process, and report a fault in onnxruntime or a signal that ends it."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Final

from xoptim.api.advice import Advice, on_command_line
from xoptim.system.crashes import WATCH
from xoptim.system.journal import JOURNAL
from xoptim.system.machine import ChildEnd, continue_in_child, signal_name
from xoptim.system.signals import EndRequested

_MAX_SECONDS: Final = 5.0
"""Seconds that a command has to end after a signal: a kernel of onnxruntime may never return."""
_FAULTS: Final = frozenset(("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV"))
"""Signals of faults in a kernel."""
_MAX_FAULTS: Final = 4
"""Maximum number of faults after which the command starts again, without the run that failed."""
_STREAM: Final = "-"
"""The word for standard input or standard output."""
_MIN_SIZE: Final = 8
"""Minimum size to advise: kernels can be expected to accept this size of a dimension."""


def note(step: str) -> None:
    """Note the current step of the command, for the message about a fault."""
    WATCH.note(step)


def guarded(command: Callable[[], None]) -> None:
    """Run a command in a child process, and exit with its code; see `supervised`."""
    code = supervised(command)
    if code is not None:
        leave(code)


def supervised(command: Callable[[], None]) -> int | None:
    """Run a command in a child process, and return its exit code.

    If the system cannot pass on signals, the command runs in this process. If a run of a model ends
    the child, the command starts again without this run. No thread may run before the call. The
    files of a child that dies are removed.

    Returns:
        The exit code; ``None`` in the process in which the command has run.
    """
    WATCH.share()
    JOURNAL.share()
    child = continue_in_child(_MAX_SECONDS, _begins_anew)
    if child is None:
        command()
        return None
    if child.code >= 0:
        return child.code
    JOURNAL.clean()
    if child.asked:
        end = EndRequested(child.asked)
        _say(f"error: {end.word}; {JOURNAL.outcome()}")
        return end.code
    name, last = signal_name(-child.code), WATCH.last()
    cause = "most likely out of memory" if name == "SIGKILL" else "most likely a bug in onnxruntime"
    where = f" at the step {last.step!a}" if last.step else ""
    where += f" in a run with {_listed(last.sizes)}" if last.sizes else ""
    advice = f"; {_advice(last.sizes)}" if last.sizes and name in _FAULTS else ""
    _say(f"error: the process was ended by {name}{where}, {cause}; {JOURNAL.outcome()}{advice}")
    return 128 - child.code


def _begins_anew(child: ChildEnd) -> bool:
    """Whether the command starts again, without the run of a model that ended its process."""
    name, last = signal_name(-child.code) if child.code < 0 else "", WATCH.last()
    is_fault = name in _FAULTS and bool(last.key) and not child.asked
    if not is_fault or len(WATCH.crashes) == _MAX_FAULTS or WATCH.end_of(last.key):
        return False
    # Standard input cannot be read again, and output would be written twice.
    if _STREAM in sys.argv[1:] or JOURNAL.written():
        return False
    JOURNAL.clean()
    WATCH.crashes.append(last._replace(signal=name))
    where = f" with {_listed(last.sizes)}" if last.sizes else ""
    advice = f"; {_advice(last.sizes)}" if last.sizes else ""
    text = (
        f"a run of the model{where} ended the process by {name}, most likely a bug in onnxruntime"
    )
    _say(f"warning: {text}; starting again without it{advice}")
    note("")
    return True


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _advice(sizes: Mapping[str, int]) -> str:
    """Advice to choose other sizes of the dimensions by ``--dim``."""
    words = ",".join(f"{name}={max(_MIN_SIZE, 2 * size)}" for name, size in sizes.items())
    with on_command_line():
        return str(Advice("dim", words, "chooses other sizes"))


def _say(text: str) -> None:
    # Names of dimensions may contain control characters.
    plain = (
        char if " " <= char <= "~" else char.encode("unicode_escape").decode() for char in text
    )
    os.write(2, f"xopt: {''.join(plain)}\n".encode("ascii"))


def leave(code: int) -> None:
    """Exit without Python's cleanup: the child process has done all work."""
    sys.stdout.flush()
    os._exit(code)
