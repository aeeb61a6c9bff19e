"""The search: races of a few choices at a time, in which only measurable differences count."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from xoptim.bench.rounds import Ratio
from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonForm, JsonResult, within
from xoptim.facts.progress import StageProgress
from xoptim.tuning.choices import Choice, Variation

GAIN: Final = 0.01
"""Part of the time that a choice must save at least, by its interval, to replace another one."""
MARGIN: Final = 0.02
"""Part of the time that a finalist must save to be preferred to a simpler one, and that a choice
must take longer to be dropped early.
"""
LOSS: Final = 0.005
"""Part of the time that a choice must take longer, by its interval, to count as slower."""
Verdict: TypeAlias = Literal[
    "start", "faster", "not faster", "behind", "undecided", "failed", "no effect"
]
"""``start``: the search began with this choice.

``behind``: slower than another challenger of the same race, and tried again if that one is
accepted.
"""
Space: TypeAlias = Callable[[Choice], Sequence[Variation]]
"""The variations of a choice, in the order in which they are tried."""


class Meter(Protocol):
    """Measures choices side by side."""

    def measure(self, choices: Sequence[Choice]) -> Mapping[Choice, str]:
        """Add a pass: all choices in the same rounds.

        Returns the reason for each that cannot be run.
        """

    def ratio(self, choice: Choice, base: Choice) -> Ratio:
        """The time of a choice divided by the time of another one, over all passes that contain
        both.
        """

    def count(self, choice: Choice, base: Choice) -> int:
        """Number of passes that contain both."""

    def fits(self, runs: int) -> bool:
        """Whether this many runs of a choice, one for each pass, fit into the remaining time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of a race."""

    # number of passes from which a choice may be dropped, except that a much slower one is dropped
    # after the first pass; also the minimum number of passes of a confirmation
    min_passes: int = 2
    # Number of passes from which a choice may be accepted. Two sessions of one model may differ by
    # a few percent, so an interval over fewer passes is too narrow
    passes_to_accept: int = 3
    max_passes: int = 4  # number of passes after which a race ends
    # number of passes, with those of the search, from which the confirmation of the result may end;
    # it takes three times as many at most
    passes_to_confirm: int = 5
    max_challengers: int = 4  # maximum number of challengers in a race


@dataclass(frozen=True, slots=True)
class Trial(JsonResult):
    """A variation that was tried.

    Attributes:
        changes: the changes that led to the choice; none for the start.
        choice: the model and the settings of its session.
        verdict: whether the choice was measurably faster, or the reason why that is not known.
        ratio: its time divided by the time of the original; ``None`` when it was not measured.
        reason: the error of a variation that failed.
    """

    __json__ = JsonForm("label verdict", *within("ratio", Ratio), "reason")
    changes: tuple[str, ...]
    choice: Choice
    verdict: Verdict  # compared with the best choice before it
    ratio: Ratio | None = None
    reason: str = ""

    @property
    def label(self) -> str:
        """The changes in words."""
        return (
            ", ".join(self.changes) or "default"
            if self.choice.recipe.rewrites or self.changes
            else "original"
        )


@dataclass(slots=True)
class SearchResult:
    """The result of a search."""

    best: Choice  # the best choice: no choice that was tried is measurably faster
    changes: tuple[str, ...] = ()  # the accepted variations that led to it, in order
    trials: list[Trial] = field(default_factory=list)  # all variations that were tried, in order
    not_tried: int = 0  # number of variations that there was no time for


def is_faster(ratio: Ratio) -> bool:
    """Whether a time is measurably shorter than another one."""
    return ratio.interval.high < 1.0 - GAIN


def is_slower(ratio: Ratio) -> bool:
    """Whether a time is measurably longer than another one."""
    return ratio.interval.low > 1.0 + LOSS


class Search:
    """A greedy search that begins with one choice; all ratios are to the original.

    ``space`` returns the variations of a choice. Choices that ``changes_anything`` does not tell
    apart are not measured.
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
        # names of variations that were not faster, with the scheme of the quantization
        self._refused: set[tuple[str, str | None]] = set()
        self._tried: set[Choice] = set()

    def run(
        self,
        start: Choice,
        *,
        is_enough: Callable[[Choice], bool] = lambda _: False,
        on_step: Callable[[str], object] = lambda _: None,
    ) -> SearchResult:
        """Try variations until none is measurably faster, or time is over.

        The first choice stays unless a variation is measurably faster. The search ends early when
        ``is_enough`` is true for the best choice.
        """
        result = SearchResult(start)
        self._tried.add(start)
        while not is_enough(result.best):
            heat = self._heat(self._untried(result.best), result)
            if not heat:
                break
            total = len(result.trials) + len(self._untried(result.best))
            names = ", ".join(variation.name for variation in heat)
            on_step(StageProgress("trying changes", len(result.trials), total, f"now {names}"))
            self._run_heat(heat, result)
        result.not_tried = len(self._untried(result.best))
        return result

    def _untried(self, best: Choice) -> list[Variation]:
        return [
            variation
            for variation in self._space(best)
            if _key(variation) not in self._refused and variation.choice not in self._tried
        ]

    def _heat(self, variations: Sequence[Variation], result: SearchResult) -> list[Variation]:
        """The next variations to measure, all of one stage; as many as fit into the time."""
        heat: list[Variation] = []
        for variation in variations:
            is_full = len(heat) == self._rules.max_challengers or not self._meter.fits(
                self._runs(len(heat))
            )
            if is_full or (heat and variation.stage != heat[0].stage):
                break
            if self._changes_anything(variation.choice, result.best):
                heat.append(variation)
            else:
                self._refused.add(_key(variation))
                result.trials.append(
                    Trial((*result.changes, variation.name), variation.choice, "no effect")
                )
        return heat

    def _runs(self, challengers: int) -> int:
        """Number of runs that a race takes if one more challenger joins; a run is one choice in one
        pass.

        The original and the best choice take part. It is assumed that all challengers but one leave
        as soon as the rules allow. The first challenger is tried even if there is time for one pass
        only, which tells if it is among the finalists.
        """
        rules = self._rules
        if not challengers:
            return 3
        later_passes = rules.passes_to_accept - rules.min_passes
        return (challengers + 3) * rules.min_passes + 3 * later_passes

    def _run_heat(self, heat: Sequence[Variation], result: SearchResult) -> None:
        race = Race(
            self._original,
            result.best,
            [variation.choice for variation in heat],
            self._meter,
            self._rules,
        )
        verdicts = race.run()
        for variation in heat:
            self._tried.add(variation.choice)
            verdict, failure = verdicts[variation.choice], race.failures.get(variation.choice)
            ratio = (
                None
                if failure is not None or not race.passes
                else self._meter.ratio(variation.choice, self._original)
            )
            result.trials.append(
                Trial(
                    (*result.changes, variation.name),
                    variation.choice,
                    verdict,
                    ratio,
                    failure or "",
                )
            )
            if verdict not in ("faster", "behind"):
                self._refused.add(_key(variation))
        faster = [variation for variation in heat if verdicts[variation.choice] == "faster"]
        if faster:
            best = min(
                faster,
                key=lambda variation: (
                    self._meter.ratio(variation.choice, result.best).value,
                    variation.name,
                ),
            )
            result.best, result.changes = best.choice, (*result.changes, best.name)


