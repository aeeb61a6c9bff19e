"""The JSON documents of the command: their types, and the document that each name stands for."""

from typing import Any, Final, NamedTuple, NotRequired, TypedDict

from xoptim import Exactness
from xoptim.api.json_types import ValueDifferenceJson
from xoptim.batching.json_types import RecordJson
from xoptim.bench.json_types import BenchJson
from xoptim.diagnose.json_types import (
    CostsJson,
    CulpritJson,
    DiagnosisJson,
    DifferenceJson,
    ExplanationJson,
    ExportDiagnosisJson,
    ReplayedJson,
)
from xoptim.integrations.mcp import ToolAnswer
from xoptim.targets.json_types import PlacementJson, TargetCheckJson
from xoptim.tuning.json_types import TuningJson
from xoptim.verification.json_types import VerificationJson
from xoptim.workflow.json_types import SummaryJson

from .findings import FindingJson


class NoMatchJson(TypedDict):
    """Why a pattern was not applied.

    Attributes:
        explanations: why it does not match, the nearest miss first.
    """

    explanations: list[ExplanationJson]


class BenchResultJson(BenchJson):
    """The times of models that were run side by side, and the settings in use.

    Attributes:
        settings_file: the settings files in use, the strongest first; null without one.
    """

    settings_file: str | None


class OperatorTimeJson(TypedDict):
    """The time of an operator in one run of a model.

    Attributes:
        ms: time of all its nodes, in milliseconds.
        calls: number of calls.
    """

    ms: float
    calls: float


class BisectJson(CulpritJson):
    """The rewrite or step with which a model computes different results, and a model that shows it.

    Attributes:
        model: the small model that was written; null when no part of the model shows it.
    """

    model: str | None


class DiffJson(TypedDict):
    """The differences of two models.

    Attributes:
        assumptions: assumptions in force.
        differences: differences of the graphs; with `--values`, results that differ.
    """

    assumptions: list[str]
    differences: list[DifferenceJson] | list[ValueDifferenceJson]


class DoctorJson(DiagnosisJson):
    """The state of an installation, and the settings in use.

    Attributes:
        settings: the settings files in use, the strongest first; null without one.
    """

    settings: str | None


class ExplainJson(TypedDict):
    """Why a pattern does not apply.

    Attributes:
        assumptions: assumptions in force.
        explanations: the result of matching at each node, the nearest miss first.
        target: with `--target`, a line for each pattern about its use there.
    """

    assumptions: list[str]
    explanations: list[ExplanationJson]
    target: NotRequired[list[str]]


class PatternJson(TypedDict):
    """A pattern or a pass.

    Attributes:
        name: name of the pattern.
        family: its family.
        phase: the phase in which it runs; `global` for a pass over the model.
        priority: within a phase, lower numbers run first.
        exactness: the guarantee that it gives.
        min_opset: oldest operator set in which it applies.
        max_opset: newest operator set in which it applies; null for any.
        tags: words that select it.
        produces: domains, other than the standard one, of operators that it creates.
        unchecked: operators that it creates and `onnx.checker` does not know.
        providers: execution providers that it is for; all when empty.
        onnxruntime: versions of ONNX Runtime with the defect that it works around.
        status: `stable`, `preview` or `deprecated`.
        rewrite: what it rewrites, in one line.
    """

    name: str
    family: str
    phase: str
    priority: int
    exactness: Exactness
    min_opset: int
    max_opset: int | None
    tags: list[str]
    produces: list[str]
    unchecked: list[str]
    providers: list[str]
    onnxruntime: str
    status: str
    rewrite: str


class FailingJson(TypedDict):
    """A part of a model that does not compile for a target.

    Attributes:
        nodes: its nodes, in order; compiling stops at the last one.
        operators: their operators.
        is_smallest: whether the search ended; otherwise time was up.
    """

    nodes: list[str]
    operators: list[str]
    is_smallest: bool


class UncompiledJson(PlacementJson):
    """A model that does not compile for a target, and why, with `--bisect`.

    Attributes:
        failing: the smallest part that does not compile.
    """

    failing: FailingJson


