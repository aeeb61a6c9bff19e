"""Options beside ``--target``: what cannot be meant together."""

from collections.abc import Sequence
from typing import Final

import click

from xoptim.facts.operators import short_name
from xoptim.precision.options import Scheme
from xoptim.targets import Target, named

PLACING: Final = ("software_device", "custom_op_lib")
"""Parameters that count when a provider is asked, also where no model is run."""


def check_target(name: str, providers: Sequence[str], precision: Scheme | None = None) -> None:
    """Raise `click.UsageError` for options that contradict a target; an empty name is none.

    Args:
        name: of the target.
        providers: execution providers that run the model.
        precision: number of bits that weights are rounded to.
    """
    if not name:
        return
    target = named(name)
    other = next((each for each in providers if not _is_of(target, each)), None)
    if other is not None:
        raise click.UsageError(f"--provider {other} runs the model elsewhere than --target {name}: leave --provider out")
    if precision == "int4" and target.needs.standard_operators:
        raise click.UsageError(
            f"--precision int4 writes com.microsoft::MatMulNBits, which {name} does not run: "
            "--precision float16 keeps to the standard"
        )


def _is_of(target: Target, provider: str) -> bool:
    """Whether a provider runs a target; the processor, and targets of no provider, go with all."""
    own = (target.provider, short_name(target.full_provider))
    return not target.provider or short_name(provider) in ("cpu", *own)
