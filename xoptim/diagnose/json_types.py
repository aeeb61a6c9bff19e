"""The types of JSON documents about patterns, models and the installation."""

from typing import Any, Literal, TypedDict

from xoptim.diagnose.differences import Kind
from xoptim.diagnose.explanation import Status as ExplanationStatus
from xoptim.diagnose.report import Step
from xoptim.facts.json_values import JsonNumber
from xoptim.targets.json_types import TargetStateJson
from xoptim.verification.json_types import VerificationJson
from xoptim.verification.report import Status


class CulpritJson(TypedDict):
    """The rewrite or step with which a model computes different results.

    Attributes:
        step: `pattern`, or a step of the optimizer.
        name: name of the pattern, or of the step.
        number: number of the rewrite in the run, from 1; 0 for a step.
        node: name of the node at which the pattern matched.
        evidence: how the results differ, in one line.
        runs: number of comparisons that the search took.
    """

    step: Step
    name: str
    number: int
    node: str
    evidence: str
    runs: int


class DisagreementJson(TypedDict):
    """A rewrite whose replacement computes different results.

    Attributes:
        number: number of the rewrite in the run, from 1.
        pattern: name of the pattern.
        node: name of the node at which it matched, or of its first result.
        verification: how the results differ.
    """

    number: int
    pattern: str
    node: str
    verification: VerificationJson


class UncheckedJson(TypedDict):
    """A rewrite that could not be checked by itself.

    Attributes:
        pattern: name of the pattern.
        reason: the reason.
    """

    pattern: str
    reason: str


class EachJson(TypedDict):
    """The checks of single rewrites.

    Attributes:
        checked: number of rewrites that were found equal.
        unchecked: rewrites that could not be checked.
        disagreements: rewrites that compute different results.
    """

    checked: int
    unchecked: list[UncheckedJson]
    disagreements: list[DisagreementJson]


class ReplayedJson(TypedDict):
    """The check of one dumped rewrite.

    Attributes:
        name: name of the dump.
        pattern: name of the pattern.
        status: the verdict; `damaged` when the dump cannot be read.
        reason: why the models are not known to be equal; empty when they are.
        report: the comparison; null when the dump cannot be read.
    """

    name: str
    pattern: str
    status: Status | Literal["damaged"]
    reason: str
    report: VerificationJson | None


class OpsetHintJson(TypedDict):
    """Patterns that apply in a newer operator set.

    Attributes:
        opset: the oldest operator set in which they apply.
        patterns: number of applications by name.
        nodes: number of nodes that it saves.
    """

    opset: int
    patterns: dict[str, int]
    nodes: int


class OptionHintJson(TypedDict):
    """The effect that an option of the command would have.

    Attributes:
        option: the option.
        patterns: number of applications by name.
        nodes: number of nodes that it saves.
        price: what the option costs, in a few words.
    """

    option: str
    patterns: dict[str, int]
    nodes: int
    price: str


class UnfitPatternJson(TypedDict):
    """A selected pattern that would apply to a model but is not used for its target.

    Attributes:
        pattern: name of the pattern.
        count: number of its applications.
        reason: why it is not used there.
    """

    pattern: str
    count: int
    reason: str


class PlaceJson(TypedDict):
    """A node of a model.

    Attributes:
        position: its number: main graph first, then subgraphs, then local functions.
        op_type: operator, with its domain outside the standard one.
        name: name of the node; may be empty.
        outputs: names of its results.
        graph: empty for the main graph, else the path to the subgraph, or the function.
    """

    position: int
    op_type: str
    name: str
    outputs: list[str]
    graph: str


class ValueFactsJson(TypedDict):
    """A result that a condition of a pattern is about.

    Attributes:
        name: name of the result.
        dtype: element type as in ONNX text; `undefined` when unknown.
        shape: a number or a text for each axis; null when the rank is unknown.
        is_constant: whether it is the same in every run.
        value: number, text or nested list of a small constant; null for all others.
    """

    name: str
    dtype: str
    shape: list[int | str] | None
    is_constant: bool
    value: Any


