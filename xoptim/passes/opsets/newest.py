"""Raise a model to a newer operator set, or to the newest one that onnxruntime supports for it."""

from collections.abc import Iterable
from functools import cache
from typing import Any, Final, Literal

import onnx
from onnx import TensorProto

from xoptim.facts.dtypes import is_integer
from xoptim.facts.errors import ModelError
from xoptim.facts.lazy import lazy_module
from xoptim.facts.operators import has_kernel, slows_down
from xoptim.facts.schema import schema
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.rewrite import Step
from xoptim.operators.registry import Trait, operators_with
from xoptim.passes.opsets.adapters import is_unchanged, raised
from xoptim.passes.opsets.adapters_normalizations import ONE_AXIS, ONE_AXIS_SINCE
from xoptim.passes.opsets.call import OpsetCall, Refused
from xoptim.passes.opsets.changes import operators, versions
from xoptim.passes.opsets.plan import OpsetPlan, carry_out, check_calls, check_known, label, roots


class CannotBeRaised(ModelError):  # noqa: N818 - reads as a sentence
    """A node cannot be expressed in an operator set."""

    def __init__(self, message: str, version: int) -> None:
        super().__init__(message)
        self.version = version  # the first operator set that excludes it


def raise_model(model: Model, target: int) -> int:
    """Raise a model in place: its graphs, subgraphs and local functions compute the same in a newer
    operator set. All changes are planned first.

    Operator sets of other domains stay as they are. A model that has the operator set, or imports
    none of the standard domain, is left unchanged. Returns the number of nodes that were replaced.
    Raises `ModelError` when the model has a newer set already, the set is unknown, or a node cannot
    be expressed in it. The model is then unchanged.
    """
    check_target(model, target)
    if model.opsets.get("", target) == target:
        return 0
    return carry_out(model, plan(model, target))


def check_target(model: Model, target: int) -> None:
    """Raise `ModelError` unless a model may be raised to an operator set, whatever its nodes."""
    newest, present = onnx.defs.onnx_opset_version(), model.opsets.get("")
    if isinstance(target, bool) or not isinstance(target, int) or not 1 <= target <= newest:
        raise ModelError(
            f"there is no operator set {target!r}: the installed onnx {onnx.__version__} has 1 to "
            f"{newest}"
        )
    if present is not None and target < present:
        raise ModelError(
            f"the model has operator set {present}, which is newer than {target}; models are only "
            "raised"
        )


def plan(model: Model, target: int) -> OpsetPlan:
    """The changes that raise a model to an operator set. The model is left unchanged.

    Raises `CannotBeRaised` when a node cannot be expressed in the operator set.
    """
    opset_plan = OpsetPlan(target)
    if model.shell.training_info:
        raise CannotBeRaised(
            "the model contains training graphs, which cannot be raised",
            model.opsets.get("", 0) + 1,
        )
    for place, root in roots(model):
        if root.opsets.get("", target) < target:
            opset_plan.graphs[root] = None
            for graph in root.all_graphs():
                for node in graph.nodes:
                    _plan_node(opset_plan, graph, node, place)
    return opset_plan


def _plan_node(opset_plan: OpsetPlan, graph: Graph, node: Node, place: str) -> None:
    start, target = graph.opsets[""], opset_plan.target
    if node.domain or (
        schema(node.op_type, "", start) is not None and is_unchanged(node.op_type, start, target)
    ):
        return
    try:
        check_known(node, start, target)
        call = OpsetCall.of(node, graph, target)
        calls = raised(call)
        if len(calls) == 1 and call.is_call_of(node):
            return
        check_calls(calls, graph.model, target)
    except Refused as refusal:
        version = refusal.version or target
        raise CannotBeRaised(
            f"{label(node)}{place} cannot be raised to operator set {version}: {refusal}", version
        ) from None
    opset_plan.calls[node] = calls


_onnxruntime = lazy_module("onnxruntime")

