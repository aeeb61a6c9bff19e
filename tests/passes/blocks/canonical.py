"""Models as terms, which depend neither on the order of nodes nor on the names of results between
them.
"""

from collections.abc import Hashable

import onnx


def canonical(model: onnx.ModelProto) -> list[object]:
    """The nodes of a model as terms.

    Equal for models that have the same nodes on the same operands.

    A term is an operator with its attributes and its operands: earlier terms, or the names of
    inputs and initializers. Each node is a term of its own, even if another one computes the same.
    """
    terms: list[Hashable] = []
    producers = {name: node for node in model.graph.node for name in node.output if name}
    value: dict[str, Hashable] = {"": ""}
    for result in model.graph.output:
        pending = [result.name]
        while pending:
            node = producers.get(pending[-1])
            if node is None:
                value.setdefault(pending[-1], pending[-1])
            elif missing := [name for name in node.input if name not in value]:
                pending += missing[::-1]
                continue
            elif pending[-1] not in value:
                attributes = tuple(
                    sorted(a.SerializeToString(deterministic=True) for a in node.attribute)
                )
                terms.append(
                    (
                        node.domain,
                        node.op_type,
                        attributes,
                        tuple(value[name] for name in node.input),
                        len(node.output),
                    )
                )
                value.update(
                    (name, (len(terms), place)) for place, name in enumerate(node.output) if name
                )
            pending.pop()
    imports = [
        (entry.domain, entry.version) for entry in model.opset_import if entry.domain != "outlined"
    ]
    constants = sorted(tensor.name for tensor in model.graph.initializer)
    outputs = [(each.name, value[each.name]) for each in model.graph.output]
    return [imports, constants, terms, outputs, len(model.graph.node)]
