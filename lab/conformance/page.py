"""The page about the conformance cases: the number that pass, and those that onnxruntime alone does
not get right.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import onnx
import onnxruntime

from lab.conformance.cases import KINDS
from lab.conformance.judging import SELECTIONS, Outcome

PAGE = Path(__file__).resolve().parents[2] / "lab" / "conformance.md"
_HEAD = """# Conformance

Written by `make conformance`. The cases come with the onnx package (its kinds {kinds}),
each a model with inputs and the expected outputs. Each model is optimized with {selections}, as it
is, with all its inputs made constants, and with all but the first one, and each result runs in
onnxruntime and is compared with the outputs of the suite, within its tolerance. Models of versions
that onnxruntime does not support yet are declared to be of the newest version that it supports, and
count where they still give the outputs of the suite.

{versions}

| kind | cases | right without optimization | of those right after it |
|---|---|---|---|
{rows}

{runs} comparisons of optimized models were made, and {faults} failed.

## Cases that onnxruntime alone does not get right

These cases cannot test the optimizer and are left out. Under "other numbers", onnxruntime runs the
model, but its results differ from the suite.
"""


def versions() -> str:
    """Return the line with the versions that the figures belong to."""
    return f"Figures of onnx {onnx.__version__} and onnxruntime {onnxruntime.__version__} on a CPU."


def render(outcomes: Sequence[Outcome]) -> str:
    """The page."""
    kinds = {o.case: o.case.partition("/")[0] for o in outcomes}
    total = Counter(kinds.values())
    right = Counter(kinds[o.case] for o in outcomes if not o.left_out)
    passed = Counter(kinds[o.case] for o in outcomes if not o.left_out and not o.faults)
    rows = [f"| {kind} | {total[kind]} | {right[kind]} | {passed[kind]} |" for kind in KINDS]
    rows.append(f"| all | {total.total()} | {right.total()} | {passed.total()} |")
    head = _HEAD.format(
        kinds=", ".join(f"`{kind}`" for kind in KINDS),
        selections=" and with ".join(f"`{s}`" for s in SELECTIONS),
        versions=versions(),
        rows="\n".join(rows),
        runs=sum(o.runs for o in outcomes),
        faults=sum(len(o.faults) for o in outcomes),
    )
    lines = []
    for reason in sorted({o.left_out.partition(":")[0] for o in outcomes if o.left_out}):
        names = [o.case for o in outcomes if o.left_out.partition(":")[0] == reason]
        lines.append(f"\n### {reason.capitalize()} ({len(names)})\n")
        lines += [f"- {name}" for name in names]
    return "\n".join((head.rstrip("\n"), *lines, ""))


def summary(outcomes: Sequence[Outcome]) -> str:
    """The figures in a line."""
    right = [o for o in outcomes if not o.left_out]
    faults = sum(len(o.faults) for o in outcomes)
    return (
        f"{len(outcomes)} cases, {len(right)} right without optimization, of those "
        f"{sum(not o.faults for o in right)} right after it; {sum(o.runs for o in outcomes)} "
        f"comparisons, {faults} failed"
    )


def listed(page: str) -> dict[str, str]:
    """The cases that a page lists, each with its reason, and the total, called ``all``."""
    found, reason = {}, ""
    for line in page.splitlines():
        if line.startswith("### "):
            reason = line[4:].partition(" (")[0].lower()
        elif line.startswith("- "):
            found[line[2:]] = reason
    total = re.search(r"^\| all \| (\d+) ", page, re.MULTILINE)
    return found | {"all": total[1] if total else ""}


def differences(shown: str, wanted: str) -> list[str]:
    """The cases for which two pages give another reason, and the totals when they differ."""
    first, second = listed(shown), listed(wanted)
    return [
        f"{case}: {first.get(case, 'right')} on the page, {second.get(case, 'right')} here"
        for case in sorted(first.keys() | second.keys())
        if first.get(case) != second.get(case)
    ]
