"""The types of JSON documents about times."""

from typing import NotRequired, TypedDict

from xoptim.verification.json_types import VerificationJson
from xoptim.verification.session_settings import Level


class RatioJson(TypedDict):
    """A ratio of times.

    Attributes:
        ratio: time divided by the time of the first, or original, model; null when not measured.
        interval: lower and upper bound of its 95 % confidence interval; null when not measured.
    """

    ratio: float | None
    interval: list[float] | None


class ModelTimesJson(RatioJson):
    """The times of one model.

    Attributes:
        model: the model.
        median_ms: median time of a run, in milliseconds.
        min_ms: time of the shortest run, in milliseconds.
        spread_ms: interquartile range of the times of the rounds, in milliseconds.
        rounds: number of rounds.
        load_ms: time to create a session, in milliseconds; null when not measured.
        memory_bytes: memory that loading took, in bytes; null when not known.
        is_difference: whether the interval of the ratio excludes 1; null for the first model.
        comparison: the results compared with those of the first model; null when not compared.
    """

    model: str
    median_ms: float
    min_ms: float
    spread_ms: float
    rounds: int
    load_ms: float | None
    memory_bytes: int | None
    is_difference: bool | None
    comparison: VerificationJson | None


class SpeedJson(RatioJson):
    """The measurements of `--only-if-faster`; `ratio` is about the model that is kept.

    Attributes:
        is_faster: whether the model that is kept is measurably faster than the original.
        is_original: whether the original is kept.
        dropped: groups of patterns that were skipped because they made the model slower.
        with_all: the ratio with all patterns.
    """

    is_faster: bool
    is_original: bool
    dropped: list[str]
    with_all: RatioJson


class LatencyJson(RatioJson):
    """The times of a model before and after an optimization.

    Attributes:
        provider: the execution provider.
        threads: number of threads; 0 for the default of ONNX Runtime.
        before_ms: median time of a run of the original, in milliseconds.
        after_ms: median time of a run of the result, in milliseconds.
        sizes: sizes of the symbolic dimensions.
        at: the same for each setting, where several were measured.
    """

    provider: str
    threads: int
    before_ms: float
    after_ms: float
    sizes: dict[str, int]
    at: NotRequired[list["LatencyJson"]]


class BenchJson(TypedDict):
    """The times of models that were run side by side.

    Attributes:
        provider: the execution provider.
        threads: number of threads; 0 for the default of ONNX Runtime.
        level: level of ORT graph optimizations.
        sizes: sizes of the symbolic dimensions; those that all settings have.
        assumptions: assumptions that were given.
        models: the times of each model, in the order in which they were given.
        at: the same for each setting, where several were measured.
    """

    provider: str
    threads: int
    level: Level
    sizes: dict[str, int]
    assumptions: list[str]
    models: list[ModelTimesJson]
    at: NotRequired[list["BenchJson"]]
