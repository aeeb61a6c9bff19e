"""``xopt batch``: optimize many models."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from xoptim import batch
from xoptim.batching import BatchOptions, BatchReport, Record, Step
from xoptim.bench.report import bytes_text
from xoptim.validate import library_file

from .ending import INTERRUPTED, TERMINATED, Terminated
from .idle import refuse_idle
from .optimization import idle_options, optimize_command
from .summary import open_console
from .tables import Rows

_LIBRARIES: Final = "custom_op_lib"
_NAMING_FILES: Final = (_LIBRARIES, "rewrite", "feeds", "test_data")
"""Options of the optimizer that name files."""
_OF_ONE_MODEL: Final = ("output", "in_place", "dry_run", "as_json", "verbose", "quiet", "help", "report", "benchmark")
"""Options that make no sense for many models (their times are not comparable), or that a batch has itself."""
SHARED: Final = [each for each in optimize_command.params if isinstance(each, click.Option) and each.name not in _OF_ONE_MODEL]
"""The options of ``xopt MODEL`` that a batch has too."""


class BatchCommand(click.Command):
    """A command with the options of the optimizer; settings for it count here too."""

    extends = "optimize"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.extend(SHARED)


@click.command("batch", cls=BatchCommand)
@click.argument("models", type=click.Path(), metavar="FOLDER|GLOB|LIST")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder of the results.")
@click.option("-j", "--jobs", type=click.IntRange(min=0), default=0, help="Models at a time (default: number of cores).")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Time after which a model is given up."
)
@click.option("--memory", metavar="SIZE", help="Private memory that the process of a model may reserve: 4GB (Linux).")
@click.option("--resume/--no-resume", default=True, show_default=True, help="Skip models that are done and unchanged.")
@click.option(
    "--scheduler", default="", metavar="ADDRESS", help="Scheduler of a Dask cluster that does the work: tcp://host:8786."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
@click.pass_context
def batch_command(context: click.Context, /, models: str, output: Path, **choices: Any) -> int:
    """Optimize all models of a folder, of a pattern such as "models/**/*.onnx", or of a text file with a path a line.

    Each model has a process of its own: a crash or a timeout loses this model only. Results keep the relative path of their
    model; results.jsonl in the folder of the results has a line for each. The same command goes on after an interruption.

    The exit code is that of the worst model: 0 all written and equal, 3 some were not validated, 1 some differ and were not
    written, 2 some have no result (unreadable, crashed, out of time or memory).
    """
    idle = idle_options({**choices, "benchmark": False, "quiet": False})
    if choices["scheduler"]:
        refuse_idle({"jobs": "with --scheduler: the threads of its workers count"})
    refuse_idle(idle)
    own = {name: choices[name] for name in ("jobs", "timeout", "memory", "resume", "scheduler")}
    try:
        options = BatchOptions(arguments=tuple(_words(context, choices, idle)), files=tuple(_files(choices)), **own)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    display = Display(enabled=not choices["quiet"])
    try:
        with display:
            report = batch(models, output, options, on_step=display.show)
    except (KeyboardInterrupt, Terminated) as end:
        word, code = ("interrupted", INTERRUPTED) if isinstance(end, KeyboardInterrupt) else ("terminated", TERMINATED)
        click.echo(f"xopt: error: {word}; {display.state}; the same command goes on", err=True)
        return code
    if not choices["quiet"]:
        print_report(report, output)
    return report.exit_code


def _words(context: click.Context, choices: dict[str, Any], idle: Container[str]) -> list[str]:
    """The options of the optimizer that the command line or the settings choose, for the command line of each model.

    Settings without effect are left out: on a command line they would be refused.
    """
    words: list[str] = []
    for option in SHARED:
        name = option.name or ""
        if context.get_parameter_source(name) in (ParameterSource.DEFAULT, None) or name in idle:
            continue
        long = next(text for text in option.opts if text.startswith("--"))
        value = choices[name]
        if option.is_flag:
            words += [long] if value else option.secondary_opts[:1]
        else:
            words += [f"{long}={each}" for each in _named(name, value) or (value if option.multiple else [value])]
    return words


def _named(option: str, value: Any) -> list[Path]:
    """The files that an option names; none for an option that names none."""
    if option not in _NAMING_FILES or value is None:
        return []
    texts = value if isinstance(value, (list, tuple)) else [value]
    return [Path(library_file(str(text)) if option == _LIBRARIES else text).absolute() for text in texts]


def _files(choices: dict[str, Any]) -> list[Path]:
    """The files that these options name.

    Raises:
        click.UsageError: one does not exist.
    """
    files = [path for option in _NAMING_FILES for path in _named(option, choices[option])]
    for path in files:
        if not path.exists():
            raise click.UsageError(f"cannot read {str(path)!r}: No such file or directory")
    return files


class Display:
    """The progress of a batch on standard error: a bar on a terminal, elsewhere a line for each model.

    Args:
        enabled: whether to show anything.
    """

    def __init__(self, enabled: bool) -> None:
        self._console = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
        self._enabled = enabled
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        self._bar = Progress(*columns, TextColumn("{task.description}", markup=False), console=self._console, transient=True)
        self._task = self._bar.add_task("", total=None)
        self._step = Step(0, 0)

    @property
    def state(self) -> str:
        """How far the batch has come."""
        return f"{self._step.done} of {self._step.total} models are done"

    def show(self, step: Step) -> None:
        """Show a step."""
        self._step = step
        record = step.record
        if not self._enabled:
            return
        if self._console.is_terminal:
            name = "" if record is None else record.output
            self._bar.update(self._task, completed=step.done, total=step.total, description=name)
        elif record is not None:
            text = "unchanged" if step.was_done else f"{record.seconds:.1f} s"
            error = f": {record.error}" if record.error else ""
            self._console.print(f"[{step.done}/{step.total}] {record.output}: {record.status}, {text}{error}")

    def __enter__(self) -> Display:
        if self._enabled and self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._enabled and self._console.is_terminal:
            self._bar.stop()  # prints an empty line where it has not begun


def print_report(report: BatchReport, output: Path) -> None:
    """Print the table of the models, and a line about all of them."""
    console = open_console()
    rows = Rows("model", "status", "nodes", "size", "time", "", prose={""}, right={"nodes", "size", "time"})
    for record in report.records:
        time = "unchanged" if record.output in report.skipped else f"{record.seconds:.1f} s"
        style = {0: "", 3: "yellow"}.get(record.exit_code, "red")
        sizes = _change(record.bytes_before, record.bytes_after, bytes_text)
        nodes = _change(record.nodes_before, record.nodes_after, str)
        rows.add(record.output, record.status, nodes, sizes, time, record.error or record.verdict, style=style)
    rows.print(console)
    console.print()
    console.print(f"{_counts(report.records)}; {len(report.skipped)} unchanged; {report.seconds:.0f} s", highlight=False)
    console.print(f"written to {output}", highlight=False)


def _change(before: int | None, after: int | None, text: Any) -> str:
    return " → ".join("?" if value is None else text(value) for value in (before, after)) if before is not None else ""


def _counts(records: list[Record]) -> str:
    words = [record.status for record in records]
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
