"""A pattern file that finds some nodes of a model: a template with their calls and an example.

Names and texts of the model are written as literals or refused: whoever imports the file must not
run code of the model's author.
"""

import keyword
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from xoptim.diagnose.explanation import abridged, locate
from xoptim.facts.advice import Advice
from xoptim.facts.attributes import AttributeReference
from xoptim.facts.errors import ModelError
from xoptim.facts.operators import mistake_in
from xoptim.graph.constants import constant_array
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.sources import Source
from xoptim.graph.walk import is_read_beyond
from xoptim.match.create import DOMAIN

_MAX_ELEMENTS: Final = 16
"""Elements up to which a constant is written out."""
_WIDTH: Final = 96
"""Length of a line of ONNX text."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""A name that Python does not change, unlike names with other letters or leading underscores."""
_KEYWORDS: Final = ("domain", "outputs", "attributes", "associative", "any_order")
"""Keywords of a call in `match_pattern` that are not attributes."""


def chosen_nodes(model: Any, words: Sequence[str]) -> tuple[Graph, list[Node]]:
    """The main graph of a model, and some of its nodes in order, constants omitted.

    Raises `ModelError` when a node is unknown, not in the main graph, or has subgraphs.

    Args:
        model: a path, or the model.
        words: names of nodes or of their results, or ``#17`` for a position.
    """
    source = Source(model)
    graph = load_model(source.proto, source.base_dir).graph
    selection = {node for word in words for node in locate(graph.model, word)}
    for node in selection:
        label = repr(node.name or node.output[0])
        if node.graph is not graph:
            raise ModelError(f"node {label} is not in the main graph")
        if node.bodies or any(isinstance(v, AttributeReference) for v in node.attribute.values()):
            raise ModelError(f"node {label} has subgraphs, which a pattern cannot describe")
    nodes = [node for node in graph.nodes if node in selection and node.op_type != "Constant"]
    if not nodes:
        raise ModelError(
            f"no node is selected that computes anything; name some with {Advice('nodes', 'A,B,C')}"
        )
    return graph, nodes


