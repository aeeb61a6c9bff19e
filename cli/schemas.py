"""``xopt --json-schema NAME``: the JSON Schema of what a command prints with ``--json``."""

import json
from collections.abc import Callable
from typing import Any

import click

from xoptim.api.schemas import json_schema, schema_names


def schema_option() -> Callable[[Any], Any]:
    """The option ``--json-schema`` of the whole command, which prints a schema and ends."""
    return click.option(
        "--json-schema",
        type=click.Choice(schema_names()),
        metavar="COMMAND",
        is_eager=True,
        expose_value=False,
        callback=_print_schema,
        help="Print the JSON Schema of COMMAND --json.",
    )


def _print_schema(context: click.Context, _parameter: click.Parameter, name: str | None) -> None:
    if name is not None and not context.resilient_parsing:
        click.echo(json.dumps(json_schema(name), indent=1))
        context.exit()
