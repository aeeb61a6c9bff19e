"""``xopt new-pattern``: start a pattern file, or a package of patterns."""

from __future__ import annotations

from pathlib import Path

import click

from xoptim.scaffold.new_pattern import family_folder, write_pack, write_pattern


@click.command("new-pattern")
@click.argument("name")
@click.option(
    "--from",
    "model",
    type=click.Path(),
    default="",
    metavar="MODEL",
    help="Model to take it from (default: a template).",
)
@click.option("--nodes", default="", metavar="A,B,C", help="Nodes of that model: names of nodes or of results.")
@click.option("--family", default="", metavar="FOLDER", help="Write into this family of patterns of the xoptim repository.")
@click.option(
    "--pack", type=click.Path(path_type=Path), metavar="FOLDER", help="Write a package with a test into a new folder."
)
def new_pattern_command(name: str, model: str, nodes: str, family: str, pack: Path | None) -> None:
    """Start the pattern NAME, such as ReluReluPattern: a file in the current folder that runs and passes its tests."""
    if family and pack is not None:
        raise click.UsageError("--family and --pack exclude each other")
    if nodes and not model:
        raise click.UsageError("--nodes are those of a model: --from MODEL is missing")
    try:
        if pack is not None:
            written = write_pack(name, pack, model, nodes)
        else:
            written = [write_pattern(name, family_folder(Path("patterns"), family) if family else Path(), model, nodes)]
    except FileExistsError as error:
        raise click.UsageError(f"{str(error.filename)!r} exists; nothing was written") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    for path in written:
        click.echo(str(path))
