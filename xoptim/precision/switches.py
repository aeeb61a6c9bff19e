"""One model with a switch for each candidate, so that any choice of them runs in one session.

A switch is a Boolean input. It is the condition of an If that computes a result in float32 in one
branch, and quantized in the other. Each value of a model has its own name here, also in subgraphs.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy

import onnx
from onnx import TensorProto, helper

from xoptim.facts.protos import inner_graphs
from xoptim.match.quantization import first_result
from xoptim.precision.candidates import Form
from xoptim.precision.shared_initializers import digest, reads_blocks
from xoptim.precision.subgraphs import ResultSubgraph
from xoptim.preparation.ports import defined_names


def with_switches(
    before: onnx.ModelProto, subgraphs: Mapping[Form, ResultSubgraph], *, is_optimized: bool = True
) -> tuple[onnx.ModelProto, dict[Form, str]]:
    """A model that computes each result as before, or by one of its subgraphs if the Boolean input
    of this subgraph is true.

    Args:
        before: the model.
        subgraphs: the subgraphs that compute a result, by the names of result and pattern.
        is_optimized: whether onnxruntime optimizes the model when it loads it.

    Returns:
        The model, and the name of the input that switches each subgraph.
    """
    model = onnx.ModelProto()
    model.CopyFrom(before)
    reserved = defined_names(before)
    switches: dict[Form, str] = {}
    branches: dict[str, list[tuple[str, ResultSubgraph]]] = {}
    for (result, pattern), subgraph in subgraphs.items():
        name = f"switch_{len(switches)}"
        while name in reserved:
            name = f"{name}_"
        switches[result, pattern] = name
        branches.setdefault(result, []).append((name, subgraph))
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.BOOL, ()))
    writer = _SwitchWriter(model.graph, is_optimized)
    # inner graphs first, as a node is copied with its subgraphs
    for graph in reversed([model.graph, *inner_graphs(model.graph.node)]):
        nodes = [deepcopy(node) for node in graph.node]
        del graph.node[:]
        for node in nodes:
            writer.write(graph.node.add(), node, branches.get(first_result(node), ()))
    return model, switches


class _SwitchWriter:
    """Writes each If in place of its node, so that weights, which fill most of the memory, are
    copied once.

    Initializers go to the main graph, where they may exceed the 2 GiB of a protobuf. Equal ones,
    such as those of an embedding and a MatMul, are stored once. Block-wise weights stay in their
    subgraph if onnxruntime optimizes the model: version 1.32 then does not load a subgraph that
    dequantizes block-wise weights of an outer graph.
    """

    def __init__(self, main: onnx.GraphProto, is_optimized: bool) -> None:
        self._main = main
        self._is_optimized = is_optimized
        self._owners = dict[bytes, str]()

    def write(
        self,
        target: onnx.NodeProto,
        node: onnx.NodeProto,
        branches: Sequence[tuple[str, ResultSubgraph]],
    ) -> None:
        """Write a node; or an If with the last subgraph in one branch, and in the other one the
        node with the remaining subgraphs.
        """
        if not branches:
            target.CopyFrom(node)
            return
        switch, subgraph = branches[-1]
        target.op_type = "If"
        target.input.append(switch)
        target.output.extend(name for name in node.output if name)
        quantized = _branch(target, "then_branch", f"{switch}_on")
        names = self._store(subgraph, quantized)
        results = [name for member in subgraph.nodes for name in member.output if name]
        names |= {name: f"{quantized.name}/{name}" for name in results}
        for member in subgraph.nodes:
            copy = quantized.node.add()
            copy.CopyFrom(member)
            _rename(copy, names)
        plain = _branch(target, "else_branch", f"{switch}_off")
        fallback = plain.node.add()
        self.write(fallback, node, branches[:-1])
        _rename(fallback, {name: f"{plain.name}/{name}" for name in target.output})

    def _store(self, subgraph: ResultSubgraph, branch: onnx.GraphProto) -> dict[str, str]:
        """Store the initializers of a subgraph; returns their new names."""
        readers = [node for node in subgraph.nodes if self._is_optimized and reads_blocks(node)]
        blocks = {name for node in readers for name in node.input}
        names = dict[str, str]()
        for tensor in subgraph.initializers:
            name = f"{branch.name}/{tensor.name}"
            is_block = tensor.name in blocks
            names[tensor.name] = name if is_block else self._owners.setdefault(digest(tensor), name)
            if names[tensor.name] == name:
                copy = (branch if is_block else self._main).initializer.add()
                copy.CopyFrom(tensor)
                copy.name = name
        return names


def _branch(owner: onnx.NodeProto, name: str, prefix: str) -> onnx.GraphProto:
    """A new branch without nodes. Names in it begin with a prefix: a subgraph may not define a name
    of the graph around it.
    """
    branch: onnx.GraphProto = owner.attribute.add(name=name, type=onnx.AttributeProto.GRAPH).g
    branch.name = prefix
    for result in owner.output:
        output = branch.output.add(name=f"{prefix}/{result}")
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    return branch


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Rename the inputs and outputs of a node of a branch, and clear the name of the node."""
    node.name = ""
    for field in (node.input, node.output):
        field[:] = [names.get(name, name) for name in field]
