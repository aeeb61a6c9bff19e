"""``xopt explain MODEL PATTERN``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

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
from xoptim.api.advice import Advice
from xoptim.api.diagnosing import explain_run
from xoptim.api.preparing import Source
from xoptim.diagnose.explanation import JsonForm, JsonResult, member, shell_path
from xoptim.integrations import genai
from xoptim.optimizing.examples import prove_example
from xoptim.proof.readable import readable_sides
from xoptim.targets import PlacementError, Target, named, place as placed
from xoptim.targets.fitting import is_for_others, lowered_by, unfit_for
from xoptim.verification import ProviderUnavailable

from ..files import ModelFile
from ..options import command, flag, opset_option, option, refuse_idle, target_option
from ..preparation import assume_option, fitting, in_force, print_assumed
from ..selection import AT, WORD, TrialChoices, beginning_of, counted_nodes, rule_of
from ..tables import Rows, open_console, print_json
from ..terminal import say

_PLACES: Final = 3
"""Maximum number of matches or nodes that a line names."""


@dataclass(frozen=True, slots=True)
class ExplainDocument(JsonResult):
    """The reasons why a pattern does not apply.

    Attributes:
        assumptions: assumptions in force.
        explanations: the result of matching at each node, the nearest miss first.
        target: with `--target`, a line for each pattern about its use there.
    """

    __json__ = JsonForm(
        "assumptions explanations", member("target", is_optional=True), name="Explain"
    )
    assumptions: list[str]
    explanations: Sequence[Explanation]
    target: list[str] | None


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
    prove: bool = flag("Prove the examples of PATTERN for all sizes; takes no MODEL.")
    verbose: bool = flag("Show the values and all attempts at each node.", "-v", "--verbose")


def _refuse_idle(trial: TrialChoices, choices: _ExplainChoices) -> None:
    if choices.matches:
        names = ("at", "limit", "everything", "target", "verbose")
        refuse_idle(dict.fromkeys(names, "with --matches, which lists all matches"))
    if choices.at is not None:
        reason = "with --at, which lists all attempts at that node"
        refuse_idle(dict.fromkeys(("limit", "everything"), reason))
    if trial.as_json:
        refuse_idle({"verbose": "with --json, which has all values"})
    if choices.everything:
        refuse_idle({"limit": "with --all"})
    if choices.target:
        refuse_idle({"genai": "with --target, which fits the model to another runtime"})


def _run_of(
    model: Path, rule: str | type[Rewrite], trial: TrialChoices, choices: _ExplainChoices
) -> dict[str, Any]:
    """The arguments of `explain_run` and `find_matches` that describe the run to explain."""
    assume = fitting(model, choices.assume)
    after: str | Query | None = trial.after
    opset = choices.opset
    if choices.genai is not None:
        assume = (*assume, *genai.assumptions_for(Source(model).proto, choices.genai))
        opset = opset or "newest"
        names = [kind.name() for kind in _kinds(rule)]
        after = genai.preceding(names, assume) if after is None else after
    return {
        "after": after,
        "opset": opset,
        "provider": trial.provider,
        "assume": assume,
        "assume_from_model": trial.assume_from_model,
    }


def _kinds(rule: str | type[Rewrite]) -> Sequence[type[Rewrite]]:
    return resolve(rule) if isinstance(rule, str) else [rule]


def _list_matches(
    model: Path,
    pattern: str,
    rule: str | type[PatternOptimization],
    trial: TrialChoices,
    run: dict[str, Any],
) -> None:
    """List the nodes at which a pattern matches, and the values that it captures."""
    matches = find_matches(model, rule, **run)
    if trial.as_json:
        print_json(matches)
        return
    print_assumed(run["assume"], model, from_model=trial.assume_from_model)
    if matches:
        rows = Rows("node", "matched", "captured", prose={"matched", "captured"})
        for match in matches:
            bindings = match.bindings or {}
            captured = (f"{name}={value}" for name, value in bindings.items() if value is not None)
            matched = (f"#{node.position} {node.op_type}" for node in match.matched)
            rows.add(str(match.anchor), ", ".join(matched), ", ".join(captured))
        rows.print(open_console())
    is_plain = not matches and not trial.rewrite and run["after"] is None
    hint = f"; `xopt explain {shell_path(model)} {pattern}` says why" if is_plain else ""
    say(f"{beginning_of(rule)[0]} applies at {counted_nodes(len(matches))}{hint}")


class _ModelOrPattern(ModelFile):
    """A model, or with ``--prove`` the name of a pattern, which is returned as a path."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        is_name = isinstance(value, str) and value in installed_patterns()
        return (
            Path(value)
            if is_name and not Path(value).exists()
            else super().convert(value, param, ctx)
        )


