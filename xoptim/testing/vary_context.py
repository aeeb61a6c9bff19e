"""The example with other names, in other operator sets, twice, in a subgraph or function, with
overridden initializers.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from xoptim.facts.dtypes import is_float, is_integer, is_signed_integer
from xoptim.facts.protos import replace_items
from xoptim.testing.feeds import Feeds
from xoptim.testing.runtime import RUNTIME
from xoptim.testing.variant import (
    FOREIGN,
    INFERENCE_ERRORS,
    Case,
    Variant,
    all_graphs,
    constants,
    defined_names,
    loosen,
    opset_of,
    optimize_alone,
    remove_constant,
    rename,
    tensor_input,
)
from xoptim.testing.vary_operands import CONDITION

_MAX_ELEMENTS = 64
"""Number of elements up to which integers are overridden: they may be sizes or positions."""


def constants_overridden(case: Case) -> Iterator[Variant]:
    """Each integer constant as an input with a default."""
    for name, array in constants(case.model):
        if array.dtype.kind in "iu" and array.size:
            model = case.copy()
            remove_constant(model, name)
            yield from _overridden(model, name, array, case.feeds[0] if case.feeds else {})


def results_overridden(case: Case) -> Iterator[Variant]:
    """Each integer interior result or input as an input with a default: its value on some feeds."""
    names = [name for name in case.interior if is_integer(case.dtype(name))]
    for note, feeds in _first_and_smallest(case):
        for name, array in zip(names, _values(case, names, feeds), strict=False):
            model = case.copy()
            producer = next(node for node in model.graph.node if name in node.output)
            if len(producer.output) == 1 and array.size <= _MAX_ELEMENTS:
                model.graph.node.remove(producer)
                yield from _overridden(model, name, array, feeds, note)
        for value in case.model.graph.input:
            feed = feeds.get(value.name)
            if (
                isinstance(feed, np.ndarray)
                and feed.dtype.kind in "iu"
                and 0 < feed.size <= _MAX_ELEMENTS
            ):
                model = case.copy()
                replace_items(
                    model.graph.input, [v for v in model.graph.input if v.name != value.name]
                )
                yield from _overridden(model, value.name, feed, feeds, note)


def _first_and_smallest(case: Case) -> Iterator[tuple[str, Feeds]]:
    """The first feeds, and those with the fewest elements, whose dimensions are 1 if possible."""
    counts = [[v.size for v in feeds.values() if isinstance(v, np.ndarray)] for feeds in case.feeds]
    smallest = min(
        (i for i, sizes in enumerate(counts) if all(sizes)), key=lambda i: sum(counts[i]), default=0
    )
    for note, number in (("", 0), (", sizes 1", smallest)):
        if case.feeds and (number or not note):
            yield note, case.feeds[number]


def _values(case: Case, names: Sequence[str], feeds: Feeds) -> list[np.ndarray]:
    """Interior results, none when the model does not run."""
    if not names:
        return []
    model = case.copy()
    replace_items(
        model.graph.output, (ValueInfoProto(name=name, type=case.types[name]) for name in names)
    )
    session = RUNTIME.load(model)
    results = RUNTIME.run(session, feeds) if not isinstance(session, str) else session
    return [] if isinstance(results, str) else [np.asarray(value) for value in results]


def _overridden(
    model: ModelProto, name: str, array: np.ndarray, feeds: Feeds, note: str = ""
) -> Iterator[Variant]:
    """An initializer as an input with several overrides.

    All shapes are declared as the feeds and the default value determine them.
    """
    for value in model.graph.input:
        feed = feeds.get(value.name)
        if isinstance(feed, np.ndarray):
            value.CopyFrom(
                helper.make_tensor_value_info(
                    value.name, value.type.tensor_type.elem_type, feed.shape
                )
            )
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    _read_outputs(loosen(model))
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except INFERENCE_ERRORS:
        return
    model.graph.value_info.extend(v for v in inferred.graph.value_info if v.name != name)
    model.graph.input.append(tensor_input(name, array))
    for word, override in _others(array):
        yield Variant(f"override: {name} {word}{note}", model, overrides={name: override})


def _read_outputs(model: ModelProto) -> None:
    """Put a node after each output, so that the former output becomes an interior result."""
    for output in model.graph.output:
        element = output.type.tensor_type.elem_type
        if is_float(element) or is_signed_integer(element):
            inner = f"{output.name}_inner"
            for node in model.graph.node:
                node.output[:] = [inner if n == output.name else n for n in node.output]
                node.input[:] = [inner if n == output.name else n for n in node.input]
            model.graph.node.append(NodeProto(op_type="Neg", input=[inner], output=[output.name]))


def _others(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Other integers of the same shape; not all of them are valid in the model."""
    seen = {array.tobytes()}
    step = array.dtype.type(1)
    with np.errstate(all="ignore"):
        candidates = (
            ("+ 1", array + step),
            ("- 1", array - step),
            ("doubled", array * array.dtype.type(2)),
            ("reversed", array.reshape(-1)[::-1].reshape(array.shape)),
            ("first + 1", _first(array, step)),
            ("last + 1", _first(array.reshape(-1)[::-1], step)[::-1].reshape(array.shape)),
            ("1", np.ones_like(array)),
        )
    for word, candidate in candidates:
        value = np.asarray(candidate, array.dtype)
        if value.tobytes() not in seen:
            seen.add(value.tobytes())
            yield word, value