_FUSED_SINCE: Final = 17
"""Operator set of LayerNormalization, the first operator that replaces a common subgraph."""
_FUSED_TYPES: Final = (TensorProto.FLOAT, TensorProto.FLOAT16)
_MAX_ADDED: Final = 0.05
"""Fraction of nodes that the newest set may add."""
_SIGNED_SINCE: Final = 21
"""Operator set since which the result type of QuantizeLinear may be an attribute."""
_MOVED_BEFORE_QUANTIZING: Final = operators_with(Trait.MOVES) - {"Expand", "Identity", "Tile"} | {
    "Einsum",
    "MaxPool",
}
"""Operators after which onnxruntime inserts a QuantizeLinear if a DequantizeLinear precedes them,
and operators that patterns replace by such operators.
"""
_MULTIPLYING: Final = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul", "QuantizeLinear"))
"""Operators that end a search for `_MOVED_BEFORE_QUANTIZING`: no pattern moves data movement from
after them to before them.
"""
_BODY_OPERATORS: Final = {"Bernoulli": "RandomUniformLike"}
"""Operators that run as functions, and an operator of the body that may have no kernel of a newer
set.
"""


class RaiseOperatorSet(Step):
    """Raises a model to an operator set: ``"newest"`` for `newest_for`, ``None`` for no change."""

    title = "raise_operator_set"

    def __init__(self, target: int | Literal["newest"] | None, provider: str) -> None:
        self.target = target
        self.provider = provider
        self.has_raised = False  # whether it has changed the set

    def run(self, model: Model) -> int:
        """Raise the model; returns and raises as `raise_model` does."""
        if self.target is None:
            return 0
        present = model.opsets.get("")
        count = raise_model(
            model, newest_for(model, self.provider) if self.target == "newest" else self.target
        )
        self.has_raised = model.opsets.get("") != present
        return count


@cache
def newest_that_loads() -> int:
    """The newest operator set of onnx whose models onnxruntime loads, 0 without onnxruntime."""
    return next(
        (version for version in range(onnx.defs.onnx_opset_version(), 0, -1) if _loads(version)), 0
    )


def _loads(version: int, constants: str = "", nodes: str = "y = Identity(x)") -> bool:
    """Whether onnxruntime loads a model of an operator set: it refuses sets newer than itself."""
    text = f"probe (float[1] x) => (float[1] y) <{constants}> {{ {nodes} }}"
    graph = onnx.parser.parse_graph(text)
    imports = [onnx.helper.make_opsetid("", version)]
    try:
        ir_version = onnx.helper.find_min_ir_version_for(imports)
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
        _onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    # onnxruntime is not installed, or it or onnx refuses the model with one of many errors
    except Exception:
        return False
    return True


def newest_for(model: Model, provider: str) -> int:
    """The newest operator set in which a provider runs a model as well as now; the present set if
    no newer one qualifies. The model is left unchanged.

    onnxruntime loads this set, every node can be expressed in it, and no operator loses a kernel or
    gets a slower one. This includes the operators that fusions write: fusions are the reason to
    raise a model. A set in which many Softmax nodes need further nodes is skipped.
    """
    target = newest_that_loads()
    present = model.opsets.get("", onnx.defs.onnx_opset_version())
    while target > present:
        version = _lost_since(model, provider, present, target)
        if version is None:
            try:
                opset_plan = plan(model, target)
            except CannotBeRaised as error:
                version = error.version
            else:
                if not _flattens_many(opset_plan, model):
                    return target
                version = ONE_AXIS_SINCE
        target = version - 1
    return present


def _flattens_many(opset_plan: OpsetPlan, model: Model) -> bool:
    """Whether raising adds many nodes around Softmax and its relatives, which no longer flatten
    their operand.

    The fusions of newer sets may save fewer nodes than raising adds.
    """
    added = sum(
        len(calls) - 1 for node, calls in opset_plan.calls.items() if node.op_type in ONE_AXIS
    )
    return added > _MAX_ADDED * sum(len(graph.nodes) for graph in model.graphs())


def _lost_since(model: Model, provider: str, present: int, target: int) -> int | None:
    """The first operator set up to ``target`` in which an operator has no kernel any more, or a
    slower one; ``None`` without any.
    """
    types_of = _operators_of(model)
    if any(_is_expanded(provider, op_type, types, present) for op_type, types in types_of.items()):
        return present + 1
    breaks_signed = present < _SIGNED_SINCE and _moves_signed(model) and not _loads_moved_signed()
    for version in range(present + 1, target + 1):
        if breaks_signed and version == _SIGNED_SINCE:
            return version
        for op_type, types in (*types_of.items(), *((name, _FUSED_TYPES) for name in _fused())):
            if slows_down(provider, op_type, version) or _loses_kernel(
                provider, op_type, types, version
            ):
                return version
    return None


