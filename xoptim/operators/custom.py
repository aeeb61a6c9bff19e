"""Facts about custom operators, and models in which these operators are defined."""

from collections.abc import Mapping
from typing import Final

import onnx

from xoptim.facts.operators import add_schemas
from xoptim.facts.protos import every_node, opset_versions, standard_domain
from xoptim.facts.schema import KNOWN_DOMAINS
from xoptim.operators.registry import OPERATORS, Operator, OperatorKey, Trait, is_deterministic

_DEFINITIONS: Final[dict[OperatorKey, onnx.FunctionProto]] = {}
_MIN_IR_VERSION: Final = 8  # the first with local functions


def add_operators(operators: Mapping[str, Operator]) -> None:
    """Add facts about custom operators, by names such as ``acme::Foo``.

    Raises `ValueError` when a name is not that of a custom operator, when another pack describes
    it, or when its definition or its schema has another name.
    """
    rows = {_key(name): operator for name, operator in operators.items()}
    for key, operator in rows.items():
        for stated in (operator.definition, operator.schema):
            if stated is not None and (stated.domain, stated.name) != key:
                raise ValueError(f"{'::'.join(key)} describes {stated.domain}::{stated.name}")
    add_schemas(row.schema for row in rows.values() if row.schema is not None)
    OPERATORS.update(rows)
    described = {key: row.definition for key, row in rows.items() if row.definition is not None}
    _DEFINITIONS.update(described)
    while random := [key for key, function in described.items() if _hides_random(key, function)]:
        for key in random:
            OPERATORS[key].traits.add(Trait.NON_DETERMINISTIC)


def _hides_random(key: OperatorKey, definition: onnx.FunctionProto) -> bool:
    """Whether an operator that counts as deterministic has a definition that is not."""
    domain, op_type = key
    return is_deterministic(op_type, domain) and not all(
        is_deterministic(node.op_type, standard_domain(node.domain))
        for node in every_node(definition.node)
    )


def _key(name: str) -> OperatorKey:
    domain, _, op_type = name.rpartition("::")
    if standard_domain(domain) in KNOWN_DOMAINS or not op_type:
        raise ValueError(f"{name!r} is not the name of a custom operator, such as 'acme::Foo'")
    if (domain, op_type) in OPERATORS:
        raise ValueError(f"{name} is described twice")
    return domain, op_type


def _missing_definitions(model: onnx.ModelProto) -> list[onnx.FunctionProto]:
    """The definitions of custom operators that a model calls and does not define itself."""
    if not _DEFINITIONS:
        return []
    own = {(function.domain, function.name) for function in model.functions}
    pending = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    missing: dict[OperatorKey, onnx.FunctionProto] = {}
    while pending:
        keys = {(node.domain, node.op_type) for node in every_node(pending)}
        called = sorted(keys & _DEFINITIONS.keys() - own - missing.keys())
        missing |= {key: _DEFINITIONS[key] for key in called}
        pending = [node for key in called for node in missing[key].node]
    return list(missing.values())


def with_definitions(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model in which custom operators are local functions: a copy if any is defined, else the
    model itself.
    """
    definitions = _missing_definitions(model)
    if not definitions:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.functions.extend(definitions)
    copy.ir_version = max(copy.ir_version, _MIN_IR_VERSION)
    imports = opset_versions(copy.opset_import)
    for definition in definitions:
        for domain, version in opset_versions(definition.opset_import).items():
            if domain not in imports:
                imports[domain] = version
                copy.opset_import.append(onnx.helper.make_opsetid(domain, version))
    return copy
