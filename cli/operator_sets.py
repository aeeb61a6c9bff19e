"""The option for the operator set to which a model is raised."""

from __future__ import annotations

from typing import Any

import click


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


opset_option = click.option(
    "--opset", type=OperatorSet(), help="Raise MODEL to this operator set of ONNX first: a number, or `newest`."
)
