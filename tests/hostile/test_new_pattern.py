"""Models whose names and texts would be code in a pattern file that is made from them."""

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.cli.command import Xopt, files
from tests.support import types
from xoptim import EasyPatternOptimization, optimize
from xoptim.catalogue.discovery import patterns_of
from xoptim.scaffold.from_model import quoted
from xoptim.scaffold.new_pattern import filled
from xoptim.scaffold.skeleton import fault_in

RUN = "open('ran', 'w')"
"""Code that leaves a file in the current folder."""


def model(
    op_type: str = "Mix", domain: str = "acme", name: str = "n", **attributes: Any
) -> onnx.ModelProto:
    """A model with one node of another domain, and a Neg."""
    node = helper.make_node(op_type, ["x"], ["t"], domain=domain, name=name)
    node.attribute.extend(helper.make_attribute(key, each) for key, each in attributes.items())
    nodes = [node, helper.make_node("Neg", ["t"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["a"])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["a"])],
        value_info=[helper.make_tensor_value_info("t", onnx.TensorProto.FLOAT, ["a"])],
    )
    versions = {"": 18, domain: 1}
    opsets = [helper.make_opsetid(name, version) for name, version in versions.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def with_attributes(attributes: dict[str, Any]) -> onnx.ModelProto:
    """A model whose node has attributes of any names."""
    return model(**attributes)


def with_domain() -> onnx.ModelProto:
    """A model whose node has an attribute of this name."""
    made = model(domains=RUN)
    made.graph.node[0].attribute[0].name = "domain"
    return made


WRITTEN = {
    "a keyword as operator": model("class"),
    "a dunder as operator": model("__class__"),
    "a function that imports, as operator": model("__import__"),
    "an attribute of the object as operator": model("_builder"),
    "an attribute of Python as operator": model("__getattr__"),
    "None as operator": model("None"),
    "a keyword as attribute": with_attributes({"class": 2, "from": 3}),
    "self and g as attributes": model(self=1, g=2, op=3, operands=4),
    "dunders as attributes": with_attributes({"__class__": 1, "__debug__": 2, "__x": 3}),
    "a string that ends the literal": model(mode=f"', {RUN}, '"),
    "a string that ends three quotes": model(mode=f'"""\n{RUN}\n"""'),
    "a string of backslashes": model(mode='\\\\" \\N{BULLET} \\x00 \\'),
    "a string that ends with a backslash": model(mode="\\"),
    "a string with separators of lines": model(mode=f"a\u2028{RUN}\u2029{RUN}\x85{RUN}\x0b\x0c"),
    "a string with line ends": model(mode=f"a\r{RUN}\r\n{RUN}\n"),
    "a string with braces": model(mode="{0} {class_name} {{}} {calls}"),
    "a string that turns the direction of text": model(mode=f"\u202e{RUN}\u2066#"),
    "strings": model(modes=["'", '"', RUN, "\n"]),
    "names of nodes": model(name=f'n"""\n{RUN}'),
    "a long string of words": model(mode="two  words " * 40),
    "a tensor as attribute": model(value=numpy_helper.from_array(np.array([1.5], np.float32))),
    "a domain of Python": model(domain="os.path.__class__"),
}
REFUSED = {
    "a call as operator": (model(f"x); {RUN}; g.op.Neg(x"), "ONNX text cannot express"),
    "lines as operator": (model(f"Relu\n        {RUN}"), "ONNX text cannot express"),
    "three quotes as operator": (model(f'"""\n{RUN}\n"""'), "ONNX text cannot express"),
    "letters that Python changes": (model("ﬁne"), "ONNX text cannot express"),
    "a space": (model("a b"), "ONNX text cannot express"),
    "quotes as domain": (model(domain=f'a", x={RUN}, y="'), "ONNX text cannot express"),
    "lines as domain": (model(domain=f'a"""\n{RUN}\n"""'), "ONNX text cannot express"),
    "a call as attribute": (with_attributes({f"x={RUN}, y": 1}), "ONNX text cannot express"),
    "quotes as attribute": (with_attributes({f"x': {RUN}, 'y": 1}), "ONNX text cannot express"),
    "an operator that does not exist": (model("__class__", domain=""), "__class__"),
    "attributes": (model(attributes=1), "'attributes', which is a keyword of patterns"),
    "outputs": (model(outputs=RUN), "'outputs', which is a keyword of patterns"),
    "domain": (with_domain(), "'domain', which is a keyword"),
    "infinity": (model(alpha=float("inf")), "cannot be written as Python"),
    "NaN": (model(alpha=float("nan")), "cannot be written as Python"),
    "NaN in a list": (model(alphas=[0.5, float("nan")]), "cannot be written as Python"),
    "bytes": (model(mode=b"\xff\xfe"), "xopt: error"),
}
COMMAND = ("new-pattern", "FusedPattern", "--from", "model.onnx", "--nodes", "t,y")


def loaded(path: Path) -> type[EasyPatternOptimization]:
    """The pattern in a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (pattern,) = patterns_of(module)
    assert issubclass(pattern, EasyPatternOptimization)
    return pattern


@pytest.mark.parametrize("hostile", WRITTEN.values(), ids=WRITTEN)
def test_texts_are_written_as_literals(xopt: Xopt, hostile: onnx.ModelProto) -> None:
    """The file is imported, its example is parsed, and the pattern finds the nodes of the model."""
    onnx.save(hostile, "model.onnx")
    assert xopt(*COMMAND) == (0, "fused.py\n", "")
    pattern = loaded(Path("fused.py"))
    (example,) = pattern.examples
    (node, _) = onnx.parser.parse_graph(example.before).node
    original = hostile.graph.node[0]
    assert (node.op_type, node.domain) == (original.op_type, original.domain)
    assert {each.name for each in node.attribute} == {each.name for each in original.attribute}
    made = optimize(hostile, patterns=[pattern], strict=True, constant_folding=False, merge=False)
    assert types(made) == ["Fused"]
    (function,) = made.functions
    body = {each.op_type: each for each in function.node}
    expected = {each.name: each.SerializeToString() for each in original.attribute}
    found = {each.name: each.SerializeToString() for each in body[original.op_type].attribute}
    assert {key: found[key] for key in expected if key != "value"} == {
        key: value for key, value in expected.items() if key != "value"
    }
    assert files() <= {"model.onnx", "fused.py", "__pycache__"}


@pytest.mark.parametrize(("hostile", "message"), REFUSED.values(), ids=REFUSED)
def test_others_are_refused(xopt: Xopt, hostile: onnx.ModelProto, message: str) -> None:
    onnx.save(hostile, "model.onnx")
    outcome = xopt(*COMMAND)
    assert outcome.error
    assert message in outcome.err
    assert files() == {"model.onnx"}
    assert xopt(*COMMAND, "--pack", "acme-patterns").code == 2
    assert files() == {"model.onnx"}


@pytest.mark.parametrize(
    "folder", ['acme"\nx = "', "acme\\", 'a"""b', "class", "acme'x", "12", "a\nb", "acmé"]
)
def test_names_of_folders(xopt: Xopt, folder: str) -> None:
    outcome = xopt("new-pattern", "AbsAbsPattern", "--pack", folder)
    assert " package" in outcome.error
    assert files() == set()


