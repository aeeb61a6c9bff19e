"""Start a pattern file, from a template or from nodes of a model: as calls, as a local function, as
an example.
"""

import builtins
import keyword
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from xoptim.diagnose.explanation import locate
from xoptim.facts.attributes import AttributeReference, moved_inputs, same_attribute
from xoptim.facts.dtypes import is_float
from xoptim.facts.errors import ModelError
from xoptim.facts.schema import attribute_default, since_version
from xoptim.facts.shapes import BROADCASTING
from xoptim.graph.constants import constant_array
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.sources import Source
from xoptim.graph.walk import is_read_beyond
from xoptim.match.create import AT_RUN_TIME, DOMAIN, read_moved
from xoptim.system.journal import ScratchFolder

_WIDTH = 128
"""Length of a line, as everywhere in the house."""
_PARAMETERS = 8
"""Most parameters of a function, ``self`` not counted, as everywhere in the house."""
SHOWN = 16
"""Elements up to which a constant is written out."""


def number(array: np.ndarray) -> bool | int | float:
    """The number in an array of one element, with the fewest digits that identify it in its own
    type.
    """
    value = array.reshape(-1)[0]
    return float(str(value)) if array.dtype.kind == "f" else value.item()


def literal(value: Any) -> str:
    """Python text of an attribute or a number."""
    if isinstance(value, float):
        text = repr(float(str(np.float32(value)))) if np.float32(value) == value else repr(value)
        return text.replace("e+", "e")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, TensorProto):
        array = numpy_helper.to_array(value)
        if array.size <= SHOWN and array.dtype.kind in "bif":
            return f"lambda t: numpy_helper.to_array(t).tolist() == {array.tolist()}"
    elif isinstance(value, (bool, int, bytes)):
        return repr(value)
    raise ModelError(
        f"an attribute of type {type(value).__name__} cannot be written as Python; leave its node "
        "out"
    )


def quoted(text: str) -> str:
    """A string literal with the quotes of the house."""
    return '"' + repr("'" + text)[2:-1] + '"' if '"' not in text else repr(text)


def wrapped(head: str, words: Sequence[str], tail: str = ")", *, apart: bool = False) -> str:
    """A call in one line, unless wrapping is forced, or in the lines that the formatter would make
    of it.
    """
    indent = " " * (len(head) - len(head.lstrip()))
    line = f"{head}{', '.join(words)}{tail}"
    if len(line) <= _WIDTH and not apart:
        return line
    inner = f"{indent}    {', '.join(words)}"
    if len(inner) <= _WIDTH:
        return f"{head}\n{inner}\n{indent}{tail}"
    return "\n".join((head, *(f"{indent}    {word}," for word in words), f"{indent}{tail}"))


def signature(
    name: str, builder: str, parameters: Mapping[str, str], kind: str, results: int
) -> str:
    """The head of a method that takes some parameters and returns as many results of a kind."""
    words = [
        "self",
        f"g: {builder}",
        *(f"{parameter}: {its_kind}" for parameter, its_kind in parameters.items()),
    ]
    returned = kind if results == 1 else f"tuple[{', '.join([kind] * results)}]"
    many = len(words) - 1 > _PARAMETERS
    return wrapped(
        f"    def {name}({'  # noqa: PLR0913' if many else ''}",
        words,
        f") -> {returned}:",
        apart=many,
    )


def imports(body: str, kinds: Iterable[str], types: Iterable[int]) -> str:
    """The imports of a file with a pattern: annotations of these kinds, and element types."""
    words = {
        "EasyPatternOptimization",
        "Example",
        "GraphView",
        "Match",
        "PatternBuilder",
        "PatternRewriter",
        "Symbol",
        *kinds,
    }
    lines = ["import numpy as np"] if "np.array" in body else []
    lines.append(
        f"from onnx import TensorProto{', numpy_helper' if 'numpy_helper' in body else ''}"
    )
    listed = sorted(words)
    one_line = f"from xoptim.match import {', '.join(listed)}"
    if len(one_line) > _WIDTH:
        one_line = wrapped("from xoptim.match import (", listed, apart=True)
    return "\n".join((*lines, "", one_line, ""))


