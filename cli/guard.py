"""The process of a command, and a parent that waits for it: how it ends, also by a fault in
onnxruntime or by force.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Final

from xoptim.system.crashes import WATCH
from xoptim.system.journal import JOURNAL
from xoptim.system.machine import ChildEnd, end_of_child, signal_name
from xoptim.system.signals import Ended

_PATIENCE: Final = 5.0
"""Seconds that a command has to end after a signal: a kernel of onnxruntime may not return."""
_FAULTS: Final = frozenset(("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV"))
"""Signals of faults in a kernel."""
_MOST_FAULTS: Final = 4
"""Runs that are left out, one after the other: the command begins anew for each."""
_STREAM: Final = "-"
_FEWEST: Final = 8  # a size that kernels can be expected to accept


def note(step: str) -> None:
    """Say what the command does now."""
    WATCH.note(step)


def guarded(command: Callable[[], None]) -> None:
    """Run a command in a child, and exit as it does; without a child where the system has no means
    to pass on signals.

    A command that a run of a model ends begins anew without that run. Nothing large may be loaded
    before, and no thread may run. The files of a child that dies are removed.
    """
    WATCH.share()
    JOURNAL.share()
    ended = end_of_child(_PATIENCE, _begins_anew)
    if ended is None:
        for start in WATCH.starts:
            start()
        command()
        return
    if ended.code >= 0:
        _leave(ended.code)
    JOURNAL.clean()
    if ended.asked:
        asked = Ended(ended.asked)
        _say(f"error: {asked.word}; {JOURNAL.outcome()}")
        _leave(asked.code)
    name, last = signal_name(-ended.code), WATCH.last()
    why = "most likely out of memory" if name == "SIGKILL" else "most likely a bug in onnxruntime"
    where = f" at the step {last.step!a}" if last.step else ""
    where += f" in a run with {_listed(last.sizes)}" if last.sizes else ""
    advice = f"; {_advice(last.sizes)}" if last.sizes and name in _FAULTS else ""
    _say(f"error: the process was ended by {name}{where}, {why}; {JOURNAL.outcome()}{advice}")
    _leave(128 - ended.code)


def _begins_anew(ended: ChildEnd) -> bool:
    """Whether the command is worth another try, without the run that ended it."""
    name, last = signal_name(-ended.code) if ended.code < 0 else "", WATCH.last()
    is_fault = name in _FAULTS and bool(last.key) and not ended.asked
    if not is_fault or len(WATCH.crashes) == _MOST_FAULTS or WATCH.end_of(last.key):
        return False
    if _STREAM in sys.argv[1:] or JOURNAL.written():  # what was read or written is gone
        return False
    JOURNAL.clean()
    WATCH.crashes.append(last._replace(signal=name))
    where = f" with {_listed(last.sizes)}" if last.sizes else ""
    advice = f"; {_advice(last.sizes)}" if last.sizes else ""
    told = (
        f"a run of the model{where} ended the process by {name}, most likely a bug in onnxruntime"
    )
    _say(f"warning: {told}; starting again without it{advice}")
    note("")
    return True


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _advice(sizes: Mapping[str, int]) -> str:
    """The option that chooses other sizes, with the names of the dimensions."""
    others = ",".join(f"{name}={max(_FEWEST, 2 * size)}" for name, size in sizes.items())
    return f"--dim {others} chooses other sizes"


def _say(text: str) -> None:
    # names of dimensions may hold what a terminal obeys
    plain = (
        each if " " <= each <= "~" else each.encode("unicode_escape").decode() for each in text
    )
    os.write(2, f"xopt: {''.join(plain)}\n".encode("ascii"))


def _leave(code: int) -> None:
    """Exit without what Python does at its end: nothing is left to do."""
    sys.stdout.flush()
    os._exit(code)
