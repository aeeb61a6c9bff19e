"""A model with the shapes of its results, as functions of the sizes of its dynamic dimensions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import onnx

from xoptim.facts.assumptions import Assumptions
from xoptim.facts.dims import Dim, SymbolicDim, evaluate
from xoptim.facts.errors import ModelError
from xoptim.facts.protos import fed_inputs
from xoptim.facts.shapes import Info
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.propagate import quietly
from xoptim.verification.inputs.dims import input_specs, names_in, size_of


class SizedModel:
    """A model, loaded without its weights.

    ``graph`` has inferred shapes, and is ``None`` when the model cannot be loaded.
    """

    def __init__(self, proto: onnx.ModelProto, base_dir: Path | None) -> None:
        try:
            with quietly():
                self.graph: Graph | None = load_model(
                    proto, base_dir, assumptions=Assumptions()
                ).graph
        except ModelError:  # a model that cannot be loaded here may still run in onnxruntime
            self.graph = None
        self._entries: dict[str, list[str]] = {}
        for spec in (
            input_specs(proto, [value.name for value in fed_inputs(proto)])
            if self.graph is not None
            else ()
        ):
            shape = self.graph.info_of(spec.name).shape if self.graph is not None else None
            pairs = (
                zip(shape, spec.shape, strict=True)
                if shape and spec.shape and len(shape) == len(spec.shape)
                else ()
            )
            for dim, entry in pairs:
                if isinstance(dim, SymbolicDim) and isinstance(entry, str):
                    # Inference gives axes without a name symbols of its own.
                    for symbol, size in (
                        *((name, name) for name in names_in(entry)),
                        (str(dim), entry),
                    ):
                        self._entries.setdefault(symbol, []).append(size)

    def has_any(self, operators: Collection[str]) -> bool:
        """Whether the model has one of the operators, in subgraphs as well.

        False if the model cannot be loaded.
        """
        graphs = self.graph.model.graphs() if self.graph is not None else ()
        return any(node.op_type in operators for graph in graphs for node in graph.nodes)

    def dims(self, symbols: Iterable[str]) -> frozenset[str] | None:
        """The dynamic dimensions of some symbols of shapes, ``None`` when one of the symbols is not
        a size of an input.
        """
        names: list[str] = []
        for symbol in symbols:
            if symbol not in self._entries:
                return None
            names += (name for entry in self._entries[symbol] for name in names_in(entry))
        return frozenset(names)

    def at(self, sizes: Mapping[str, int], unknown: int = 0) -> Sizing:
        """The shapes of results with these sizes of the dynamic dimensions.

        An axis without a known size is ``unknown``.
        """
        entries = {symbol: size_of(entry, sizes) for symbol, (entry, *_) in self._entries.items()}
        return Sizing(
            {**sizes, **{symbol: size for symbol, size in entries.items() if size is not None}},
            unknown,
        )


class Sizing:
    """Numbers for the symbols of shapes, ``unknown`` for a symbol without a value; each expression
    is evaluated once.
    """

    def __init__(self, values: Mapping[str, int], unknown: int = 0) -> None:
        self._values = values
        self._unknown = unknown
        self._sizes: dict[SymbolicDim, int] = {}

    def shape(self, info: Info | None) -> tuple[int, ...] | None:
        """The shape of a tensor, ``None`` when its rank is unknown, or for other values."""
        if info is None or not info.is_tensor or info.shape is None:
            return None
        return tuple(map(self.size, info.shape))

    def exact(self, dim: Dim) -> int | None:
        """The value of an expression, which may be negative; ``None`` where it is not known."""
        return evaluated(dim, self._values)

    def size(self, dim: Dim) -> int:
        """The size of an axis."""
        if not isinstance(dim, SymbolicDim):
            return dim
        size = self._sizes.get(dim)
        if size is None:
            value = evaluated(dim, self._values)
            size = self._sizes[dim] = self._unknown if value is None else max(value, 0)
        return size


def evaluated(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    """The value of an expression of sizes, ``None`` when one of them is not known."""
    try:
        return evaluate(dim, sizes) if isinstance(dim, SymbolicDim) else int(dim)
    except (KeyError, ValueError, ZeroDivisionError):
        return None
