"""The result of a verification, as data and in one line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from xoptim.facts.advice import Advice
from xoptim.facts.dtypes import Exactness
from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.json_values import AnyFloat
from xoptim.facts.words import counted
from xoptim.verification.inputs.magnitudes import GROWTH
from xoptim.verification.inputs.work import SkippedRun
from xoptim.verification.judging.compare import Comparison

if TYPE_CHECKING:
    import onnx

Status: TypeAlias = Literal["equal", "different", "not verified"]
Cause: TypeAlias = Literal["", "load", "run", "memory", "evidence", "assumptions"]
"""Causes of ``not verified``.

- ``load``: onnxruntime does not load the original.
- ``run``: onnxruntime does not run the original on the values.
- ``memory``: the weights do not fit into memory.
- ``evidence``: the original ran, and its results are not evidence.
- ``assumptions``: the models differ, and their metadata list assumptions that were not given.
"""


_MAX_NAMED: Final = 2  # branches in a line
_VAST: Final = 1e12
"""Results more than this many times larger than the values are no evidence: even terms a million
times larger than the values vanish.
"""
# of the largest number; results of large values that differ by no more are rounding
_COARSE: Final = 0.005


@dataclass(frozen=True, slots=True)
class Noise(JsonResult):
    """The change of an output when all numbers of the model move by one unit in the last place.

    Attributes:
        level: largest absolute difference that this makes.
        explains: whether the noise of similar elements is as large as the differences of the other
            model.
        accepted: whether the output counts as equal for this reason; not if the noise itself is
            too large for a comparison.
    """

    level: AnyFloat
    explains: bool
    accepted: bool


@dataclass(frozen=True, slots=True)
class RunReport(JsonResult):
    """One run of both models.

    Attributes:
        source: where the values come from, such as random, given or test data.
        dims: sizes of the symbolic dimensions.
        seed: seed of the random values.
        original_seconds: wall time of the original, in seconds.
        optimized_seconds: wall time of the other model, in seconds.
        comparisons: the comparison of each output.
        noise: by output, how much rounding alone changes it, where that was measured.
        is_probe: whether the sizes are extreme, so that a failure of the original is not an error.
        is_coarse: whether larger differences than usual count as rounding, because the values of
            the run are large.
        settled: outputs whose difference was found to be rounding in 64-bit floats.
        refuted: outputs on which the models disagree in 64-bit floats.
        level: largest magnitude of the values and constants that lead to the results.
        sample: the file that the values were read from; empty for other values.
    """

    __json__ = JsonForm(
        "source sample dims seed settled original_seconds optimized_seconds outputs=comparisons",
        "noise",
        name="Run",
    )
    source: str
    dims: Mapping[str, int]
    seed: int
    original_seconds: float
    optimized_seconds: float
    comparisons: tuple[Comparison, ...]
    noise: Mapping[str, Noise] = field(default_factory=dict)
    is_probe: bool = False
    is_coarse: bool = False
    settled: frozenset[str] = frozenset()
    refuted: frozenset[str] = frozenset()
    level: float = math.inf
    sample: str = ""

    def accepts(self, comparison: Comparison) -> bool:
        """Whether an output counts as equal, within the tolerance or as noise."""
        if comparison.output in self.refuted:
            return False
        return self._accepts_strictly(comparison) or (self.is_coarse and is_small(comparison))

    def is_hopeless(self, comparison: Comparison) -> bool:
        """Whether rounding alone moves a rejected output as much as it differs."""
        noise = self.noise.get(comparison.output)
        return noise is not None and noise.explains and comparison.output not in self.refuted

    def _accepts_strictly(self, comparison: Comparison) -> bool:
        noise = self.noise.get(comparison.output)
        is_noise = noise is not None and noise.accepted
        return comparison.ok or comparison.output in self.settled or is_noise

    @property
    def telling(self) -> tuple[Comparison, ...]:
        """The comparisons that are not silent; see `is_silent`."""
        return tuple(c for c in self.comparisons if not self.is_silent(c))

    def is_silent(self, comparison: Comparison) -> bool:
        """Whether an accepted output explodes, or is accepted only as coarse: its difference says
        nothing.
        """
        is_vast = comparison.top > GROWTH * self.level
        is_excused = is_vast or not self._accepts_strictly(comparison)
        return is_excused and self.accepts(comparison)

    def is_close(self, comparison: Comparison) -> bool:
        """Whether an output counts as equal, and its differences are small relative to its largest
        number.
        """
        return (
            self.is_evidence(comparison)
            and self.accepts(comparison)
            and (comparison.ok or is_small(comparison))
        )

    def is_evidence(self, comparison: Comparison) -> bool:
        """Whether an output has finite elements, and is not so large that rounding hides terms."""
        return comparison.judged > 0 and comparison.scale <= _VAST * self.level

    def is_accepted(self) -> bool:
        """Whether all outputs count as equal."""
        return all(map(self.accepts, self.comparisons))


def is_small(comparison: Comparison) -> bool:
    """Whether finite numbers differ by a small part of the largest one."""
    is_number = (
        comparison.fault == "value"
        and comparison.tolerance is not None
        and math.isfinite(comparison.excess)
    )
    return is_number and comparison.max_abs <= _COARSE * comparison.top


@dataclass(frozen=True, slots=True)
class VerificationReport(JsonResult):
    """The verdict on whether two models compute the same.

    Attributes:
        status: the verdict; not verified when there is none.
        reason: the reason in one line; empty for equal.
        exactness: the guarantee that was verified.
        providers: execution providers that ran the models.
        faults: differences of the signatures: inputs and outputs that are missing or have another
            type.
        runs: the runs on which the models were compared.
        notes: limits of the verification, and facts that decided the verdict.
        cause: for not verified, the kind of the reason.
        sections: number of sections in which the models were run; 0 when they were run as one.
        skipped: runs that were skipped because of their cost.
        assumptions: assumptions in force, in addition to the default set.
        unreached: branches and loop bodies that no run reached.
        uncounted: the reason why branches and loop bodies were not counted; empty if they were.
    """

    __json__ = JsonForm(
        "status reason cause exactness providers faults runs notes sections assumptions unreached",
        "uncounted skipped largest original_seconds optimized_seconds",
        name="Verification",
    )
    status: Status
    reason: str = ""
    exactness: Exactness = "rounding"
    providers: tuple[str, ...] = ("cpu",)
    faults: tuple[Comparison, ...] = ()
    runs: tuple[RunReport, ...] = ()
    notes: tuple[str, ...] = ()
    cause: Cause = ""
    sections: int = 0
    skipped: tuple[SkippedRun, ...] = ()
    assumptions: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    uncounted: str = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self.providers)}: {self.summary()}>"

    @property
    def ok(self) -> bool:
        """Whether the models were found equal."""
        return self.status == "equal"

    @property
    def gap(self) -> str:
        """The branches that no run of equal models reached, as `gap_text` counts them."""
        return gap_text(self.unreached, self.uncounted) if self.ok else ""

    @property
    def standing(self) -> str:
        """The status and the gap."""
        return ", ".join(filter(None, (self.status, self.gap)))

    @property
    def strict_objection(self) -> str:
        """The reason why a strict caller refuses the result: the models are not found equal, or a
        branch did not run.

        Empty if the caller accepts the result.
        """
        if not self.ok:
            return self.summary()
        if self.uncounted:
            return self.uncounted
        names = _few(self.unreached)
        advice = (
            f"give values that reach it with {Advice('feeds', 'FILE')}, or several sets of values "
            f"with {Advice('test-data', 'FOLDER')}"
        )
        return f"{names} did not run; {advice}" if names else ""

    @property
    def original_seconds(self) -> float:
        """Wall time of all runs of the original, in seconds."""
        return sum(run.original_seconds for run in self.runs)

    @property
    def optimized_seconds(self) -> float:
        """Wall time of all runs of the other model, in seconds."""
        return sum(run.optimized_seconds for run in self.runs)

    @property
    def largest(self) -> Comparison | None:
        """The worst comparison; ``None`` when nothing was compared.

        Without a fault, it is the output that came closest to its tolerance.
        """
        comparisons = [c for run in self.runs for c in run.telling] + list(self.faults)
        return max(comparisons, key=lambda c: (bool(c.fault), c.excess, c.max_abs), default=None)

    @property
    def rounded(self) -> tuple[str, ...]:
        """A line for each output whose differences were excused as rounding, if there are several.

        A note counts them.
        """
        lines = tuple(_rounding_lines(_noise_by_output(self.runs)))
        return lines if self.ok and len(lines) > 1 else ()

    def summary(self) -> str:
        """The verdict in one line."""
        if self.status != "equal":
            return f"{self.status}: {self.reason}"
        largest = self.largest
        outputs = len({c.whole or c.output for run in self.runs for c in run.comparisons})
        noun = "result" if self.sections else "output"
        standing = ", ".join(
            filter(None, ("equal", gap_text(self.unreached, self.uncounted, are_named=True)))
        )
        text = f"{standing}: {counted(outputs, noun)} in {counted(len(self.runs), 'run')}"
        text += f" of {counted(self.sections, 'section')}" if self.sections else ""
        if largest is None or not largest.max_abs:
            return f"{text}, no difference"
        accepted = "" if largest.ok else ", accepted as rounding noise"
        return f"{text}, largest difference {largest.max_abs:.2g} in {largest.output!r}{accepted}"

    @property
    def where(self) -> str:
        """The status, the gap and the execution providers."""
        comma = "," if self.gap else ""
        return f"{self.standing}{comma} on {', '.join(self.providers)}"

    def verdict(self) -> str:
        """The verdict in one line, with the execution providers and the tolerance."""
        if not self.ok:
            return f"{self.where}: {self.reason}"
        text = f"{self.where}: {counted(len(self.runs), 'run')}"
        text += f" of {counted(self.sections, 'section')}" if self.sections else ""
        largest = self.largest
        if largest is None or not largest.max_abs:
            return f"{text}, no difference"
        text += f", largest difference {largest.max_abs:.2g}"
        if not largest.ok:
            return f"{text}, accepted as rounding noise"
        if largest.tolerance is None:
            return text
        rtol, atol = largest.tolerance
        return f"{text} (rtol {rtol:g}, atol {atol:g})"


def gap_text(unreached: Sequence[str], uncounted: str, *, are_named: bool = False) -> str:
    """The number of branches that no run reached, or that they were not counted; else empty."""
    if uncounted:
        return "branches not counted"
    if not unreached:
        return ""
    count = f"{len(unreached)} {'branch' if len(unreached) == 1 else 'branches'} not run"
    return f"{count} ({_few(unreached)})" if are_named else count


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{', '.join(names[:_MAX_NAMED])}{more}"


def rounding_note(runs: Sequence[RunReport]) -> list[str]:
    """The outputs whose differences are rounding, in one line, or none."""
    noise = _noise_by_output(runs)
    if len(noise) < 2:
        return _rounding_lines(noise)
    name = max(noise, key=lambda name: noise[name].level)
    return [
        f"{len(noise)} outputs: the differences are rounding, {_origin(noise[name])} in {name!r}"
    ]


def _noise_by_output(runs: Sequence[RunReport]) -> dict[str, Noise]:
    return {
        name: noise
        for run in runs
        for name, noise in run.noise.items()
        if not any(c.output == name and run.is_silent(c) for c in run.comparisons)
    }


def _rounding_lines(noise_by_output: Mapping[str, Noise]) -> list[str]:
    return [
        f"output {name!r}: the difference is rounding, {_origin(noise)}"
        for name, noise in noise_by_output.items()
    ]


def _origin(noise: Noise) -> str:
    return f"a change of 1 ULP causes {noise.level:.2g}"


class VerificationError(XoptimError):
    """Two models were compared and are not equal.

    ``model`` is the one that was not found equal to the original.
    """

    def __init__(self, report: VerificationReport, model: onnx.ModelProto) -> None:
        super().__init__(report.summary())
        self.report = report
        self.model = model


class DifferentModelError(VerificationError):
    """The outputs of the optimized model differ, and the wrong rewrite was not found."""


class NotVerifiedError(VerificationError):
    """The optimized model could not be verified; ``report.reason`` gives the reason."""
