"""``xopt batch FOLDER``: optimize many models."""

from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from xoptim import batch
from xoptim.batching import BatchOptions, BatchReport, BatchStep, Record
from xoptim.batching.store import RESULTS
from xoptim.diagnose.explanation import StageProgress, bytes_text
from xoptim.system.signals import EndRequested
from xoptim.verification import library_file

from ..exit_codes import INTERRUPTED
from ..loosened import warn_of_loosened
from ..options import command, common, duration, flag, names_of, option, refuse_idle, switch
from ..progress import Progress
from ..settings import used_settings
from ..tables import Rows, open_console
from ..targeting import check_target
from ..terminal import say
from ..verification import METRIC_ADDRESS
from .optimize import Choices

_LIBRARIES: Final = "custom_op_lib"
_NAMING_FILES: Final = (_LIBRARIES, "rewrite", "feeds", "test_data")
"""Options of the optimizer that name files."""
_MAX_REMARKS: Final = 12
"""Maximum number of remarks that are printed."""
_MAX_NAMES: Final = 3
"""Maximum number of models that are named with a remark."""


@dataclass(frozen=True)
class _BatchChoices:
    output: Path = option(
        "Folder to write to.",
        "-o",
        "--output",
        type=click.Path(file_okay=False, path_type=Path),
        required=True,
    )
    jobs: int = option(
        "Models to optimize in parallel (default: number of cores).",
        "-j",
        "--jobs",
        type=click.IntRange(min=0),
        default=0,
    )
    timeout: float | None = duration("Time limit per model.")
    memory: str | None = option("Memory limit of each process: 4GB (Linux).", metavar="SIZE")
    resume: bool = switch("Skip unchanged models that are done.")
    scheduler: str = option(
        "Dask scheduler to run on: tcp://host:8786.",
        default="",
        metavar="ADDRESS",
    )
    quiet: bool = flag("Print only errors.", "-q", "--quiet")


@dataclass(frozen=True)
class _Shared(Choices):
    """The options of ``xopt MODEL`` for each model of a batch.

    The fields below hide options that make no sense for many models, or that the batch defines.
    """

    output: Path | None = None
    in_place: bool = False
    benchmark: bool = False
    report: Path | None = None
    genai: Path | None = None
    certificate: Path | None = None
    dry_run: bool = False
    as_json: bool = False
    verbose: int = 0
    quiet: bool = False


SHARED: Final = names_of(_Shared)


@command("batch", models={"type": click.Path(), "metavar": "FOLDER|GLOB|LIST"})
def batch_command(
    context: click.Context, models: str, choices: _BatchChoices, shared: _Shared
) -> int:
    """Optimize many models: a folder, a glob, or a text file of paths.

    Each model runs in its own process, so a crash or a timeout loses this model only. Results keep
    the relative paths, and results.jsonl has a line per model. The same command resumes.

    The worst model gives the exit code: 0 written and equal, 3 written but not verified, 1 not
    written since it differs. Exit code 2 when a model has no result: unreadable, crashed, out of
    time or memory.
    """
    idle = shared.idle()
    if choices.scheduler:
        refuse_idle({"jobs": "with --scheduler, whose workers run a model per thread"})
    refuse_idle(idle)
    warn_of_loosened()
    check_target(shared.target, shared.provider, needs_contrib=shared.lowering.needs_contrib)
    try:
        words, files = tuple(_words(context, idle)), tuple(_files(context))
        options = BatchOptions(arguments=words, files=files, **common(BatchOptions, choices))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    display = _Display(enabled=not choices.quiet)
    try:
        with display.progress:
            report = batch(models, choices.output, options, on_step=display.show)
    except (KeyboardInterrupt, EndRequested) as end:
        word, code = (
            (end.word, end.code) if isinstance(end, EndRequested) else ("interrupted", INTERRUPTED)
        )
        say(f"xopt: error: {word}; {display.state}; run the same command to resume", err=True)
        return code
    if not choices.quiet:
        _print_report(report, choices.output, used_settings(context))
    return report.exit_code