class Calls:
    """The calls that describe selected nodes, in order."""

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self.graph = graph
        self.nodes = nodes
        # name in the pattern of each result, and of each operand from outside
        self.variables: dict[str, str] = {}
        # for each operand, in order, whether it must be constant
        self.parameters: dict[str, bool] = {}
        made = {name for node in nodes for name in node.output if name}
        self.lines = [self._call(node, made) for node in nodes]  # the calls
        # names in the pattern of the results that other nodes read, or else of the results of the
        # last node
        self.results = self._results()

    @property
    def types(self) -> dict[str, int]:
        """Element type of each parameter; raises `ModelError` when one is not known."""
        found = {
            name: self.graph.info_of(result).dtype
            for result, name in self.variables.items()
            if name in self.parameters
        }
        unknown = next(
            (result for result, name in self.variables.items() if found.get(name) == 0), None
        )
        if unknown is not None:
            raise ModelError(f"the type of operand {unknown!r} is not known")
        return found

    def _call(self, node: Node, made: set[str]) -> str:
        moved = self._moved(node)
        kept = len(node.input) if not moved else min(moved)
        operands = [self._operand(node, place, made) for place in range(kept)]
        while operands and operands[-1] == "None":
            operands.pop()
        words = [
            *operands,
            *(f"{name}={literal(value)}" for name, value in self._attributes(node, moved.values())),
        ]
        outputs = list(node.output)
        while not outputs[-1]:
            outputs.pop()
        if node.domain:
            words.append(f"domain={quoted(node.domain)}")
        if len(outputs) > 1:
            words.append(f"outputs={len(outputs)}")
        targets = ", ".join(self._result(node, name) for name in outputs)
        return wrapped(f"        {targets} = g.op.{node.op_type}(", words)

    def _moved(self, node: Node) -> dict[int, str]:
        """The last operands that are constant and can be written as attributes."""
        found: dict[int, str] = {}
        known = moved_inputs(node.op_type, node.opset) if not node.domain else {}
        for place in range(len(node.input) - 1, -1, -1):
            name = node.input[place]
            value = read_moved(self.graph, node, known[place]) if place in known else AT_RUN_TIME
            if (
                (name and value is AT_RUN_TIME)
                or place not in known
                or (isinstance(value, list) and len(value) > SHOWN)
            ):
                break
            found[place] = known[place]
        return found

    def _attributes(self, node: Node, moved: Iterable[str]) -> Iterator[tuple[str, Any]]:
        rank = self.graph.info_of(node.input[0]).rank if node.input and node.input[0] else None
        for name, value in node.attribute.items():
            default = attribute_default(
                node.op_type,
                node.domain,
                node.opset,
                name,
                rank,
                node.attribute.get("kernel_shape"),
            )  # what is not mentioned must have its default
            if default is None or not same_attribute(value, default):
                yield name, value
        for name in moved:
            value = read_moved(self.graph, node, name)
            if value is not None:
                yield name, value

    def _operand(self, node: Node, place: int, made: set[str]) -> str:
        name = node.input[place]
        if not name:
            return "None"
        if name in made:
            return self.variables[name]
        array = constant_array(self.graph, name)
        if (
            array is not None
            and array.size == 1
            and array.dtype.kind in "bif"
            and np.isfinite(array).all()
        ):
            if node.op_type in BROADCASTING and not node.domain:
                return literal(number(array))
            return f"np.array({literal([number(array)] if array.ndim == 1 else number(array))})"
        known = self.variables.get(name)
        if known is None:
            constants = sum(self.parameters.values())
            free = len(self.parameters) - constants
            if array is not None:
                known = f"c{constants + 1}" if constants else "c"
            else:
                known = "xyzuvw"[free] if free < 6 else f"x{free + 1}"
            self.variables[name] = known
            self.parameters[known] = array is not None
        return known

    def _result(self, node: Node, name: str) -> str:
        word = re.sub(r"\W", "_", node.op_type).lower()
        used = {*self.variables.values(), *keyword.kwlist, *dir(builtins), "g", "self", "np"}
        found = next(
            each for n in count(1) if (each := f"{word}_{n}" if n > 1 else word) not in used
        )
        if not name or not (self.graph.is_needed(name)):
            return f"_{found}"
        self.variables[name] = found
        return found

    def _results(self) -> list[str]:
        """Results of the pattern: what other nodes read, or the results of the last node."""
        inside, graph = set(self.nodes), self.graph
        read = [
            name
            for node in self.nodes
            for name in node.output
            if name and is_read_beyond(graph, name, inside)
        ]
        return [
            self.variables[name]
            for name in read or [n for n in self.nodes[-1].output if n in self.variables]
        ]


