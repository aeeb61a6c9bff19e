"""Start a pattern file, from a template or from nodes of a model."""

import errno
import keyword
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from onnx import TensorProto

from xoptim.facts.errors import ModelError
from xoptim.match.create import DOMAIN
from xoptim.scaffold.from_model import ChosenPart, chosen_nodes, quoted
from xoptim.scaffold.skeleton import fault_in
from xoptim.system.journal import ScratchFolder
from xoptim.system.temporary import make_folder, write_file


def pattern_from_model(class_name: str, model: Any, nodes: Sequence[str]) -> str:
    """The text of a pattern file that finds some nodes of a model wherever they occur.

    The replacement is a call of a local function with the same body. Long lines are left to a
    formatter. Raises `ModelError` when the nodes cannot be a pattern.

    Args:
        class_name: the name of the pattern.
        model: a path, or the model.
        nodes: see `xoptim.scaffold.from_model.chosen_nodes`.
    """
    graph, subgraph = chosen_nodes(model, nodes)
    part = ChosenPart(graph, subgraph)
    short = class_name.removesuffix("Pattern")
    operators = ", ".join(dict.fromkeys(node.op_type for node in subgraph))
    kinds = {word: "Constant" if part.is_constant(word) else "Symbol" for word in part.parameters}
    types = ", ".join(
        f'"{word}": (TensorProto.{_type_name(dtype)},)' for word, dtype in part.types().items()
    )
    domains = {node.domain: graph.opsets.get(node.domain, 1) for node in subgraph if node.domain}
    calls = part.calls()
    fields = {
        "name": class_name,
        "short": short,
        "imports": _imports("\n".join(calls), kinds.values()),
        "operands": ", ".join(f"{word}: {kind}" for word, kind in kinds.items()),
        "arguments": ", ".join(f"{word}: str" for word in kinds),
        "names": ", ".join(kinds),
        "opset": graph.opsets.get("", 0),
    }
    text = filled(
        "from_model",
        **fields,
        operators=textwrap.shorten(operators, 60, placeholder=" ..."),
        types=f"{{{types}}}",
        domains=repr((*domains.items(), (DOMAIN, 1))),
        calls="\n        ".join(calls),
        results=", ".join(part.results),
        function=quoted(part.function(short)),
        before=quoted(part.before()),
        after=quoted(part.after(short)),
    )
    _check(text, fields)
    return text


def _type_name(dtype: int) -> str:
    """The name of an element type; raises `ModelError` for one that onnx does not have."""
    if dtype not in TensorProto.DataType.values():
        raise ModelError(f"the nodes cannot be written as a pattern: onnx has no type {dtype}")
    return TensorProto.DataType.Name(dtype)


def _check(text: str, fields: Mapping[str, object]) -> None:
    """Raise `ModelError` when texts of the model are more than literals in the template."""
    empty = dict.fromkeys(("operators", "function", "before", "after"), "")
    template = filled(
        "from_model", **fields, **empty, types="{}", domains="()", calls="pass", results="x1"
    )
    fault = fault_in(text, template)
    if fault:
        raise ModelError(f"the nodes cannot be written as a pattern: {fault}")


def _imports(calls: str, kinds: Iterable[str]) -> str:
    """The imports of a file whose `match_pattern` has some calls, and annotations of some kinds."""
    words = {"EasyPatternOptimization", "Example", "PatternBuilder", "PatternRewriter", *kinds}
    numpy = "import numpy as np\n" if "np." in calls else ""
    helper = ", numpy_helper" if "numpy_helper" in calls else ""
    names = ", ".join(sorted(words))
    return f"{numpy}from onnx import TensorProto{helper}\n\nfrom xoptim.match import {names}"


def filled(template: str, **texts: object) -> str:
    """A template of this folder with its fields filled in."""
    path = resources.files("xoptim.scaffold") / f"{template}.txt"
    return path.read_text(encoding="utf-8").format(**texts)


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
            f"there is no folder {str(catalogue)!r} of families here; run this in a clone of the "
            "xoptim repository"
        )
    if family not in families:
        raise ValueError(f"there is no family {family!r}; the families are {', '.join(families)}")
    return catalogue / family


def write_pattern(class_name: str, folder: Path, model: str = "", nodes: str = "") -> Path:
    """Write a pattern file that runs, as a template or from nodes of a model.

    ``nodes`` are names, with commas between them.

    Raises `ValueError` when the name is not the name of a pattern class, `FileExistsError` when the
    file exists, and `XoptimError` when the nodes cannot be a pattern.
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*Pattern", class_name):
        raise ValueError(f"{class_name!r} is not a class name such as ReluReluPattern")
    words = [word.strip() for word in nodes.split(",") if word.strip()]
    text = (
        pattern_from_model(class_name, model, words)
        if model
        else filled("pattern", name=class_name)
    )
    path = folder / file_name(class_name)
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    write_file(path, text.encode())
    return path


def write_pack(class_name: str, folder: Path, model: str = "", nodes: str = "") -> list[Path]:
    """Write a package with one pattern in a new folder, which gives the project its name.

    Returns the written files.

    Raises `ValueError` when a name is not valid, `FileExistsError` when the folder exists, and
    `XoptimError` when the nodes cannot be a pattern.
    """
    project = folder.resolve().name
    package = re.sub(r"[^a-z0-9]+", "_", project.lower()).strip("_")
    # both are written into sources and a TOML file
    is_plain = re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", project) is not None
    if not is_plain or not package[:1].isalpha() or keyword.iskeyword(package):
        raise ValueError(
            f"{project!r} cannot be the name of a package; name the folder like acme-patterns"
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
        parts = path.relative_to(folder).parts
        write_file(make_folder(folder, *parts[:-1]) / parts[-1], text.encode())
    return list(texts)
