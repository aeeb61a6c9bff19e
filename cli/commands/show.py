"""``xopt show PATTERN``."""

import inspect

import click

from xoptim import resolve

from ..options import command
from ..selection import WORD
from ..terminal import open_console
from .list import opset_range, phase_of, providers_of


@command("show", pattern=WORD)
def show_command(pattern: str) -> None:
    """Show what PATTERN does, with its examples."""
    for cls in resolve(pattern):
        open_console().print(cls.__name__, style="bold", highlight=False)
        click.echo(inspect.cleandoc(cls.__doc__ or ""))
        click.echo(
            f"\nphase {phase_of(cls)}, exactness {cls.exactness}, opset {opset_range(cls)}, "
            f"provider {providers_of(cls)}"
        )
        for number, example in enumerate(cls.examples, 1):
            click.echo(f"\nexample {number}, opset {example.opset}")
            click.echo(f"  before  {example.before}\n  after   {example.after}")
        click.echo()