@pytest.mark.parametrize(
    "text",
    ["", '"', '"""', '""""""', "\\", '\\"""', 'a\n"', "\r\n", "\x00\x1a", "\u2028", "\udcff", "{}"],
)
def test_quoted_texts_are_read_back(text: str) -> None:
    for before in ("", "\n"):
        assert ast.literal_eval(f'"""{before}{quoted(text)}{before}"""') == before + text + before


# -------------------------------------------------------------------- the second guard

TEMPLATE = filled(
    "from_model",
    name="FusedPattern",
    short="Fused",
    imports="from onnx import TensorProto",
    operands="x1: Symbol",
    arguments="x1: str",
    names="x1",
    opset=18,
    operators="",
    types='{"x1": (TensorProto.FLOAT,)}',
    domains="()",
    calls="relu_1 = g.op.Relu(x1)",
    results="relu_1",
    function="",
    before="",
    after="",
)
CALL = "g.op.Relu(x1)"


def replaced(old: str, new: str) -> Callable[[], str]:
    def change() -> str:
        assert old in TEMPLATE
        return TEMPLATE.replace(old, new, 1)

    return change


@pytest.mark.parametrize(
    "change",
    [
        replaced(CALL, "g.op.Relu(x1, axis=-1, mode='a', perm=[1, [2]])"),
        replaced(CALL, "g.op['class'](x1, None, np.array([1.5]), **{'from': 1})"),
        replaced(
            CALL, "g.op.X(v=lambda t: numpy_helper.to_array(t).tolist() == [1, 2], domain='a')"
        ),
        replaced("relu_1 = ", "relu_1, _relu_1_1 = "),
    ],
)
def test_files_that_a_template_allows(change: Callable[[], str]) -> None:
    assert fault_in(change(), TEMPLATE) == ""