class ExplanationJson(TypedDict):
    """The result of matching a pattern at one node.

    Attributes:
        pattern: name of the pattern.
        status: the outcome; `taken` when other patterns changed the nodes first.
        anchor: the node at which matching began.
        reason: the first condition that failed; empty for a match.
        culprit: the node that does not fit, or the reader of its result; null without one.
        file: source file of the condition.
        line: line of the condition.
        values: results that the condition is about.
        matched: nodes that fit.
        total: number of nodes of the pattern; 0 when it is not known.
        progress: how far the match got; comparable only within one pattern.
        bindings: captures of a match, by name; null without a match.
        others: further results at this node, best first.
        gain: saving by rewriting the nodes, if a pass reports it.
        advice: an option that helps, or further facts; may be empty.
    """

    pattern: str
    status: ExplanationStatus
    anchor: PlaceJson
    reason: str
    culprit: PlaceJson | None
    file: str
    line: int
    values: list[ValueFactsJson]
    matched: list[PlaceJson]
    total: int
    progress: JsonNumber
    bindings: dict[str, Any] | None
    others: list["ExplanationJson"]
    gain: str
    advice: str


class DifferenceJson(TypedDict):
    """One difference of a model from another.

    Attributes:
        kind: the kind of the difference.
        part: `node`, `initializer`, `input`, `output`, `function` or `operator set`.
        name: name of the part; the first result of a node without a name.
        detail: its operator, or what changed.
    """

    kind: Kind
    part: str
    name: str
    detail: str


class CostJson(TypedDict):
    """The cost of some nodes.

    Attributes:
        nodes: number of nodes.
        parameters: number of elements of the constants that they read.
        flops: number of operations; a multiplication and an addition count as two.
        read: bytes of operands, constants included.
        written: bytes of results.
        unknown: number of nodes with unknown shapes, which count as 0.
    """

    nodes: int
    parameters: int
    flops: int
    read: int
    written: int
    unknown: int


class CostsJson(TypedDict):
    """The cost of a model.

    Attributes:
        sizes: sizes of the symbolic dimensions.
        by_operator: cost by operator, the most operations first.
        by_layer: cost by prefix of the node names.
        total: cost of all nodes; bodies of loops count once.
        peak_bytes: lower bound of the bytes of results alive at one time, without weights.
    """

    sizes: dict[str, int]
    by_operator: dict[str, CostJson]
    by_layer: dict[str, CostJson]
    total: CostJson
    peak_bytes: int


class DimensionJson(TypedDict):
    """The sizes of a dynamic dimension with which a model was run.

    Attributes:
        name: name of the dimension, or input:axis.
        works: sizes with which the model runs.
        fails: sizes with which it does not run.
        error: the first error; empty without one.
    """

    name: str
    works: list[int]
    fails: list[int]
    error: str


class ExportDiagnosisJson(TypedDict):
    """Sizes that an export took from its example input.

    Attributes:
        frozen: a warning for each node whose constant sizes should depend on the data.
        dimensions: the sizes with which the model was run.
        error: why the model does not run at all; empty where it does.
    """

    frozen: list[str]
    dimensions: list[DimensionJson]
    error: str


class DiagnosisJson(TypedDict):
    """The state of an installation.

    Attributes:
        versions: versions of Python, the system and packages; empty for a missing optional one.
        providers: by execution provider, why it does not run a model; empty when it does.
        kernels: by execution provider, number of operators with a kernel; 0 when not known.
        targets: the state of each target.
        packs: by entry point, number of patterns; -1 when it cannot be loaded.
        skipped: by pattern, why it is not run for the execution provider.
        free_memory: free memory in bytes; null when not known.
        integer_instructions: instructions of the processor for 8-bit integers; null when not known.
        int8_share: time of an int8 MatMul on this machine, divided by that of float32.
        faults: what does not work.
    """

    versions: dict[str, str]
    providers: dict[str, str]
    kernels: dict[str, int]
    targets: list[TargetStateJson]
    packs: dict[str, int]
    skipped: dict[str, str]
    free_memory: int | None
    integer_instructions: list[str] | None
    int8_share: float
    faults: list[str]
