"""Write blocks that repeat as local functions, which are called once for each copy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import onnx

from xoptim.facts.protos import FUNCTIONS_SINCE
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_function
from xoptim.graph.model import Function, Model
from xoptim.graph.names import Names
from xoptim.graph.node import LOCAL, Node
from xoptim.graph.propagate import infer_graph
from xoptim.graph.walk import is_read_beyond
from xoptim.match.rewrite import Step
from xoptim.passes.blocks.block import Block, Links, Result
from xoptim.passes.blocks.finding import Repetition, find_blocks
from xoptim.passes.blocks.scopes import BlockNames

Operand = tuple[str, ...]
"""The names, one for each copy, of a value that a block reads."""
DOMAIN: Final = "outlined"
"""Domain of the functions."""


class Interface:
    """The values that a block reads from outside, and its results that are read outside.

    ``copies`` are the nodes of each copy.
    """

    def __init__(self, graph: Graph, block: Block, copies: Sequence[Sequence[Node]]) -> None:
        self.graph = graph
        self.block = block
        self.copies = copies
        self._members = [set(copy) for copy in copies]
        values = dict.fromkeys(names for _, _, names in self.reads())
        # the values that the block reads, computed ones first
        self.operands = sorted(
            values, key=lambda names: all(graph.tensor(name) is not None for name in names)
        )
        places = (
            Result(place, output)
            for place, node in enumerate(copies[0])
            for output in range(len(node.output))
        )
        self.results = [
            result
            for result in places
            if any(self._is_needed(number, result) for number in range(len(copies)))
        ]

    def reads(self) -> Iterator[tuple[int, int, Operand]]:
        """Place, index, and names in the copies, of each operand that comes from outside."""
        for place, sources in enumerate(self.block.inside):
            for slot, source in enumerate(sources):
                if source is None and self.copies[0][place].input[slot]:
                    yield place, slot, tuple(copy[place].input[slot] for copy in self.copies)

    def _is_needed(self, number: int, result: Result) -> bool:
        name = self.copies[number][result.place].output[result.output]
        return bool(name) and is_read_beyond(self.graph, name, self._members[number])


def body_nodes(
    interface: Interface,
    names: BlockNames,
    inputs: Mapping[Operand, str],
    fresh: Callable[[str], str],
) -> tuple[list[onnx.NodeProto], dict[Result, str]]:
    """The nodes of the first copy as the nodes of a body, and the names of all results.

    ``inputs`` maps each value that the block reads to its name in the body; ``fresh`` returns an
    unused name for a result.
    """
    first = interface.copies[0]
    results: dict[Result, str] = {}
    for place, node in enumerate(first):
        results |= {
            Result(place, output): fresh(names.short(name))
            for output, name in enumerate(node.output)
            if name
        }
    operands = {(place, slot): inputs[operand] for place, slot, operand in interface.reads()}
    node_names = Names()
    nodes = []
    for place, sources in enumerate(interface.block.inside):
        proto = _common(interface.copies, place)
        proto.input[:] = [
            results[r] if r is not None else operands.get((place, slot), "")
            for slot, r in enumerate(sources)
        ]
        proto.output[:] = [
            results.get(Result(place, output), "") for output in range(len(first[place].output))
        ]
        if proto.name:
            proto.name = node_names.fresh(names.short(proto.name))
        nodes.append(proto)
    return nodes, results


def _common(copies: Sequence[Sequence[Node]], place: int) -> onnx.NodeProto:
    """A node of the first copy, without the metadata and remarks that differ between the copies."""
    first, *later = (copy[place] for copy in copies)
    proto = first.to_proto()
    metadata = [node.metadata_props() for node in later]
    shared = {
        key: value
        for key, value in first.metadata_props().items()
        if all(props.get(key) == value for props in metadata)
    }
    onnx.helper.set_metadata_props(proto, shared)
    if any(node.remark != first.remark for node in later):
        proto.doc_string = ""
    return proto


class Outline(Step):
    """Replaces the blocks that repeat in the main graph of a model by calls of local functions.

    Each function has the nodes of the first copy. The values that its nodes read from outside,
    weights included, are operands of the call. The IR version is raised to the first one with
    functions.
    """

    title = "outline"

    def __init__(self) -> None:
        self.repetitions: list[Repetition] = []  # the blocks

    def run(self, model: Model) -> int:
        """Write the blocks of a model once; returns their number."""
        links = Links(model.graph)
        blocks = [_outline(model, links, block) for block in find_blocks(links)]
        self.repetitions += blocks
        return len(blocks)


def _outline(model: Model, links: Links, block: Block) -> Repetition:
    graph, copies = model.graph, links.copies(block.rows)
    names = BlockNames(copies)
    interface = Interface(graph, block, copies)
    name = _free_name(model, names.title)
    for number, copy in enumerate(copies):
        with Edit(graph) as edit:
            if not number:
                edit.functions.append(_function(model, name, interface, names))
            results = [copy[result.place].output[result.output] for result in interface.results]
            operands = [names_in_copies[number] for names_in_copies in interface.operands]
            edit.commit(
                copy,
                [
                    Node(
                        name,
                        operands,
                        results,
                        domain=DOMAIN,
                        name=edit.node_names.fresh(names.calls[number]),
                    )
                ],
            )
    model.shell.ir_version = max(model.shell.ir_version or FUNCTIONS_SINCE, FUNCTIONS_SINCE)
    return Repetition(name, len(copies), block.size, "function")


def _free_name(model: Model, title: str) -> str:
    names = Names()
    names.used.update(
        name
        for domain, name, _ in (function.key for function in model.functions)
        if domain == DOMAIN
    )
    return names.fresh(title)


def _function(model: Model, name: str, interface: Interface, names: BlockNames) -> Function:
    values = Names()
    inputs = {operand: values.fresh(names.short(operand[0])) for operand in interface.operands}
    nodes, result_names = body_nodes(interface, names, inputs, values.fresh)
    outputs = [result_names[result] for result in interface.results]
    proto = onnx.FunctionProto(
        name=name, domain=DOMAIN, input=inputs.values(), output=outputs, node=nodes
    )
    for domain in dict.fromkeys(node.domain.removesuffix(LOCAL) for node in interface.copies[0]):
        proto.opset_import.add(domain=domain, version=model.graph.opsets.get(domain, 1))
    function = load_function(model, proto)
    infer_graph(function.body)
    return function
