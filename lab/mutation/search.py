"""Find models that a pattern makes wrong if one of its conditions is switched off."""

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

_MAX_WRONG_MODELS: Final = 2
"""Maximum number of wrong models for a condition, each a near miss of another family."""
_LIMITS: Final = {"tried": 48, "run": 12, "failed": 12}
"""Maximum numbers of near misses for a condition.

``tried`` ones are optimized without the condition. Those with another result than with the
condition are ``run``. The pattern has ``failed`` on those where it raised an exception.
"""
_SECONDS: Final = 2.0
"""CPU time for optimizing one near miss: without a condition, a pattern may never end."""
_MUTANT_SECONDS: Final = 12.0
_MAX_MEMORY: Final = 3 << 30
_INVALID_MODEL: Final = ("onnxruntime refuses", "the result does not run")
"""Beginnings of differences that mean an invalid model: they count only if the model runs on other
values.
"""


class Optimized(NamedTuple):
    """The result of a pattern on a near miss.

    Attributes:
        model: the optimized model.
        exactness: exactness of the rewrites.
        fired: whether the pattern was applied.
    """

    model: onnx.ModelProto
    exactness: Exactness
    fired: bool


class Wrong(NamedTuple):
    """A model that was optimized to one that computes something else.

    Attributes:
        before: the original model.
        after: the wrong model.
        exactness: exactness that the rewrites declare.
        text: the condition that is missing, the near miss, and the difference.
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
    """A condition, by its key, and the wrong models that patterns write without it."""

    key: str
    wrong: list[Wrong]


class Place(NamedTuple):
    """A near miss of an example of a pattern."""

    case: Case
    pattern: type[Rewrite]
    variant: Variant


class Mutant(NamedTuple):
    """A pattern without one condition.

    Attributes:
        key: the condition.
        pattern: the pattern.
        numbers: numbers of the near misses for which the condition may matter.
    """

    key: str
    pattern: type[Rewrite]
    numbers: list[int]


class Battery:
    """The near misses of all patterns of a module, in a random order, and the results of the
    patterns on them with all conditions.
    """

    def __init__(self, module: str, seed: int) -> None:
        patterns = patterns_of(sys.modules[module])
        pairs = [
            (Case(example, pattern), pattern)
            for pattern in patterns
            for example in pattern.examples
        ]
        self._places = [
            Place(case, pattern, variant)
            for case, pattern in pairs
            for variant in near_misses(case.example, pattern)
        ]
        random.Random(seed).shuffle(self._places)
        self._patterns = patterns
        self._results: list[bytes] = []
        self._refusals: dict[str, list[int]] = {}
        self._idle: list[int] = []
        self._described: dict[type[Rewrite], set[str]] = {}
        for number, place in enumerate(self._places):
            self._run(number, place)

    def _run(self, number: int, place: Place) -> None:
        """Optimize a near miss with all conditions, and note the conditions that refuse."""
        SWITCH.refused.clear()
        SWITCH.described.clear()
        result = _optimized(place.pattern, place.variant.model)
        self._results.append(serialized(place.variant.model if result is None else result.model))
        self._described.setdefault(place.pattern, set()).update(SWITCH.described)
        for key in sorted(SWITCH.refused):
            self._refusals.setdefault(key, []).append(number)
        if result is not None and not result.fired:
            self._idle.append(number)

    def mutants(self) -> Iterator[Mutant]:
        """The patterns without one condition.

        First the conditions in code that have refused a near miss, then those in descriptions and
        declarations, for the near misses to which the pattern was not applied.
        """
        for key, numbers in self._refusals.items():
            for pattern in self._patterns:
                pattern_numbers = [n for n in numbers if self._places[n].pattern is pattern]
                if pattern_numbers:
                    yield Mutant(key, pattern, pattern_numbers)
        for pattern in self._patterns:
            idle_numbers = [n for n in self._idle if self._places[n].pattern is pattern]
            for key in sorted(self._described.get(pattern, ())):
                yield Mutant(key, derived(pattern, {}), idle_numbers)
            for key, loosened in undeclared(pattern):
                yield Mutant(key, loosened, idle_numbers)

    def wrong(self, mutant: Mutant) -> Iterator[Wrong]:
        """The first wrong model of a mutant in each family of near misses, up to a maximum."""
        families: set[str] = set()
        counts: Counter[str] = Counter()
        for number in _mixed([(self._places[n].variant.family, n) for n in mutant.numbers]):
            case, _, variant = self._places[number]
            if len(families) == _MAX_WRONG_MODELS or any(
                counts[name] == limit for name, limit in _LIMITS.items()
            ):
                break
            if variant.family in families:
                continue
            with SWITCH.without(mutant.key):
                result = _optimized(mutant.pattern, variant.model)
            counts["tried"] += 1
            counts["failed"] += result is None
            if result is None or serialized(result.model) == self._results[number]:
                continue
            counts["run"] += 1
            runs, difference, _ = compare(case, variant, result.model, mutant.pattern.exactness)
            if difference and (runs or not difference.startswith(_INVALID_MODEL)):
                families.add(variant.family)
                text = (
                    f"{mutant.pattern.__name__} without {mutant.key}\n  {variant.name}: "
                    f"{difference[:300]}"
                )
                yield Wrong(variant.model, result.model, result.exactness, text)


def _mixed(pairs: Sequence[tuple[str, int]]) -> list[int]:
    """The numbers of pairs of a family and a number, in turn from each family."""
    counts: Counter[str] = Counter()
    ranks: list[tuple[int, int, int]] = []
    for family, number in pairs:
        ranks.append((counts[family], len(ranks), number))
        counts[family] += 1
    return [number for *_, number in sorted(ranks)]


def _optimized(pattern: type[Rewrite], model: onnx.ModelProto) -> Optimized | None:
    """The optimized model; ``None`` when the pattern raises an exception or takes too long."""
    options = OptimizationOptions(patterns=[pattern], provider=provider_of(pattern), strict=True)
    reports: list[OptimizationReport] = []
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        result = optimize(model, options, report=reports.append)
    except Exception:  # a pattern without one of its conditions may raise any exception
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return Optimized(result, reports[0].exactness, bool(reports[0].applied.get(pattern.name())))


def apart(work: Callable[..., None], *arguments: Any, seconds: float) -> Iterator[Any]:
    """The answers that a function sends from a process of its own.

    The function may crash, need all memory or never end: it is stopped when no answer comes for
    ``seconds``.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(*arguments, sender))
    process.start()
    sender.close()
    try:
        while receiver.poll(seconds):
            yield receiver.recv()
    except EOFError:
        pass
    finally:
        process.kill()
        process.join()


def wrong_models(module: str, seed: int) -> list[Tried]:
    """The wrong models for each condition of the patterns of a module, and of the helpers that they
    call.
    """
    battery = Battery(module, seed)
    mutants = list(battery.mutants())
    results: list[list[Wrong]] = []
    while len(results) < len(mutants):
        results += apart(_try_all, battery, mutants[len(results) :], seconds=_MUTANT_SECONDS)
        if len(results) < len(mutants):
            results.append([])  # the process crashed or timed out at this mutant
    return [Tried(mutant.key, models) for mutant, models in zip(mutants, results, strict=True)]


def _try_all(battery: Battery, mutants: Sequence[Mutant], answer: Connection) -> None:
    """Send the wrong models of each mutant."""
    signal.signal(signal.SIGVTALRM, _stop)
    # a new child process of onnxruntime: the one of the parent is shared by all forked processes
    vars(RUNTIME).update(vars(Runtime()))
    resource.setrlimit(resource.RLIMIT_DATA, (_MAX_MEMORY, _MAX_MEMORY))
    logging.disable()
    for mutant in mutants:
        answer.send(list(battery.wrong(mutant)))


def _stop(*_: Any) -> None:
    raise TimeoutError