class LocalFunction:
    """A function with the same body as selected nodes, in ONNX text."""

    def __init__(self, name: str, calls: Calls) -> None:
        self._calls = calls
        self._inside: dict[str, np.ndarray] = {}
        """Constants that the function and the example hold, by their names there."""
        nodes = [self._proto(node) for node in calls.nodes]
        stored = [
            numpy_helper.from_array(array, constant) for constant, array in self._inside.items()
        ]
        constants = [
            helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in stored
        ]
        body = _lines("\n".join(map(str.strip, _text_of((*constants, *nodes)))))
        head = f"{name} ({', '.join(calls.parameters)}) => ({', '.join(calls.results)})"
        # its definition without a header
        self.lines = [head, "{", *(f"    {line}" for line in body), "}"]
        call = helper.make_node(name, list(calls.parameters), calls.results, domain=DOMAIN)
        self.before = self._graph(nodes, stored)  # a graph of the nodes
        # a graph of a call of the function, and the function with its header
        self.after = "\n".join((self._graph([call], []), self._header(), *self.lines))

    def _proto(self, node: Node) -> onnx.NodeProto:
        """A node with the names of the pattern."""
        proto, variables = node.to_proto(), self._calls.variables
        inputs = [variables.get(name) or self._stored(name) if name else "" for name in node.input]
        proto.ClearField("name")
        proto.ClearField("doc_string")
        proto.ClearField("metadata_props")
        del proto.input[:], proto.output[:]
        proto.input.extend(inputs)
        proto.output.extend(
            variables.get(name, f"unread{place}" if name else "")
            for place, name in enumerate(node.output)
        )
        return proto

    def _stored(self, name: str) -> str:
        """The name of a constant that is not a parameter."""
        array = constant_array(self._calls.graph, name)
        assert array is not None
        for known, other in self._inside.items():
            if other.dtype == array.dtype and np.array_equal(other, array):
                return known
        known = f"k{len(self._inside) + 1}"
        self._inside[known] = array
        return known

    def _header(self) -> str:
        used = dict.fromkeys(
            [*([""] if self._inside else []), *(node.domain for node in self._calls.nodes)]
        )
        imports = ", ".join(
            f'"{domain}" : {self._calls.graph.opsets.get(domain, 1)}' for domain in used
        )
        return f'<domain: "{DOMAIN}", opset_import: [{imports}]>'

    def _graph(self, nodes: Sequence[onnx.NodeProto], stored: Sequence[TensorProto]) -> str:
        """The text of a graph of some nodes."""
        calls, dims = self._calls, dict[str, str]()
        by_name = {variable: result for result, variable in calls.variables.items()}
        graph = onnx.GraphProto(name="agraph")
        for name, constant in calls.parameters.items():
            if constant:
                graph.node.extend(_constant_nodes(name, calls.graph, by_name[name]))
            else:
                graph.input.append(_declared(name, calls.graph, by_name[name], dims))
        graph.initializer.extend(stored)
        graph.node.extend(nodes)
        graph.output.extend(
            _declared(name, calls.graph, by_name[name], dims) for name in calls.results
        )
        return "\n".join(_lines(onnx.printer.to_text(graph)))


def _declared(name: str, graph: Graph, result: str, dims: dict[str, str]) -> onnx.ValueInfoProto:
    """The declaration of a result under another name."""
    info = graph.info_of(result)
    if info.shape is None:
        return helper.make_tensor_value_info(name, info.dtype, None)
    shape = [d if isinstance(d, int) else _dim(str(d), dims) for d in info.shape]
    return helper.make_tensor_value_info(name, info.dtype, shape)


def _dim(text: str, dims: dict[str, str]) -> str:
    """A dimension as a word."""
    return (
        text if text.isidentifier() and text.isascii() else dims.setdefault(text, f"d{len(dims)}")
    )


def _constant_nodes(name: str, graph: Graph, result: str) -> list[onnx.NodeProto]:
    """Nodes that make a constant: itself when it is small, else one of its type and shape."""
    info, tensor = graph.info_of(result), graph.tensor(result)
    shape = info.static_shape if tensor is None else tensor.shape
    assert shape is not None
    if math.prod(shape) <= SHOWN:
        array = constant_array(graph, result)
        assert array is not None
        return [helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))]
    if info.dtype == TensorProto.STRING:
        raise ModelError(f"operand {result!r} holds too many texts for an example")
    value = np.array([0.5 if info.dtype in (TensorProto.FLOAT, TensorProto.DOUBLE) else 0])
    filled = numpy_helper.from_array(value.astype(helper.tensor_dtype_to_np_dtype(info.dtype)))
    return [
        helper.make_node(
            "Constant",
            [],
            [f"{name}_shape"],
            value=numpy_helper.from_array(np.array(shape, np.int64)),
        ),
        helper.make_node("ConstantOfShape", [f"{name}_shape"], [name], value=filled),
    ]


