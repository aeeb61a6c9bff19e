"""``xopt list``."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import click

from xoptim import Exactness, ModelPass, Rewrite, resolve
from xoptim.api.preparing import registry
from xoptim.diagnose.explanation import JsonForm, JsonResult
from xoptim.optimizing.builder import STEPS
from xoptim.proof.grades import GRADES, Grade
from xoptim.proof.pattern_grades import PATTERN_GRADES

from ..options import command, flag, json_option, names_of, refuse_idle
from ..selection import WORD, SelectionOfAll
from ..tables import Rows, open_console, print_json
from ..terminal import say


@dataclass(frozen=True, slots=True)
class PatternDocument(JsonResult):
    """A pattern or a pass.

    Attributes:
        name: name of the pattern.
        family: its family.
        phase: the phase in which it runs; `global` for a pass over the model.
        priority: within a phase, lower numbers run first.
        exactness: the guarantee that it gives.
        min_opset: oldest operator set in which it applies.
        max_opset: newest operator set in which it applies; ``None`` for any.
        tags: words that select it.
        produces: domains, other than the standard one, of operators that it creates.
        unchecked: operators that it creates and `onnx.checker` does not know.
        providers: execution providers that it is for; all when empty.
        onnxruntime: versions of ONNX Runtime with the defect that it works around.
        status: `stable`, `preview` or `deprecated`.
        rewrite: what it rewrites, in one line.
        proved: the weakest proof grade of its examples.
    """

    __json__ = JsonForm(name="Pattern")
    name: str
    family: str
    phase: str
    priority: int
    exactness: Exactness
    min_opset: int
    max_opset: int | None
    tags: Sequence[str]
    produces: Sequence[str]
    unchecked: Sequence[str]
    providers: Sequence[str]
    onnxruntime: str
    status: str
    rewrite: str
    proved: Grade


@dataclass(frozen=True)
class _ListChoices:
    selection: SelectionOfAll = field(default_factory=SelectionOfAll)
    proved: bool = flag("List only patterns whose examples are all proved, with the grade.")
    tags: bool = flag("List the tags, with the number of patterns.")
    as_json: bool = json_option()


@command("list", name={"type": WORD, "required": False, "metavar": "[NAME]"})
def list_command(name: str | None, choices: _ListChoices) -> None:
    """List the patterns, or describe the pattern NAME."""
    if name is not None:
        reason = f"with {name}, which describes a pattern"
        words = {*names_of(SelectionOfAll), "proved", "tags", "as_json"}
        if not choices.selection.selects_more:
            words.discard("include")  # a pack of operators may have the pattern NAME
        refuse_idle(dict.fromkeys(sorted(words), reason))
        _describe_all(name)
        return
    patterns = sorted(choices.selection.selected(), key=lambda pattern: pattern.name())
    if choices.proved:
        patterns = [pattern for pattern in patterns if pattern.name() in PATTERN_GRADES]
    names, tags = (
        {pattern.name() for pattern in patterns},
        registry().words() if choices.tags else (),
    )
    counts = {
        word: sum(entry.item.name() in names for entry in registry().find(word)) for word in tags
    }
    if choices.as_json:
        print_json(counts if choices.tags else [_described(pattern) for pattern in patterns])
    elif choices.tags:
        rows = Rows("word", "patterns", right={"patterns"})
        for word, count in counts.items():
            rows.add(word, str(count))
        rows.print(open_console())
    else:
        _print_patterns(patterns, with_grades=choices.proved)


def _describe_all(name: str) -> None:
    """Print the description and the examples of each pattern that a word names."""
    for cls in resolve(name):
        open_console().print(cls.__name__, style="bold", highlight=False)
        click.echo(inspect.cleandoc(cls.__doc__ or ""))
        click.echo(
            f"\nphase {phase_of(cls)}, exactness {cls.exactness}, opset {opset_range(cls)}, "
            f"provider {providers_of(cls)}"
        )
        if cls.onnxruntime:
            click.echo(f"works around a bug in onnxruntime {cls.onnxruntime}")
        if cls.name() in PATTERN_GRADES:
            click.echo(f"examples proved: {PATTERN_GRADES[cls.name()]}")
        for number, example in enumerate(cls.examples, 1):
            click.echo(f"\nexample {number}, opset {example.opset}")
            click.echo(f"  before  {example.before}\n  after   {example.after}")
        click.echo()


def _print_patterns(patterns: list[Rewrite], *, with_grades: bool) -> None:
    columns = ["pattern", "phase", "exactness", "opset", "provider", "tags", "rewrite"]
    if any(pattern.status != "stable" for pattern in patterns):
        columns.insert(4, "status")
    if with_grades:
        columns.insert(3, "proved")
    rows = Rows(*columns, prose={"provider", "tags", "rewrite"})
    for family, members in groupby(
        sorted(patterns, key=lambda p: (p.family(), p.name())), key=lambda p: p.family()
    ):
        rows.add_title(family)
        for pattern in members:
            cells = {
                "pattern": f"  {pattern.name()}",
                "phase": phase_of(pattern),
                "exactness": pattern.exactness,
                "proved": PATTERN_GRADES.get(pattern.name(), GRADES[-1]),
                "opset": opset_range(pattern),
                "status": pattern.status,
                "provider": providers_of(pattern),
                "tags": " ".join(pattern.tags),
                "rewrite": pattern.arrow(),
            }
            rows.add(*(cells[column] for column in columns))
    if len(patterns) == len(registry()):
        rows.add_title("steps, which --drop disables")
        for name, step in STEPS.items():
            rows.add(
                f"  {name}",
                phase_of(step),
                step.exactness,
                "any",
                *[""] * (len(columns) - 5),
                step.arrow(),
            )
    rows.print(open_console())
    say(f"{len(patterns)} of {len(registry())} patterns")


def opset_range(cls: Rewrite | type[Rewrite]) -> str:
    """The operator sets that a pattern supports: ``13+`` or ``7-12``."""
    return f"{cls.min_opset}+" if cls.max_opset is None else f"{cls.min_opset}-{cls.max_opset}"


def providers_of(cls: Rewrite | type[Rewrite]) -> str:
    """The execution providers that a pattern is for."""
    return ", ".join(cls.providers) or "any"


def phase_of(pattern: Rewrite | type[Rewrite]) -> str:
    """The phase of a pattern, or ``global`` for a pass over the model."""
    cls = pattern if isinstance(pattern, type) else type(pattern)
    return "global" if issubclass(cls, ModelPass) else cls.phase


def _described(pattern: Rewrite) -> PatternDocument:
    return PatternDocument(
        name=pattern.name(),
        family=pattern.family(),
        phase=phase_of(pattern),
        priority=pattern.priority,
        exactness=pattern.exactness,
        min_opset=pattern.min_opset,
        max_opset=pattern.max_opset,
        tags=pattern.tags,
        produces=pattern.produces,
        unchecked=pattern.unchecked,
        providers=pattern.providers,
        onnxruntime=pattern.onnxruntime,
        status=pattern.status,
        rewrite=pattern.arrow(),
        proved=PATTERN_GRADES.get(pattern.name(), GRADES[-1]),
    )