@command(
    "explain",
    model=_ModelOrPattern(path_type=Path),
    pattern={"type": WORD, "required": False},
)
def explain_command(
    model: Path, pattern: str | None, trial: TrialChoices, choices: _ExplainChoices
) -> None:
    """Say why PATTERN does not apply in MODEL, the nearest miss first.

    With --prove, prove the examples of PATTERN: `xopt explain PATTERN --prove`.
    """
    _refuse_idle(trial, choices)
    if choices.prove:
        _prove_examples(str(model) if pattern is None else "", choices, is_json=trial.as_json)
        return
    if pattern is None:
        raise click.UsageError("Missing argument 'PATTERN'.")
    rule = rule_of(pattern, trial.rewrite)
    run = _run_of(model, rule, trial, choices)
    if choices.matches:
        _list_matches(model, pattern, rule, trial, run)
        return
    results = explain_run(model, rule, choices.at, **run)
    kinds = _kinds(rule)
    lines = _target_lines(model, kinds, choices.target) if choices.target else []
    shown = results if choices.everything or choices.at is not None else results[: choices.limit]
    if trial.as_json:
        assumed = in_force(run["assume"], model, from_model=trial.assume_from_model)
        print_json(ExplainDocument(assumed, shown, lines if choices.target else None))
        return
    print_assumed(run["assume"], model, from_model=trial.assume_from_model)
    for line in lines:
        say(line)
    _print_explanations(shown, choices.verbose or choices.at is not None)
    counts = Counter(result.status for result in results)
    text = ", ".join(
        f"{counts[status]} {status}"
        for status in ("failed", "refused", "matches", "taken")
        if counts[status]
    )
    more = "" if len(shown) == len(results) else f"; {len(results) - len(shown)} not shown (--all)"
    if kinds and all(issubclass(kind, ModelPass) for kind in kinds):
        sets = f"{len(results) or 'no'} set{'' if len(results) == 1 else 's'} of nodes"
        say(f"{pattern} considered {sets}{f': {text}' if text else ''}{more}")
        return
    name, anchors = beginning_of(rule)
    attempts = len(results) - counts["taken"]
    for hint in _hints(name, run["after"], attempts, counts["matches"]):
        say(hint)
    if attempts:
        say(f"{name} was tried at {counted_nodes(attempts)}: {text}{more}")
    else:
        say(f"{name} matches nowhere: it starts at {anchors}{f'; {text}' if text else ''}{more}")


def _prove_examples(name: str, choices: _ExplainChoices, *, is_json: bool) -> None:
    """Print the proof of each example of a pattern; with ``-v``, also both sides.

    Raises `click.UsageError` with ``is_json``, or if ``name`` is not the name of a pattern.
    """
    if is_json:
        raise click.UsageError("--json has no effect with --prove; remove it")
    if name not in installed_patterns():
        raise click.UsageError("--prove takes the name of a pattern: xopt explain PATTERN --prove")
    cls = installed_patterns()[name]
    for number, example in enumerate(cls.examples, 1):
        proof = prove_example(cls, example)
        premises = f" ({', '.join(proof.premises)})" if proof.premises else ""
        say(f"example {number}: {proof.text}{premises}")
        for label, side in zip(("before", "after "), readable_sides(proof.sides), strict=True):
            if choices.verbose and side:
                say(f"    {label} {side}")
    if not cls.examples:
        say(f"{name} has no examples")


