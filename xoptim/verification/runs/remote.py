"""A session in a process of its own: a provider that ends the process only causes an error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xoptim.facts.advice import current_reader
from xoptim.facts.errors import XoptimError
from xoptim.system.child import Child, ChildGoneError
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.runs.ports import Port, Value

if TYPE_CHECKING:
    from xoptim.verification.runs.session_settings import SessionSettings

_CODE: Final = "from xoptim.verification.runs.serving import serve; serve()"


class RemoteSession:
    """A session that another process holds, and that ends with this object.

    ``ports`` are inputs, outputs, and the names that can be fed. Values and results go through
    pipes.
    """

    def __init__(
        self,
        source: str | bytes,
        base_dir: Path | None,
        weights: Mapping[str, np.ndarray],
        settings: SessionSettings,
    ) -> None:
        self._provider = settings.providers[0]
        self._child = Child(_CODE)
        self.ports: tuple[tuple[Port, ...], tuple[Port, ...], set[str]]
        self.ports = self._ask(
            (current_reader(), source, base_dir, dict(weights), settings), LoadError
        )

    def run(self, feeds: Mapping[str, Value], limit: float | None = None) -> list[Value]:
        """All outputs, in order; as `xoptim.verification.runs.session.Session.run`.

        Raises its errors, and `RunError` when the process ends.
        """
        results: list[Value] = self._ask((dict(feeds), limit), RunError)
        return results

    def _ask(self, question: object, kind: type[XoptimError]) -> Any:
        """The answer to a question. Raises an error of the kind when the process has ended."""
        try:
            answer = self._child.ask(question)
        except ChildGoneError:
            subject = f"the process of the execution provider {self._provider!r}"
            raise kind(f"{subject} {self._child.end_text()}") from None
        if isinstance(answer, Exception):
            raise answer
        return answer
