"""How many wrong models the proof of the command notices: ``python -m tests.mutation.proof FOLDER --count 200``.

One condition of a pattern at a time is removed. Where near misses of its examples then compute something else, these models
and what they became are kept in the folder, until it has the number asked for. Then the proof of the plain command judges all
of them: those that it does not notice are printed. A later run judges the same ones, with the proof as it is then.
"""

import argparse
import ast
import inspect
import itertools
import logging
import multiprocessing
import random
import re
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple, get_args

import onnx

from tests.mutation.guards import guards, mutated
from xoptim import OptimizationReport, ValidationOptions, optimize
from xoptim.catalogue.discovery import installed_patterns, patterns_of
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.dtypes import Exactness
from xoptim.match.rewrite import Rewrite
from xoptim.testing.models import provider_of, serialized
from xoptim.testing.perturbations import compare, near_misses
from xoptim.testing.variant import Case
from xoptim.validate import validate

_SECONDS: Final = 10.0
"""Time to find models that a pattern without a guard makes wrong."""
_MODELS: Final = 8
"""Models of one guard, each a near miss of another family."""
_GUARD_SECONDS: Final = 60.0
_PROOF_SECONDS: Final = 60.0
_MEMORY: Final = 3 << 30
_NOT_NUMBERS: Final = ("onnxruntime refuses", "the result does not run")


class Optimized(NamedTuple):
    """A model that a pattern has rewritten, and the grade of the rewrites."""

    model: onnx.ModelProto
    exactness: Exactness


class Wrong(NamedTuple):
    """A model and what became of it, which computes something else; in words, the guard, the near miss and the difference."""

    before: onnx.ModelProto
    after: onnx.ModelProto
    exactness: Exactness
    text: str


class Battery:
    """The near misses of all patterns of a module, in a random order, and what the patterns make of them."""

    def __init__(self, module: ModuleType, rng: random.Random) -> None:
        cases = [Case(example, pattern) for pattern in patterns_of(module) for example in pattern.examples]
        self._variants = [(case, v) for case in cases for v in near_misses(case.example, case.pattern)]
        self._right: dict[int, bytes] = {}
        rng.shuffle(self._variants)

    def wrong_with(self, module: ModuleType, place: str) -> Iterator[Wrong]:
        """Near misses of which the patterns of a mutant change the numbers: a few, the first of each family."""
        patterns = {pattern.name(): pattern for pattern in patterns_of(module)}
        families: set[str] = set()
        end = time.monotonic() + _SECONDS
        for number, (case, variant) in enumerate(self._variants):
            if time.monotonic() > end or len(families) == _MODELS:
                break
            if variant.family in families or case.pattern is None:
                continue
            pattern = patterns[case.pattern.name()]
            found = _optimized(pattern, variant.model)
            if found is None or serialized(found.model) == self._expected(number):
                continue
            difference = compare(case, variant, found.model, pattern.exactness).difference
            if difference and not difference.startswith(_NOT_NUMBERS):
                families.add(variant.family)
                text = f"{place}\n  {variant.name}: {difference[:300]}"
                yield Wrong(variant.model, found.model, found.exactness, text)

    def _expected(self, number: int) -> bytes:
        if number not in self._right:
            case, variant = self._variants[number]
            found = _optimized(case.pattern, variant.model)
            self._right[number] = serialized(variant.model if found is None else found.model)
        return self._right[number]


def _optimized(pattern: type[Rewrite] | None, model: onnx.ModelProto) -> Optimized | None:
    """The optimized model, ``None`` when the pattern fails on it."""
    if pattern is None:
        return None
    options = OptimizationOptions(patterns=[pattern], provider=provider_of(pattern), strict=True)
    reports: list[OptimizationReport] = []
    try:
        return Optimized(optimize(model, options, report=reports.append), reports[0].exactness)
    except Exception:  # a pattern without a guard may raise anything
        return None


