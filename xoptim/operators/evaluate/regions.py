"""Evaluation of constant regions: node by node with numpy, or a whole region in one onnxruntime
session.

Both ways give the bits that the unoptimized model computes on onnxruntime's CPU provider, or none.
"""

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.facts import dtypes
from xoptim.facts.advice import Advice
from xoptim.facts.errors import UnstoppableError
from xoptim.facts.lazy import lazy_module
from xoptim.facts.protos import FUNCTIONS_SINCE, UNLISTED_SINCE, inner_graphs
from xoptim.operators.evaluate.kernel_table import divisor_is_safe
from xoptim.operators.protocols import Array
from xoptim.system.threads import NotEndingError, ThreadCall

ort = lazy_module("onnxruntime")

_LIMIT: Final = 600.0
"""Seconds that the evaluation of a region may take."""
_PATIENCE: Final = 10.0
"""More seconds for a running node to end: onnxruntime stops between nodes only."""
_MAX_INLINE_ELEMENTS = 1 << 28
"""Elements of a tensor inside the model: protobuf ends at 2 GB."""
_SMALL_BYTES = 1 << 10
"""Tensors up to this size are stored inside the model."""
_CRASHING_ON_EMPTY: Final = frozenset(("Einsum", "InstanceNormalization", "Unique"))
"""Operators of which some kernels end the process where an operand has no elements."""
_SAME_SIZE = {1: np.uint8, 2: np.uint16}


class Computed(NamedTuple):
    """A feed that nodes of the model compute: it becomes a graph input, not an initializer."""

    value: Array


@dataclass(frozen=True, slots=True)
class RegionResult:
    """The requested results of a region by name, or ``None`` and the reason why it could not be
    evaluated.
    """

    values: dict[str, Array] | None
    reason: str = ""


def evaluate_with_onnxruntime(
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, Array | Computed],
    outputs: Sequence[str],
    opsets: Mapping[str, int],
    ir_version: int,
    functions: Sequence[onnx.FunctionProto] = (),
) -> RegionResult:
    """Evaluate a region in one session of onnxruntime's CPU provider, optimizations off, one
    thread.

    The nodes are in topological order. ``feeds`` are the values that they and their subgraphs read
    from outside: an array is a tensor that the model stores, and a value that the model computes is
    marked as `Computed`. ``functions`` are local ones that the nodes call. Returns the values, or
    the reason why there are none. Raises only MemoryError and, after `_LIMIT`, `UnstoppableError`.

    An array becomes an initializer, as in the model: onnxruntime repacks initializers, and a MatMul
    with repacked weights sums in another order. Only text and packed types are copied.
    """
    all_nodes, graphs = _with_subgraphs(nodes)
    reads = {name for node in all_nodes for name in node.input} | {
        output.name for graph in graphs for output in graph.output
    }
    feeds = {name: value for name, value in feeds.items() if name in reads}
    try:
        region = _Region(nodes, feeds, outputs)
        model = region.model(opsets, ir_version, _called(nodes, functions))
        values = {name: _value(feed) for name, feed in feeds.items()}
        reason = _empty_hazard(model, values) or _division_hazard(model, values)
        return RegionResult(None, reason) if reason else RegionResult(region.run(model))
    except (MemoryError, UnstoppableError):
        raise
    # onnxruntime raises errors of a dozen unrelated types, and onnx raises more for bad nodes
    except Exception as error:
        return RegionResult(None, f"{type(error).__name__}: {' '.join(str(error).split())}")


def _value(feed: Array | Computed) -> Array:
    return feed.value if isinstance(feed, Computed) else feed


