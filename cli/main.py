"""The command ``xopt``: the dispatch of a command line, and the exit codes of errors."""

import contextlib
import errno
import gc
import io
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from xoptim import XoptimError, __version__
from xoptim.api.advice import on_command_line
from xoptim.diagnose.explanation import similar, wants_log
from xoptim.system.journal import JOURNAL
from xoptim.system.signals import ENDING, EndRequested
from xoptim.system.threads import any_abandoned

from .commands import COMMANDS, GROUPS
from .completion import VARIABLE, completion_option
from .exit_codes import BAD_USAGE, INTERRUPTED, UNREAD, table
from .files import readable
from .help import FAST
from .layers import settings_of
from .memory import MEMORY_BOUND
from .schemas import schema_option
from .settings import place_of, taken_from, use
from .terminal import escaped_output, say

# The error with which click 8.2 asks for the help; click 8.1 prints the help itself.
_NO_ARGUMENTS: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


_FAULTS_OF_OUTPUT = frozenset(
    (errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EINVAL, errno.EIO, errno.ENOSPC, errno.EPIPE)
)
"""Errors of a write; a process that cannot be started has others."""
_LACKS_OF_MEMORY = ("can't start new thread", "error return without exception set")
"""Messages of Python and of C extensions that fail to allocate memory."""


class _Warnings(logging.Handler):
    """Prints warnings of the engine to the current standard error stream."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a warning once: a model may be loaded several times."""
        text = readable(" ".join(record.getMessage().split()))
        if text not in self._shown:
            self._shown.add(text)
            say(f"xopt: warning: {text}", err=True)


_ALONE = ("--help", "-h", "--version", "--completion", "--json-schema")
"""Options of ``xopt`` that need no command."""
_ELSEWHERE = {
    **dict.fromkeys(
        ("onnxsim", "onnxslim", "onnxoptimizer", "simplify", "polygraphy"), "MODEL -o OUTPUT"
    ),
    "infer": "extract MODEL -o OUTPUT",
    "pair": "extract DECODER --into ENCODER -o FOLDER",
}
"""Names of other tools and of functions that users may type in front of a model.

Each name has the words of the command line that do the same.
"""
_FAST = "fast"
"""``xopt fast MODEL`` is ``xopt MODEL --fast``."""
_TUNE = ("-O2", "--tune")
"""``xopt MODEL -O2`` and ``xopt fast MODEL --tune`` are ``xopt tune MODEL``."""


class DefaultGroup(click.Group):
    """A group in which a first word that is not a command is the model to optimize."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command in front of words that name no command."""
        if ctx.resilient_parsing:  # a shell asks for completions of a line that may be half-written
            return super().parse_args(ctx, self._named(args))
        args, named = taken_from(args)
        if self._is_fast(args):
            ctx.meta[FAST] = True
        args = self._named(args, is_checked=True)
        name = args[0] if args else ""
        use(ctx, settings_of(named, name, args[1:], self.commands), name)
        return super().parse_args(ctx, args)

    @staticmethod
    def _is_fast(args: list[str]) -> bool:
        return args[:1] == [_FAST] and not Path(_FAST).is_file()

    def _named(self, args: list[str], *, is_checked: bool = False) -> list[str]:
        """The words with the name of a command in front.

        Raises for a misspelled name if ``is_checked``.
        """
        is_fast = self._is_fast(args)
        if any(word in _TUNE for word in args) and args[0] not in self.commands:
            args = [
                "tune",
                *(word for word in (args[1:] if is_fast else args) if word not in _TUNE),
            ]
        elif is_fast:
            args = ["optimize", "--fast", *args[1:]]
        if args and args[0].partition("=")[0] not in (*self.commands, *_ALONE):
            if is_checked:
                self._check_spelling(args[0])
            args = ["optimize", *args]
        return args

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups."""
        for title, rows in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([*rows.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands, and files: the first word may be a model."""
        return [*super().shell_complete(ctx, incomplete), CompletionItem(incomplete, type="file")]

    def _check_spelling(self, word: str) -> None:
        """Raise for a word that is not a file and resembles the name of a command.

        Options are left to the parser, which suggests similar options.
        """
        if word.startswith("-"):
            return
        names = [f"--{word}"] if word in ("help", "version") else similar(word, self.commands)
        if word in _ELSEWHERE:
            names = [_ELSEWHERE[word]]
        if names and not Path(word).exists():
            raise click.UsageError(
                f"there is no command or file {word!r}; did you mean `xopt {names[0]}`?"
            )

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        A closed pipe ends with the exit code of SIGPIPE (click would return 1).
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _give_up_output()
            return UNREAD


