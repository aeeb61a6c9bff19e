"""The search: races of a few choices at a time, in which only measurable differences count."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from xoptim.bench.rounds import Ratio
from xoptim.facts.errors import XoptimError
from xoptim.tuning.choices import Choice, Variation

GAIN: Final = 0.01
"""Part of the time that a choice must save at least, by its interval, to replace another one."""
LOSS: Final = 0.005
"""Part of the time by which a choice must be longer at least, by its interval, to count as slower."""
Verdict: TypeAlias = Literal["start", "faster", "not faster", "behind", "undecided", "failed", "no effect"]
"""``start``: the search began with it. ``behind``: slower than another challenger of the same race, and tried again if that one
is accepted."""
Space: TypeAlias = Callable[[Choice], Sequence[Variation]]
"""The variations of a choice, in the order in which they are tried."""


class Meter(Protocol):
    """Measures choices side by side."""

    def measure(self, choices: Sequence[Choice]) -> Mapping[Choice, str]:
        """Add a pass: all choices in the same rounds. Returns the reason for each that cannot be run."""

    def ratio(self, choice: Choice, base: Choice) -> Ratio:
        """The time of a choice divided by the time of another one, over all passes that contain both."""

    def count(self, choice: Choice, base: Choice) -> int:
        """Number of passes that contain both."""

    def fits(self, runs: int) -> bool:
        """Whether this many runs of a choice, one for each pass, fit into the remaining time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of a race."""

    few: int = 2  # number of passes from which a choice may be dropped
    # Number of passes from which a choice may be accepted. Two sessions of one model may differ by a few percent, so an
    # interval over fewer passes is too narrow
    enough: int = 5
    most: int = 6  # number of passes after which a race ends; the confirmation of the result takes twice as many at most
    at_once: int = 4  # most challengers in a race


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of one variation."""

    label: str  # the choice, as the changes that led to it
    choice: Choice  # the choice
    verdict: Verdict  # whether it was measurably faster than the best choice before it, or why that is not known
    ratio: Ratio | None = None  # its time divided by the time of the original, ``None`` when it was not measured
    reason: str = ""  # the error for ``failed``


@dataclass(slots=True)
class Found:
    """The result of a search."""

    best: Choice  # the choice that nothing is measurably faster than
    changes: tuple[str, ...] = ()  # the accepted variations that led to it, in order
    trials: list[Trial] = field(default_factory=list)  # all variations that were tried, in order
    left: int = 0  # number of variations that there was no time for


def is_faster(ratio: Ratio) -> bool:
    """Whether a time is measurably shorter than another one."""
    return ratio.interval.high < 1.0 - GAIN


def is_slower(ratio: Ratio) -> bool:
    """Whether a time is measurably longer than another one."""
    return ratio.interval.low > 1.0 + LOSS


class Search:
    """A greedy search that begins with one choice; all ratios are to the original.

    ``space`` returns the variations of a choice. Choices that ``changes_anything`` does not tell apart are not measured.
    """

    def __init__(
        self,
        original: Choice,
        space: Space,
        meter: Meter,
        rules: Rules,
        changes_anything: Callable[[Choice, Choice], bool] = lambda _, __: True,
    ) -> None:
        self._original = original
        self._space = space
        self._meter = meter
        self._rules = rules
        self._changes_anything = changes_anything
        self._refused: set[str] = set()  # names of variations that were not faster
        self._tried: set[Choice] = set()

    def run(
        self,
        start: Choice,
        *,
        is_enough: Callable[[Choice], bool] = lambda _: False,
        on_step: Callable[[str], object] = lambda _: None,
    ) -> Found:
        """Try variations until none is measurably faster, or time is over.

        The first choice stays unless a variation is measurably faster; ``is_enough`` ends the search early, by the best choice.
        """
        found = Found(start)
        self._tried.add(start)
        while not is_enough(found.best):
            heat = self._heat(self._untried(found.best), found)
            if not heat:
                break
            on_step(f"tried {len(found.trials)}, now {', '.join(each.name for each in heat)}")
            self._run_heat(heat, found)
        found.left = len(self._untried(found.best))
        return found

    def _untried(self, best: Choice) -> list[Variation]:
        return [each for each in self._space(best) if each.name not in self._refused and each.choice not in self._tried]

    def _heat(self, variations: Sequence[Variation], found: Found) -> list[Variation]:
        """The next variations to measure, all of one stage; as many as fit into the time."""
        heat: list[Variation] = []
        for each in variations:
            full = len(heat) == self._rules.at_once or not self._meter.fits(self._runs(len(heat)))
            if full or (heat and each.stage != heat[0].stage):
                break
            if self._changes_anything(each.choice, found.best):
                heat.append(each)
            else:
                self._refused.add(each.name)
                found.trials.append(Trial(_label(found, each), each.choice, "no effect"))
        return heat

    def _runs(self, others: int) -> int:
        """Number of runs of a choice, one for each pass, that a race of one more challenger takes.

        Most challengers leave early. The first one is tried even if there may be no time to accept it.
        """
        rules = self._rules
        return (others + 3) * rules.few + (3 * (rules.enough - rules.few) if others else 0)

    def _run_heat(self, heat: Sequence[Variation], found: Found) -> None:
        race = Race(self._original, found.best, [each.choice for each in heat], self._meter, self._rules)
        verdicts = race.run()
        for each in heat:
            self._tried.add(each.choice)
            verdict, failed = verdicts[each.choice], race.failures.get(each.choice)
            ratio = None if failed is not None or not race.passes else self._meter.ratio(each.choice, self._original)
            found.trials.append(Trial(_label(found, each), each.choice, verdict, ratio, failed or ""))
            if verdict not in ("faster", "behind"):
                self._refused.add(each.name)
        faster = [each for each in heat if verdicts[each.choice] == "faster"]
        if faster:
            best = min(faster, key=lambda each: (self._meter.ratio(each.choice, found.best).value, each.name))
            found.best, found.changes = best.choice, (*found.changes, best.name)