class _Region:
    """The model of a region, and the memory from which onnxruntime reads its tensors."""

    def __init__(
        self,
        nodes: Sequence[onnx.NodeProto],
        feeds: Mapping[str, Array | Computed],
        outputs: Sequence[str],
    ) -> None:
        self.graph = onnx.GraphProto(name="region", node=nodes)
        self.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        self.outputs = outputs
        self.initializers: dict[str, Any] = {}
        self.inputs: dict[str, Any] = {}
        for name, feed in feeds.items():
            self._feed(name, np.asarray(_value(feed), order="C"), isinstance(feed, Computed))

    def _feed(self, name: str, value: Array, is_input: bool) -> None:
        code = dtypes.element_type(value.dtype)
        # onnxruntime takes neither text nor packed elements from memory, and reads shapes and axes
        # from the model only.
        if (
            dtypes.bits(code) < 8
            or value.size == 0
            or (value.nbytes <= _SMALL_BYTES and not is_input)
        ):
            if value.size > _MAX_INLINE_ELEMENTS:
                raise ValueError(f"{name!r} is too large for its element type")
            self.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
            return
        # onnxruntime refuses arrays of ml_dtypes: pass their bits as integers together with the
        # ONNX type.
        plain = (
            value if value.dtype.isbuiltin == 1 else value.view(_SAME_SIZE[value.dtype.itemsize])
        )
        ort_value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(plain, code)
        if is_input:
            self.graph.input.append(onnx.helper.make_tensor_value_info(name, code, value.shape))
            self.inputs[name] = ort_value
            return
        stub = TensorProto(
            name=name, data_type=code, dims=value.shape, data_location=TensorProto.EXTERNAL
        )
        # any text: add_external_initializers replaces the tensor
        stub.external_data.add(key="location", value="memory")
        self.graph.initializer.append(stub)
        self.initializers[name] = ort_value

    def model(
        self, opsets: Mapping[str, int], ir_version: int, functions: Sequence[onnx.FunctionProto]
    ) -> onnx.ModelProto:
        """The region as a model."""
        needed = FUNCTIONS_SINCE if functions else UNLISTED_SINCE
        model = onnx.ModelProto(
            ir_version=max(ir_version, needed), graph=self.graph, functions=functions
        )
        # A model must import the domains of the functions that it calls.
        versions = {"": 1, **{f.domain: 1 for f in functions}, **opsets}
        model.opset_import.extend(
            onnx.OperatorSetIdProto(domain=d, version=v) for d, v in versions.items()
        )
        return model

    def run(self, model: onnx.ModelProto) -> dict[str, Array]:
        """Values of the outputs. Errors of onnxruntime are not caught."""
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_mem_reuse = options.enable_mem_pattern = options.enable_cpu_mem_arena = False
        options.log_severity_level = 4  # fatal errors only: other errors arrive as exceptions
        if self.initializers:
            options.add_external_initializers(
                list(self.initializers), list(self.initializers.values())
            )
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        run_options = ort.RunOptions()
        run_options.log_severity_level = 4
        call = ThreadCall(
            lambda: session.run_with_ort_values(list(self.outputs), self.inputs, run_options),
            lambda: setattr(run_options, "terminate", True),
        )
        try:
            results = call.within(_LIMIT, _LIMIT + _PATIENCE)
        except (TimeoutError, NotEndingError):
            text = (
                f"constants of the model cannot be computed within {_LIMIT:g} seconds; "
                f"{Advice('no-fold', reason='leaves them as they are')}"
            )
            raise UnstoppableError(text) from None
        return {name: to_numpy(value) for name, value in zip(self.outputs, results, strict=True)}


def to_numpy(value: Any) -> Array:
    """A copy of a result of any element type; raises `TypeError` when it is not a dense tensor."""
    if not value.is_tensor():
        raise TypeError(f"a result is a {value.data_type()}, not a tensor")
    code, shape = value.element_type(), tuple(value.shape())
    if dtypes.numpy_dtype(code).isbuiltin == 1:
        return np.array(value.numpy())  # a copy, since the view ends with the value
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return onnx.numpy_helper.to_array(TensorProto(data_type=code, dims=shape, raw_data=raw)).copy()


def _with_subgraphs(
    nodes: Iterable[onnx.NodeProto],
) -> tuple[list[onnx.NodeProto], list[onnx.GraphProto]]:
    """The nodes and the nodes of their subgraphs, at every depth; and the subgraphs."""
    outer = list(nodes)
    graphs = list(inner_graphs(outer))
    return [*outer, *(node for graph in graphs for node in graph.node)], graphs


