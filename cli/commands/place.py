"""``xopt place MODEL``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from xoptim import Placement, XoptimError
from xoptim.api.advice import Advice
from xoptim.api.preparing import Source
from xoptim.diagnose.explanation import JsonForm, JsonResult, within
from xoptim.targets import Failing, PlacedNode, Target, every as every_target, named, place
from xoptim.targets.bisect import smallest_failing
from xoptim.targets.tables import table_of
from xoptim.verification import ProviderUnavailable, library_file

from ..exit_codes import DIFFERENT, UNAVAILABLE
from ..files import MODEL
from ..memory import MEMORY_BOUND
from ..options import command, duration, flag, json_option, refuse_idle, repeated
from ..preparation import fix_option
from ..tables import Rows, open_console, print_json
from ..targeting import exceeded, fixed_source, map_of, max_left_option, max_partitions_option
from ..terminal import say
from ..verification import custom_op_option, software_device_option

_ALL: Final = "all"
_MAX_MAP: Final = 100
"""Maximum length of a map of the partitions that is printed without ``-v``."""


def _target_name(value: str) -> str:
    """The name of a target, or ``all``."""
    try:
        return value if value == _ALL else named(value).name
    except XoptimError as error:
        raise click.BadParameter(str(error)) from None


@dataclass(frozen=True)
class _PlaceChoices:
    target: tuple[str, ...] = repeated(
        "Target: webgpu, qnn, openvino, cuda, tensorrt, ... (default: all; repeatable).",
        type=_target_name,
        default=(_ALL,),
        metavar="NAME",
    )
    fix: tuple[str, ...] = fix_option()
    max_left: int | None = max_left_option()
    max_partitions: int | None = max_partitions_option()
    bisect: bool = flag("Find the smallest subgraph that does not compile.")
    seconds: float = duration("Time limit for the provider.", default=600.0)
    software_device: bool = software_device_option()
    custom_op_lib: tuple[str, ...] = custom_op_option()
    verbose: bool = flag("List every node, and all partitions.", "-v", "--verbose")
    as_json: bool = json_option()


@dataclass(frozen=True, slots=True)
class Uncompiled(JsonResult):
    """A model that does not compile for a target, and the cause that `--bisect` finds.

    Attributes:
        placement: the placement, with the error.
        failing: the smallest part that does not compile.
    """

    __json__ = JsonForm(*within("placement", Placement), "failing")
    placement: Placement
    failing: Failing


@dataclass(frozen=True, slots=True)
class UnavailableTarget(JsonResult):
    """A target whose placement is unknown.

    Attributes:
        target: name of the target.
        fault: why the placement is unknown.
        install: the command that installs it.
    """

    target: str
    fault: str
    install: str


@dataclass(frozen=True)
class _Answer:
    """The placement on one target, or the reason why there is no placement."""

    target: Target
    placement: Placement | None = None
    fault: str = ""
    failing: Failing | None = None

    @property
    def document(self) -> JsonResult:
        """The answer as it is printed with ``--json``."""
        if self.placement is None:
            return UnavailableTarget(self.target.name, self.fault, self.target.install)
        if self.failing is None:
            return self.placement
        return Uncompiled(self.placement, self.failing)


@command("place", model=MODEL)
def place_command(model: Path, choices: _PlaceChoices) -> int:
    """Show which nodes of MODEL run on a target, and why others do not.

    The provider of the target compiles the model, and does not run it. Targets without a provider
    (webnn, coreml, nnapi, onnx) are answered from a table of supported operators.

    Exit code 1 when --max-left or --max-partitions is exceeded, or one of them is given and MODEL
    does not compile. Exit code 3 when the provider of a named target is missing or finds no device.
    """
    targets = _targets(choices.target)
    _refuse_idle(targets, choices)
    source = fixed_source(model, choices.fix)
    libraries = tuple(map(library_file, choices.custom_op_lib))
    MEMORY_BOUND.lift()
    answers = [_answer(source, target, choices, libraries) for target in targets]
    if choices.as_json:
        print_json([answer.document for answer in answers])
    else:
        _print(answers, choices)
    missing = [a for a in answers if a.fault and a.target.name in choices.target]
    for answer in missing:
        say(f"xopt: error: {answer.fault}", err=True)
    if missing:
        return UNAVAILABLE
    return DIFFERENT if any(_exceeds(answer.placement, choices) for answer in answers) else 0


def _refuse_idle(targets: Sequence[Target], choices: _PlaceChoices) -> None:
    """Raise for options that have no effect on these targets, or with other options."""
    if choices.as_json:
        refuse_idle({"verbose": "with --json, which has all nodes"})
    if all(target.plugin is None or not target.plugin.has_software_device for target in targets):
        refuse_idle({"software_device": f"without {Advice('target', 'webgpu')}"})
    if all(target.table for target in targets):
        refuse_idle({"bisect": "with targets that a table answers"})


def _targets(names: tuple[str, ...]) -> list[Target]:
    return list(every_target()) if _ALL in names else [named(name) for name in dict.fromkeys(names)]


def _answer(
    source: Source,
    target: Target,
    choices: _PlaceChoices,
    libraries: tuple[str, ...],
) -> _Answer:
    if not target.is_installed:
        fault = f"the target {target.name!r} is not installed: {target.install}"
        return _Answer(target, fault=fault)
    ask = partial(_ask, source, target, choices)
    try:
        placement = ask(partial(place, custom_op_libs=libraries))
        is_searched = choices.bisect and not placement.compiles
        return _Answer(target, placement, failing=ask(smallest_failing) if is_searched else None)
    except ProviderUnavailable as error:
        return _Answer(target, fault=str(error))


def _ask(
    source: Source, target: Target, choices: _PlaceChoices, question: Callable[..., Any]
) -> Any:
    """Call a function with the model, the target, and the options of the provider."""
    return question(
        source.proto,
        target,
        source.base_dir,
        software_device=choices.software_device,
        seconds=choices.seconds,
    )


def _exceeds(placement: Placement | None, choices: _PlaceChoices) -> bool:
    """Whether a placement exceeds a limit."""
    return placement is not None and bool(
        exceeded(placement, choices.max_left, choices.max_partitions)
    )


def _print(answers: list[_Answer], choices: _PlaceChoices) -> None:
    console = open_console()
    if len(answers) > 1:
        _print_overview(console, answers)
    for answer in answers:
        if answer.placement is not None and (len(answers) == 1 or choices.verbose):
            _print_placement(console, answer, answer.placement, verbose=choices.verbose)


def _print_overview(console: Console, answers: list[_Answer]) -> None:
    """One row for each target."""
    figures = ("taken", "partitions", "left", "shapes", "seconds")
    rows = Rows("target", *figures, "note", prose={"note"}, right=figures)
    for answer in answers:
        placement = answer.placement
        if placement is None:
            rows.add(answer.target.name, "", "", "", "", "", answer.fault)
            continue
        seconds = f"{placement.seconds:.1f}"
        if not placement.compiles:
            rows.add(
                answer.target.name, "", "", "", "", seconds, f"does not compile: {placement.error}"
            )
            continue
        counts = (
            len(placement.taken),
            placement.partitions,
            len(placement.left),
            len(placement.shapes),
        )
        rows.add(answer.target.name, *map(str, counts), seconds, _note(placement))
    rows.print(console)


def _note(placement: Placement) -> str:
    """A note on a placement from a table, and the option that may help the most left nodes."""
    notes = ["by table"] if placement.source == "table" else []
    options = Counter(node.advice for node in placement.left if node.advice.startswith("--"))
    for option, count in options.most_common(1):
        notes.append(f"{option} may help {count} of {len(placement.left)} left")
    return ", ".join(notes)


def _print_placement(
    console: Console, answer: _Answer, placement: Placement, *, verbose: bool
) -> None:
    """The counts of a target, then the nodes that are left, by operator and reason."""
    console.print(placement.summary(), highlight=False, soft_wrap=True)
    if placement.absent:
        console.print(
            f"{len(placement.absent)} more are folded or merged by onnxruntime",
            highlight=False,
        )
    outline = map_of(placement)
    if outline and (verbose or len(outline) <= _MAX_MAP):
        console.print(outline, highlight=False, markup=False, soft_wrap=True)
    elif outline:
        console.print("-v shows the partitions in order", highlight=False)
    for line in _failing_lines(answer, placement):
        console.print(line, highlight=False, soft_wrap=True)
    if verbose:
        _print_nodes(console, placement)
        return
    counts = Counter((node.label, node.reason, node.advice) for node in placement.left)
    if not placement.compiles:  # without a reason, a node is not known to be the one that fails
        counts = Counter({key: count for key, count in counts.items() if key[1]})
    if counts:
        rows = Rows(
            "left",
            "nodes",
            "reason",
            "what would help",
            prose={"reason", "what would help"},
            right={"nodes"},
        )
        for (operator, reason, advice), count in counts.most_common():
            rows.add(operator, str(count), reason, advice)
        rows.print(console)
        table = table_of(answer.target.name) if placement.source == "table" else None
        if table is not None:
            console.print(f"the table is of {table}", highlight=False, soft_wrap=True)


def _failing_lines(answer: _Answer, placement: Placement) -> Iterator[str]:
    """Lines about a model that does not compile, in addition to the error."""
    if placement.compiles:
        return
    part = answer.failing
    if part is not None:
        subject = "the smallest subgraph" if part.is_smallest else "a subgraph (time limit reached)"
        nodes = zip(part.operators, part.nodes, strict=True)
        listed = ", ".join(f"{kind} {name!r}" for kind, name in nodes) or "it has no nodes"
        yield f"{subject} that does not compile: {listed}"
    else:
        yield "--bisect finds the smallest subgraph that does not compile"
    if answer.target.needs.prefers_float16:
        advice = "`xopt MODEL --precision float16 --compute float16`"
        yield f"this target prefers float16: {advice}"


def _print_nodes(console: Console, placement: Placement) -> None:
    headings = ("node", "operator", "runs on", "partition", "reason")
    rows = Rows(*headings, prose={"reason"}, right={"partition"})
    for node in placement.nodes:
        partition = str(node.partition) if node.is_taken else ""
        rows.add(node.name, node.label, _where(node, placement), partition, _why(node))
    rows.print(console)


def _where(node: PlacedNode, placement: Placement) -> str:
    """The provider that runs a node."""
    if not placement.compiles:
        return ""
    return node.provider or "folded"


def _why(node: PlacedNode) -> str:
    """Why the target does not take a node."""
    if node.reason or node.is_taken:
        return node.reason
    return "computes a shape" if node.is_shape_arithmetic else ""