class ChosenPart:
    """Some nodes of a graph under the names that they have in the pattern.

    Operands from outside are the parameters of the pattern. Constants of a few numbers are written
    out, others are parameters that must be constant. Results that other nodes read are returned, or
    else those of the last node.
    """

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self._graph = graph
        self._nodes = nodes
        self._names: dict[str, str] = {}
        self._stored: dict[str, np.ndarray] = {}
        self._sizes: dict[object, str] = {}
        self.parameters: dict[str, str] = {}  # name in the graph of each parameter
        self._protos = [self._renamed(node, number) for number, node in enumerate(nodes, 1)]
        inside = set(nodes)
        outputs = [name for node in nodes for name in node.output if name]
        used = [name for name in outputs if is_read_beyond(graph, name, inside)]
        self.results = {self._names[name]: name for name in used or filter(None, nodes[-1].output)}

    def is_constant(self, parameter: str) -> bool:
        """Whether a parameter must be constant."""
        return constant_array(self._graph, self.parameters[parameter]) is not None

    def types(self) -> dict[str, int]:
        """The element type of each parameter; raises `ModelError` when one is not known."""
        types = {word: self._graph.info_of(name).dtype for word, name in self.parameters.items()}
        for word, dtype in types.items():
            if not dtype:
                raise ModelError(f"the type of operand {self.parameters[word]!r} is not known")
        return types

    def calls(self) -> list[str]:
        """The calls of `match_pattern` that describe the nodes."""
        return list(map(self._call, self._protos, self._nodes))

    def function(self, name: str) -> str:
        """A local function with the same body, in ONNX text."""
        constants = [
            helper.make_node("Constant", [], [word], value=numpy_helper.from_array(array))
            for word, array in self._stored.items()
        ]
        body = _text(onnx.GraphProto(name="g", node=[*constants, *self._protos]))
        head = f"{name} ({', '.join(self.parameters)}) => ({', '.join(self.results)})"
        return f"{head}\n{body[body.index('{') :]}"

    def before(self) -> str:
        """A graph of the nodes, in ONNX text."""
        stored = [numpy_helper.from_array(array, word) for word, array in self._stored.items()]
        return self._model(self._protos, stored)

    def after(self, name: str) -> str:
        """A graph that calls the local function, and the function, in ONNX text."""
        domains = dict.fromkeys(["", *(node.domain for node in self._nodes)])
        imports = ", ".join(f'"{key}" : {self._graph.opsets.get(key, 1)}' for key in domains)
        call = helper.make_node(name, list(self.parameters), list(self.results), domain=DOMAIN)
        header = f'<domain: "{DOMAIN}", opset_import: [{imports}]>'
        return "\n".join((self._model([call], []), header, self.function(name)))

    def _declared(self, word: str, name: str) -> onnx.ValueInfoProto:
        """The declaration of a result under another name; each symbolic size gets a short name."""
        info = self._graph.info_of(name)
        if info.shape is None:
            return helper.make_tensor_value_info(word, info.dtype, None)
        sizes = [
            size if isinstance(size, int) else self._sizes.setdefault(size, f"d{len(self._sizes)}")
            for size in info.shape
        ]
        return helper.make_tensor_value_info(word, info.dtype, sizes)

    def _renamed(self, node: Node, number: int) -> onnx.NodeProto:
        # letters only: with digits and underscores, two nodes could get the same name
        word = re.sub(r"[^a-z]", "", node.op_type.lower()) or "node"
        inputs = list(map(self._operand, node.input))
        for index, name in enumerate(node.output):
            if name:
                self._names[name] = f"{word}_{number}" + (f"_{index}" if index else "")
        proto = node.to_proto()
        for field in ("name", "doc_string", "metadata_props", "input", "output"):
            proto.ClearField(field)
        proto.input.extend(inputs)
        proto.output.extend(self._names.get(name, "") for name in node.output)
        return proto

    def _operand(self, name: str) -> str:
        if not name or name in self._names:
            return self._names.get(name, "")
        array = constant_array(self._graph, name)
        if array is not None and _can_be_shown(array):
            word = f"k{len(self._stored) + 1}"
            self._stored[word] = array
        else:
            word = f"{'x' if array is None else 'c'}{len(self.parameters) + 1}"
            self.parameters[word] = name
        self._names[name] = word
        return word

    def _call(self, proto: onnx.NodeProto, node: Node) -> str:
        label = repr(node.name or node.output[0])
        number = len(proto.input)
        attributes = node.attribute
        results = len(proto.output)
        mistake = mistake_in(
            proto.op_type, proto.domain, attributes, range(number, number + 1), results
        )
        if mistake is not None:
            raise ModelError(f"node {label} cannot be in a pattern: {mistake}")
        reserved = next((key for key in attributes if key in _KEYWORDS), None)
        if reserved is not None:
            raise ModelError(
                f"node {label} has an attribute {reserved!r}, which is a keyword of patterns; "
                f"remove it from {Advice('nodes')}"
            )
        words = [*map(self._written, proto.input), *_keywords(attributes)]
        if proto.domain:
            words.append(f"domain={proto.domain!r}")
        if len(proto.output) > 1:
            words.append(f"outputs={len(proto.output)}")
        is_read = self._graph.is_needed
        targets = ", ".join(
            word if is_read(name) else f"_{word}"
            for word, name in zip(proto.output, node.output, strict=True)
        )
        return f"{targets} = g.op{_operator(proto.op_type)}({', '.join(words)})"

    def _written(self, word: str) -> str:
        array = self._stored.get(word)
        if array is None:
            return word or "None"
        return f"np.array({_numbers(array)})"

    def _model(self, nodes: Sequence[onnx.NodeProto], stored: Sequence[TensorProto]) -> str:
        graph = onnx.GraphProto(name="agraph", initializer=stored)
        for word, name in self.parameters.items():
            if self.is_constant(word):
                graph.node.extend(_constant_nodes(word, self._graph, name))
            else:
                graph.input.append(self._declared(word, name))
        graph.node.extend(nodes)
        graph.output.extend(self._declared(word, name) for word, name in self.results.items())
        return _text(graph)


def _can_be_shown(array: np.ndarray) -> bool:
    is_small = 0 < array.size <= _MAX_ELEMENTS
    return is_small and array.dtype.kind in "bif" and bool(np.isfinite(array).all())


def _numbers(array: np.ndarray) -> Any:
    """The numbers in an array, with the fewest digits that identify them in its own type."""
    if array.dtype.kind != "f":
        return array.tolist()
    numbers = [float(str(number)) for number in array.ravel()]
    return np.array(numbers).reshape(array.shape).tolist()


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and not keyword.iskeyword(text)


def _operator(op_type: str) -> str:
    """The end of ``g.op.Relu`` or ``g.op["class"]``."""
    return f".{op_type}" if _is_name(op_type) else f"[{op_type!r}]"