def _target_lines(model: Path, kinds: Sequence[type[Rewrite]], name: str) -> list[str]:
    """A line for each pattern: whether a target drops it, or needs it if it is a lowering."""
    target = named(name)
    lines: list[str] = []
    for kind in kinds:
        reason = unfit_for(kind, target)
        if kind.phase == "lower":
            lines.append(f"{kind.name()} {_need_of(model, kind.name(), target)}")
        elif reason:
            lines.append(f"{kind.name()} is dropped for {name}: {reason}")
        elif not is_for_others(kind, target):  # quantization may use patterns for other providers
            lines.append(f"{kind.name()} is used for {name}")
    return lines


def _need_of(model: Path, lowering: str, target: Target) -> str:
    """The end of a line: whether a target needs a lowering, and for which nodes of a model."""
    source = Source(model)
    unknown = f"replaces nodes that {target.name} does not take; these are unknown"
    if not target.is_installed:
        return f"{unknown}: {target.name} is not installed: {target.install}"
    try:
        answer = placed(source.proto, target, source.base_dir)
    except (ProviderUnavailable, PlacementError) as error:
        return f"{unknown}: {error}"
    keys = lowered_by(lowering)
    nodes = [node for node in (*answer.left, *answer.shapes) if (node.domain, node.op_type) in keys]
    if not nodes:
        return f"is not needed: {target.name} takes every node that it could replace"
    names = ", ".join(f"{node.label} {node.name!r}" for node in nodes[:_PLACES])
    more = f" and {len(nodes) - _PLACES} more" if len(nodes) > _PLACES else ""
    return f"is needed: {target.name} does not take {names}{more}"


def _hints(name: str, after: str | Query | None, attempts: int, matches: int) -> Iterator[str]:
    """The reasons why a pattern that matches is not applied, or why it matches nowhere."""
    if name not in installed_patterns() or isinstance(after, Query):
        return
    if not attempts and name in genai.PATTERNS:
        yield f"`--genai FOLDER` shows {name} in the run of `xopt MODEL --genai FOLDER`"
    if not matches:
        return
    if installed_patterns()[name].exactness == "finite":
        yield f"{name} is only applied to finite values; `{Advice('assume', 'finite')}` enables it"
    elif name not in {rewrite.name() for rewrite in resolve("default")}:
        yield f"{name} is not in the preset `default`; `{Advice('include', name)}` enables it"
    elif after is None:
        yield "`--after default` shows which matches other patterns take"


def print_explanation(explanation: Explanation) -> None:
    """Print the headline, the advice and the values, a line each."""
    say(explanation.headline)
    for part in (explanation.advice, *explanation.values):
        if part:
            say(f"    {part}")


def _print_explanations(shown: Sequence[Explanation], verbose: bool) -> None:
    if verbose:
        for entry in shown:
            for attempt in (entry, *entry.others):
                print_explanation(attempt)
        return
    places = [str(entry.anchor) for entry in shown if entry.matches]
    if places and not shown[0].matches:
        more = f" and {len(places) - _PLACES} more" if len(places) > _PLACES else ""
        say(f"{shown[0].pattern} matches at {', '.join(places[:_PLACES])}{more}; the nearest miss:")
    for best in shown[:1]:
        print_explanation(best)
    if len(shown) > 1:
        is_one = len({entry.pattern for entry in shown}) == 1  # a word may name several passes
        rows = Rows(
            "node", "reached", "reason", "failed at", "condition", prose={"reached", "reason"}
        )
        for entry in shown[1:]:
            failed_at = "" if entry.culprit in (None, entry.anchor) else str(entry.culprit)
            why = entry.gain or "matches" if entry.matches else entry.reason or "no reason given"
            why = f"{why}: {entry.advice}" if entry.advice else why
            rows.add(
                str(entry.anchor),
                entry.reached,
                why if is_one else f"{entry.pattern}: {why}",
                failed_at,
                entry.exit_point,
            )
        console = open_console()
        console.print()
        rows.print(console)