class UnavailableTargetJson(TypedDict):
    """A target that cannot be asked.

    Attributes:
        target: name of the target.
        fault: why it cannot be asked.
        install: the command that installs it.
    """

    target: str
    fault: str
    install: str


class RepeatedBlockJson(TypedDict):
    """A block that repeats in a model.

    Attributes:
        name: the scope that its copies share, or its operators.
        times: number of copies.
        nodes: number of nodes of each copy.
        share: fraction of the nodes of the main graph that the copies have.
    """

    name: str
    times: int
    nodes: int
    share: float


class StatsJson(TypedDict):
    """What a model contains and costs.

    Attributes:
        operators: number of nodes by operator.
        nodes: number of nodes, subgraphs included.
        inputs: types by name.
        outputs: types by name.
        initializers: number of initializers.
        parameters: number of their elements.
        bytes: number of their bytes.
        functions: number of local functions.
        opsets: versions of operator sets by domain.
        assumptions: assumptions in the metadata of the model.
        ir_version: version of the file format.
        repeats: blocks that repeat.
        costs: operations, bytes and memory.
    """

    operators: dict[str, int]
    nodes: int
    inputs: dict[str, str]
    outputs: dict[str, str]
    initializers: int
    parameters: int
    bytes: int
    functions: int
    opsets: dict[str, int]
    assumptions: list[str]
    ir_version: int
    repeats: list[RepeatedBlockJson]
    costs: CostsJson


class TuneJson(TuningJson):
    """The report of tuning, and the files that were written.

    Attributes:
        model: the file of the model.
        written: files that were written.
        settings_file: the settings files in use, the strongest first; null without one.
    """

    model: str
    written: list[str]
    settings_file: str | None


class Document(NamedTuple):
    """A JSON document that the command prints or writes.

    Attributes:
        text: what it describes.
        kind: its type.
    """

    text: str
    kind: Any


DOCUMENTS: Final = {
    "apply": Document("Output of `xopt apply --json`.", SummaryJson | NoMatchJson),
    "batch": Document("A line of results.jsonl, which `xopt batch` writes.", RecordJson),
    "bench": Document(
        "Output of `xopt bench --json`; with `--profile`, times by model and operator.",
        BenchResultJson | dict[str, dict[str, OperatorTimeJson]],
    ),
    "bisect": Document(
        "Output of `xopt bisect --json`: null when no rewrite changes a result.", BisectJson | None
    ),
    "check": Document("Output of `xopt check --json`, one item a check.", list[FindingJson]),
    "diff": Document("Output of `xopt diff --json`.", DiffJson),
    "doctor": Document("Output of `xopt doctor --json`.", DoctorJson),
    "explain": Document(
        "Output of `xopt explain --json`; with `--matches`, one item a match.",
        ExplainJson | list[ExplanationJson],
    ),
    "export": Document("Output of `xopt doctor MODEL --json`.", ExportDiagnosisJson),
    "list": Document(
        "Output of `xopt list --json`; with `--tags`, the number of patterns by word.",
        list[PatternJson] | dict[str, int],
    ),
    "mcp": Document("The structured result of each tool of `xopt mcp`.", ToolAnswer),
    "optimize": Document("Output of `xopt MODEL --json`.", SummaryJson),
    "place": Document(
        "Output of `xopt place --json`, one item a target.",
        list[PlacementJson | UncompiledJson | UnavailableTargetJson],
    ),
    "replay": Document("Output of `xopt replay --json`, one item a dump.", list[ReplayedJson]),
    "stats": Document("Output of `xopt stats --json`.", StatsJson),
    "tune": Document("Output of `xopt tune --json`.", TuneJson),
    "verify": Document(
        "Output of `xopt verify --json`, one item an execution provider; with `--target`, one "
        "object.",
        list[VerificationJson] | TargetCheckJson,
    ),
}
"""The documents by name: of commands with ``--json``, of ``xopt batch``, and of the MCP tools."""