def _called(
    nodes: Iterable[onnx.NodeProto], functions: Sequence[onnx.FunctionProto]
) -> list[onnx.FunctionProto]:
    by_name = {(f.domain, f.name): f for f in functions}
    callees: dict[tuple[str, str], onnx.FunctionProto] = {}
    pending, _ = _with_subgraphs(nodes)
    while by_name and pending:
        node = pending.pop()
        key = node.domain, node.op_type
        function = by_name.pop(key, None)  # each function once, so that recursion ends
        if function is not None:
            callees[key] = function
            pending += _with_subgraphs(function.node)[0]
    return list(callees.values())


def _empty_hazard(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> str:
    """The reason why running the region could stop the process because an operand has no elements,
    empty when it cannot.
    """
    functions = (function.node for function in model.functions)
    nodes, _ = _with_subgraphs([*model.graph.node, *chain.from_iterable(functions)])
    operators = {
        name: node.op_type
        for node in nodes
        if node.op_type in _CRASHING_ON_EMPTY and node.domain in ("", "ai.onnx")
        for name in filter(None, node.input)
    }
    fed = feeds.keys() - {name for node in nodes for name in node.output}
    for name, op_type in operators.items():
        if name in fed and not feeds[name].size:
            return f"{op_type} of {name!r}, which has no elements"
    unknown = [name for name in operators if name not in fed]
    if not unknown:
        return ""
    kinds = {value.name: value.type.tensor_type for value in _inferred_values(model)}
    for name in unknown:
        if name not in kinds or not _has_elements(kinds[name]):
            return f"{operators[name]} of {name!r}, which may have no elements"
    return ""


def _has_elements(kind: onnx.TypeProto.Tensor) -> bool:
    """Whether a tensor is known to have elements."""
    return kind.HasField("shape") and all(dim.dim_value > 0 for dim in kind.shape.dim)


def _inferred_values(model: onnx.ModelProto) -> Iterable[onnx.ValueInfoProto]:
    """The values of the region and its subgraphs, with the types that onnx infers."""
    typed_graph = onnx.shape_inference.infer_shapes(model).graph
    graphs = (typed_graph, *inner_graphs(typed_graph.node))
    return [v for g in graphs for v in (*g.value_info, *g.input, *g.output)]


def _divisions(nodes: Iterable[onnx.NodeProto]) -> list[onnx.NodeProto]:
    all_nodes, _ = _with_subgraphs(nodes)
    return [
        n
        for n in all_nodes
        if n.op_type in ("Div", "Mod") and n.domain in ("", "ai.onnx") and len(n.input) == 2
    ]


def _division_hazard(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> str:
    """The reason why running the region could stop the process, empty when it cannot.

    onnxruntime divides integers without a guard: the least integer divided by -1 (and, in some
    releases, a zero divisor) raises the processor's arithmetic exception. So divisors have to be
    floats or known beforehand.
    """
    if any(_divisions(function.node) for function in model.functions):
        return "a function divides by values that are not known beforehand"
    produced = {name for node in model.graph.node for name in node.output}
    divisors = []
    for node in _divisions(model.graph.node):
        divisor, dividend = (
            feeds.get(name) if name not in produced else None for name in reversed(node.input)
        )
        if divisor is None and dividend is not None and dividend.dtype.kind == "f":
            continue
        if divisor is None:
            divisors.append(node.input[1])
        elif not divisor_is_safe(divisor, dividend):
            return f"integer division by {node.input[1]!r} may overflow or divide by zero"
    if not divisors:
        return ""
    types = {value.name: value.type.tensor_type.elem_type for value in _inferred_values(model)}
    unsafe = [name for name in divisors if not dtypes.is_float(types.get(name, 0))]
    return f"division by {unsafe[0]!r}, which may be an integer" if unsafe else ""
