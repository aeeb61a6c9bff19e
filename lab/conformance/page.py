"""The page about the conformance cases: how many pass, and which ones onnxruntime gets wrong
without xoptim.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import onnxruntime

from benchmarks.measured import Table, keep
from benchmarks.tools import write_between
from lab.conformance.cases import KINDS
from lab.conformance.judging import Outcome

PAGE = Path(__file__).resolve().parents[1] / "conformance.md"
KINDS_TABLE, SKIPPED = "kinds", "left out"
_COLUMNS = ("kind", "cases", "correct unoptimized", "of these, correct optimized")


def versions() -> str:
    """The versions that the figures belong to."""
    return f"Onnx {onnx.__version__} and onnxruntime {onnxruntime.__version__} on a CPU"


def tables_of(outcomes: Sequence[Outcome]) -> dict[str, Table]:
    """The tables of the page: numbers of cases by kind, and the cases that cannot be tested."""
    kinds = {o.case: o.case.partition("/")[0] for o in outcomes}
    testable = [o for o in outcomes if not o.dropped]
    counts = (
        Counter(kinds.values()),
        Counter(kinds[o.case] for o in testable),
        Counter(kinds[o.case] for o in testable if not o.faults),
    )
    rows = [[kind, *(str(count[kind]) for count in counts)] for kind in KINDS]
    rows.append(["all", *(str(count.total()) for count in counts)])
    dropped = [(o.dropped.partition(":")[0], o.case) for o in outcomes if o.dropped]
    return {
        KINDS_TABLE: Table(_COLUMNS, rows),
        SKIPPED: Table(("case", "reason"), [[case, reason] for reason, case in sorted(dropped)]),
    }


def write(outcomes: Sequence[Outcome]) -> None:
    """Write the page, and the file with its tables."""
    keep(PAGE, tables_of(outcomes))
    runs, faults = sum(o.runs for o in outcomes), sum(len(o.faults) for o in outcomes)
    text = f"{versions()}: {runs} comparisons of optimized models, of which {faults} failed."
    write_between(PAGE, "figures", text)


def summary(outcomes: Sequence[Outcome]) -> str:
    """The figures in a line."""
    testable = [o for o in outcomes if not o.dropped]
    faults = sum(len(o.faults) for o in outcomes)
    return (
        f"{len(outcomes)} cases, {len(testable)} correct unoptimized, of these "
        f"{sum(not o.faults for o in testable)} correct optimized; "
        f"{sum(o.runs for o in outcomes)} comparisons, {faults} failed"
    )


def differences(shown: Mapping[str, Table], wanted: Mapping[str, Table]) -> list[str]:
    """The cases that are skipped for different reasons in two sets of tables, and the number of
    cases if it differs.
    """
    first, second = map(_listed, (shown, wanted))
    return [
        f"{case}: {first.get(case, 'correct')} on the page, {second.get(case, 'correct')} here"
        for case in sorted(first.keys() | second.keys())
        if first.get(case) != second.get(case)
    ]


def _listed(tables: Mapping[str, Table]) -> dict[str, str]:
    """The reason of each skipped case, and the number of all cases as ``all``."""
    cases = {row["case"]: row["reason"] for row in tables[SKIPPED].dictionaries()}
    return {**cases, "all": tables[KINDS_TABLE].rows[-1][1]}
