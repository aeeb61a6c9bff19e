"""The types of JSON documents about comparisons."""

from typing import TypedDict

from xoptim.facts.dtypes import Exactness
from xoptim.facts.json_values import JsonNumber
from xoptim.verification.compare import Fault
from xoptim.verification.report import Cause, Status


class ToleranceJson(TypedDict):
    """The tolerance of an output.

    Attributes:
        rtol: relative tolerance.
        atol: absolute tolerance.
    """

    rtol: float
    atol: float


class ComparisonJson(TypedDict):
    """The comparison of one output with its reference.

    Attributes:
        output: name of the output, with a position or a key for an item of a sequence or map.
        equal: whether it is equal within the tolerance.
        fault: the kind of the difference; empty when there is none.
        message: the difference in words; empty when there is none.
        max_abs: largest absolute difference of finite elements.
        max_ulp: largest distance in units in the last place.
        max_rel: `max_abs` relative to the largest finite magnitude of the reference.
        scale: median magnitude of the reference, which the tolerance uses.
        top: largest magnitude of the reference.
        excess: largest difference in units of the tolerance; above 1 the output differs.
        index: indices of the element that differs most.
        mismatches: number of elements outside the tolerance.
        count: number of elements compared.
        tolerance: the tolerance; null where none applies.
    """

    output: str
    equal: bool
    fault: Fault
    message: str
    max_abs: JsonNumber
    max_ulp: JsonNumber
    max_rel: JsonNumber
    scale: JsonNumber
    top: JsonNumber
    excess: JsonNumber
    index: list[int]
    mismatches: int
    count: int
    tolerance: ToleranceJson | None


class NoiseJson(TypedDict):
    """The change of an output when all numbers of the model move by one unit in the last place.

    Attributes:
        level: largest absolute difference that this makes.
        explains: whether the differences of the other model are as small.
        accepted: whether the output counts as equal for this reason.
    """

    level: JsonNumber
    explains: bool
    accepted: bool


class RunJson(TypedDict):
    """One run of both models.

    Attributes:
        source: where the values come from, such as random, given or test data.
        dims: sizes of the symbolic dimensions.
        seed: seed of the random values.
        settled: outputs whose difference was found to be rounding in 64-bit floats.
        original_seconds: wall time of the original, in seconds.
        optimized_seconds: wall time of the other model, in seconds.
        outputs: the comparison of each output.
        noise: by output, how much rounding alone changes it, where that was measured.
    """

    source: str
    dims: dict[str, int]
    seed: int
    settled: list[str]
    original_seconds: float
    optimized_seconds: float
    outputs: list[ComparisonJson]
    noise: dict[str, NoiseJson]


class SkippedRunJson(TypedDict):
    """A run that was skipped because of its cost.

    Attributes:
        dims: sizes of the symbolic dimensions.
        reason: the reason, as the end of a sentence.
    """

    dims: dict[str, int]
    reason: str


class VerificationJson(TypedDict):
    """The verdict whether two models compute the same.

    Attributes:
        status: the verdict; not verified when there is none.
        reason: the reason in one line; empty for equal.
        cause: for not verified, the kind of the reason.
        exactness: the guarantee that was verified.
        providers: execution providers that ran the models.
        faults: differences of the signatures: inputs and outputs that are missing or have another
            type.
        runs: the runs on which the models were compared.
        notes: limits of the verification, and facts that decided the verdict.
        sections: number of sections in which the models were run; 0 when they were run as one.
        assumptions: assumptions in force, in addition to the default set.
        unreached: branches and loop bodies that no run reached.
        uncounted: why it is not known which of them ran; empty where it is known.
        skipped: runs that were skipped because of their cost.
        largest: the worst comparison; null when nothing was compared.
        original_seconds: wall time of all runs of the original, in seconds.
        optimized_seconds: wall time of all runs of the other model, in seconds.
    """

    status: Status
    reason: str
    cause: Cause
    exactness: Exactness
    providers: list[str]
    faults: list[ComparisonJson]
    runs: list[RunJson]
    notes: list[str]
    sections: int
    assumptions: list[str]
    unreached: list[str]
    uncounted: str
    skipped: list[SkippedRunJson]
    largest: ComparisonJson | None
    original_seconds: float
    optimized_seconds: float