def _key(variation: Variation) -> tuple[str, str | None]:
    """The key of a refusal: a variation that is not faster in float32 may be faster in integers."""
    return variation.name, variation.choice.recipe.scheme


class Race:
    """A race of challengers against the best choice so far.

    A challenger is out as soon as it is not faster at all, its interval shows that it will not be
    measurably faster, or it is measurably slower than another challenger. A challenger is accepted
    when its interval shows that it is measurably faster.
    """

    def __init__(
        self,
        original: Choice,
        best: Choice,
        challengers: Sequence[Choice],
        meter: Meter,
        rules: Rules,
    ) -> None:
        self._bases = (original, best)
        self._meter = meter
        self._rules = rules
        self._verdicts: dict[Choice, Verdict] = dict.fromkeys(challengers, "undecided")
        self.passes = 0
        self.failures: dict[Choice, str] = {}  # the reasons why choices could not be run

    def run(self) -> dict[Choice, Verdict]:
        """Measure until all challengers are decided, or the rules or the time end the race."""
        while self.passes < self._rules.max_passes:
            challengers = [
                choice for choice, verdict in self._verdicts.items() if verdict == "undecided"
            ]
            # Making the models may have taken the time; one pass is made nevertheless.
            if not challengers or (self.passes and not self._meter.fits(len(challengers) + 2)):
                break
            failures = self._meter.measure(list(dict.fromkeys((*self._bases, *challengers))))
            self.failures |= failures
            self._verdicts |= dict.fromkeys(failures, "failed")
            self.passes += 1
            self._judge([choice for choice in challengers if choice not in failures])
        return self._verdicts

    def _judge(self, challengers: Sequence[Choice]) -> None:
        ratios = {choice: self._meter.ratio(choice, self._bases[1]) for choice in challengers}
        leader = min(challengers, key=lambda choice: ratios[choice].value, default=None)
        for choice, ratio in ratios.items():
            if self.passes < self._rules.min_passes:
                if ratio.value > 1.0 + MARGIN and is_slower(ratio):
                    self._verdicts[choice] = "not faster"
            elif ratio.value >= 1.0 or ratio.interval.low > 1.0 - GAIN:
                self._verdicts[choice] = "not faster"
            elif self.passes >= self._rules.passes_to_accept and is_faster(ratio):
                self._verdicts[choice] = "faster"
            elif (
                leader is not None
                and choice != leader
                and is_slower(self._meter.ratio(choice, leader))
            ):
                self._verdicts[choice] = "behind"


