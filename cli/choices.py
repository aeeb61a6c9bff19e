"""Options of the optimizer that are not plain words or numbers."""

from __future__ import annotations

import click

from xoptim import OptimizationOptions
from xoptim.validate import is_provider


def operator_set(value: str | int) -> int | str:
    """A version of the operator set of ONNX, or ``newest``.

    Raises:
        click.BadParameter: when it is neither.
    """
    try:
        return "newest" if value == "newest" else int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor `newest`") from None


def provider(value: str) -> str:
    """An execution provider to optimize for, which need not be installed here.

    Raises:
        click.BadParameter: when onnxruntime has no such provider on any machine.
    """
    if not is_provider(value):
        raise click.BadParameter(f"onnxruntime has no execution provider {value!r} on any machine; cpu and cuda are usual")
    return value


def growth(value: str | int) -> str:
    """Bytes that folding may add.

    Raises:
        click.BadParameter: when the optimizer cannot read them.
    """
    try:
        OptimizationOptions(max_growth=value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return str(value)


max_growth_option = click.option(
    "--max-growth",
    type=growth,
    metavar="SIZE",
    help="Bytes that folding may add: 500kB, 10% or unlimited (default: 10% or 1 MB, whichever is more).",
)
opset_option = click.option(
    "--opset",
    type=operator_set,
    metavar="N|newest",
    help="Raise MODEL to this operator set of ONNX first: a number, or `newest`.",
)
