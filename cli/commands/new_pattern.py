"""``xopt new-pattern``: start a pattern file, or a package of patterns."""

from dataclasses import dataclass
from pathlib import Path

import click

from xoptim.scaffold.new_pattern import family_folder, write_pack, write_pattern

from ..options import command, option
from ..terminal import say


@dataclass(frozen=True)
class _NewPatternChoices:
    model: str = option(
        "Model that has the subgraph (default: a template).",
        "--from",
        type=click.Path(),
        default="",
        metavar="MODEL",
    )
    nodes: str = option(
        "Nodes of that model: names of nodes or outputs.", default="", metavar="A,B,C"
    )
    family: str = option(
        "Write into this family of patterns of the xoptim repository.", default="", metavar="FOLDER"
    )
    pack: Path | None = option(
        "Create a package with a test in a new folder.",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
    )


@command("new-pattern", name=click.STRING)
def new_pattern_command(name: str, choices: _NewPatternChoices) -> None:
    """Create the file of a new pattern, with an example."""
    if choices.family and choices.pack is not None:
        raise click.UsageError("--family and --pack exclude each other")
    if choices.nodes and not choices.model:
        raise click.UsageError("--nodes needs --from MODEL")
    try:
        if choices.pack is not None:
            written = write_pack(name, choices.pack, choices.model, choices.nodes)
        else:
            folder = family_folder(Path("patterns"), choices.family) if choices.family else Path()
            written = [write_pattern(name, folder, choices.model, choices.nodes)]
    except FileExistsError as error:
        raise click.UsageError(f"{str(error.filename)!r} exists; nothing was written") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    for path in written:
        say(str(path))
