"""Moves computations of a decoder that depend on an encoder's results alone into the encoder.

A decoder that attends to an encoder's results multiplies them by the weights of keys and values in
each layer. It does so for each token that it generates, with the same result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onnx
from onnx import ModelProto, TypeProto, ValueInfoProto

from xoptim.facts.advice import Advice
from xoptim.facts.errors import ModelError
from xoptim.facts.json_results import JsonResult
from xoptim.facts.protos import inner_graphs, opset_versions, replace_items
from xoptim.facts.words import listed
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.splice import inline_functions
from xoptim.graph.walk import all_nodes, reads
from xoptim.operators.costs import CostKind
from xoptim.operators.registry import Trait, has_trait, is_deterministic, operator_of
from xoptim.preparation.joining import joined
from xoptim.preparation.ports import defined_names, dimensions, extract_part, rename_ports

_USUAL: Final = {"encoder_hidden_states": "last_hidden_state"}
"""Inputs of decoders, and the outputs of encoders that they take, as transformers names them."""
_PREFIX: Final = "encoded_"
"""The names of the results that are moved are numbered: names of both models often clash."""
_MOVEMENT_LIMIT: Final = 16
"""Maximum number of nodes that are followed up from a result to one with fewer elements."""


@dataclass(frozen=True, slots=True)
class MovedResult(JsonResult):
    """A result that the encoder computes in place of the decoder.

    Attributes:
        name: the output of the encoder and the input of the decoder.
        result: former name of the result in the decoder.
        node: name of the node that computes the result; its operator if it has no name.
    """

    name: str
    result: str
    node: str


@dataclass(frozen=True, slots=True)
class Pair:
    """An encoder and its decoder.

    Attributes:
        encoder: with further outputs.
        decoder: with further inputs.
        links: the inputs of the decoder that the encoder computes or reads as well, each with the
            encoder's name.
        moved: the results that the encoder computes in place of the decoder.
        node_count: the number of nodes that the decoder lost.
    """

    encoder: ModelProto
    decoder: ModelProto
    links: Mapping[str, str]
    moved: Sequence[MovedResult] = ()
    node_count: int = 0

    def joined(self) -> ModelProto:
        """One model that runs the encoder, then the decoder on its results.

        The moved results are not outputs of this model.
        """
        model = joined(self.encoder, self.decoder, self.links, prefix="decoder/")
        moved = {result.name for result in self.moved}
        kept = [value for value in model.graph.output if value.name not in moved]
        replace_items(model.graph.output, kept)
        return model


def links_of(
    encoder: ModelProto, decoder: ModelProto, stated: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The inputs of a decoder that hold values of its encoder, each with the encoder's name.

    These are the inputs that have the name of an output of the encoder, the input
    ``encoder_hidden_states`` for the output ``last_hidden_state``, and the stated inputs.

    Args:
        encoder: computes some of the decoder's inputs.
        decoder: reads them.
        stated: inputs of the decoder with inputs or outputs of the encoder.

    Raises:
        ModelError: a stated name does not exist, types differ, or nothing links the models.
    """
    outputs = {value.name: value for value in encoder.graph.output}
    values = {value.name: value for value in encoder.graph.input} | outputs
    inputs = {value.name: value for value in decoder.graph.input}
    for name, other in (stated or {}).items():
        if name not in inputs:
            raise ModelError(f"the decoder has no input {name!r}; it has {listed([*inputs])}")
        if other not in values:
            raise ModelError(
                f"the encoder has no input or output {other!r}; it has {listed([*values])}"
            )
    links = {name: name for name in inputs if name in outputs}
    links |= {name: other for name, other in _USUAL.items() if name in inputs and other in outputs}
    links |= stated or {}
    if not links:
        raise ModelError(
            f"no input of the decoder ({listed([*inputs])}) has the name of an output of the "
            f"encoder ({listed([*outputs])}); name a pair with "
            f"{Advice('link', 'INPUT=OUTPUT')}"
        )
    for name, other in links.items():
        _check_fits(inputs[name], values[other])
    return links


