"""Models that the catalogue would make wrong without one of its conditions."""

import logging
import multiprocessing
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

import onnx

from lab.mutation.guards import SWITCH, derived, undeclared
from xoptim import OptimizationReport, optimize
from xoptim.catalogue.discovery import patterns_of
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.dtypes import Exactness
from xoptim.match.rewrite import Rewrite
from xoptim.testing.perturbations import compare, near_misses
from xoptim.testing.runtime import RUNTIME, Runtime
from xoptim.testing.variant import Case, Variant, provider_of, serialized

_MODELS: Final = 2
"""Models of one guard, each a near miss of another family."""
_LIMITS: Final = {"tried": 48, "run": 12, "failed": 12}
"""Near misses that a pattern without a guard is tried on; of these, those that are run, since it
changes them in another way than with the guard, and those on which it fails.
"""
_SECONDS: Final = 2.0
"""Processor time for optimizing one near miss: without a guard, a pattern may never end."""
_GUARD_SECONDS: Final = 12.0
_MEMORY: Final = 3 << 30
_NOT_NUMBERS: Final = ("onnxruntime refuses", "the result does not run")
"""Differences that any run shows, unless there are values on which the result is right."""


class Optimized(NamedTuple):
    """A model that a pattern has rewritten, the grade of the rewrites, and whether there was
    one.
    """

    model: onnx.ModelProto
    exactness: Exactness
    fired: bool


class Wrong(NamedTuple):
    """A model and what became of it, which computes something else; in words, the guard, the near
    miss and the difference.
    """

    before: onnx.ModelProto
    after: onnx.ModelProto
    exactness: Exactness
    text: str

    @property
    def family(self) -> str:
        """The kind of the near miss."""
        return self.text.partition("\n  ")[2].partition(":")[0]


class Tried(NamedTuple):
    """A condition that was switched off, and the wrong models that came of it."""

    key: str
    wrong: list[Wrong]


class Place(NamedTuple):
    """A near miss of an example of a pattern."""

    case: Case
    pattern: type[Rewrite]
    variant: Variant


class Mutant(NamedTuple):
    """A pattern without a condition, and the near misses that it may change in another way: by
    their numbers.
    """

    key: str
    pattern: type[Rewrite]
    numbers: list[int]


class Battery:
    """The near misses of all patterns of a module, in a random order, and what the patterns make of
    them.
    """

    def __init__(self, module: str, seed: int) -> None:
        patterns = patterns_of(sys.modules[module])
        pairs = [
            (Case(example, pattern), pattern)
            for pattern in patterns
            for example in pattern.examples
        ]
        self._places = [
            Place(case, p, v) for case, p in pairs for v in near_misses(case.example, p)
        ]
        random.Random(seed).shuffle(self._places)
        self._patterns = patterns
        self._right: list[bytes] = []
        self._refusals: dict[str, list[int]] = {}
        self._idle: list[int] = []
        self._described: dict[type[Rewrite], set[str]] = {}
        for number, place in enumerate(self._places):
            self._run(number, place)

    def _run(self, number: int, place: Place) -> None:
        """Optimize a near miss with all conditions, and note those that refuse."""
        SWITCH.refused.clear()
        SWITCH.described.clear()
        found = _optimized(place.pattern, place.variant.model)
        self._right.append(serialized(place.variant.model if found is None else found.model))
        self._described.setdefault(place.pattern, set()).update(SWITCH.described)
        for key in sorted(SWITCH.refused):
            self._refusals.setdefault(key, []).append(number)
        if found is not None and not found.fired:
            self._idle.append(number)

    def mutants(self) -> Iterator[Mutant]:
        """The patterns without one condition: of those that refused, then of descriptions and
        declarations.
        """
        for key, numbers in self._refusals.items():
            for pattern in self._patterns:
                mine = [n for n in numbers if self._places[n].pattern is pattern]
                if mine:
                    yield Mutant(key, pattern, mine)
        for pattern in self._patterns:
            idle = [n for n in self._idle if self._places[n].pattern is pattern]
            for key in sorted(self._described.get(pattern, ())):
                yield Mutant(key, derived(pattern, {}), idle)
            for key, loosened in undeclared(pattern):
                yield Mutant(key, loosened, idle)

    def wrong(self, mutant: Mutant) -> Iterator[Wrong]:
        """Near misses of which a mutant changes the numbers: a few, the first of each family."""
        families: set[str] = set()
        verdicts: Counter[str] = Counter()
        for number in _mixed([(self._places[n].variant.family, n) for n in mutant.numbers]):
            case, _, variant = self._places[number]
            if len(families) == _MODELS or any(
                verdicts[word] == most for word, most in _LIMITS.items()
            ):
                break
            if variant.family in families:
                continue
            with SWITCH.without(mutant.key):
                found = _optimized(mutant.pattern, variant.model)
            verdicts["tried"] += 1
            verdicts["failed"] += found is None
            if found is None or serialized(found.model) == self._right[number]:
                continue
            verdicts["run"] += 1
            runs, difference, _ = compare(case, variant, found.model, mutant.pattern.exactness)
            if difference and (runs or not difference.startswith(_NOT_NUMBERS)):
                families.add(variant.family)
                text = (
                    f"{mutant.pattern.__name__} without {mutant.key}\n  {variant.name}: "
                    f"{difference[:300]}"
                )
                yield Wrong(variant.model, found.model, found.exactness, text)


def _mixed(pairs: Sequence[tuple[str, int]]) -> list[int]:
    """Numbers, one of each family in turn."""
    seen: Counter[str] = Counter()
    ranks: list[tuple[int, int, int]] = []
    for family, number in pairs:
        ranks.append((seen[family], len(ranks), number))
        seen[family] += 1
    return [number for *_, number in sorted(ranks)]


def _optimized(pattern: type[Rewrite], model: onnx.ModelProto) -> Optimized | None:
    """The optimized model, ``None`` when the pattern fails on it."""
    options = OptimizationOptions(patterns=[pattern], provider=provider_of(pattern), strict=True)
    reports: list[OptimizationReport] = []
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        found = optimize(model, options, report=reports.append)
    except Exception:  # a pattern without a guard may raise anything
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return Optimized(found, reports[0].exactness, bool(reports[0].applied.get(pattern.name())))


def apart(work: Callable[..., None], *given: Any, seconds: float) -> Iterator[Any]:
    """The answers of a function that runs in a process of its own: it may crash, never end, or need
    all memory.
    """
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


def wrong_models(module: str, seed: int) -> list[Tried]:
    """The conditions of the patterns of a module, and of the helpers that they call, with what
    comes of switching them off.
    """
    battery = Battery(module, seed)
    mutants = list(battery.mutants())
    found: list[list[Wrong]] = []
    while len(found) < len(mutants):
        found += apart(_try_all, battery, mutants[len(found) :], seconds=_GUARD_SECONDS)
        if len(found) < len(mutants):
            found.append([])  # the process ended, or did not end, without this condition
    return [Tried(mutant.key, wrong) for mutant, wrong in zip(mutants, found, strict=True)]


def _try_all(battery: Battery, mutants: Sequence[Mutant], answer: Connection) -> None:
    """Send the wrong models of each mutant."""
    signal.signal(signal.SIGVTALRM, _stop)
    # a process of its own: one that is shared would answer another's questions
    vars(RUNTIME).update(vars(Runtime()))
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    logging.disable()
    for mutant in mutants:
        answer.send(list(battery.wrong(mutant)))


def _stop(*_: Any) -> None:
    raise TimeoutError