def _text_of(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """The lines of nodes in ONNX text, as a graph has them: onnx 1.19 does not print a single
    node.
    """
    return onnx.printer.to_text(onnx.GraphProto(name="g", node=nodes)).strip().splitlines()[1:-1]


def _lines(text: str) -> Iterator[str]:
    """Lines of ONNX text, the long ones broken where the syntax allows it."""
    for line in text.strip().splitlines():
        yield from textwrap.wrap(
            line, 100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )


def filled(template: str, **texts: object) -> str:
    """A text of this folder with other texts in its gaps."""
    return (
        (resources.files("xoptim.scaffold") / f"{template}.txt")
        .read_text(encoding="utf-8")
        .format(**texts)
    )


def pattern_from_model(class_name: str, model: Any, nodes: Sequence[str]) -> str:
    """The text of a pattern file that finds some nodes of a model wherever they occur.

    Operands that come from outside become parameters, numbers literals, larger constants parameters
    that must be constant. Results that other nodes read are returned. The replacement is a call of
    a local function with the same body. Raises `ModelError` when a node is unknown or not in the
    main graph, or has subgraphs; the nodes are not connected, or another node lies between them.

    Args:
        class_name: of the pattern.
        model: a path, or the model.
        nodes: each by its name, the name of one of its results, or ``#17`` for its position.
    """
    source = Source(model)
    graph = load_model(source.proto, source.base_dir).graph
    found = {node for word in nodes for node in locate(graph.model, word)}
    stray = next((node for node in found if node.graph is not graph), None)
    if stray is not None:
        raise ModelError(f"node {_called(stray)} is not in the main graph")
    chosen = [node for node in graph.nodes if node in found and node.op_type != "Constant"]
    _check(graph, chosen)
    return _text(class_name, Calls(graph, chosen))


def _called(node: Node) -> str:
    return repr(node.name or node.output[0])


def _check(graph: Graph, chosen: Sequence[Node]) -> None:
    """Raise unless the nodes can be a pattern."""
    if not chosen:
        raise ModelError("no node is selected that computes anything; name some with --nodes A,B,C")
    for node in chosen:
        if node.bodies or any(isinstance(v, AttributeReference) for v in node.attribute.values()):
            raise ModelError(f"node {_called(node)} has subgraphs, which a pattern cannot describe")
    links: dict[str, set[Node]] = {}
    for node in chosen:
        for name in (*node.input, *node.output):
            if name and graph.tensor(name) is None:
                links.setdefault(name, set()).add(node)
    joined = {chosen[0]}
    while (
        more := {n for group in links.values() if not group.isdisjoint(joined) for n in group}
        - joined
    ):
        joined |= more
    apart = next((node for node in chosen if node not in joined), None)
    if apart is not None:
        raise ModelError(
            f"the nodes are not connected: {_called(apart)} shares no result with "
            f"{_called(chosen[0])}"
        )
    _check_nothing_between(graph, chosen)


def _check_nothing_between(graph: Graph, chosen: Sequence[Node]) -> None:
    inside, seen = set(chosen), set(chosen)
    last = max(node.label for node in chosen)
    pending = list(chosen)
    while pending:
        node = pending.pop()
        for reader in {r for name in node.output if name for r in graph.consumers(name)} - seen:
            if reader.label < last:
                seen.add(reader)
                pending.append(reader)
    for node in sorted(seen - inside, key=lambda n: n.label):
        if any(
            reader in inside for name in node.output if name for reader in graph.consumers(name)
        ):
            raise ModelError(f"node {_called(node)} lies between the nodes; select it too")


def _text(class_name: str, calls: Calls) -> str:
    """The file."""
    graph, nodes = calls.graph, calls.nodes
    short = class_name.removesuffix("Pattern")
    types = calls.types
    function = LocalFunction(short, calls)
    kinds = {
        name: "Constant" if constant else "Symbol" for name, constant in calls.parameters.items()
    }
    body = "\n".join((*calls.lines, f"        return {', '.join(calls.results)}"))
    operators = ", ".join(dict.fromkeys(node.op_type for node in nodes))
    domains = {
        domain: graph.opsets.get(domain, 1)
        for domain in dict.fromkeys(node.domain for node in nodes)
        if domain
    }
    return filled(
        "from_model",
        title=textwrap.shorten(operators, 80, placeholder=" ..."),
        imports=imports(body, kinds.values(), types.values()),
        function="\n".join(function.lines),
        types=wrapped(
            "TYPES = {",
            [f"{quoted(n)}: TensorProto.{TensorProto.DataType.Name(t)}" for n, t in types.items()],
            "}",
        ),
        name=class_name,
        arrow=textwrap.shorten(f"{operators} → {short}", 100, placeholder=" ..."),
        settings=_settings(
            graph, nodes, (graph.info_of(result).dtype for result in calls.variables)
        ),
        match=signature("match_pattern", "PatternBuilder", kinds, "Symbol", len(calls.results)),
        pattern=body,
        apply=signature(
            "apply_pattern", "PatternRewriter", dict.fromkeys(calls.parameters, "str"), "Any", 1
        ),
        arguments=", ".join(calls.parameters),
        before=function.before,
        after=function.after,
        opset=graph.opsets.get("", 0),
        domains=repr((*domains.items(), (DOMAIN, 1))).replace("'", '"'),
    )


def _settings(graph: Graph, nodes: Sequence[Node], types: Iterable[int]) -> str:
    """Class attributes: the exactness, and the operator sets with the same versions of the
    operators as this one.
    """
    opset = graph.opsets.get("", 0)
    operators = {node.op_type for node in nodes if not node.domain}
    since = {op: since_version(op, "", opset) for op in operators}
    newest = onnx.defs.onnx_opset_version()
    last = next(
        (
            v
            for v in range(opset, newest)
            if any(since_version(op, "", v + 1) != since[op] for op in operators)
        ),
        0,
    )
    lines = ['    exactness = "rounding"'] if any(map(is_float, types)) else []
    lines += [f"    min_opset = {max(version or 1 for version in since.values())}"] if since else []
    lines += [f"    max_opset = {last}"] if last else []
    return "\n".join(("", *lines, "")) if lines else ""


def file_name(class_name: str) -> str:
    """``MatMulAddPattern`` → ``mat_mul_add.py``, ``LSTMActivationPattern`` →
    ``lstm_activation.py``.
    """
    words = class_name.removesuffix("Pattern")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", words).lower() + ".py"


def family_folder(catalogue: Path, family: str) -> Path:
    """The folder of a family of patterns.

    Raises ValueError when the catalogue has no such folder.
    """
    families = sorted(path.parent.name for path in catalogue.glob("*/__init__.py"))
    if not families:
        raise ValueError(
            f"there is no folder {str(catalogue)!r} of families here: a family is one of the "
            "repository of xoptim"
        )
    if family not in families:
        raise ValueError(f"{family!r}: a family is expected, one of {', '.join(families)}")
    return catalogue / family


def write_pattern(class_name: str, folder: Path, model: str = "", nodes: str = "") -> Path:
    """Write a pattern file that runs, as a template or from nodes of a model.

    ``nodes`` are names, with commas between them.

    Raises `ValueError` when the name is not the name of a pattern class, `FileExistsError` when the
    file exists, and `XoptimError` when the nodes cannot be a pattern.
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*Pattern", class_name):
        raise ValueError(f"{class_name!r}: a name such as ReluReluPattern is expected")
    words = [word.strip() for word in nodes.split(",") if word.strip()]
    text = (
        pattern_from_model(class_name, model, words)
        if model
        else filled("pattern", name=class_name)
    )
    path = folder / file_name(class_name)
    with path.open("x", encoding="utf-8") as stream:
        stream.write(text)
    return path


def write_pack(class_name: str, folder: Path, model: str = "", nodes: str = "") -> list[Path]:
    """Write a package with one pattern in a new folder, which gives the project its name.

    Returns the files written.

    Raises `ValueError` when a name is not valid, `FileExistsError` when the folder exists, and
    `XoptimError` when the nodes cannot be a pattern.
    """
    project = folder.resolve().name
    package = re.sub(r"[^a-z0-9]+", "_", project.lower()).strip("_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", package):
        raise ValueError(
            f"{project!r}: a folder is expected whose name can be that of a package, such as "
            "acme-patterns"
        )
    names = {
        "project": project,
        "package": package,
        "entry": package.removesuffix("_patterns") or package,
    }
    texts = {
        folder / "pyproject.toml": filled("project", **names),
        folder / package / "__init__.py": filled("package", **names),
        folder / "tests" / "test_patterns.py": filled("test", **names),
    }
    with ScratchFolder() as draft:  # nothing is written when the pattern cannot be
        pattern = write_pattern(class_name, Path(draft), model, nodes)
        texts[folder / package / pattern.name] = pattern.read_text(encoding="utf-8")
    folder.mkdir(parents=True)
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)