def paired(
    encoder: ModelProto,
    decoder: ModelProto,
    links: Mapping[str, str],
    folder: Path | None = None,
) -> Pair:
    """Move MatMuls, convolutions and the like that depend on linked inputs alone into the encoder.

    The inputs and outputs of the encoder stay, in their order; the moved results follow. Inputs of
    the decoder that only moved nodes read are removed. Both models are left unchanged.

    Args:
        encoder: runs once.
        decoder: runs for each token.
        links: the decoder's inputs with the encoder's names; see `links_of`.
        folder: of the external data of both.

    Raises:
        ModelError: the models import different operator sets, or no node computes an output of the
            decoder.
    """
    _check_opsets(encoder, decoder)
    if decoder.functions:
        decoder = inline_functions(decoder)
    graph = load_model(decoder, folder).graph
    graph.suspect(graph.nodes)
    graph.sweep()  # a result is not moved for nodes that nothing reads
    _check_outputs(graph)
    results = _frontier(graph, links)
    if not results:
        return Pair(encoder, decoder, links)
    producers = [_producer(graph, result) for result in results]
    count = len(decoder.graph.node)
    decoder, results = _with_copied_outputs(decoder, results)
    names = _fresh_names(results, encoder, decoder)
    reader, part = _parts(decoder, names, folder)
    part_inputs = {value.name for value in part.graph.input}
    part_links = {name: other for name, other in links.items() if name in part_inputs}
    _name_dimensions(part, encoder, part_links)
    inputs = {value.name for value in reader.graph.input}
    return Pair(
        joined(encoder, part, part_links, prefix="decoder/"),
        reader,
        {name: links.get(name, name) for name in (*links, *names.values()) if name in inputs},
        [
            MovedResult(names[result], result, node.name or node.op_type)
            for result, node in zip(results, producers, strict=True)
        ],
        count - len(reader.graph.node),
    )


def _parts(
    decoder: ModelProto, names: Mapping[str, str], folder: Path | None
) -> tuple[ModelProto, ModelProto]:
    """The part of a decoder that reads some results, as its last inputs, and the part that computes
    them; ``names`` are the new names of the results.

    Inputs that neither part reads stay in the first one: the callers of the decoder feed them.
    """
    outputs = [value.name for value in decoder.graph.output]
    reader = extract_part(decoder, [*names], outputs, folder)
    part = extract_part(decoder, (), [*names], folder)
    for model in (reader, part):
        rename_ports(model, names)
    inputs = {value.name: value for value in reader.graph.input}
    moved = {value.name for value in part.graph.input} | {t.name for t in decoder.graph.initializer}
    kept = [
        inputs.get(value.name, value)
        for value in decoder.graph.input
        if value.name in inputs or value.name not in moved
    ]
    replace_items(reader.graph.input, [*kept, *(inputs[name] for name in names.values())])
    return reader, part


def _producer(graph: Graph, result: str) -> Node:
    producer = graph.producer(result)
    assert producer is not None
    return producer


def _name_dimensions(part: ModelProto, encoder: ModelProto, links: Mapping[str, str]) -> None:
    """Replace the names of dimensions in the outputs of a part by the encoder's, in place: the same
    name may mean other dimensions in the decoder.

    Other names, ``value_info``, and sizes that only the decoder fixes are removed.
    """
    values = {value.name: value for value in (*encoder.graph.input, *encoder.graph.output)}
    names, fixed = dict[str, str](), set[int]()
    for value in part.graph.input:
        other = values[links[value.name]]
        for dim, other_dim in zip(dimensions(value.type), dimensions(other.type), strict=False):
            if dim.dim_param:
                names.setdefault(dim.dim_param, other_dim.dim_param)
            elif not other_dim.dim_value:
                fixed.add(dim.dim_value)
    for value in part.graph.output:
        for dim in dimensions(value.type):
            name = names.get(dim.dim_param, "")
            if dim.dim_param or dim.dim_value in fixed:
                dim.Clear()
            if name:
                dim.dim_param = name
    del part.graph.value_info[:]


def _check_fits(read: ValueInfoProto, written: ValueInfoProto) -> None:
    """Raise for an input whose type, rank or fixed dimensions differ from those of a value."""
    kinds, elements = zip(*(_elements(value.type) for value in (read, written)), strict=True)
    first, second = elements
    dims = [[*dimensions(value.type)] for value in (read, written)]
    have_shapes = first.HasField("shape") and second.HasField("shape")
    sizes = zip(*dims, strict=False)
    differ = (
        kinds[0] != kinds[1]
        or first.elem_type != second.elem_type
        or (
            have_shapes
            and (
                len(dims[0]) != len(dims[1])
                or any(a.dim_value and b.dim_value and a.dim_value != b.dim_value for a, b in sizes)
            )
        )
    )
    if differ:
        raise ModelError(
            f"the decoder's input {read.name!r} and the encoder's {written.name!r} have different "
            "types or shapes"
        )


def _elements(type_proto: TypeProto) -> tuple[list[str], TypeProto.Tensor]:
    """The kinds of a type from the outside inwards, such as sequence and tensor, and the tensor."""
    kinds = [str(type_proto.WhichOneof("value"))]
    while kinds[-1] in ("sequence_type", "optional_type"):
        type_proto = getattr(type_proto, kinds[-1]).elem_type
        kinds.append(str(type_proto.WhichOneof("value")))
    return kinds, getattr(type_proto, kinds[-1], type_proto.tensor_type)


