"""``xopt explain``, ``xopt find``, ``xopt apply`` and ``xopt replay``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeVar

import click

from xoptim import (
    Explanation,
    GraphBuilder,
    ModelPass,
    NoMatchError,
    PatternOptimization,
    Place,
    Replayed,
    apply_at,
    explain,
    find_matches,
    installed_patterns,
    read_rules,
    replay,
    resolve,
)
from xoptim.proof import Proof, compare_each_provider
from xoptim.validate import library_file

from .choices import provider
from .files import MODEL, OUTPUT, target_of
from .idle import COMPARISON, VALUES, idle_values, refuse_idle
from .pipeline import DIFFERENT, drafted, protect_weights, summarize, verdict, write
from .progress import Progress
from .rules import RULES
from .selection import SELECTION, WORD
from .summary import open_console, print_summary
from .tables import Rows
from .validation import check_choices, check_values_used, custom_op_option, validation_options

Command = TypeVar("Command", bound=Callable[..., Any])
_NAMED: Final = 3
"""Matches that the first line names."""


def _place_choices(command: Command) -> Command:
    """Add the options and arguments that the commands about one pattern in one model share."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "--provider", type=provider, metavar="TEXT", default="cpu", show_default=True, help="Provider to optimize for."
        ),
        click.option("--after", type=SELECTION, help='Run these patterns first, such as "default" ("": only clean up).'),
        click.option("--rewrite", type=RULES, multiple=True, metavar="FILE", help="PATTERN is a rule of FILE (repeatable)."),
        click.argument("pattern", type=WORD),
        click.argument("model", type=MODEL),
    ):
        command = option(command)
    return command


@click.command("explain")
@_place_choices
@click.option("--at", metavar="NODE", help="Name of a node or of a result, or #17 for a position.")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Most nodes to list.")
@click.option("--all", "everything", is_flag=True, help="List all nodes.")
@click.option("-v", "--verbose", is_flag=True, help="Show the values of all nodes, and the other attempts at each.")
def explain_command(
    model: Path, pattern: str, at: str | None, after: str | None, provider: str, as_json: bool, **choices: Any
) -> None:
    """Report why PATTERN does not apply in MODEL, the nearest miss first."""
    if at is not None:
        refuse_idle(dict.fromkeys(("limit", "everything"), "with --at, which lists what begins there"))
    if as_json:
        refuse_idle({"verbose": "with --json, which has all values"})
    if choices["everything"]:
        refuse_idle({"limit": "with --all"})
    chosen = _rule(pattern, choices["rewrite"])
    found = explain(model, chosen, at, after=after, provider=provider)
    shown = found if choices["everything"] or at is not None else found[: choices["limit"]]
    if as_json:
        click.echo(json.dumps([each.to_json() for each in shown], indent=2))
        return
    _print_explanations(shown, choices["verbose"] or at is not None)
    counts = Counter(each.status for each in found)
    text = ", ".join(f"{counts[status]} {status}" for status in ("failed", "refused", "matches", "taken") if counts[status])
    more = "" if len(shown) == len(found) else f"; {len(found) - len(shown)} not shown (--all)"
    if _is_pass(chosen):
        sets = f"{len(found) or 'no'} set{'' if len(found) == 1 else 's'} of nodes"
        click.echo(f"{pattern} considered {sets}{f': {text}' if text else ''}{more}")
        return
    name, anchors = _begin(chosen)
    for hint in _hints(name, after, counts["matches"]):
        click.echo(hint)
    begins = len(found) - counts["taken"]
    tail = f": {text}" if begins else f", it begins with {anchors}{f'; {text}' if text else ''}"
    click.echo(f"{name} could begin at {_count(begins)}{tail}{more}")


def _hints(name: str, after: str | None, matches: int) -> Iterator[str]:
    """The reasons why a pattern that matches is not applied all the same."""
    if not matches or name not in installed_patterns():
        return
    if name not in {each.name() for each in resolve("default")}:
        yield f"{name} is not in the preset `default`: `--patterns default+{name}` applies it"
    elif after is None:
        yield "`--after default` tells which matches other patterns take"


def _rule(pattern: str, files: Sequence[str]) -> str | type[PatternOptimization]:
    """The rule of that name in the files, else the name."""
    rules = {rule.name(): rule for rule in read_rules(*files)} if files else {}
    return rules.get(pattern, pattern)


def _is_pass(pattern: str | type[PatternOptimization]) -> bool:
    found = resolve(pattern) if isinstance(pattern, str) else []
    return bool(found) and all(issubclass(each, ModelPass) for each in found)


def _begin(pattern: str | type[PatternOptimization]) -> tuple[str, str]:
    """Name of a pattern, and the operators that it begins with."""
    found = resolve(pattern) if isinstance(pattern, str) else [pattern]
    cls = next(each for each in found if issubclass(each, PatternOptimization))
    keys = sorted(cls().anchor_keys())
    return cls.name(), " or ".join(f"{domain}::{op_type}" if domain else op_type for domain, op_type in keys) or "any node"


def _count(nodes: int) -> str:
    return f"{nodes or 'no'} node{'s' if nodes > 1 else ''}"


