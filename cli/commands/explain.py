"""``xopt explain MODEL PATTERN``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from xoptim import (
    Explanation,
    ModelPass,
    PatternOptimization,
    Query,
    Rewrite,
    find_matches,
    installed_patterns,
    resolve,
)
from xoptim.api.diagnosing import explain_run
from xoptim.api.preparing import Source
from xoptim.diagnose.explanation import shell_path
from xoptim.integrations import genai
from xoptim.targets import PlacementError, Target, named, place as placed
from xoptim.targets.fitting import is_for_others, lowered_by, unfit_for
from xoptim.verification import ProviderUnavailable

from ..files import MODEL
from ..options import command, flag, opset_option, option, refuse_idle, target_option
from ..preparation import assume_option, fitting, in_force, print_assumed
from ..selection import AT, WORD, PlaceChoices, beginning_of, counted_nodes, rule_of
from ..tables import Rows, open_console, print_json
from ..terminal import say

if TYPE_CHECKING:
    from ..json_types import ExplainJson

_NAMED: Final = 3
"""Matches that the first line names."""


@dataclass(frozen=True)
class _ExplainChoices:
    at: str | None = option(AT, metavar="NODE")
    assume: tuple[str, ...] = assume_option()
    opset: int | Literal["newest"] | None = opset_option()
    genai: Path | None = option(
        "Explain PATTERN as `xopt MODEL --genai FOLDER` runs it.",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="FOLDER",
    )
    limit: int = option("Maximum number of nodes to list.", type=click.IntRange(min=1), default=10)
    everything: bool = flag("List all nodes.", "--all")
    matches: bool = flag("List the matches and their captured values.")
    target: str = target_option("Say whether this target drops PATTERN, or needs a lowering.")
    verbose: bool = flag("Show the values of all nodes, and other attempts.", "-v", "--verbose")


def _refuse_idle(place: PlaceChoices, choices: _ExplainChoices) -> None:
    if choices.matches:
        names = ("at", "limit", "everything", "target", "verbose")
        refuse_idle(dict.fromkeys(names, "with --matches, which lists all matches"))
    if choices.at is not None:
        reason = "with --at, which lists what begins there"
        refuse_idle(dict.fromkeys(("limit", "everything"), reason))
    if place.as_json:
        refuse_idle({"verbose": "with --json, which has all values"})
    if choices.everything:
        refuse_idle({"limit": "with --all"})
    if choices.target:
        refuse_idle({"genai": "with --target, which fits the model to another runtime"})


def _run_of(
    model: Path, chosen: str | type[Rewrite], place: PlaceChoices, choices: _ExplainChoices
) -> dict[str, Any]:
    """The run that is explained, as arguments of `explain_run` and `find_matches`."""
    known = fitting(model, choices.assume)
    after: str | Query | None = place.after
    opset = choices.opset
    if choices.genai is not None:
        known = (*known, *genai.assumptions_for(Source(model).proto, choices.genai))
        opset = opset or "newest"
        names = [each.name() for each in _kinds(chosen)]
        after = genai.preceding(names, known) if after is None else after
    return {
        "after": after,
        "opset": opset,
        "provider": place.provider,
        "assume": known,
        "assume_from_model": place.assume_from_model,
    }


def _kinds(chosen: str | type[Rewrite]) -> Sequence[type[Rewrite]]:
    return resolve(chosen) if isinstance(chosen, str) else [chosen]


def _list_matches(
    model: Path,
    pattern: str,
    chosen: str | type[PatternOptimization],
    place: PlaceChoices,
    run: dict[str, Any],
) -> None:
    """List where a pattern matches, and what it captures."""
    found = find_matches(model, chosen, **run)
    if place.as_json:
        print_json([each.to_json() for each in found])
        return
    print_assumed(run["assume"], model, from_model=place.assume_from_model)
    if found:
        rows = Rows("node", "matched", "captured", prose={"matched", "captured"})
        for each in found:
            bindings = each.bindings or {}
            captured = (f"{name}={value}" for name, value in bindings.items() if value is not None)
            matched = (f"#{node.position} {node.op_type}" for node in each.matched)
            rows.add(str(each.anchor), ", ".join(matched), ", ".join(captured))
        rows.print(open_console())
    is_plain = not found and not place.rewrite and run["after"] is None
    why = f"; `xopt explain {shell_path(model)} {pattern}` says why" if is_plain else ""
    say(f"{beginning_of(chosen)[0]} applies at {counted_nodes(len(found))}{why}")


@command("explain", model=MODEL, pattern=WORD)
def explain_command(
    model: Path, pattern: str, place: PlaceChoices, choices: _ExplainChoices
) -> None:
    """Say why PATTERN does not apply in MODEL, the nearest miss first."""
    _refuse_idle(place, choices)
    chosen = rule_of(pattern, place.rewrite)
    run = _run_of(model, chosen, place, choices)
    if choices.matches:
        _list_matches(model, pattern, chosen, place, run)
        return
    found = explain_run(model, chosen, choices.at, **run)
    kinds = _kinds(chosen)
    there = _there(model, kinds, choices.target) if choices.target else []
    shown = found if choices.everything or choices.at is not None else found[: choices.limit]
    if place.as_json:
        assumed = in_force(run["assume"], model, from_model=place.assume_from_model)
        _print_json(assumed, shown, there if choices.target else None)
        return
    print_assumed(run["assume"], model, from_model=place.assume_from_model)
    for line in there:
        say(line)
    _print_explanations(shown, choices.verbose or choices.at is not None)
    counts = Counter(each.status for each in found)
    text = ", ".join(
        f"{counts[status]} {status}"
        for status in ("failed", "refused", "matches", "taken")
        if counts[status]
    )
    more = "" if len(shown) == len(found) else f"; {len(found) - len(shown)} not shown (--all)"
    if kinds and all(issubclass(each, ModelPass) for each in kinds):
        sets = f"{len(found) or 'no'} set{'' if len(found) == 1 else 's'} of nodes"
        say(f"{pattern} considered {sets}{f': {text}' if text else ''}{more}")
        return
    name, anchors = beginning_of(chosen)
    begins = len(found) - counts["taken"]
    for hint in _hints(name, run["after"], begins, counts["matches"]):
        say(hint)
    if begins:
        say(f"{name} was tried at {counted_nodes(begins)}: {text}{more}")
    else:
        say(f"{name} matches nowhere: it starts at {anchors}{f'; {text}' if text else ''}{more}")


def _print_json(
    assumptions: list[str], shown: Sequence[Explanation], there: list[str] | None
) -> None:
    """Print explanations as JSON, with the lines about the target, if there is one."""
    told: ExplainJson = {
        "assumptions": assumptions,
        "explanations": [each.to_json() for each in shown],
    }
    if there is not None:
        told["target"] = there
    print_json(told)


def _there(model: Path, kinds: Sequence[type[Rewrite]], name: str) -> list[str]:
    """A line for each pattern: whether it is dropped for a target, and whether a lowering is
    needed there.
    """
    target = named(name)
    lines: list[str] = []
    for kind in kinds:
        reason = unfit_for(kind, target)
        if kind.phase == "lower":
            lines.append(f"{kind.name()} {_need_of(model, kind.name(), target)}")
        elif reason:
            lines.append(f"{kind.name()} is dropped for {name}: {reason}")
        elif not is_for_others(kind, target):  # a scheme of quantization chooses the others
            lines.append(f"{kind.name()} is used for {name}")
    return lines


def _need_of(model: Path, lowering: str, target: Target) -> str:
    """Whether a target does not take nodes of a model that a lowering replaces."""
    source = Source(model)
    unknown = f"replaces nodes that {target.name} does not take; these are unknown"
    if not target.is_installed:
        return f"{unknown}: {target.name} is not installed: {target.install}"
    try:
        found = placed(source.proto, target, source.base_dir)
    except (ProviderUnavailable, PlacementError) as error:
        return f"{unknown}: {error}"
    keys = lowered_by(lowering)
    left = [node for node in (*found.left, *found.shapes) if (node.domain, node.op_type) in keys]
    if not left:
        return f"is not needed: {target.name} takes every node that it could replace"
    names = ", ".join(f"{node.label} {node.name!r}" for node in left[:_NAMED])
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return f"is needed: {target.name} does not take {names}{more}"


def _hints(name: str, after: str | Query | None, begins: int, matches: int) -> Iterator[str]:
    """The reasons why a pattern that matches is still not applied, or why it begins nowhere."""
    if name not in installed_patterns() or isinstance(after, Query):
        return
    if not begins and name in genai.PATTERNS:
        yield f"`--genai FOLDER` shows {name} in the run of `xopt MODEL --genai FOLDER`"
    if not matches:
        return
    if installed_patterns()[name].exactness == "finite":
        yield f"{name} is only applied to finite values; `--assume finite` enables it"
    elif name not in {each.name() for each in resolve("default")}:
        yield f"{name} is not in the preset `default`; `--include {name}` enables it"
    elif after is None:
        yield "`--after default` shows which matches other patterns take"


def print_explanation(explanation: Explanation) -> None:
    """Print the headline, the advice and the values, a line each."""
    say(explanation.headline)
    for each in (explanation.advice, *explanation.values):
        if each:
            say(f"    {each}")


def _print_explanations(shown: Sequence[Explanation], verbose: bool) -> None:
    if verbose:
        for each in shown:
            for one in (each, *each.others):
                print_explanation(one)
        return
    places = [str(each.anchor) for each in shown if each.matches]
    if places and not shown[0].matches:
        more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
        say(f"{shown[0].pattern} matches at {', '.join(places[:_NAMED])}{more}; the nearest miss:")
    for best in shown[:1]:
        print_explanation(best)
    if len(shown) > 1:
        is_one = len({each.pattern for each in shown}) == 1  # a word may name several passes
        rows = Rows(
            "node", "reached", "reason", "failed at", "condition", prose={"reached", "reason"}
        )
        for each in shown[1:]:
            failed_at = "" if each.culprit in (None, each.anchor) else str(each.culprit)
            why = each.gain or "matches" if each.matches else each.reason or "no reason given"
            why = f"{why}: {each.advice}" if each.advice else why
            rows.add(
                str(each.anchor),
                each.reached,
                why if is_one else f"{each.pattern}: {why}",
                failed_at,
                each.exit_point,
            )
        console = open_console()
        console.print()
        rows.print(console)