def _check_opsets(encoder: ModelProto, decoder: ModelProto) -> None:
    first, second = (opset_versions(model.opset_import) for model in (encoder, decoder))
    differing = next(
        (domain for domain in first.keys() & second.keys() if first[domain] != second[domain]), None
    )
    if differing is None:
        return
    newest = max(first[differing], second[differing])
    remedy = "" if differing else f"; convert the older one with `xopt --opset {newest}`"
    raise ModelError(
        f"the encoder imports operator set {first[differing]} of {differing or 'ONNX'}, and the "
        f"decoder {second[differing]}{remedy}"
    )


def _check_outputs(graph: Graph) -> None:
    idle = next((name for name in graph.outputs if graph.producer(name) is None), None)
    if idle is not None:
        raise ModelError(
            f"no node of the decoder computes its output {idle!r}; remove it with "
            f"`xopt --drop-output {idle}`"
        )


def _with_copied_outputs(
    decoder: ModelProto, results: Sequence[str]
) -> tuple[ModelProto, list[str]]:
    """A copy in which an Identity computes each output that is among some results, since an output
    cannot become an input; and the new names of the results.
    """
    copy = ModelProto()
    copy.CopyFrom(decoder)
    used, outputs = defined_names(copy), {value.name for value in copy.graph.output}
    names = {name: _fresh(f"{name}_computed", used) for name in results if name in outputs}
    for graph in (copy.graph, *inner_graphs(copy.graph.node)):
        for node in graph.node:
            for container in (node.input, node.output):
                container[:] = [names.get(name, name) for name in container]
        if graph is not copy.graph:
            for value in graph.output:
                value.name = names.get(value.name, value.name)
    copy.graph.node.extend(
        onnx.helper.make_node("Identity", [name], [output]) for output, name in names.items()
    )
    return copy, [names.get(name, name) for name in results]


def _fresh(name: str, names: set[str]) -> str:
    while name in names:
        name += "_"
    names.add(name)
    return name


def _fresh_names(
    results: Sequence[str], encoder: ModelProto, decoder: ModelProto
) -> dict[str, str]:
    """The new names of results, which neither model uses."""
    names = defined_names(encoder) | defined_names(decoder)
    return {result: _fresh(f"{_PREFIX}{index}", names) for index, result in enumerate(results)}


def _frontier(graph: Graph, links: Mapping[str, str]) -> list[str]:
    """The results to move, in order.

    A result moves if it depends on linked inputs alone, comes from a MatMul, convolution or the
    like, and is read by a node that stays in the decoder.
    """
    dependent_names = {name for name in links if graph.is_input(name)}
    constants, movable_names, moved_nodes = set[str](), set[str](), set[Node]()
    for node in graph.nodes:
        names = {*reads(node)}
        other_operands = {
            name for name in names - dependent_names - constants if not _is_constant(graph, name)
        }
        if other_operands or not _is_repeatable(node):
            continue
        results = {name for name in node.output if name}
        if dependent_names.isdisjoint(names):
            constants |= results
            continue
        dependent_names |= results
        if has_trait(node.domain, node.op_type, Trait.MEASURES):
            continue  # sizes are read from what is moved
        if _sums_products(node) or not movable_names.isdisjoint(names):
            movable_names |= results
            moved_nodes.add(node)
    crossing = (
        name
        for node in graph.nodes
        if node not in moved_nodes
        for name in dict.fromkeys(reads(node))
        if name in movable_names
    )
    return list(dict.fromkeys(_smallest(graph, name, movable_names) for name in crossing))


def _is_constant(graph: Graph, name: str) -> bool:
    return name in graph.initializers and name not in graph.overridable


def _is_repeatable(node: Node) -> bool:
    """Whether a node, and the nodes of its subgraphs, compute the same for the same operands."""
    return all(is_deterministic(inner.op_type, inner.domain) for inner in all_nodes([node]))


def _sums_products(node: Node) -> bool:
    is_product = operator_of(node.domain, node.op_type).cost is CostKind.MATMUL
    return is_product or has_trait(node.domain, node.op_type, Trait.SUMS_PRODUCTS)


def _smallest(graph: Graph, name: str, movable_names: set[str]) -> str:
    """The operand of the first Expand or Tile from which only movements lead to ``name``.

    ``name`` if there is none.
    """
    smallest, current = name, name
    for _ in range(_MOVEMENT_LIMIT):
        node = graph.producer(current)
        if node is None or not node.input or node.input[0] not in movable_names:
            break
        copies = node.op_type in ("Expand", "Tile")
        if not copies and not has_trait(node.domain, node.op_type, Trait.MOVES):
            break
        current = node.input[0]
        smallest = current if copies else smallest
    return smallest
