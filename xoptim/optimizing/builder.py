"""A model to build or to optimize: `GraphBuilder`."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.diagnose.report import OptimizationReport
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.run import STEPS as STEPS  # for the command
from xoptim.facts.assumptions import Assumptions
from xoptim.facts.dims import Dim, fresh, named
from xoptim.facts.dtypes import type_name
from xoptim.facts.errors import ModelError, RewriteError
from xoptim.facts.operators import operator_label
from xoptim.facts.shapes import Info
from xoptim.facts.words import counted
from xoptim.graph.assumed import assumed_of, assumed_sizes, report_unused
from xoptim.graph.constants import constant_array, store
from xoptim.graph.edit import Edit
from xoptim.graph.export import export_model
from xoptim.graph.graph import Graph
from xoptim.graph.load import infer_model, load_model
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.propagate import check_results, refine
from xoptim.graph.queries import GraphQueries
from xoptim.graph.redirect import substitute
from xoptim.graph.save import save_model
from xoptim.graph.sources import Source
from xoptim.graph.splice import inline_functions, inline_libraries
from xoptim.match.create import OpBuilder, make_node
from xoptim.optimizing.optimizations import Optimizations

_DEFAULT_OPSET = 21
_DEFAULT_IR_VERSION = 10
_LARGEST_OPSET = (1 << 31) - 1


class GraphBuilder(GraphQueries):
    """A model with shapes and types, to build or to optimize.

    Args:
        model: a model as for `xoptim.optimize`, a ``GraphProto`` or ``FunctionProto``, or, to build
            from nothing, the version of the standard operator set or a dictionary of versions by
            domain.
        infer_shapes_options: whether to infer shapes and types of a given model; otherwise, only
            declared ones are known.
        optimization_options: options of `optimize`.
        verbose: see `OptimizationOptions.verbose`.
        ir_version: IR version of a new model.
        inline: replace calls of local functions by their bodies. Those of functions that torch's
            exporter wrote for its operators are always replaced.
        assume: assumptions about dimensions and values, in addition to those in the options.
        assume_from_model: also use the assumptions in the metadata of the model.

    Raises:
        AssumptionError: when an assumption cannot be read, or does not fit the model.
    """

    def __init__(
        self,
        model: Any,
        *,
        infer_shapes_options: bool = True,
        optimization_options: OptimizationOptions | None = None,
        verbose: int = 0,
        ir_version: int | None = None,
        inline: bool = False,
        assume: Sequence[str] = (),
        assume_from_model: bool = False,
    ) -> None:
        options = optimization_options or OptimizationOptions()
        if assume or assume_from_model:
            from_model = options.assume_from_model or assume_from_model
            options = replace(
                options, assume=(*options.assume, *assume), assume_from_model=from_model
            )
        self.optimization_options = replace(options, verbose=verbose) if verbose else options
        if isinstance(model, Model):
            self.model = model
        elif isinstance(model, (int, dict)):
            versions = {"": model} if isinstance(model, int) else model
            opsets = {
                "" if domain == "ai.onnx" else domain: _opset(domain, version)
                for domain, version in versions.items()
            }
            self.model = Model(opsets, ir_version or _DEFAULT_IR_VERSION)
            self.model.shell.ir_version = self.model.ir_version
            self.model.assumptions = Assumptions.of(options.assume)
            self.model.assumed_sizes = assumed_sizes(self.model.assumptions)
        else:
            source = model if isinstance(model, Source) else Source(_as_model(model))
            is_inlined = inline and source.proto.functions
            proto = (inline_functions if is_inlined else inline_libraries)(source.proto)
            assumptions = assumed_of(proto, options.assume, from_model=options.assume_from_model)
            report_unused(proto, assumptions)
            self.model = load_model(
                proto, source.base_dir, infer=infer_shapes_options, assumptions=assumptions
            )
        self.graph = self.scope = self.model.graph
        self.session = Optimizations(self.model)
        self.op = OpBuilder(partial(Edit, self.graph), self._append)

    def __repr__(self) -> str:
        return _description(self)

    @classmethod
    def of(cls, model: Model) -> GraphBuilder:
        """A builder with default options that shares a model in memory."""
        return cls(model)

    # ---------------------------------------------------------------- reading

    def get_constant(self, name: str) -> np.ndarray | None:
        """Value of a constant, ``None`` for a result that is not constant. Do not modify it."""
        return constant_array(self.graph, name)

    def type_name(self, name: str) -> str:
        """Element type of a result as in ONNX text (``float``, ``int64``, ...), ``undefined`` when
        unknown.
        """
        return type_name(self.graph.info_of(name).dtype)

    def count_types(self) -> dict[str, int]:
        """Number of nodes by operator (with its domain outside the standard one), subgraphs and
        functions included.
        """
        counts: Counter[str] = Counter()
        for graph in self.model.graphs():
            for (domain, op_type), nodes in graph.types.items():
                counts[operator_label(op_type, domain)] += len(nodes)
        return {name: count for name, count in sorted(counts.items()) if count}

    # ---------------------------------------------------------------- building

    def make_tensor_input(
        self, name: str, dtype: int, shape: Sequence[int | str | None] | None = None
    ) -> str:
        """Add an input.

        Raises `ModelError` when the name is taken or empty, or the type or a dimension is invalid.

        Args:
            name: name of the input.
            dtype: element type, a value of ``TensorProto.DataType``.
            shape: numbers, names of dimensions, ``None`` for unknown ones; ``None`` for an unknown
                rank.
        """
        _check_new(self.graph, name)
        self.graph.declare_input(name, _declaration(dtype, shape, self.model.assumed_sizes))
        return name

    def make_tensor_output(
        self,
        name: str | Sequence[str],
        dtype: int = 0,
        shape: Sequence[int | str | None] | None = None,
    ) -> None:
        """Declare existing results as outputs; type and shape complete the facts about them."""
        info = _declaration(dtype, shape, self.model.assumed_sizes)
        for output in [name] if isinstance(name, str) else name:
            if not self.graph.defines(output):
                raise ModelError(f"output {output!r} is not produced by any node")
            if self.graph.is_output(output):
                raise ModelError(f"{output!r} is already an output")
            try:
                check_results(self.graph, [output], [info])
            except RewriteError as error:
                raise ModelError(
                    f"the declaration of output {output!r} contradicts the model: {error}"
                ) from error
            self.graph.learn(output, refine(self.graph.info_of(output), info))
            self.graph.declare_output(output)

    def make_initializer(self, name: str, value: Any) -> str:
        """Store a constant: an array, a value that numpy converts to one, or a ``TensorProto``.

        Returns its name, which differs from ``name`` when that is taken. Raises `ModelError` when
        ONNX has no type for the value.
        """
        return store(self.graph, name or "constant", _array(value))

    def make_node(
        self,
        op_type: str,
        inputs: Sequence[str] | str,
        outputs: Sequence[str] | str | int = 1,
        domain: str = "",
        name: str = "",
        **attributes: Any,
    ) -> str | tuple[str, ...]:
        """Add a node; returns the name of its result, or a tuple when there are several.

        Raises `ModelError` when the operator, an attribute, its type or the number of operands is
        invalid, when an operand is not defined, or a result is already defined.
        """
        edit = Edit(self.graph)
        node = make_node(
            edit,
            op_type,
            inputs,
            outputs,
            domain=domain,
            name=name,
            attributes=attributes,
            adapt=not domain,
        )
        self._append(edit, node)
        return node.output[0] if len(node.output) == 1 else node.output

    def _append(self, edit: Edit, node: Node) -> None:
        try:
            edit.append(node)
        except RewriteError as error:
            raise ModelError(str(error)) from error

    def replace(self, old: str, new: str) -> None:
        """Redirect every consumer of a result of the main graph to another result of equal value.

        An output of the graph keeps its name. Unused nodes are removed when the model is optimized.
        Raises `RewriteError` when the types or shapes of the two contradict each other, when
        ``new`` depends on ``old``, or when ``old`` must stay; the model is then unchanged.

        Args:
            old: the result to replace.
            new: an existing result, or one that `op` has made.
        """
        substitute(self.graph, old, new)

    # ---------------------------------------------------------------- optimizing

    def optimize(self, max_iter: int = -1, remove_identity: bool = True) -> list[dict[str, Any]]:
        """Optimize in place. Returns statistics, one dictionary per row, for ``pandas.DataFrame``.

        Args:
            max_iter: maximal number of rounds; -1 for the number in the options.
            remove_identity: remove Identity nodes.
        """
        options = self.optimization_options
        if max_iter >= 0:
            options = replace(options, max_iter=max_iter)
        if not remove_identity:
            options = replace(options, remove_identity=False)
        return self.session.start(options).run()

    def report(self) -> OptimizationReport:
        """The report of the last optimization."""
        return self.session.report()

    def infer_shapes(self) -> None:
        """Infer shapes and types again."""
        infer_model(self.model)

    def to_onnx(self, optimize: bool = True) -> onnx.ModelProto:
        """The model as a protobuf that shares no data with the original.

        ``optimize``: whether to optimize the model first.
        """
        if optimize:
            self.optimize()
        return export_model(self.model)

    def save(
        self, path: str | Path, *, external_data: bool | None = None, share_weights: bool = False
    ) -> list[Path]:
        """Write the current model; see `xoptim.graph.save.save_proto`.

        Returns the files written.
        """
        return save_model(
            self.model, Path(path), external=external_data, share_weights=share_weights
        )

    def dispose(self) -> None:
        """Free the memory of the model at once; the builder cannot be used afterwards."""
        self.model.dispose()
        self.session.forget()


def _description(builder: GraphBuilder) -> str:
    """One line: the operator set, the number of nodes, inputs and outputs with types and shapes."""

    def value(name: str) -> str:
        shape = builder.graph.info_of(name).shape
        return (
            f"{name}"
            f" {builder.type_name(name)}[{'...' if shape is None else ','.join(map(str, shape))}]"
        )

    inputs, outputs = (
        ", ".join(map(value, names)) for names in (builder.input_names, builder.output_names)
    )
    number = sum(len(graph.nodes) for graph in builder.model.graphs())
    return (
        f"<GraphBuilder: opset {builder.main_opset}, {counted(number, 'node')}, ({inputs}) → "
        f"({outputs})>"
    )


def _opset(domain: str, version: int) -> int:
    """Return a version of an operator set; raises `ModelError` if it does not exist."""
    newest = onnx.defs.onnx_opset_version() if domain in ("", "ai.onnx") else _LARGEST_OPSET
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= newest:
        raise ModelError(
            f"operator set {domain or 'ai.onnx'!r} has versions from 1 to {newest}, not {version!r}"
        )
    return version


def _check_new(graph: Graph, name: str) -> None:
    """Raise unless a name is valid and free."""
    if not isinstance(name, str) or not name:
        raise ModelError(f"a name must be a non-empty string, not {name!r}")
    if graph.defines(name):
        raise ModelError(f"{name!r} is already defined")


def _declaration(
    dtype: int, shape: Sequence[int | str | None] | None, sizes: Mapping[str, Dim]
) -> Info:
    """Return a declaration; raises `ModelError` if it is invalid. Type 0 is unknown."""
    if (
        isinstance(dtype, bool)
        or not isinstance(dtype, int)
        or dtype not in TensorProto.DataType.values()
    ):
        raise ModelError(f"there is no element type {dtype!r}; see TensorProto.DataType")
    return Info(
        dtype, None if shape is None else tuple(sizes.get(str(dim), _dim(dim)) for dim in shape)
    )


def _dim(value: int | str | None) -> Dim:
    if value is None:
        return fresh()
    if isinstance(value, str) and value:
        return named(value)
    # A bool is an int for Python; an empty name and a float are invalid too.
    number = -1 if isinstance(value, (str, bool, float)) else operator.index(value)
    if number < 0:
        raise ModelError(f"a dimension must be a size of at least 0, a name or None, not {value!r}")
    return number


def _array(value: Any) -> np.ndarray:
    try:
        array = (
            onnx.numpy_helper.to_array(value)
            if isinstance(value, onnx.TensorProto)
            else np.asarray(value)
        )
        if array.dtype.kind in "SU" or (
            array.dtype.kind == "O" and all(isinstance(v, (str, bytes)) for v in array.flat)
        ):
            return array
        if array.dtype.kind != "O":
            onnx.helper.np_dtype_to_tensor_dtype(array.dtype)  # raises for types that ONNX lacks
            return array
    except (ValueError, TypeError) as error:
        raise ModelError(f"a constant cannot be made of {value!r}: {error}") from error
    raise ModelError(f"a constant cannot be made of {value!r}")


def _as_model(model: Any) -> Any:
    """A model of a single graph or function; other arguments are returned unchanged."""
    if isinstance(model, onnx.GraphProto):
        imports = [onnx.helper.make_opsetid("", _DEFAULT_OPSET)]
        return onnx.helper.make_model(model, opset_imports=imports, ir_version=_DEFAULT_IR_VERSION)
    if isinstance(model, onnx.FunctionProto):
        inputs, outputs = (
            [onnx.ValueInfoProto(name=name) for name in names]
            for names in (model.input, model.output)
        )
        graph = onnx.helper.make_graph(list(model.node), model.name, inputs, outputs)
        return onnx.helper.make_model(
            graph, opset_imports=list(model.opset_import), ir_version=_DEFAULT_IR_VERSION
        )
    return model