def confirm(
    original: Choice, finalists: Sequence[Choice], meter: Meter, rules: Rules
) -> dict[Choice, Ratio]:
    """Measure choices until their order is clear, or the rules or the time end it.

    Returns the ratios to the original.

    A few passes are made in any case; earlier ones of the meter count as well. Raises `XoptimError`
    when a finalist cannot be run.
    """
    choices = list(dict.fromkeys((original, *finalists)))
    ratios: dict[Choice, Ratio] = {}
    for passes in range(1, 3 * rules.passes_to_confirm + 1):
        failures = meter.measure(choices)
        if failures:
            raise XoptimError(
                f"a model that was measured before does not run: {next(iter(failures.values()))}"
            )
        ratios = {choice: meter.ratio(choice, original) for choice in finalists}
        passes_so_far = min(meter.count(choice, original) for choice in finalists)
        leader = min(finalists, key=lambda choice: ratios[choice].value)
        lags = [
            meter.ratio(choice, leader) for choice in finalists if choice not in (leader, original)
        ]
        is_clear = (
            passes_so_far >= rules.passes_to_confirm
            and all(map(_is_clear, ratios.values()))
            and not any(map(_is_borderline, lags))
        )
        if passes >= rules.min_passes and (is_clear or not meter.fits(len(choices))):
            break
    return ratios


def _is_clear(ratio: Ratio) -> bool:
    return is_faster(ratio) or is_slower(ratio) or ratio.interval.high - ratio.interval.low < GAIN


def _is_borderline(ratio: Ratio) -> bool:
    """Whether the time may or may not be longer by more than the margin, and the interval can still
    become narrower.
    """
    return (
        ratio.interval.low < 1.0 + MARGIN < ratio.interval.high
        and ratio.interval.high - ratio.interval.low > LOSS
    )


def finalists(result: SearchResult, start: Choice, nodes: Callable[[Choice], int]) -> list[Choice]:
    """The choices among which the last passes decide, the simpler ones first.

    These are the start, the best choice of the search, and the two fastest ones, which may have
    lacked only the time to be accepted. If the best choice is quantized, the simplest choice of its
    scheme that is not measurably slower is added.

    Float32 is simpler than quantized. Among quantized models, the settings of the start are
    simpler, then fewer nodes.
    """
    ratios = {trial.choice: trial.ratio for trial in result.trials if trial.ratio is not None}
    eligible_verdicts = ("faster", "behind", "undecided")
    choices = [
        trial.choice
        for trial in result.trials
        if trial.choice in ratios and trial.verdict in eligible_verdicts
    ]

    def order(choice: Choice) -> tuple[bool, bool, int]:
        if choice.recipe.scheme is None:
            return False, False, 0
        return True, choice.settings != start.settings, nodes(choice)

    two_fastest = sorted(choices, key=lambda choice: ratios[choice].value)[:2]
    contenders = {start, result.best, *two_fastest}
    if result.best.recipe.scheme is not None and result.best in ratios:
        limit = ratios[result.best].interval.high
        same_scheme = [
            choice for choice in ratios if choice.recipe.scheme == result.best.recipe.scheme
        ]
        contenders.add(
            min(
                (choice for choice in same_scheme if ratios[choice].interval.low <= limit),
                key=order,
            )
        )
    challengers = (choice for choice in ratios if choice in contenders and choice != start)
    return [start, *sorted(challengers, key=order)]


def ranking(
    finalists: Sequence[Choice],
    final_ratios: Mapping[Choice, Ratio],
    all_ratios: Sequence[tuple[Choice, Ratio]],
    compare: Callable[[Choice, Choice], Ratio],
) -> list[Choice]:
    """The choices that are not slower than the original, in the order in which they are preferred.

    1. Finalists that are measurably faster than the original, in the order of ``finalists``. Those
       that are measurably slower than the fastest one, by more than the margin, come after the
       rest, by their time.
    2. Choices that are not measurably slower than the original and have the settings of the first
       finalist, in the order of ``all_ratios``.

    Args:
        finalists: the simpler ones first.
        final_ratios: their times divided by the time of the original, after the last passes.
        all_ratios: all choices that were measured, with their ratios to the original, the smallest
            model first.
        compare: the time of a finalist divided by the time of another one, measured side by side.
    """
    faster = [choice for choice in finalists if is_faster(final_ratios[choice])]
    fastest = min(faster, key=lambda choice: final_ratios[choice].value, default=None)

    def lag(choice: Choice) -> float:
        """The time of a finalist divided by that of the fastest; 1 if it may be as fast."""
        ratio = None if fastest is None or choice == fastest else compare(choice, fastest)
        return (
            ratio.value
            if ratio is not None and ratio.value > 1.0 + MARGIN and is_slower(ratio)
            else 1.0
        )

    faster.sort(key=lag)
    pairs = [(choice, final_ratios.get(choice, ratio)) for choice, ratio in all_ratios]
    usable = [
        choice
        for choice, ratio in pairs
        if choice.settings == finalists[0].settings and not is_slower(ratio)
    ]
    return list(dict.fromkeys((*faster, *usable)))