def _moves_signed(model: Model) -> bool:
    """Whether an operator moves numbers that are dequantized from int8 with a zero point, or may do
    so once patterns have removed operators in between, or have moved it up.
    """
    return any(_is_moved(graph, _signed(graph)) for graph in model.graphs())


def _signed(graph: Graph) -> list[str]:
    """The results that are dequantized from int8 with a zero point; no weights, which onnxruntime
    folds.
    """
    return [
        node.output[0]
        for node in graph.nodes
        if node.op_type == "DequantizeLinear"
        and graph.info_of(node.input[0]).dtype == TensorProto.INT8
        and graph.tensor(node.input[0]) is None
        and len(node.input) > 2
    ]


def _is_moved(graph: Graph, names: list[str]) -> bool:
    """Whether an operator moves one of these results, or what operators other than `_MULTIPLYING`
    compute from them. ``names`` is used up.
    """
    seen = {*names}
    while names:
        for consumer in graph.consumers(names.pop()):
            if consumer.op_type in _MOVED_BEFORE_QUANTIZING:
                return True
            if consumer.op_type not in _MULTIPLYING:
                names += [name for name in consumer.output if name and name not in seen]
                seen.update(consumer.output)
    return False


@cache
def _loads_moved_signed() -> bool:
    """Whether onnxruntime loads a model of operator set 21 that moves dequantized int8 numbers.

    Version 1.32 does not: it quantizes the moved numbers again, with the type of the zero point as
    an attribute, and a zero point of another type.
    """
    return _loads(
        _SIGNED_SINCE,
        "float scale = {1}, int8 zero = {0}, int64[1] shape = {-1}",
        "q = QuantizeLinear(x, scale, zero) d = DequantizeLinear(q, scale, zero) "
        "r = Reshape(d, shape) y = Sin(r)",
    )


def _is_expanded(provider: str, op_type: str, types: Iterable[int], present: int) -> bool:
    """Whether an operator of float64 or integers has no kernel, and runs as the function that ONNX
    defines.

    onnxruntime does not load such a node in a later operator set that changes the operators of that
    function, as 21 does for Selu, and for Relu of int64. Operands of float16 are not affected:
    without a kernel, onnxruntime casts them to float32.
    """
    definition: Any = schema(op_type, "", present)
    is_fixed = (
        definition is not None
        and bool(definition.has_function)
        and not definition.has_context_dependent_function
    )
    dtypes = (dtype for dtype in types if dtype == TensorProto.DOUBLE or is_integer(dtype))
    return is_fixed and any(
        has_kernel(provider, "", op_type, dtype, present) is False for dtype in dtypes
    )


def _operators_of(model: Model) -> dict[str, set[int]]:
    """The operators of a model with the element types of their operands and results."""
    types_of: dict[str, set[int]] = {}
    for graph in model.graphs():
        for node in graph.nodes:
            if not node.domain:
                types = {graph.info_of(name).dtype for name in (*node.input, *node.output) if name}
                for op_type in filter(None, (node.op_type, _BODY_OPERATORS.get(node.op_type))):
                    types_of.setdefault(op_type, set()).update(types)
    return types_of


@cache
def _fused() -> tuple[str, ...]:
    """New operators that ONNX defines as functions: they replace common subgraphs."""
    return tuple(
        name for name in operators() if versions(name)[0] >= _FUSED_SINCE and _is_function(name)
    )


def _is_function(op_type: str) -> bool:
    # the types of onnx lack these properties
    definition: Any = schema(op_type, "", versions(op_type)[-1])
    return bool(definition.has_function or definition.has_context_dependent_function)


def _loses_kernel(provider: str, op_type: str, types: Iterable[int], version: int) -> bool:
    """Whether an operator set that changes an operator has no kernel for it, unlike the one before.

    Raising a model replaces deprecated operators, which are not counted.
    """
    definition = schema(op_type, "", version)
    if version not in versions(op_type)[1:] or definition is None or definition.deprecated:
        return False
    return any(
        has_kernel(provider, "", op_type, dtype, version - 1)
        and has_kernel(provider, "", op_type, dtype, version) is False
        for dtype in types
    )
