"""``xopt list``, ``xopt show`` and ``xopt stats``."""

from __future__ import annotations

import inspect
import json
import math
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from xoptim import GraphBuilder, ModelPass, Rewrite, database, repetitions, resolve
from xoptim.diagnose.costs import model_costs

from .costs import print_costs
from .files import MODEL
from .idle import refuse_idle
from .selection import WORD, chosen_patterns, selection_options
from .summary import open_console
from .tables import Rows
from .validation import chosen_dims, dims_option


class _OnlyOptions(click.Command):
    """A command without operands."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The options that begin like this, all of them when nothing is typed yet."""
        return super().shell_complete(ctx, incomplete or "-")


@click.command("list", cls=_OnlyOptions, context_settings={"allow_extra_args": True})
@selection_options(default="all")
@click.option("--tags", is_flag=True, help="List the words of selections instead, with the number of patterns.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_command(context: click.Context, /, tags: bool, as_json: bool, **choices: Any) -> None:
    """List the patterns."""
    if context.args:
        word = context.args[0]
        raise click.UsageError(
            f"unexpected {word!r}: `xopt list --patterns {word}` lists a selection, `xopt show {word}` a pattern"
        )
    found = sorted(chosen_patterns(choices), key=lambda pattern: pattern.name())
    counts = _words(found) if tags else {}
    if as_json:
        click.echo(json.dumps(counts if tags else list(map(_describe, found)), indent=2))
    elif tags:
        rows = Rows("word", "patterns", right={"patterns"})
        for word, count in counts.items():
            rows.add(word, str(count))
        rows.print(open_console())
    else:
        _print_patterns(found)


def _words(patterns: list[Rewrite]) -> dict[str, int]:
    """The number of the given patterns that each word selects."""
    names = {pattern.name() for pattern in patterns}
    return {word: sum(entry.item.name() in names for entry in database().find(word)) for word in database().words()}


def _print_patterns(patterns: list[Rewrite]) -> None:
    columns = ["pattern", "phase", "exactness", "opset", "provider", "tags", "rewrite"]
    is_mixed = any(pattern.status != "stable" for pattern in patterns)
    if is_mixed:
        columns.insert(4, "status")
    rows = Rows(*columns, prose={"tags", "rewrite"})
    for family, members in groupby(sorted(patterns, key=lambda p: (p.family(), p.name())), key=lambda p: p.family()):
        rows.add_title(family)
        for pattern in members:
            row = _describe(pattern)
            row |= {"pattern": f"  {row['name']}", "opset": _opsets(pattern), "tags": " ".join(row["tags"])}
            row["provider"] = _providers(pattern)
            rows.add(*(row[column] for column in columns))
    rows.print(open_console())
    click.echo(f"{len(patterns)} of {len(database().entries())} patterns")


def _opsets(cls: Rewrite | type[Rewrite]) -> str:
    return f"{cls.min_opset}+" if cls.max_opset is None else f"{cls.min_opset}-{cls.max_opset}"


def _providers(cls: Rewrite | type[Rewrite]) -> str:
    return ", ".join(cls.providers) or "any"


def _phase(pattern: Rewrite | type[Rewrite]) -> str:
    cls = pattern if isinstance(pattern, type) else type(pattern)
    return "global" if issubclass(cls, ModelPass) else cls.phase


def _describe(cls: Rewrite) -> dict[str, Any]:
    return {
        "name": cls.name(),
        "family": cls.family(),
        "phase": _phase(cls),
        "priority": cls.priority,
        "exactness": cls.exactness,
        "min_opset": cls.min_opset,
        "max_opset": cls.max_opset,
        "tags": list(cls.tags),
        "produces": list(cls.produces),
        "unchecked": list(cls.unchecked),
        "providers": list(cls.providers),
        "status": cls.status,
        "rewrite": cls.arrow(),
    }


@click.command("show")
@click.argument("pattern", type=WORD)
def show_command(pattern: str) -> None:
    """Show what PATTERN does, with its examples."""
    for cls in resolve(pattern):
        click.echo(click.style(cls.__name__, bold=True))
        click.echo(inspect.cleandoc(cls.__doc__ or ""))
        click.echo(f"\nphase {_phase(cls)}, exactness {cls.exactness}, opset {_opsets(cls)}, provider {_providers(cls)}")
        for number, example in enumerate(cls.examples, 1):
            click.echo(f"\nexample {number}, opset {example.opset}")
            click.echo(f"  before  {example.before}\n  after   {example.after}")
        click.echo()


@click.command("stats")
@click.argument("model", type=MODEL)
@dims_option
@click.option("--layers", is_flag=True, help="List layers, by the names of the nodes, in place of operators.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stats_command(model: Path, dims: tuple[str, ...], layers: bool, as_json: bool) -> None:
    """Print what MODEL costs (parameters, operations, bytes, memory), inputs, outputs, and blocks that repeat.

    Operations are counted by formulas, a multiplication and an addition as two; open dimensions are 1 unless --dim says more.
    """
    if as_json:
        refuse_idle({"layers": "with --json, which has both"})
    found, price = _stats(GraphBuilder(model)), model_costs(model, chosen_dims(dims))
    if as_json:
        click.echo(json.dumps({**found, "costs": price.to_json()}, indent=2))
        return
    del found["operators"]
    console = open_console()
    print_costs(console, price, layers=layers)
    repeats = found.pop("repeats")
    for key, value in found.items():
        text = ", ".join(f"{k or 'ai.onnx'} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        console.print(f"{key:14s}{text}", highlight=False)
    for block in repeats:
        text = f"{block['times']} times {block['name']}, {block['nodes']} nodes, {block['share']:.0%} of the graph"
        console.print(f"{'repeats':14s}{text}", highlight=False)


def _stats(builder: GraphBuilder) -> dict[str, Any]:
    tensors = [tensor for graph in builder.model.graphs() for tensor in graph.initializers.values()]
    return {
        "operators": builder.count_types(),
        "nodes": sum(builder.count_types().values()),
        "inputs": {name: _type(builder, name) for name in builder.input_names},
        "outputs": {name: _type(builder, name) for name in builder.output_names},
        "initializers": len(tensors),
        "parameters": sum(math.prod(tensor.shape) for tensor in tensors),
        "bytes": sum(tensor.nbytes for tensor in tensors),
        "functions": len(builder.model.functions),
        "opsets": builder.opsets,
        "ir_version": builder.model.ir_version,
        "repeats": _repeats(builder),
    }


def _repeats(builder: GraphBuilder) -> list[dict[str, Any]]:
    """The blocks that repeat along the main graph, each with the share of its nodes that the copies have together."""
    every = len(builder.nodes)
    return [
        {"name": each.name, "times": each.times, "nodes": each.nodes, "share": each.times * each.nodes / every}
        for each in repetitions(builder.graph)
    ]


def _type(builder: GraphBuilder, name: str) -> str:
    if not builder.has_type(name):
        return "?"
    if not builder.has_shape(name):
        return f"{builder.type_name(name)}[...]"
    shape = ("?" if not isinstance(dim, int) and dim.is_anonymous else str(dim) for dim in builder.get_shape(name))
    return f"{builder.type_name(name)}[{', '.join(shape)}]"