def _words(context: click.Context, idle: Container[str]) -> list[str]:
    """The words with which each model's command line repeats the options of the batch.

    These are options of the optimizer from the command line or the settings. Settings without
    effect are skipped: on a command line they would be refused.
    """
    words: list[str] = []
    for param in context.command.params:
        name = param.name or ""
        is_chosen = context.get_parameter_source(name) not in (ParameterSource.DEFAULT, None)
        if (
            not isinstance(param, click.Option)
            or name not in SHARED
            or name in idle
            or not is_chosen
        ):
            continue
        long = next(text for text in param.opts if text.startswith("--"))
        value = context.params[name]
        if callable(value):
            value = context.meta[METRIC_ADDRESS]
        if param.is_flag:
            words += [long] if value else param.secondary_opts[:1]
        else:
            words += [
                f"{long}={text}"
                for text in _named_files(name, value) or (value if param.multiple else [value])
            ]
    if context.params["assume"] and not context.params["assume_fitting"]:
        # A model without the dimension or the input of an assumption is not a failure.
        words.append("--assume-fitting")
    return words


def _named_files(option: str, value: Any) -> list[Path]:
    """The files that an option names, if any."""
    if option not in _NAMING_FILES or value is None:
        return []
    texts = value if isinstance(value, (list, tuple)) else [value]
    return [
        Path(library_file(str(text)) if option == _LIBRARIES else text).absolute() for text in texts
    ]


def _files(context: click.Context) -> list[Path]:
    """The files that options name.

    Raises `click.UsageError` when a file does not exist.
    """
    files = [
        path for option in _NAMING_FILES for path in _named_files(option, context.params[option])
    ]
    for path in files:
        if not path.exists():
            raise click.UsageError(f"cannot read {str(path)!r}: No such file or directory")
    return files


class _Display:
    """The progress of a batch on standard error, if ``enabled``.

    If ``enabled`` and standard error is not a terminal, a line is also printed for each model.
    """

    def __init__(self, enabled: bool) -> None:
        self._console = open_console(to_stderr=True)
        self._prints_models = enabled and not self._console.is_terminal
        self._step = BatchStep(0, 0)
        self.progress = Progress(enabled=enabled)

    @property
    def state(self) -> str:
        """The progress in words."""
        return f"{self._step.done} of {self._step.total} models are done"

    def show(self, step: BatchStep) -> None:
        """Show a step."""
        self._step = step
        record = step.record
        if self._prints_models and record is not None:
            text = "unchanged" if step.was_done else f"{record.seconds:.1f} s"
            error = f": {record.error}" if record.error else ""
            self._console.print(
                f"[{step.done}/{step.total}] {record.output}: {record.status}, {text}{error}",
                highlight=False,
            )
        name = "" if record is None else record.output
        self.progress.say(StageProgress("models", step.done, step.total, name))


def _print_report(report: BatchReport, output: Path, settings: str | None) -> None:
    """Print the table of the models, their remarks, and a line about all models."""
    console = open_console()
    rows = Rows(
        "model", "status", "nodes", "size", "time", "", prose={""}, right={"nodes", "size", "time"}
    )
    for record in report.records:
        time = "unchanged" if record.output in report.skipped else f"{record.seconds:.1f} s"
        style = {0: "", 3: "yellow"}.get(record.exit_code, "red")
        sizes = _change(record.bytes_before, record.bytes_after, bytes_text)
        nodes = _change(record.nodes_before, record.nodes_after, str)
        rows.add(
            record.output,
            record.status,
            nodes,
            sizes,
            time,
            record.error or record.verdict,
            style=style,
        )
    rows.print(console)
    console.print()
    remarks = _remarks(report.records)
    for remark in remarks:
        console.print(remark, highlight=False)
    if remarks:
        console.print()
    console.print(
        f"{_counts(report.records)}; {len(report.skipped)} unchanged; {report.seconds:.0f} s",
        highlight=False,
    )
    if settings is not None:
        console.print(f"settings: {settings}", highlight=False)
    console.print(f"written to {output}", highlight=False)


def _remarks(records: list[Record]) -> list[str]:
    """Each remark with the models that it is about, the remarks about most models first."""
    models: dict[str, list[str]] = {}
    for record in records:
        for remark in record.remarks:
            models.setdefault(remark, []).append(record.output)
    by_number = sorted(models.items(), key=lambda item: -len(item[1]))
    lines = [f"{remark} ({_listed(names)})" for remark, names in by_number[:_MAX_REMARKS]]
    left = len(models) - len(lines)
    return [*lines, f"{left} more in {RESULTS}"] if left else lines


def _listed(names: list[str]) -> str:
    more = f", {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{', '.join(names[:_MAX_NAMES])}{more}"


def _change(before: int | None, after: int | None, text: Callable[[int], str]) -> str:
    return (
        " → ".join("?" if value is None else text(value) for value in (before, after))
        if before is not None
        else ""
    )


def _counts(records: list[Record]) -> str:
    words = [record.status for record in records]
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
