"""Options of the commands that round models to fewer bits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from xoptim.precision.metrics import METRICS, Metric
from xoptim.precision.options import (
    CALIBRATIONS,
    COMPUTES,
    IO_TYPES,
    SCHEMES,
    Calibration,
    Compute,
    Goal,
    IoTypes,
    PrecisionOptions,
    Scheme,
)

from .options import choice, common, names_of, option


def fraction(value: str | float) -> float:
    """A fraction: ``0.01`` or ``1%``."""
    text = str(value).strip()
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        PrecisionOptions(tolerance=found)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a part of a whole between 0 and 1, such as 1% or 0.01") from None
    return found


def metric_option() -> Any:
    """The option ``--metric``."""
    return choice(
        "Measure the error as the largest difference over the largest number, as a ratio of root mean squares, or as the part "
        "of positions at which another element is the largest.",
        *METRICS,
    )


def calibration_option() -> Any:
    """The option ``--calibration``."""
    return choice(
        "Let the scales of convolutions reach all numbers of the samples, or leave rare large ones out.", *CALIBRATIONS
    )


@dataclass(frozen=True)
class Lowering:
    """The options for the number of bits, and for the error that is allowed."""

    precision: Scheme | None = option(
        "Round products and convolutions to 8 bits, or weights of products to 4 bits, as many as --tolerance allows.",
        type=click.Choice(SCHEMES),
    )
    tolerance: float = option(
        "Error of the results that --precision may add: 1% or 0.01.", type=fraction, default="1%", show_default=True
    )
    metric: Metric = metric_option()
    goal: Goal = option(
        "Leave products alone that fewer bits do not make faster here, or make the smallest file.",
        "--for",
        type=click.Choice(("speed", "size")),
        default="speed",
        show_default=True,
    )
    calibration: Calibration = calibration_option()
    compute: Compute = choice(
        "Let --precision float16 compute in 16 bits, which GPUs do, or store weights so (auto: by --provider).", *COMPUTES
    )
    io_types: IoTypes = choice("The type of inputs and outputs of 32-bit floats: it stays, or becomes float16.", *IO_TYPES)

    def idle(self) -> dict[str, str]:
        """The parameters that have no effect beside others, each with the reason."""
        if self.precision is None:
            return dict.fromkeys(names_of(Lowering), "without --precision")
        return {} if self.precision == "float16" else dict.fromkeys(("compute", "io_types"), "without --precision float16")

    def read(self, feeds: Sequence[Mapping[str, np.ndarray]], seed: int) -> PrecisionOptions | None:
        """The options, ``None`` when no bits are to be saved."""
        if self.precision is None:
            return None
        return PrecisionOptions(scheme=self.precision, **common(PrecisionOptions, self), feeds=feeds, seed=seed)
