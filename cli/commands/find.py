"""``xopt find MODEL PATTERN``."""

from __future__ import annotations

from pathlib import Path

import click

from xoptim import Place, find_matches

from ..options import with_options
from ..places import PlaceChoices, beginning_of, counted_nodes, model_and_pattern, rule_of
from ..tables import Rows, open_console, print_json


@click.command("find")
@model_and_pattern
@with_options(PlaceChoices, "place")
def find_command(model: Path, pattern: str, place: PlaceChoices) -> None:
    """List where PATTERN would apply in MODEL."""
    chosen = rule_of(pattern, place.rewrite)
    found = find_matches(model, chosen, after=place.after, provider=place.provider)
    if place.as_json:
        print_json([each.to_json() for each in found])
        return
    if found:
        rows = Rows("node", "matched", "captured", prose={"matched", "captured"})
        for each in found:
            captured = ", ".join(f"{name}={value}" for name, value in (each.bindings or {}).items() if value is not None)
            rows.add(str(each.anchor), ", ".join(map(_short, each.matched)), captured)
        rows.print(open_console())
    why = "" if found or place.rewrite or place.after is not None else f"; `xopt explain {model} {pattern}` says why"
    click.echo(f"{beginning_of(chosen)[0]} applies at {counted_nodes(len(found))}{why}")


def _short(place: Place) -> str:
    return f"#{place.position} {place.op_type}"