def _label(found: Found, variation: Variation) -> str:
    return ", ".join((*found.changes, variation.name))


class Race:
    """A race of challengers against the best choice so far.

    A challenger is out as soon as its time is not shorter at all, or its interval shows that it is not measurably shorter, or
    that the time of another challenger is; it is accepted when the interval shows that it is measurably faster.
    """

    def __init__(self, original: Choice, best: Choice, challengers: Sequence[Choice], meter: Meter, rules: Rules) -> None:
        self._bases = (original, best)
        self._meter = meter
        self._rules = rules
        self._verdicts: dict[Choice, Verdict] = dict.fromkeys(challengers, "undecided")
        self.passes = 0  # number of passes that were measured
        self.failures: dict[Choice, str] = {}  # the reasons of choices that could not be run

    def run(self) -> dict[Choice, Verdict]:
        """Measure until all challengers are decided, or the rules or the time end the race."""
        while self.passes < self._rules.most:
            running = [choice for choice, verdict in self._verdicts.items() if verdict == "undecided"]
            if not running or not self._meter.fits(len(running) + 2):
                break
            failed = self._meter.measure(list(dict.fromkeys((*self._bases, *running))))
            self.failures |= failed
            self._verdicts |= dict.fromkeys(failed, "failed")
            self.passes += 1
            if self.passes >= self._rules.few:
                self._judge([choice for choice in running if choice not in failed])
        return self._verdicts

    def _judge(self, running: Sequence[Choice]) -> None:
        ratios = {choice: self._meter.ratio(choice, self._bases[1]) for choice in running}
        leader = min(running, key=lambda choice: ratios[choice].value, default=None)
        for choice, ratio in ratios.items():
            if ratio.value >= 1.0 or ratio.interval.low > 1.0 - GAIN:
                self._verdicts[choice] = "not faster"
            elif self.passes >= self._rules.enough and is_faster(ratio):
                self._verdicts[choice] = "faster"
            elif leader is not None and choice != leader and is_slower(self._meter.ratio(choice, leader)):
                self._verdicts[choice] = "behind"


def confirm(original: Choice, finalists: Sequence[Choice], meter: Meter, rules: Rules) -> dict[Choice, Ratio]:
    """Measure choices against the original until the intervals are narrow, or the rules or the time end it; returns the ratios.

    A few passes are made in any case; those that the meter has made before count too. Raises `XoptimError` when a finalist
    cannot be run.
    """
    choices = list(dict.fromkeys((original, *finalists)))
    ratios: dict[Choice, Ratio] = {}
    for passes in range(1, 2 * rules.most + 1):
        failed = meter.measure(choices)
        if failed:
            raise XoptimError(f"a model that was measured before cannot be run: {next(iter(failed.values()))}")
        ratios = {choice: meter.ratio(choice, original) for choice in finalists}
        known = min(meter.count(choice, original) for choice in finalists) >= rules.enough
        is_clear = known and all(is_faster(r) or is_slower(r) or r.interval[1] - r.interval[0] < GAIN for r in ratios.values())
        if passes >= rules.few and (is_clear or not meter.fits(len(choices))):
            break
    return ratios


def ranking(found: Found, start: Choice, final: Mapping[Choice, Ratio], others: Sequence[tuple[Choice, Ratio]]) -> list[Choice]:
    """The choices that are not slower than the original, in the order in which they are preferred.

    Measurably faster ones come first, then the others with the settings of the start, the smallest model first. ``final`` has
    the ratios of the best choice and of the start, measured in the end; ``others`` were measured too, the smallest model
    first.
    """
    faster = [choice for choice in (found.best, start) if is_faster(final[choice])]
    if len(faster) == 2 and final[found.best].interval.low > final[start].interval.high:
        faster.reverse()
    equal = [(choice, final.get(choice, ratio)) for choice, ratio in others]
    usable = [choice for choice, ratio in equal if choice.settings == start.settings and not is_slower(ratio)]
    return list(dict.fromkeys((*faster, *usable)))