def _print_explanations(shown: Sequence[Explanation], verbose: bool) -> None:
    if verbose:
        for each in shown:
            for one in (each, *each.others):
                click.echo(one)
        return
    places = [str(each.anchor) for each in shown if each.matches]
    if places and not shown[0].matches:
        more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
        click.echo(f"{shown[0].pattern} matches at {', '.join(places[:_NAMED])}{more}; the nearest miss:")
    for best in shown[:1]:
        click.echo(best)
    if len(shown) > 1:
        is_one = len({each.pattern for each in shown}) == 1  # a word may stand for several passes
        rows = Rows("node", "reached", "reason", "failed at", "condition", prose={"reached", "reason"})
        for each in shown[1:]:
            failed_at = "" if each.culprit in (None, each.anchor) else str(each.culprit)
            why = each.gain or "matches" if each.matches else each.reason or "no reason given"
            why = f"{why}: {each.advice}" if each.advice else why
            rows.add(str(each.anchor), each.reached, why if is_one else f"{each.pattern}: {why}", failed_at, each.exit_point)
        console = open_console()
        console.print()
        rows.print(console)


@click.command("find")
@_place_choices
def find_command(model: Path, pattern: str, after: str | None, provider: str, as_json: bool, rewrite: Sequence[str]) -> None:
    """List where PATTERN would apply in MODEL."""
    chosen = _rule(pattern, rewrite)
    found = find_matches(model, chosen, after=after, provider=provider)
    if as_json:
        click.echo(json.dumps([each.to_json() for each in found], indent=2))
        return
    if found:
        rows = Rows("node", "matched", "captured", prose={"matched", "captured"})
        for each in found:
            captured = ", ".join(f"{name}={value}" for name, value in (each.bindings or {}).items() if value is not None)
            rows.add(str(each.anchor), ", ".join(map(_short, each.matched)), captured)
        rows.print(open_console())
    why = "" if found or rewrite or after is not None else f"; `xopt explain {model} {pattern}` says why"
    click.echo(f"{_begin(chosen)[0]} applies at {_count(len(found))}{why}")


def _short(place: Place) -> str:
    return f"#{place.position} {place.op_type}"


@click.command("apply")
@click.argument("model", type=MODEL)
@click.argument("pattern", type=WORD)
@click.option("--at", required=True, metavar="NODE", help="Name of a node or of a result, or #17 for a position.")
@click.option("-o", "--output", required=True, type=OUTPUT, help="File to write.")
@click.option("--provider", multiple=True, default=("cpu",), show_default=True, help="cpu or cuda (repeatable).")
@click.option("--verify/--no-verify", default=True, show_default=True, help="Run both models and compare.")
@check_choices
@click.option("--external-data", is_flag=True, help="Write weights to a file of their own.")
@click.option("--share-weights", is_flag=True, help="Refer to the file of MODEL's weights in place of copying it.")
@click.option("--strict", is_flag=True, help="A model that cannot be validated is an error.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def apply_command(model: Path, pattern: str, at: str, output: Path, **choices: Any) -> int:
    """Apply PATTERN once, at one node of MODEL, compare the result with MODEL, and write it."""
    if not choices["verify"]:
        refuse_idle(dict.fromkeys(("strict", *COMPARISON, *VALUES), "with --no-verify"))
    refuse_idle(idle_values(choices))
    target = target_of(model, output, False)
    checks = validation_options(choices)
    start = perf_counter()
    builder = GraphBuilder(model)
    loaded = perf_counter()
    protect_weights(builder, target)
    before = builder.count_types()
    try:
        apply_at(builder, pattern, at, provider=choices["provider"][0])
    except NoMatchError as error:
        click.echo("\n".join(map(str, error.explanations)))
        return DIFFERENT
    optimized = perf_counter() - loaded
    with drafted(target, {**choices, "dry_run": False}) as draft, Progress(enabled=False) as progress:
        proof = Proof(builder, draft.export(builder.model), draft.folder, before, loaded - start, optimized)
        if choices["verify"]:
            start = perf_counter()
            proof.reports = compare_each_provider(model, proof, checks)
            proof.validate_seconds = perf_counter() - start
            check_values_used(proof.reports, checks)
        summary = summarize(model, target, proof)
        summary.written = write(proof, draft, target, summary, {**choices, "dry_run": False}, progress)
    if choices["as_json"]:
        click.echo(json.dumps(summary.to_json(), indent=2))
    else:
        print_summary(summary)
    return verdict(summary, choices["strict"])


@click.command("replay")
@click.argument("dump", type=click.Path(path_type=Path))
@click.option("--provider", multiple=True, default=("cpu",), show_default=True, help="cpu or cuda (repeatable).")
@custom_op_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def replay_command(dump: Path, provider: tuple[str, ...], custom_op_lib: tuple[str, ...], as_json: bool) -> int:
    """Check the rewrites again that DUMPPATTERNS has written into the folder DUMP; exit code 1 when one is wrong."""
    found = replay(dump, providers=provider, custom_op_libs=tuple(map(library_file, custom_op_lib)))
    if as_json:
        click.echo(json.dumps([each.to_json() for each in found], indent=2))
    else:
        _print_replayed(found)
    broken = [each for each in found if each.status == "damaged"]
    if any(each.status == "different" for each in found):
        return DIFFERENT
    if broken:
        raise click.ClickException(f"{len(broken)} of {len(found)} dumps cannot be read: {broken[0].reason}")
    return 0


def _print_replayed(found: Sequence[Replayed]) -> None:
    rows = Rows("dump", "verdict", "difference", "reason", prose={"reason"}, right={"difference"})
    for each in found:
        largest = "" if each.largest is None else f"{each.largest:.2g}"
        rows.add(each.name, each.status, largest, each.reason)
    rows.print(open_console())
    counts = Counter(each.status for each in found)
    click.echo(f"{len(found)} rewrites: {', '.join(f'{count} {status}' for status, count in sorted(counts.items()))}")
