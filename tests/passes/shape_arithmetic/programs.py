"""Random programs of sizes, whose results are outputs."""

from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INPUTS: Final = {"x": ("a", "b", "c"), "w": ("b", "a"), "v": (3, "c")}
_BINARY: Final = ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min")
_NUMBERS: Final = (1, 2, 3, 4, 7, -1, -3, 2**31, 2**40, 0)


class RandomProgram:
    """Grows a program from the shapes of three inputs.

    Args:
        seed: decides everything.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[TensorProto] = []
        self.ranks: dict[str, int] = {}
        self.lengths: dict[str, int] = {}
        for name, shape in INPUTS.items():
            start = int(self.rng.integers(len(shape)))
            self.node("Shape", [name], 1, len(shape) - start, start=start)

    def node(
        self, op_type: str, inputs: list[str], rank: int, length: int = 1, **attributes: Any
    ) -> str:
        """Add a node whose result has this rank, 0 or 1, and so many elements."""
        name = f"r{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        self.ranks[name], self.lengths[name] = rank, length
        return name

    def number(self, *values: int, rank: int = 1) -> str:
        """Store a constant."""
        name = f"c{len(self.stored)}"
        self.stored.append(
            numpy_helper.from_array(np.array(values, np.int64).reshape([-1] * rank), name)
        )
        return name

    def pick(self, rank: int | None = None) -> str | None:
        """A result of this rank, rather a late one."""
        names = [
            name
            for name, found in self.ranks.items()
            if found == rank or (rank is None and found >= 0)
        ][-8:]
        return str(self.rng.choice(names)) if names else None

    def grow(self, count: int) -> None:
        """Add so many nodes."""
        kinds = (
            self._binary,
            self._binary,
            self._element,
            self._vector,
            self._joined,
            self._converted,
            self._part,
        )
        for _ in range(count):
            kinds[int(self.rng.integers(len(kinds)))]()

    def _binary(self) -> None:
        left = self.pick()
        assert left is not None
        rank, length = self.ranks[left], self.lengths[left]
        others = [
            name
            for name, found in self.ranks.items()
            if found == rank and self.lengths[name] in (1, length)
        ]
        numbers = [
            int(n)
            for n in self.rng.choice(_NUMBERS[:6] if self.rng.random() < 0.9 else _NUMBERS, length)
        ]
        right = (
            str(self.rng.choice(others))
            if self.rng.random() < 0.5
            else self.number(*numbers, rank=rank)
        )
        op_type = str(self.rng.choice(_BINARY))
        if op_type in ("Div", "Mod") and right in self.ranks and self.rng.random() < 0.8:
            right = self.number(*[2] * length, rank=rank)
        pair = (
            [left, right] if self.rng.random() < 0.8 or op_type in ("Div", "Mod") else [right, left]
        )
        self.node(op_type, pair, rank, length)

    def _element(self) -> None:
        vector = self.pick(1)
        if vector is not None:
            place = int(self.rng.integers(self.lengths[vector]))
            self.node("Gather", [vector, self.number(place, rank=0)], 0)

    def _vector(self) -> None:
        scalar = self.pick(0)
        if scalar is not None:
            self.node("Unsqueeze", [scalar, self.number(0)], 1)

    def _joined(self) -> None:
        names = [name for name in (self.pick(1), self.pick(1)) if name is not None]
        if sum(self.lengths[name] for name in names) <= 6:
            parts = [*names, self.number(int(self.rng.choice(_NUMBERS)))]
            self.node("Concat", parts, 1, sum(self.lengths[name] for name in names) + 1, axis=0)

    def _converted(self) -> None:
        """To 32 bits and back."""
        name = self.pick()
        assert name is not None
        rank, length = self.ranks[name], self.lengths[name]
        narrow = self.node("Cast", [name], -1, to=TensorProto.INT32)
        self.node("Cast", [narrow], rank, length, to=TensorProto.INT64)

    def _part(self) -> None:
        vector = self.pick(1)
        if vector is not None:
            start = int(self.rng.integers(self.lengths[vector]))
            self.node(
                "Slice",
                [vector, self.number(start), self.number(9)],
                1,
                self.lengths[vector] - start,
            )

    def model(self) -> onnx.ModelProto:
        """The model, with some of the sizes as outputs."""
        names = [name for name, rank in self.ranks.items() if rank >= 0]
        read = {name for node in self.nodes for name in node.input}
        chosen = [name for name in names if name not in read or self.rng.random() < 0.15]
        # An output by way of an operator that is not followed, as a Reshape reads a size.
        outputs = []
        for name in chosen:
            self.nodes.append(helper.make_node("BitwiseNot", [name], [f"{name}_out"]))
            shape = [self.lengths[name]] * self.ranks[name]
            outputs.append(helper.make_tensor_value_info(f"{name}_out", TensorProto.INT64, shape))
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in INPUTS.items()
        ]
        graph = helper.make_graph(self.nodes, "program", inputs, outputs, self.stored)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