def _give_up_output() -> None:
    """Discard pending output.

    Python flushes standard output at exit: a second error would change the exit code.
    """
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=DefaultGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    epilog=f"\b\n{table()}",
)
@click.option(
    "--config",
    type=click.Path(),
    metavar="FILE",
    help="Settings (default: nearest xoptim.toml).",
)
@click.option("--no-config", is_flag=True, help="Ignore settings files.")
@completion_option()
@schema_option()
@click.version_option(__version__, prog_name="xopt")
def xopt(config: str | None, no_config: bool) -> None:
    """\b
    Optimize ONNX models, and verify each result against the original.
    xopt model.onnx        optimize, verify, write model.opt.onnx (options: xopt optimize -h)
    xopt fast model.onnx   the same with -O: fastest for ONNX Runtime, with its contrib operators.
    """


xopt.commands = COMMANDS


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, and return the exit code (see ``xopt --help``)."""
    JOURNAL.forget()
    logger = logging.getLogger("xoptim")
    warnings = _Warnings()
    logger.addHandler(warnings)
    try:
        with escaped_output(), on_command_line():
            return _run(arguments)
    finally:
        logger.removeHandler(warnings)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        with ENDING.reraised():
            result: Any = xopt.main(
                args=arguments, prog_name="xopt", complete_var=VARIABLE, standalone_mode=False
            )
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _say(f"interrupted; {JOURNAL.outcome()}", INTERRUPTED)
    except _NO_ARGUMENTS as error:
        click.echo(error.format_message())
        return BAD_USAGE
    except click.ClickException as error:
        return _say(f"{place_of(error)}{error.format_message()}", BAD_USAGE)
    except XoptimError as error:
        return _say(str(error), BAD_USAGE)
    except OSError as error:
        return _say(_reason(error), BAD_USAGE)
    except EndRequested as end:
        return _end(end)
    except MemoryError:
        # The traceback of the error refers to large objects: free memory after this block only.
        pass
    # A defect of xopt: print one line, and the traceback on request only.
    except Exception as error:
        if str(error) not in _LACKS_OF_MEMORY:
            if logging.getLogger("xoptim").isEnabledFor(logging.INFO) or wants_log():
                traceback.print_exc()
            text = f"internal error ({type(error).__name__}: {error}); {JOURNAL.outcome()}"
            return _say(
                f"{text}; please report it with the traceback: run with LOG_PATTERN_OPTIMIZE=1",
                BAD_USAGE,
            )
    gc.collect()
    MEMORY_BOUND.lift()
    return _say(f"out of memory; {JOURNAL.outcome()}", BAD_USAGE)


def _say(message: str, code: int) -> int:
    ENDING.ignore()
    say(f"xopt: error: {readable(' '.join(message.split()))}", err=True)
    return code


def _end(end: EndRequested) -> int:
    ENDING.ignore()
    JOURNAL.clean()
    return _say(f"{end.word}; {JOURNAL.outcome()}", end.code)


def _reason(error: OSError) -> str:
    """The message about an error of the operating system, with the file that cannot be used."""
    if error.filename is not None:
        return f"cannot use {str(error.filename)!r}: {error.strerror}; {JOURNAL.outcome()}"
    if isinstance(error, FileNotFoundError) and "temporary" in str(error):
        return "no folder for temporary files can be written; set TMPDIR=FOLDER (environment)"
    if isinstance(error, FileNotFoundError):
        return "the current folder no longer exists"
    if error.errno is None:
        return str(error)
    if error.errno in _FAULTS_OF_OUTPUT:  # the files that xopt writes have names
        return f"cannot write to standard output: {error.strerror}"
    return f"{error.strerror}; {JOURNAL.outcome()}"


def main() -> None:
    """Run the command line of this process, and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the terminal cannot show is not an error.
            stream.reconfigure(errors="replace")
    try:
        ENDING.by_exception()
        MEMORY_BOUND.set()
        code = run()
    except EndRequested as end:
        code = _end(end)
    ENDING.ignore()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_output()
        code = code or UNREAD
    except OSError as error:
        _give_up_output()
        code = code or _say(_reason(error), BAD_USAGE)
    if any_abandoned():  # Python would wait for the thread, or end while the thread runs
        os._exit(code)
    sys.exit(code)
