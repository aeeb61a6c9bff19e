"""``xopt find MODEL PATTERN``."""

from pathlib import Path

from xoptim import find_matches

from ..files import MODEL
from ..options import command
from ..preparation import print_assumed
from ..selection import WORD, PlaceChoices, beginning_of, counted_nodes, rule_of
from ..tables import Rows, open_console, print_json
from ..terminal import say


@command("find", model=MODEL, pattern=WORD)
def find_command(model: Path, pattern: str, choices: PlaceChoices) -> None:
    """List where PATTERN would apply in MODEL."""
    chosen = rule_of(pattern, choices.rewrite)
    found = find_matches(
        model,
        chosen,
        after=choices.after,
        provider=choices.provider,
        assume_from_model=choices.assume_from_model,
    )
    if choices.as_json:
        print_json([each.to_json() for each in found])
        return
    print_assumed((), model, from_model=choices.assume_from_model)
    if found:
        rows = Rows("node", "matched", "captured", prose={"matched", "captured"})
        for each in found:
            captured = ", ".join(
                f"{name}={value}"
                for name, value in (each.bindings or {}).items()
                if value is not None
            )
            matched = ", ".join(f"#{place.position} {place.op_type}" for place in each.matched)
            rows.add(str(each.anchor), matched, captured)
        rows.print(open_console())
    why = (
        ""
        if found or choices.rewrite or choices.after is not None
        else f"; `xopt explain {model} {pattern}` says why"
    )
    say(f"{beginning_of(chosen)[0]} applies at {counted_nodes(len(found))}{why}")