@pytest.mark.parametrize(
    "change",
    [
        replaced(CALL, RUN),
        replaced(CALL, f"g.op.Relu({RUN})"),
        replaced(CALL, f"g.op.Relu(x1, axis={RUN})"),
        replaced(CALL, f"g.op.Relu(x1, **{RUN})"),
        replaced(CALL, f"g.op.Relu(x1, **{{**{RUN}}})"),
        replaced(CALL, f"g.op.Relu(x1, **{{{RUN}: 1}})"),
        replaced(CALL, f"g.op.Relu(*{RUN})"),
        replaced(CALL, f"g.op[{RUN}](x1)"),
        replaced(CALL, "g.op.__class__(x1)"),
        replaced(CALL, "g.add(x1)"),
        replaced(CALL, f"g.op.Relu(np.array({RUN}))"),
        replaced(CALL, f"g.op.Relu(x1, v=lambda t: {RUN} == 0)"),
        replaced(CALL, f"g.op.Relu(x1, v=lambda t={RUN}: numpy_helper.to_array(t).tolist() == 0)"),
        replaced(CALL, f"g.op.Relu(x1)\n        {RUN}"),
        replaced(CALL, f"g.op.Relu(x1); {RUN}"),
        replaced(CALL, f"g.op.Relu(x1, f'{{{RUN}}}')"),
        replaced("relu_1 = ", "g = "),
        replaced("relu_1 = ", "relu_1 = np.array = "),
        replaced("return relu_1", f"return {RUN}"),
        replaced("x1: Symbol", f"x1: {RUN}"),
        replaced("x1: Symbol", f"x1=({RUN})"),
        replaced("class FusedPattern", f"@{RUN}\nclass FusedPattern"),
        replaced("    exactness", f"    x = {RUN}\n    exactness"),
        replaced("(TensorProto.FLOAT,)", f"({RUN},)"),
        replaced('"x1": (', f"{RUN}: ("),
        replaced("domains=()", f"domains=({RUN},)"),
        replaced("opset=18", f"opset={RUN}"),
        replaced("from typing", f"{RUN}\nfrom typing"),
        replaced("from typing import Any", "from typing import Any\nimport os"),
        replaced("from onnx import TensorProto", "from evil import TensorProto"),
        replaced('FUNCTION = """', f'FUNCTION = {RUN} or """'),
        replaced('FUNCTION = """', 'FUNCTION = f"""{open}'),
        replaced("return relu_1", "return relu_1 ("),
        replaced("return relu_1", "return relu_1 # \x00"),
    ],
)
def test_files_that_a_template_does_not_allow(change: Callable[[], str]) -> None:
    assert fault_in(change(), TEMPLATE)
