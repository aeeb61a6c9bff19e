"""Options of the optimizer that are not plain words or numbers."""

from __future__ import annotations

from typing import Any

import click

from xoptim import OptimizationOptions
from xoptim.validate import is_provider


class OperatorSet(click.ParamType[int | str]):
    """A version of the operator set of ONNX, or ``newest``."""

    name = "N|newest"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """The number, or the word."""
        if value == "newest":
            return "newest"
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor `newest`", param, ctx)


class Provider(click.ParamType[str]):
    """An execution provider to optimize for, which need not be installed here."""

    name = "TEXT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, when onnxruntime has such a provider on some machine."""
        if not is_provider(str(value)):
            self.fail(f"onnxruntime has no execution provider {value!r} on any machine; cpu and cuda are usual", param, ctx)
        return str(value)


class Growth(click.ParamType[str]):
    """Bytes that folding may add."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, when the optimizer can read it."""
        try:
            OptimizationOptions(max_growth=value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


max_growth_option = click.option(
    "--max-growth",
    type=Growth(),
    help="Bytes that folding may add: 500kB, 10% or unlimited (default: 10% or 1 MB, whichever is more).",
)
opset_option = click.option(
    "--opset", type=OperatorSet(), help="Raise MODEL to this operator set of ONNX first: a number, or `newest`."
)
