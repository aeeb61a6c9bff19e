"""Count the proof grades of rewrites: ``python -m lab.proofs examples`` or ``python -m lab.proofs
FOLDER``.

``examples`` proves the two models of each example of a pattern. With a folder, its models are
optimized, and each applied rewrite is proved, at most ``--most`` for each model and pattern.
`docs/verification.md` shows the figures.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import onnx

from xoptim import OptimizationOptions, installed_patterns, optimize
from xoptim.engine.events import Application
from xoptim.facts.errors import XoptimError
from xoptim.graph.assumed import assumed_of
from xoptim.match.rewrite import Example
from xoptim.proof.calls import DENOTATIONS
from xoptim.proof.grades import GRADES
from xoptim.proof.meaning import DEFINED
from xoptim.proof.observer import ProofObserver
from xoptim.proof.proving import Proof, prove_models
from xoptim.testing.variant import all_nodes, parse

_MAX_LISTED = 20


class Row(NamedTuple):
    """A rewrite and its proof.

    Attributes:
        name: name of the rewrite.
        proof: its proof.
        lacking: operators without a denotation, the function that the prover needs, that one side
            has more often than the other.
    """

    name: str
    proof: Proof
    lacking: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The kind of reason why the rewrite is not proved, without names and numbers."""
        if self.lacking and self.proof.reason == "the normal forms differ":
            return "operators without a definition"
        return re.sub(r"'[^']*'|\[[^]]*\]|\d+", "...", self.proof.reason)


def main() -> int:
    """Print the number of rewrites by grade, by reason, and by operator without a denotation."""
    parser = argparse.ArgumentParser(prog="python -m lab.proofs", description=__doc__)
    parser.add_argument("source", help="``examples``, or a folder of models")
    parser.add_argument(
        "--only", default="", help="regular expression for names of examples or models"
    )
    parser.add_argument(
        "--most",
        type=int,
        default=3,
        help="maximum number of rewrites for a model of the folder and a pattern",
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="time for the proof of an example"
    )
    parser.add_argument("--list", action="store_true", help="print each rewrite")
    options = parser.parse_args()
    rows: list[Row] = []
    rewrites = (
        _of_examples(options.only, options.seconds)
        if options.source == "examples"
        else _of_models(Path(options.source), options.only, options.most)
    )
    for row in rewrites:
        rows.append(row)
        if options.list:
            text = f"{row.name}: {row.proof.grade}, {row.proof.seconds:.2f} s"
            reason = f": {row.proof.reason} {' '.join(row.lacking)}" if row.proof.reason else ""
            sys.stdout.write(f"{text}{reason}\n")
    sys.stdout.writelines(_summary(rows))
    return 0


def _of_examples(only: str, seconds: float) -> Iterator[Row]:
    for name, pattern in sorted(installed_patterns().items()):
        for place, example in enumerate(pattern.examples):
            if re.search(only, f"{name}-{place}"):
                yield _of_example(f"{name}-{place}", example, seconds)


def _of_example(name: str, example: Example, seconds: float) -> Row:
    before, after = (
        parse(text, example.opset, example.domains) for text in (example.before, example.after)
    )
    assumptions = assumed_of(before, (), from_model=True)
    proof = prove_models(before, after, assumptions, seconds=seconds)
    return Row(name, proof, () if proof.is_proved else _lacking(before, after))


def _lacking(before: onnx.ModelProto, after: onnx.ModelProto) -> tuple[str, ...]:
    """Operators without a denotation that one model has more often than the other."""
    first, second = (Counter(_operators(model)) for model in (before, after))
    keys = {*(first - second), *(second - first)}
    return tuple(sorted(key[1] for key in keys if key not in DENOTATIONS and key[1] not in DEFINED))


def _operators(model: onnx.ModelProto) -> Iterator[tuple[str, str]]:
    return ((node.domain, node.op_type) for node in all_nodes(model) if node.op_type != "Constant")


def _of_models(folder: Path, only: str, most: int) -> Iterator[Row]:
    for path in sorted(folder.glob("**/*.onnx")):
        if re.search(only, path.name):
            yield from _of_model(path, most)


def _of_model(path: Path, most: int) -> Iterator[Row]:
    observer = ProofObserver()
    counts = Counter[str]()

    def listen(application: Application) -> None:
        if not application.matched:
            return  # a pass over the model, not a pattern; it has a proof of its own
        counts[application.pattern.name()] += 1
        if counts[application.pattern.name()] <= most:
            observer(application)

    try:
        optimize(path, OptimizationOptions(on_application=listen))
    except XoptimError as error:
        sys.stdout.write(f"{path.name}: {error}\n")
    for step in observer.steps:
        yield Row(f"{path.name}: {step.pattern} {step.number}", step.proof)


def _summary(rows: Iterable[Row]) -> Iterator[str]:
    rows = list(rows)
    unproved = [row for row in rows if not row.proof.is_proved]
    grades = Counter(row.proof.grade for row in rows)
    yield f"{len(rows)} rewrites, {len(rows) - len(unproved)} proved\n"
    yield from (f"{grades[grade]:6} {grade}\n" for grade in GRADES)
    from_zero = sum(row.proof.is_proved and not row.proof.smallest_size for row in rows)
    yield f"{from_zero:6} proved for all sizes from 0\n"
    yield "reasons of rewrites that are not proved\n"
    yield from _listed(Counter(row.reason for row in unproved))
    yield "operators without a denotation in these rewrites\n"
    yield from _listed(Counter(name for row in unproved for name in row.lacking))


def _listed(counts: Counter[str]) -> Iterator[str]:
    return (f"{count:6} {name}\n" for name, count in counts.most_common(_MAX_LISTED))


if __name__ == "__main__":
    sys.exit(main())
