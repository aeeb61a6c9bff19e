"""``xopt stats MODEL``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from xoptim import GraphBuilder, repetitions
from xoptim.api.preparing import Source, recorded
from xoptim.diagnose.costs import Costs, model_costs
from xoptim.diagnose.explanation import JsonForm, JsonResult, bytes_text
from xoptim.reporting.placing import PlacingFacts
from xoptim.reporting.views import view
from xoptim.targets import named, place
from xoptim.workflow.placing import placing_alone

from ..files import MODEL, writable
from ..memory import MEMORY_BOUND
from ..options import command, flag, json_option, option, refuse_idle, target_option
from ..pipeline import check_page
from ..preparation import assume_from_model_option
from ..selection import operators_option
from ..tables import Rows, open_console, print_json
from ..terminal import say
from ..verification import dims_option, read_dims, software_device_option

_OWN_LINES = ("operators", "repeats", "costs")
"""Attributes of `StatsDocument` that have lines of their own, not a name and a value."""
_FIGURES = ("nodes", "parameters", "flops", "read", "written")


@dataclass(frozen=True, slots=True)
class RepeatedBlock(JsonResult):
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


@dataclass(frozen=True, slots=True)
class StatsDocument(JsonResult):
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

    __json__ = JsonForm(name="Stats")
    operators: dict[str, int]
    nodes: int
    inputs: dict[str, str]
    outputs: dict[str, str]
    initializers: int
    parameters: int
    bytes: int
    functions: int
    opsets: dict[str, int]
    assumptions: tuple[str, ...]
    ir_version: int
    repeats: list[RepeatedBlock]
    costs: Costs


@dataclass(frozen=True)
class _StatsChoices:
    dims: tuple[str, ...] = dims_option()
    assume_from_model: bool = assume_from_model_option()
    include: tuple[str, ...] = operators_option()
    layers: bool = flag("List layers instead of operators.")
    html: Path | None = option(
        "Draw the graph with shapes and costs on this page instead.",
        type=click.Path(path_type=Path),
        metavar="FILE.html",
    )
    target: str = target_option("With --html, show which nodes run on this target.")
    software_device: bool = software_device_option()
    as_json: bool = json_option()

    def idle(self) -> dict[str, str]:
        """The parameters that have no effect with others, each with the reason."""
        reasons = dict[str, str]()
        if self.as_json:
            reasons["layers"] = "with --json, which has both"
        if not self.target.startswith("webgpu"):
            reasons["software_device"] = "without --target webgpu"
        if self.html is None:
            return {**reasons, "target": "without --html"}
        return {**reasons, **dict.fromkeys(("layers", "as_json"), "with --html")}


@command("stats", model=MODEL)
def stats_command(model: Path, choices: _StatsChoices) -> None:
    """Print the size, operations, memory, inputs and outputs of MODEL.

    Operations come from formulas. A multiply-add counts as two. Dynamic dimensions are 1 unless
    --dim gives them. --html writes a page with the graph instead.
    """
    refuse_idle(choices.idle())
    if choices.html is not None:
        _draw(model, choices.html, choices)
        return
    source = Source(model, needs_weights=False)
    builder = GraphBuilder(source, assume_from_model=choices.assume_from_model)
    costs = model_costs(model, read_dims(choices.dims))
    stats = _stats(builder, costs)
    if choices.as_json:
        print_json(stats)
        return
    console = open_console()
    _print_costs(console, costs, layers=choices.layers)
    facts = {name: value for name, value in stats.to_json().items() if name not in _OWN_LINES}
    facts["assumptions"] = ", ".join(stats.assumptions) or "the default set"
    for key, value in facts.items():
        text = (
            ", ".join(f"{k or 'ai.onnx'} {v}" for k, v in value.items())
            if isinstance(value, dict)
            else value
        )
        console.print(f"{key:14s}{text}", highlight=False)
    for block in stats.repeats:
        text = (
            f"{block.times} times {block.name}, {block.nodes} nodes, {block.share:.0%} of the graph"
        )
        console.print(f"{'repeats':14s}{text}", highlight=False)


def _draw(model: Path, page: Path, choices: _StatsChoices) -> None:
    """Write the page about a model."""
    if page.absolute() == model.absolute():
        raise click.UsageError(f"--html {str(page)!r} would replace the model")
    check_page(page, "--html")
    target = writable(page)
    placing = _placing(model, choices) if choices.target else None
    view(model, read_dims(choices.dims), placing).save(target)
    say(f"written       {target}")


def _placing(model: Path, choices: _StatsChoices) -> PlacingFacts:
    """Where the nodes of a model run on the target."""
    source, target = Source(model), named(choices.target)
    MEMORY_BOUND.lift()
    placement = place(
        source.proto, target, source.base_dir, software_device=choices.software_device
    )
    return placing_alone(placement, source.proto)


def _stats(builder: GraphBuilder, costs: Costs) -> StatsDocument:
    tensors = [tensor for graph in builder.model.graphs() for tensor in graph.initializers.values()]
    return StatsDocument(
        operators=builder.count_types(),
        nodes=sum(builder.count_types().values()),
        inputs={name: _type(builder, name) for name in builder.input_names},
        outputs={name: _type(builder, name) for name in builder.output_names},
        initializers=len(tensors),
        parameters=sum(math.prod(tensor.shape) for tensor in tensors),
        bytes=sum(tensor.nbytes for tensor in tensors),
        functions=len(builder.model.functions),
        opsets=builder.opsets,
        assumptions=recorded(builder.model.shell).texts,
        ir_version=builder.model.ir_version,
        repeats=_repeats(builder),
        costs=costs,
    )


def _repeats(builder: GraphBuilder) -> list[RepeatedBlock]:
    """Repeated blocks of the main graph, each with the share of the nodes that its copies have."""
    total = len(builder.nodes)
    return [
        RepeatedBlock(block.name, block.times, block.nodes, block.times * block.nodes / total)
        for block in repetitions(builder.graph)
    ]


def _type(builder: GraphBuilder, name: str) -> str:
    if not builder.has_type(name):
        return "?"
    if not builder.has_shape(name):
        return f"{builder.type_name(name)}[...]"
    shape = (
        "?" if not isinstance(dim, int) and dim.is_anonymous else str(dim)
        for dim in builder.get_shape(name)
    )
    return f"{builder.type_name(name)}[{', '.join(shape)}]"


def _print_costs(console: Console, costs: Costs, *, layers: bool) -> None:
    """Print costs by operator (or by layer), their sum, and the peak memory."""
    rows = Rows("layer" if layers else "operator", *_FIGURES, right=_FIGURES)
    for name, cost in (costs.by_layer if layers else costs.by_operator).items():
        rows.add(name, *cost.texts)
    rows.add("all nodes", *costs.total.texts, style="bold")
    rows.print(console)
    sizes = ", ".join(f"{name}={size}" for name, size in costs.sizes.items())
    suffix = f" with {sizes} (--dim)" if sizes else ""
    console.print(
        f"{'memory':14s}{bytes_text(costs.peak)} of activations at the peak{suffix}",
        highlight=False,
    )
    if costs.total.unknown:
        console.print(
            f"{'unknown':14s}shapes at {costs.total.unknown} nodes; their operations count as 0",
            highlight=False,
        )
