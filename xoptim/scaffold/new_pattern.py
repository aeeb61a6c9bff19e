"""Start a pattern file, from a template or from nodes of a model."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from xoptim.diagnose.explanation import locate
from xoptim.facts.attributes import AttributeReference
from xoptim.facts.dtypes import is_float
from xoptim.facts.errors import ModelError
from xoptim.facts.schema import since_version
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.sources import Source
from xoptim.match.create import DOMAIN
from xoptim.scaffold.calls import Calls
from xoptim.scaffold.local_function import LocalFunction
from xoptim.scaffold.source_text import dictionary, filled, imports, quoted, signature
from xoptim.system.journal import ScratchFolder


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
        types=dictionary(
            "TYPES",
            [f"{quoted(n)}: TensorProto.{TensorProto.DataType.Name(t)}" for n, t in types.items()],
        ),
        name=class_name,
        arrow=textwrap.shorten(f"{operators} → {short}", 90, placeholder=" ..."),
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
