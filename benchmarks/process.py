"""Calls in a process of its own: memory is free afterwards, and a program that never ends is stopped."""

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any


def apart(function: Callable[..., Any], *given: Any, limit: float | None = None) -> Any:
    """Call a function of a module in a new process; the operands and the result are pickled.

    Raises:
        RuntimeError: it failed, or took more seconds than the limit; the message says why in a line.
    """
    context = get_context("spawn")
    results, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, given))
    process.start()
    sender.close()
    try:
        if not results.poll(limit):
            raise RuntimeError(f"> {limit:.0f} s")
        failure, found = results.recv()
    except EOFError:
        process.join()
        failure = f"exit {process.exitcode}"
    finally:
        process.kill()
        process.join()
    if failure:
        raise RuntimeError(failure)
    return found


def _answer(sender: Connection, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    try:
        answer = "", function(*given)
    except Exception as error:  # of other packages too
        answer = (str(error).strip().splitlines() or [type(error).__name__])[-1][:80], None
    sender.send(answer)
