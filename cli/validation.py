"""Options of the commands that compare two models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import click
import numpy as np

from xoptim import ValidationOptions, ValidationReport
from xoptim.validate import library_file, resolve_providers

from .limits import MEMORY_BOUND

Command = TypeVar("Command", bound=Callable[..., Any])


dims_option = click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=VALUE",
    help="Size of a symbolic dimension; several with commas (repeatable).",
)
custom_op_option = click.option(
    "--custom-op-lib",
    type=click.Path(),
    multiple=True,
    metavar="FILE",
    help="Library of operators to load: a file, or onnxruntime-extensions (repeatable).",
)


def value_choices(command: Command) -> Command:
    """Add the options for the values that models are run on, and for the operators that they need."""
    for option in (
        custom_op_option,
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the random values."),
        dims_option,
        click.option(
            "--feeds", type=click.Path(path_type=Path), metavar="FILE.npz", help="Values of inputs, in place of random ones."
        ),
        click.option(
            "--test-data", type=click.Path(path_type=Path), metavar="FOLDER", help="Folder of test_data_set_*/input_*.pb files."
        ),
    ):
        command = option(command)
    return command


def check_choices(command: Command) -> Command:
    """Add the options for the values on which models are compared, and for the tolerance."""
    for option in (
        click.option("--atol", type=click.FloatRange(min=0), help="Absolute tolerance."),
        click.option("--rtol", type=click.FloatRange(min=0), help="Relative tolerance."),
        click.option("--ulp", type=click.IntRange(min=0), help="Units in the last place, in place of tolerances."),
        click.option("--tf32", is_flag=True, help="Let CUDA compute products in TF32, and compare accordingly."),
        value_choices,
        click.option(
            "--run-limit",
            type=click.FloatRange(min=0, min_open=True),
            default=600,
            show_default=True,
            metavar="SECONDS",
            help="Time after which a run of a model is stopped.",
        ),
        click.option(
            "--validation-budget",
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help="Time for the runs that compare; larger sizes beyond it are left out (default: 5 s, or 5 runs).",
        ),
    ):
        command = option(command)
    return command


class Values(TypedDict):
    """The values of a command line that models are run on; fields of the options of a validation and of a benchmark."""

    dims: dict[str, int]
    feeds: dict[str, np.ndarray]
    test_data: Path | None
    seed: int
    custom_op_libs: tuple[str, ...]


def chosen_values(choices: dict[str, Any]) -> Values:
    """The values of a command line; raises before any work when they cannot be used."""
    return Values(
        dims=chosen_dims(choices["dims"]),
        feeds=_feeds(choices["feeds"]),
        test_data=choices["test_data"],
        seed=choices["seed"],
        custom_op_libs=tuple(map(library_file, choices["custom_op_lib"])),
    )


def validation_options(choices: dict[str, Any]) -> ValidationOptions:
    """The validation options of a command line; raises before any work when a file or a number cannot be used."""
    chosen = [name for name in ("ulp", "rtol", "atol") if choices[name] is not None]
    if choices["ulp"] is not None and len(chosen) > 1:
        raise click.UsageError(f"--ulp takes the place of tolerances; leave out --{chosen[1]}")
    if choices.get("exact") and chosen:
        raise click.UsageError(f"--exact demands equal bits; leave out --{chosen[0]}")
    if choices.get("verify", True) and resolve_providers(choices["provider"]) != resolve_providers(("cpu",)):
        MEMORY_BOUND.lift()
    return ValidationOptions(
        rtol=choices["rtol"],
        atol=choices["atol"],
        ulp=choices["ulp"],
        tf32=choices["tf32"],
        providers=tuple(choices["provider"]),
        run_limit=choices["run_limit"],
        budget=choices["validation_budget"],
        **chosen_values(choices),
    )


def check_values_used(reports: Sequence[ValidationReport], options: ValidationOptions) -> None:
    """Raise when values of the user could not be used in the comparison."""
    unused = next((report for report in reports if report.cause == "run"), None)
    if unused is not None and (options.feeds or options.dims or options.test_data):
        raise click.UsageError(f"not validated with the values given: {unused.reason}")


def chosen_dims(texts: Sequence[str]) -> dict[str, int]:
    """The sizes of a command line."""
    found: dict[str, int] = {}
    for name, size in (_dimension(part) for text in texts for part in named_parts(text)):
        if found.setdefault(name, size) != size:
            raise click.UsageError(f"--dim {name}: it is given twice, as {found[name]} and {size}")
    return found


def named_parts(text: str) -> list[str]:
    """``batch=4,seq=8`` as two parts; a text in which a part lacks its ``=`` is one part."""
    parts = text.split(",")
    return parts if all("=" in part for part in parts) else [text]


def _dimension(text: str) -> tuple[str, int]:
    name, equals, value = text.rpartition("=")
    if not equals or not name or not value.isdecimal():
        raise click.UsageError(f"--dim {text!r}: write it as NAME=VALUE, such as batch=2")
    return name, int(value)


def _feeds(path: Path | None) -> dict[str, np.ndarray]:
    if path is None:
        return {}
    try:
        with path.open("rb") as stream:
            archive = np.load(stream, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("it holds one array without a name")
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # numpy, zipfile and zlib raise a dozen unrelated types for a file that is not an archive
        reason = "it is not an archive" if "pickle" in str(error) else getattr(error, "strerror", None) or error
        raise click.UsageError(f"cannot read feeds from {str(path)!r}: {reason}; write them with numpy.savez") from error
