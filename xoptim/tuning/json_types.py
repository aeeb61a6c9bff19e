"""The types of JSON documents about tuning."""

from typing import TypedDict

from xoptim.bench.json_types import RatioJson
from xoptim.precision.json_types import QuantizedJson
from xoptim.tuning.search import Verdict
from xoptim.verification.json_types import VerificationJson
from xoptim.verification.session_settings import Level


class SettingsJson(TypedDict):
    """The settings of a session of ONNX Runtime.

    Attributes:
        version: version of the format of these settings.
        providers: execution providers.
        graph_optimization_level: level of ORT graph optimizations.
        intra_op_num_threads: number of threads; 0 for the default of ONNX Runtime.
        disabled_optimizers: ORT graph optimizations that are disabled.
        enable_mem_pattern: whether memory patterns are enabled.
        session_config_entries: further entries of the session's configuration.
    """

    version: int
    providers: list[str]
    graph_optimization_level: Level
    intra_op_num_threads: int
    disabled_optimizers: list[str]
    enable_mem_pattern: bool
    session_config_entries: dict[str, str]


class TrialJson(RatioJson):
    """A variation that was tried.

    Attributes:
        label: the changes in words.
        verdict: whether it was measurably faster, or why that is not known.
        reason: the error of a variation that failed.
    """

    label: str
    verdict: Verdict
    reason: str


class RefutedJson(TypedDict):
    """A variation that was preferred, but not found equal.

    Attributes:
        label: the changes in words.
        reason: the reason.
    """

    label: str
    reason: str


class TuningJson(RatioJson):
    """The report of tuning; `ratio` is about the chosen model.

    Attributes:
        is_faster: whether the chosen model is measurably faster than the original.
        is_original: whether the original was chosen.
        chosen: the chosen variation in words.
        changes: the changes that led to it.
        settings: the settings of its session.
        patterns: number of applications of each pattern.
        nodes_before: number of nodes of the original.
        nodes_after: number of nodes of the chosen model.
        tried: the variations that were tried, in order.
        not_tried: number of variations for which there was no time.
        seconds: duration, in seconds.
        budget: time that was allowed, in seconds.
        provider: the execution provider.
        sizes: sizes of the symbolic dimensions; those that all settings have.
        assumptions: assumptions in force, in addition to the default set.
        verification: comparisons of the chosen model with the original.
        precision: the quantization; null without one.
        refuted: variations that were not found equal.
    """

    is_faster: bool
    is_original: bool
    chosen: str
    changes: list[str]
    settings: SettingsJson
    patterns: dict[str, int]
    nodes_before: int
    nodes_after: int
    tried: list[TrialJson]
    not_tried: int
    seconds: float
    budget: float
    provider: str
    sizes: dict[str, int]
    assumptions: list[str]
    verification: list[VerificationJson]
    precision: QuantizedJson | None
    refuted: list[RefutedJson]