def _first(array: np.ndarray, step: np.generic) -> np.ndarray:
    flat = array.reshape(-1).copy()
    flat[:1] += step  # a constant may be empty
    return flat.reshape(array.shape)


_STATIC_NAMES = (
    "literal",
    "constant",
    "Identity",
    "axes",
    "shape",
    "Reshape",
    "literal_1",
    "constant_1",
)
_LOCAL = "near_miss_functions"
_OPSETS = (13, 17, 21, 23, 25)
_OLDEST = 7  # the oldest that onnxruntime supports


def clashes(case: Case) -> Iterator[Variant]:
    """Results, inputs and outputs with names that the pattern gives to new results."""
    old_names = {v.name for v in case.model.graph.input} | set(defined_names(case.model.graph))
    result = optimize_alone(case.pattern, case.model).model
    new_names = [name for name in defined_names(result.graph) if name not in old_names]
    operators = dict.fromkeys(n.op_type for g in all_graphs(result.graph) for n in g.node)
    names = list(
        dict.fromkeys(
            (*new_names, *(f"{o.lower()}_out" for o in operators), *operators, *_STATIC_NAMES)
        )
    )
    graph = case.model.graph
    interior = list(
        dict.fromkeys(
            name for name in defined_names(graph) if name not in {v.name for v in graph.output}
        )
    )
    inputs, outputs = [v.name for v in graph.input], [v.name for v in graph.output]
    for word, targets in (
        ("inside", interior),
        ("inputs", inputs),
        ("outputs", outputs),
        ("all", [*interior, *inputs, *outputs]),
    ):
        free = [name for name in names if name not in old_names]
        mapping = dict(zip(targets, free, strict=False))
        if not mapping:
            continue
        model = case.copy()
        rename([model.graph], partial(_renamed, mapping))
        for position, node in enumerate(n for g in all_graphs(model.graph) for n in g.node):
            node.name = free[position % len(free)] + "_" * (position // len(free))
        yield Variant(f"names: {word} called {', '.join(mapping.values())}", model)


def opsets(case: Case) -> Iterator[Variant]:
    """The same nodes in other versions of the operator set, where they are valid there."""
    current = opset_of(case.model)
    lowest = case.pattern.min_opset if case.pattern is not None else current
    highest = (
        case.pattern.max_opset
        if case.pattern is not None and case.pattern.max_opset is not None
        else current
    )
    newest = onnx.defs.onnx_opset_version()
    for version in dict.fromkeys(
        (current - 1, current + 1, lowest - 1, lowest, highest + 1, *_OPSETS, newest)
    ):
        if not _OLDEST <= version <= newest or version == current:
            continue
        model = case.copy()
        for opset in model.opset_import:
            if opset.domain in ("", "ai.onnx"):
                opset.version = version
        model.ir_version = max(
            model.ir_version, helper.find_min_ir_version_for(list(model.opset_import), True)
        )
        try:
            onnx.checker.check_model(model, full_check=True)
        except INFERENCE_ERRORS:
            continue
        yield Variant(f"opset: {version}", model)


def domains(case: Case) -> Iterator[Variant]:
    """Each node as an operator of the same name with another meaning."""
    for position, node in enumerate(case.model.graph.node):
        model = case.copy()
        model.graph.node[position].domain = FOREIGN
        model.opset_import.append(helper.make_opsetid(FOREIGN, 1))
        yield Variant(
            f"domain: {node.op_type} of domain {FOREIGN}", loosen(model), kept=node.op_type
        )


def stacked(case: Case) -> Iterator[Variant]:
    """A second copy that reads an output of the first, for each input of a compatible type."""
    graph = case.model.graph
    for output in graph.output:
        for value in graph.input:
            if output.type.tensor_type.elem_type != value.type.tensor_type.elem_type:
                continue
            model = case.copy()
            copy = _prefixed(graph, "second_", {value.name: output.name})
            model.graph.node.extend(copy.node)
            model.graph.initializer.extend(copy.initializer)
            model.graph.output.extend(copy.output)
            yield Variant(f"stacked: {output.name} read as {value.name}", loosen(model))
            hidden = deepcopy(model)
            replace_items(
                hidden.graph.output, [v for v in hidden.graph.output if v.name != output.name]
            )
            yield Variant(f"stacked: {output.name} read as {value.name} only", hidden)


def _prefixed(
    graph: GraphProto, prefix: str, new_names: dict[str, str] | None = None
) -> GraphProto:
    """A copy whose own names have a prefix.

    Its inputs keep their names, or get those in ``new_names``.
    """
    copy = deepcopy(graph)
    defined = set(defined_names(graph))
    rename(
        [copy], lambda name: prefix + name if name in defined else (new_names or {}).get(name, name)
    )
    for inner in all_graphs(copy):
        for node in inner.node:
            node.name = prefix + node.name if node.name else ""
    return copy


def in_branch(case: Case) -> Iterator[Variant]:
    """The example as both branches of an If, which capture the inputs."""
    graph = case.model.graph
    if any(o.name in {v.name for v in graph.input} for o in graph.output):
        return
    model = case.copy()
    body = model.graph
    bodies: dict[str, Any] = {
        f"{word}_branch": _body(graph, f"{word}_") for word in ("then", "else")
    }
    node = helper.make_node("If", [CONDITION], [v.name for v in graph.output], **bodies)
    del body.node[:], body.initializer[:], body.value_info[:]
    body.node.append(node)
    body.input.append(helper.make_tensor_value_info(CONDITION, TensorProto.BOOL, []))
    yield Variant("branch: of If", model, given={CONDITION: np.array(True)})
    # Constants outside, nodes inside.
    model = deepcopy(model)
    model.graph.initializer.extend(graph.initializer)
    for attribute in model.graph.node[0].attribute:
        word = attribute.name.removesuffix("branch")
        stored = {f"{word}{t.name}": t.name for t in graph.initializer}
        del attribute.g.initializer[:]
        rename([attribute.g], partial(_renamed, stored))
    if graph.initializer:
        yield Variant("branch: of If, constants outside", model, given={CONDITION: np.array(False)})


def _body(graph: GraphProto, prefix: str) -> GraphProto:
    body = _prefixed(graph, prefix)
    del body.input[:], body.value_info[:]
    body.name = prefix
    return body


def in_function(case: Case) -> Iterator[Variant]:
    """The example as the body of a local function, where no type is known."""
    graph = case.model.graph
    arrays = {
        tensor.name: numpy_helper.from_array(numpy_helper.to_array(tensor))
        for tensor in graph.initializer
    }
    constants = [
        helper.make_node("Constant", [], [name], value=tensor) for name, tensor in arrays.items()
    ]
    name = "near_miss_function"
    inputs, outputs = [v.name for v in graph.input], [v.name for v in graph.output]
    function = helper.make_function(
        _LOCAL, name, inputs, outputs, [*constants, *graph.node], list(case.model.opset_import)
    )
    model = case.copy()
    del model.graph.node[:], model.graph.initializer[:], model.graph.value_info[:]
    model.graph.node.append(helper.make_node(name, inputs, outputs, domain=_LOCAL))
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid(_LOCAL, 1))
    yield Variant("function: body of a local one", model)


def _renamed(mapping: Mapping[str, str], name: str) -> str:
    return mapping.get(name, name)
