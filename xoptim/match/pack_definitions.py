"""Patterns that follow from the definitions of custom operators in packs."""

import re
from typing import Final

from onnx import AttributeProto, FunctionProto, NodeProto

from xoptim.facts.protos import inner_graphs, standard_domain
from xoptim.facts.schema import attribute_defaults, schema, since_version
from xoptim.match.by_definition import FusionByDefinition, LoweringByDefinition
from xoptim.match.definitions import constant_of, definition_with
from xoptim.match.easy import EasyPatternOptimization, Match
from xoptim.match.view import GraphView
from xoptim.operators.definitions import defined
from xoptim.operators.registry import Trait, has_trait, is_deterministic

_NUMBERS: Final = ("value", "value_float", "value_floats", "value_int", "value_ints")
"""The attributes of a Constant of numbers."""


def definition_patterns(domain: str, op_type: str) -> list[type[EasyPatternOptimization]]:
    """The patterns that follow from the definition of a custom operator.

    ``LowerAcmeGlu`` writes the nodes of the definition of ``acme::Glu``, ``FuseAcmeGlu`` recognizes
    them. Empty for an operator without a definition, and for one whose definition has subgraphs,
    random numbers, an operand without a reader, or constants other than numbers.
    """
    operator = defined(domain, op_type)
    if operator is None or not is_deterministic(op_type, domain) or not _is_plain(operator.body):
        return []
    label = "".join(part[:1].upper() + part[1:] for part in (*re.split(r"\W+", domain), op_type))
    call, nodes = f"{domain}.{op_type}({', '.join(operator.body.input)})", _shown(operator.body)
    fields = {"operator": op_type, "domain": domain, "__module__": __name__}
    lower = {"__doc__": _LOWER_DOC.format(call=call, nodes=nodes)}
    fuse = {"__doc__": _FUSE_DOC.format(call=call, nodes=nodes), "produces": (domain,)}
    return [
        type(f"Lower{label}Pattern", (_PackLowering,), {**fields, **lower}),
        type(f"Fuse{label}Pattern", (_PackFusion,), {**fields, **fuse}),
    ]


class _PackLowering(LoweringByDefinition):
    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Refuse calls of a local function of another definition, and operator sets in which an
        operator of the definition differs.
        """
        graph = m.nodes[0].graph
        if graph is None or (self.domain, self.operator) in graph.model.hidden_operators:
            return self.none(m.nodes[0], msg="a local function of the model hides the operator")
        if not _has_form_of(self.defined().body, g.main_opset):
            return self.none(m.nodes[0], msg=_OTHER_FORM)
        return super().validate_mapping(g, m)


class _PackFusion(FusionByDefinition):
    phase = "target"

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Refuse operator sets in which an operator of the definition differs."""
        if not _has_form_of(self.defined().body, g.main_opset):
            return self.none(m.nodes[0], msg=_OTHER_FORM)
        return super().validate_mapping(g, m)


_OTHER_FORM: Final = "an operator of the definition differs in this operator set"
_LOWER_DOC: Final = """{call} → {nodes}

    What: writes the nodes of the definition that a pack states.
    Why: only the runtime of the pack has a kernel of the operator.
    Refuses when:
    1. an attribute is computed, infinite or NaN.
    2. an operator of the definition differs in the operator set of the model.
    3. a local function of the model has the name of the operator, and another definition.
    """
_FUSE_DOC: Final = """{nodes} → {call}

    What: recognizes the nodes of the definition that a pack states.
    Why: the runtime of the pack has a kernel of the operator.
    Refuses when:
    1. a number does not fit the attribute.
    2. an operator of the definition differs in the operator set of the model.
    """


def _is_plain(body: FunctionProto) -> bool:
    """Whether patterns can write and recognize the nodes of a definition."""
    computed = [node for node in body.node if node.op_type != "Constant" or node.domain]
    constants = [node for node in body.node if node.op_type == "Constant" and not node.domain]
    are_numbers = all(
        attribute.name in _NUMBERS
        and (not attribute.ref_attr_name or attribute.type == AttributeProto.FLOAT)
        for node in constants
        for attribute in node.attribute
    )
    read_names = {name for node in computed for name in node.input}
    made_names = {name for node in computed for name in node.output}
    has_graphs = any(True for _ in inner_graphs(body.node))
    return (
        are_numbers
        and not has_graphs
        and {*body.input} <= read_names
        and {*body.output} <= made_names
    )


def _has_form_of(body: FunctionProto, opset: int) -> bool:
    """Whether the operators of a definition mean the same in the operator set of a model."""
    stated = next((entry.version for entry in body.opset_import if not entry.domain), opset)
    nodes = (node for node in body.node if not standard_domain(node.domain))
    return all(_is_same(node, stated, opset) for node in nodes)


def _is_same(node: NodeProto, stated: int, opset: int) -> bool:
    versions = [since_version(node.op_type, "", number) for number in (stated, opset)]
    if versions[0] == versions[1]:
        return versions[0] is not None
    schemas = [schema(node.op_type, "", number) for number in (stated, opset)]
    if None in schemas or has_trait("", node.op_type, Trait.SOFTMAX):  # another meaning since 13
        return False
    forms = [
        ([operand.name for operand in definition.inputs], sorted(definition.attributes))
        for definition in schemas
        if definition is not None
    ]
    defaults = [attribute_defaults(node.op_type, "", number) for number in (stated, opset)]
    return forms[0] == forms[1] and defaults[0] == defaults[1]


def _shown(body: FunctionProto) -> str:
    """The results of a definition as expressions."""
    texts: dict[str, str] = {}
    for step in definition_with(body, _Name).steps:
        if step.op_type == "Constant":
            (value,) = step.attributes.values()
            text = value if isinstance(value, _Name) else str(constant_of(step).tolist())
        else:
            text = f"{step.op_type}({', '.join(texts.get(name, name) for name in step.inputs)})"
        texts.update(dict.fromkeys(step.outputs, text))
    return ", ".join(texts.get(name, name) for name in body.output)


class _Name(str):
    """The name of an attribute of the operator, in place of its value."""