def _keywords(attributes: Mapping[str, Any]) -> Iterator[str]:
    """The attributes of a call, last those whose names are no Python identifiers."""
    texts = {key: _literal(value) for key, value in attributes.items()}
    yield from (f"{key}={text}" for key, text in texts.items() if _is_name(key))
    others = ", ".join(f"{key!r}: {text}" for key, text in texts.items() if not _is_name(key))
    if others:
        yield f"**{{{others}}}"


def quoted(text: str) -> str:
    """A text as the content of a triple-quoted literal, which keeps its lines."""
    escapes = {"\n": "\n", "\\": "\\\\"}
    escaped = "".join(
        escapes.get(char) or (char if char.isprintable() else ascii(char)[1:-1]) for char in text
    )
    return re.sub(r'"(?=""|"?$)', r"\\\g<0>", escaped)


def _literal(value: Any) -> str:
    """Python text of an attribute."""
    if isinstance(value, float) and not np.isfinite(value):
        raise ModelError(
            f"an attribute of value {value} cannot be written as Python; remove its node from "
            f"{Advice('nodes')}"
        )
    if isinstance(value, float):
        return repr(_numbers(np.array(value, np.float32)))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, (int, str)):
        return repr(value)
    if isinstance(value, TensorProto):
        array = _array(value)
        if array is not None and _can_be_shown(array):
            return f"lambda t: numpy_helper.to_array(t).tolist() == {array.tolist()}"
    raise ModelError(
        f"an attribute of type {type(value).__name__} cannot be written as Python; remove its node "
        f"from {Advice('nodes')}"
    )


def _array(tensor: TensorProto) -> np.ndarray | None:
    """The numbers of an attribute, ``None`` where they are damaged or in another file."""
    try:
        return numpy_helper.to_array(tensor)
    except (TypeError, ValueError, KeyError, OSError, onnx.checker.ValidationError):
        return None


def _constant_nodes(word: str, graph: Graph, name: str) -> Iterator[onnx.NodeProto]:
    """Nodes that make a constant of the same type and shape as another one."""
    array = constant_array(graph, name)
    assert array is not None
    dtype = graph.info_of(name).dtype
    if dtype == TensorProto.STRING:
        raise ModelError(f"operand {name!r} holds strings, for which no example can be made")
    number = 0.5 if dtype in (TensorProto.FLOAT, TensorProto.DOUBLE) else 0
    value = numpy_helper.from_array(np.full(1, number, array.dtype))
    shape = numpy_helper.from_array(np.array(array.shape, np.int64))
    yield helper.make_node("Constant", [], [f"{word}_shape"], value=shape)
    yield helper.make_node("ConstantOfShape", [f"{word}_shape"], [word], value=value)


def _text(graph: onnx.GraphProto) -> str:
    """A graph in ONNX text, its long lines wrapped.

    Raises `ModelError` when ONNX text cannot express it.
    """
    try:
        text = onnx.printer.to_text(graph).strip()
    except UnicodeDecodeError:
        text = ""
    wrapped = "\n".join(
        part
        for line in text.split("\n")
        for part in textwrap.wrap(
            line, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
    )
    # wrapping may break a string of several words: the text then stays as it is
    result = next((form for form in (wrapped, text) if _same_nodes(graph, form)), None)
    if result is None:
        faulty = (node for node in graph.node if not _is_expressible(node))
        node = next(faulty, graph.node[0])
        raise ModelError(
            f"ONNX text cannot express the operator {abridged(node.op_type)} of domain "
            f"{abridged(node.domain)} with its attributes; remove its node from "
            f"{Advice('nodes')}"
        )
    return result


def _is_expressible(node: onnx.NodeProto) -> bool:
    try:
        text = onnx.printer.to_text(onnx.GraphProto(name="g", node=[node]))
    except UnicodeDecodeError:
        return False
    return _same_nodes(onnx.GraphProto(node=[node]), text)


def _same_nodes(graph: onnx.GraphProto, text: str) -> bool:
    """Whether ONNX text has the nodes of a graph."""
    try:
        parsed = onnx.parser.parse_graph(text)
    except (onnx.parser.ParseError, UnicodeDecodeError):
        return False
    return list(map(_identity, parsed.node)) == list(map(_identity, graph.node))


def _identity(node: onnx.NodeProto) -> object:
    """The properties by which nodes are compared: all but numbers and tensors in attributes."""
    attributes = sorted((a.name, a.type, a.s, *a.strings) for a in node.attribute)
    return (node.op_type, node.domain, *node.input, "→", *node.output, attributes)
