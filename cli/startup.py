"""The session settings of ``--for startup``, in a file next to the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from xoptim import tuning
from xoptim.api.startup import measured_settings
from xoptim.optimizing.verified import VerifiedModel

from .files import STANDARD_OUTPUT, check_derived

if TYPE_CHECKING:
    from xoptim.bench import BenchOptions

_CPU: Final = ("cpu", "cpuexecutionprovider")


class StartupFile:
    """Chooses the session settings of a result, and gives the content of their file.

    Attributes:
        summary: the settings in one line, empty before they are chosen.

    Args:
        target: the file of the result.
        bench: makes the options of the measurement.
        on_step: called with a description of the step.
    """

    def __init__(
        self, target: Path, bench: Callable[[], BenchOptions], on_step: Callable[[str], object]
    ) -> None:
        self.summary = ""
        self._target = target
        self._bench = bench
        self._on_step = on_step

    def __call__(self, verified: VerifiedModel) -> dict[Path, bytes]:
        """The content of the file by its path."""
        self._on_step("choosing session settings")
        self.summary, text = measured_settings(verified.proto, verified.base_dir, self._bench())
        return {tuning.settings_path(self._target): text.encode()}


def check_startup(target: Path, providers: Sequence[str], runtime: str) -> None:
    """Raise `click.UsageError`, before any work, if ``--for startup`` cannot be used.

    Args:
        target: the file of the result.
        providers: execution providers that run the model.
        runtime: the ``--target``, empty for none.
    """
    if target == STANDARD_OUTPUT:
        raise click.UsageError(
            "--for startup writes files next to the model; use -o FILE in place of -o -"
        )
    if runtime or any(provider.lower() not in _CPU for provider in providers):
        raise click.UsageError(
            "--for startup measures session settings on the CPU; remove --provider and --target"
        )
    check_derived(tuning.settings_path(target))
