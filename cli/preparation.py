"""Options that change a model before it is optimized."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from xoptim import Preparation, ValidationOptions, ValidationReport, verify
from xoptim.api.preparing import Source, prepared_source

from .files import is_stream
from .options import flag, option, repeated
from .validation import named_parts


@dataclass(frozen=True)
class Changes:
    """The options that change inputs, outputs and sizes."""

    fix: tuple[str, ...] = repeated("Write sizes into MODEL: batch=1,seq=128 or x=1,3,224,224.", metavar="NAME=SIZE")
    free: str = option("Make the fixed leading size of the inputs this dimension.", default="", metavar="NAME")
    drop_output: tuple[str, ...] = repeated("Remove an output (repeatable).", metavar="NAME")
    keep_output: tuple[str, ...] = repeated("Make a result an output (repeatable).", metavar="NAME")
    rename: tuple[str, ...] = repeated("Rename an input or output; several with commas (repeatable).", metavar="OLD=NEW")
    strip: bool = flag("Remove doc strings, and metadata of nodes and values.")

    def read(self) -> Preparation:
        """The changes; raises when one cannot be read."""
        return Preparation(
            free=self.free,
            fix=_sizes(self.fix),
            drop_outputs=self.drop_output,
            keep_outputs=self.keep_output,
            rename=dict(_names(part) for text in self.rename for part in named_parts(text)),
            strip=self.strip,
        )


def prepared(model: Path, preparation: Preparation) -> Path | Source:
    """The model to optimize: the file itself when nothing is changed."""
    return model if preparation.is_empty else prepared_source(model, preparation)


def check_sizes_fit(
    model: Path, preparation: Preparation, reports: Sequence[ValidationReport], checks: ValidationOptions
) -> None:
    """Raise when onnxruntime runs a model, but not with the sizes that were written into it."""
    unfit = next((report for report in reports if report.cause in ("load", "run")), None)
    if unfit is not None and preparation.fix and not is_stream(model) and verify(model, model, checks).ok:
        raise click.UsageError(f"the model does not run with the sizes of --fix: {unfit.reason}")


def _sizes(texts: Sequence[str]) -> dict[str, list[int]]:
    """``batch=1,seq=128`` and ``x=1,3,224,224``: a part without ``=`` is one more size of the preceding name."""
    found: dict[str, list[int]] = {}
    for text in texts:
        name = ""
        for part in text.split(","):
            before, equals, size = part.rpartition("=")
            name = before if equals else name
            if equals and name in found:
                raise click.UsageError(f"--fix {name}: it is given twice")
            if not name or not size.isdecimal():
                raise click.UsageError(f"--fix {text!r}: write it as NAME=SIZE, such as batch=1,seq=128 or x=1,3,224,224")
            found.setdefault(name, []).append(int(size))
    return found


def _names(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old or not new:
        raise click.UsageError(f"--rename {text!r}: write it as OLD=NEW")
    return old, new