def apart(work: Callable[..., None], *given: Any, seconds: float) -> Iterator[Any]:
    """The answers of a function that runs in a process of its own: it may crash, never end, or need all memory."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(*given, there))
    process.start()
    there.close()
    try:
        while here.poll(seconds):
            yield here.recv()
    except EOFError:
        pass
    finally:
        process.kill()
        process.join()


def wrong_models(name: str, seed: int) -> Iterator[list[Wrong]]:
    """The wrong models that come of each guard of a module."""
    start = 0
    while True:
        for answer in apart(_try_all, name, seed, start, seconds=_GUARD_SECONDS):
            if answer is None:
                return
            start += 1
            yield answer
        start += 1
        yield []


def _try_all(name: str, seed: int, start: int, answer: Connection) -> None:
    """Send the wrong models of each guard from the given one on, and at last ``None``."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    logging.disable()
    module = sys.modules[name]
    path = Path(inspect.getfile(module))
    battery = Battery(module, random.Random(seed))
    for guard in itertools.islice(guards(ast.parse(path.read_text(encoding="utf-8"))), start, None):
        place = f"{path.parent.name}/{path.name}:{guard.line} without `{guard.text[:90]}`"
        answer.send(list(battery.wrong_with(mutated(module, guard.without), place)))
    answer.send(None)


def search(folder: Path, count: int, seed: int, of: str) -> None:
    """Keep wrong models in a folder until there are as many as wanted, or all guards have been removed."""
    names = sorted({c.__module__ for c in installed_patterns().values() if re.search(of, c.__module__)})
    random.Random(seed).shuffle(names)
    removed = needed = kept = 0
    for found in itertools.chain.from_iterable(wrong_models(name, seed) for name in names):
        removed, needed = removed + 1, needed + bool(found)
        for wrong in found:
            _keep(wrong, folder / str(kept))
            kept += 1
        sys.stdout.write(f"\r{removed} guards removed, {needed} of them make wrong models: {kept}")
        sys.stdout.flush()
        if kept >= count:
            break
    sys.stdout.write("\n")


def _keep(wrong: Wrong, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(wrong.before, f"{path}.before.onnx")
    after = onnx.ModelProto()
    after.CopyFrom(wrong.after)
    onnx.helper.set_model_props(after, {"exactness": wrong.exactness, "text": wrong.text})
    onnx.save(after, f"{path}.after.onnx")


def _kept(path: Path) -> Wrong:
    after = onnx.load(str(path).replace(".before.", ".after."))
    words = {entry.key: entry.value for entry in after.metadata_props}
    grade: Exactness = next(each for each in get_args(Exactness) if each == words["exactness"])
    return Wrong(onnx.load(path), after, grade, words["text"])


def judge(folder: Path) -> Counter[str]:
    """The verdicts of the proof on the models of a folder; those that it does not notice are printed."""
    verdicts: Counter[str] = Counter()
    for path in sorted(folder.glob("*.before.onnx")):
        wrong = _kept(path)
        found = next(apart(_judge, wrong, seconds=_PROOF_SECONDS), "crash or no end")
        verdicts[found] += 1
        if found == "equal":
            sys.stdout.write(f"not noticed: {wrong.text}\n")
    return verdicts


def _judge(wrong: Wrong, answer: Connection) -> None:
    logging.disable()
    answer.send(validate(wrong.before, wrong.after, ValidationOptions(exactness=wrong.exactness)).status)


def main() -> int:
    """Entry point; the exit status is 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of wrong models; filled first if it does not exist")
    parser.add_argument("--count", type=int, default=200, help="wrong models to judge")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--of", default="", help="only patterns of modules whose name has this regular expression")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if not chosen.folder.exists():
        search(chosen.folder, chosen.count, chosen.seed, chosen.of)
    verdicts = judge(chosen.folder)
    sys.stdout.write(f"{verdicts.total()} wrong models, {verdicts.total() - verdicts['equal']} noticed: {dict(verdicts)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
