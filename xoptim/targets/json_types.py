"""The types of JSON documents about targets."""

from typing import Literal, TypedDict

from xoptim.facts.json_values import JsonNumber
from xoptim.targets.placement import Source


class PlacedNodeJson(TypedDict):
    """A node, and the execution provider that runs it.

    Attributes:
        name: name of the node, or of its first result.
        op_type: operator.
        domain: domain of the operator; empty for the standard one.
        provider: full name of the execution provider; empty for a node that is computed ahead or
            merged, and for all nodes of a model that does not compile.
        partition: number of the partition, from 0; -1 where the target does not take the node.
        reason: why the target does not take the node, where that is known.
        advice: what would help, where that is known.
        is_shape_arithmetic: whether the node only computes shapes.
        is_taken: whether the target runs the node.
    """

    name: str
    op_type: str
    domain: str
    provider: str
    partition: int
    reason: str
    advice: str
    is_shape_arithmetic: bool
    is_taken: bool


class PlacementJson(TypedDict):
    """Which nodes of a model a target takes.

    Attributes:
        target: name of the target.
        compiles: whether a session could be created.
        error: why no session could be created, in one line.
        source: whether the execution provider was asked, or a table, which is not verified.
        seconds: duration, in seconds.
        taken: number of nodes that the target runs.
        left: number of nodes that the target does not run, except nodes that compute shapes.
        shapes: number of nodes that compute shapes and that the target does not run.
        absent: number of nodes that ONNX Runtime computes ahead, or merges into others.
        partitions: number of partitions that the target runs.
        nodes: all nodes, subgraphs included and local functions expanded, in order.
    """

    target: str
    compiles: bool
    error: str
    source: Source
    seconds: float
    taken: int
    left: int
    shapes: int
    absent: int
    partitions: int
    nodes: list[PlacedNodeJson]


class FittingStepJson(TypedDict):
    """A lowering that was applied.

    Attributes:
        pattern: name of the lowering.
        operator: the operator that it lowers.
        count: number of times that it was applied.
        reason: why the target did not take the operator, where that is known.
    """

    pattern: str
    operator: str
    count: int
    reason: str


class FittedJson(TypedDict):
    """A model that was fitted to a target.

    Attributes:
        before: the placement before.
        after: the placement of the result.
        steps: the lowerings that were applied.
        questions: number of placements that were asked for.
        seconds: duration, in seconds.
    """

    before: PlacementJson
    after: PlacementJson
    steps: list[FittingStepJson]
    questions: int
    seconds: float


class TargetStateJson(TypedDict):
    """Whether a target can be used here.

    Attributes:
        name: name of the target.
        title: its full name.
        installed: whether its execution provider is installed, or a table answers.
        fault: why the target cannot be used, with what to do; empty when it can.
        install: the command that installs the execution provider.
        version: version of the execution provider.
        device: kinds of devices that the provider finds; `by table` where nothing can be asked.
    """

    name: str
    title: str
    installed: bool
    fault: str
    install: str
    version: str
    device: str


class TargetCheckJson(TypedDict):
    """The comparison of a model on its target with the original on the CPU.

    Attributes:
        target: name of the target.
        status: the verdict.
        reason: why the verdict is not equal, in one line.
        error: largest difference of an output, as a fraction of its largest number.
        tolerance: the error that the arithmetic of the target may make.
        runs: number of runs.
        node: name of the first node whose result differs, where it was found.
        operator: the operator of that node.
        seconds: duration, in seconds.
    """

    target: str
    status: Literal["equal", "different", "not verified"]
    reason: str
    error: JsonNumber
    tolerance: float
    runs: int
    node: str
    operator: str
    seconds: float
