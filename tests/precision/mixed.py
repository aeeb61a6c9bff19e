"""Random networks of MatMuls of all kinds and types, with what lies between them, in any operator
set.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.precision.drawing import Drawing

_WIDTHS: Final = (1, 3, 16, 32, 32, 32, 33, 64, 64, 64, 128, 128)
_OPSETS: Final = (11, 13, 14, 17, 18, 20, 21, 22, 23, 24, 25, 26)


class _Value(NamedTuple):
    """A tensor: its name, and its sizes, of which the first may be open (0)."""

    name: str
    shape: tuple[int, ...]


class Products(Drawing):
    """Draws constants and MatMuls of all kinds.

    Args:
        seed: of all choices and numbers.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.opset = self.rng.choice(_OPSETS)
        self.dtype = self.rng.choice((np.float32,) * 8 + (np.float64, np.float16))
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.values: list[_Value] = []
        self.calm = self.rng.random() < 0.7

    def numbers_of(self, *shape: int) -> np.ndarray:
        """Constants: ordinary ones, or with zeros, alike, large, tiny or not finite ones among
        them.
        """
        array = np.asarray(self.numbers.standard_normal(shape)) / np.sqrt(
            max(shape[0] if shape else 1, 1)
        )
        kind = 0 if self.calm else self.rng.randrange(14)
        if kind == 1:
            array.reshape(-1)[: max(array.size // 3, 1)] = 0
        elif kind == 2:
            array = np.sign(array)
        elif kind == 3 and array.size:
            array.flat[0] = 1000
        elif kind in (4, 5, 6):
            array = array * {4: 1e-6, 5: 1e-30, 6: 1e4}[kind]
        elif kind == 7:
            array = array * 0
        elif kind == 8 and array.size:
            array.flat[-1] = self.rng.choice((np.inf, -np.inf, np.nan))
        elif kind == 9:
            array = array * np.exp(3 * self.numbers.standard_normal(shape[-1:] or (1,)))
        elif kind == 10:
            array = np.abs(array)
        elif kind == 11:
            array = np.full(shape, self.rng.choice((0.25, 1.0, 1e20)))
        with np.errstate(over="ignore"):
            found: np.ndarray = array.reshape(shape).astype(self.dtype)
        return found

    def matrix(self, *shape: int) -> str:
        """Weights, which others may share, constant, transposed, reshaped or converted."""
        alike = [
            name
            for name, array in self.stored.items()
            if array.shape == shape and array.dtype == self.dtype
        ]
        if alike and self.rng.random() < 0.25:
            return self.rng.choice(alike)
        form = self.rng.randrange(12)
        if form == 0 and len(shape) == 2:
            return self.add("Transpose", [self.store(self.numbers_of(*shape[::-1]))], perm=[1, 0])
        if form == 1 and all(shape):
            return self.add(
                "Reshape",
                [self.store(self.numbers_of(int(np.prod(shape)))), self.store(np.array(shape))],
            )
        if form == 2:
            with np.errstate(over="ignore"):
                half = self.store(self.numbers_of(*shape).astype(np.float16))
            return self.add(
                "Cast", [half], to=helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
            )
        if form == 3:
            name = f"v{len(self.nodes)}"
            tensor = numpy_helper.from_array(self.numbers_of(*shape))
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
            return name
        return self.store(self.numbers_of(*shape))

    def width(self) -> int:
        """A size."""
        return self.rng.choice(_WIDTHS)

    def mat_mul(self, x: _Value) -> _Value:
        """By a matrix on the right, with a bias or not."""
        columns = self.width()
        batch = (self.rng.choice((1, 2)),) if len(x.shape) == 2 and self.rng.random() < 0.1 else ()
        y = self.add("MatMul", [x.name, self.matrix(*batch, x.shape[-1], columns)])
        shape = (*batch, *x.shape[:-1], columns)
        if self.rng.random() < 0.4:
            y = self.add("Add", self.shuffled(y, self.matrix(columns)))
        return _Value(y, shape)

    def shuffled(self, *names: str) -> list[str]:
        """In any order."""
        return self.rng.sample(names, len(names))

    def vector(self, x: _Value) -> _Value:
        """By a vector."""
        return _Value(self.add("MatMul", [x.name, self.matrix(x.shape[-1])]), x.shape[:-1])

    def left(self, x: _Value) -> _Value | None:
        """By a matrix on the left."""
        if len(x.shape) < 2 or not x.shape[-2]:
            return None
        rows = self.width()
        return _Value(
            self.add("MatMul", [self.matrix(rows, x.shape[-2]), x.name]),
            (*x.shape[:-2], rows, x.shape[-1]),
        )

    def gemm(self, x: _Value) -> _Value | None:
        """With any attributes."""
        if len(x.shape) != 2:
            return None
        turned = bool(x.shape[0]) and self.rng.random() < 0.3
        rows, inner = x.shape[::-1] if turned else x.shape
        columns, trans_b = self.width(), self.rng.randrange(2)
        shapes: list[tuple[int, ...]] = [(columns,), (1, columns), (1, 1), (1,), ()]
        c = [self.matrix(*self.rng.choice(shapes))] if self.rng.random() < 0.6 else []
        attributes = {
            "transA": int(turned),
            "transB": trans_b,
            "alpha": self.rng.choice((1.0, 1.0, 0.5)),
            "beta": self.rng.choice((1.0, 1.0, 2.0, 0.0)),
        }
        weights = self.matrix(*((columns, inner) if trans_b else (inner, columns)))
        if self.rng.random() < 0.1 and rows:  # the constant first
            if inner == 0:
                return None
            y = self.add("Gemm", [self.matrix(columns, rows), x.name], transB=int(turned))
            return None if turned else _Value(y, (columns, inner))
        return _Value(self.add("Gemm", [x.name, weights, *c], **attributes), (rows, columns))

    def table(self, x: _Value) -> _Value:
        """Rows of a table, at places that are an input, along any axis."""
        width = self.width()
        axis = self.rng.randrange(2)
        name = self.matrix(*((width, 64) if axis else (64, width)))
        places = f"i{len(self.inputs)}"
        self.inputs[places] = (0, 3)
        y = self.add("Gather", [name, places], axis=axis)
        return (
            _Value(y, (width, 0, 3) if axis else (0, 3, width))
            if not axis
            else _Value(self.add("Transpose", [y], perm=[1, 2, 0]), (0, 3, width))
        )

    def conv(self, x: _Value) -> _Value | None:
        """A convolution, transposed or not, of one to three axes."""
        axes = len(x.shape) - 2
        if axes not in (1, 2, 3) or not x.shape[1] or 0 in x.shape[2:]:
            return None
        channels = x.shape[1]
        group = self.rng.choice([n for n in (1, 1, 2, channels) if channels % n == 0])
        features = group * self.rng.choice((1, 2, 3, 8, 16))
        window = [self.rng.choice((1, 1, 3)) for _ in range(axes)]
        pads = [side // 2 for side in window] * 2
        bias = [self.matrix(features)] if self.rng.random() < 0.5 else []
        if self.rng.random() < 0.2:
            kernel = self.matrix(channels, features // group, *window)
            return _Value(
                self.add("ConvTranspose", [x.name, kernel, *bias], group=group, pads=pads),
                (x.shape[0], features, *x.shape[2:]),
            )
        kernel = self.matrix(features, channels // group, *window)
        if self.rng.random() < 0.2:
            y = self.add(
                "Conv", [x.name, kernel, *bias], group=group, pads=pads, strides=[2] * axes
            )
            return _Value(y, (x.shape[0], features, *[-(-side // 2) for side in x.shape[2:]]))
        extra: dict[str, Any] = (
            {"auto_pad": "SAME_UPPER"} if self.rng.random() < 0.3 else {"pads": pads}
        )
        return _Value(
            self.add("Conv", [x.name, kernel, *bias], group=group, **extra),
            (x.shape[0], features, *x.shape[2:]),
        )

    def recurrent(self, x: _Value) -> _Value | None:
        """LSTM, GRU or RNN in either direction."""
        if len(x.shape) != 3 or not x.shape[1]:
            return None
        op_type, hidden = self.rng.choice(("LSTM", "LSTM", "GRU", "RNN")), self.rng.choice((16, 32))
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op_type] * hidden
        ways = self.rng.choice((1, 2))
        names = [x.name, self.matrix(ways, gates, x.shape[2]), self.matrix(ways, gates, hidden)]
        names += [self.matrix(ways, 2 * gates)] if self.rng.random() < 0.5 else []
        y = self.add(
            op_type, names, hidden_size=hidden, direction="bidirectional" if ways > 1 else "forward"
        )
        turned = self.add("Transpose", [y], perm=[0, 2, 1, 3])
        return _Value(
            self.add("Reshape", [turned, self.store(np.array([0, 0, -1]))]),
            (x.shape[0], x.shape[1], ways * hidden),
        )

    def branch(self, x: _Value) -> _Value:
        """MatMuls in the branches of an If."""
        columns, graphs = self.width(), []
        limit = self.store(np.array(self.rng.choice((0, 10**6))))
        condition = self.add("Less", [self.add("Size", [x.name]), limit])
        for _ in range(2):
            name = f"b{len(self.nodes)}_{self.rng.randrange(10**6)}"
            node = helper.make_node("MatMul", [x.name, self.matrix(x.shape[-1], columns)], [name])
            graphs.append(helper.make_graph([node], "branch", [], [self.port(name, None)]))
        return _Value(
            self.add("If", [condition], then_branch=graphs[0], else_branch=graphs[1]),
            (*x.shape[:-1], columns),
        )

    def loop(self, x: _Value) -> _Value:
        """A MatMul in each round."""
        if x.shape[-1] > 512:
            return x
        place = len(self.nodes)
        weights = self.matrix(x.shape[-1], x.shape[-1])
        nodes = [
            helper.make_node("Identity", [f"on{place}"], [f"goes{place}"]),
            helper.make_node("MatMul", [f"before{place}", weights], [f"total{place}"]),
            helper.make_node("Tanh", [f"total{place}"], [f"after{place}"]),
        ]
        flags = [
            helper.make_tensor_value_info(f"{name}{place}", kind, [])
            for name, kind in (("round", 7), ("on", 9), ("goes", 9))
        ]
        dims = [size or "n" for size in x.shape]
        body = helper.make_graph(
            nodes,
            "body",
            [*flags[:2], self.port(f"before{place}", dims)],
            [flags[2], self.port(f"after{place}", dims)],
        )
        count = self.store(np.array(self.rng.choice((1, 3))))
        return _Value(
            self.add("Loop", [count, self.store(np.array(True)), x.name], body=body), x.shape
        )

    def port(self, name: str, dims: Sequence[Any] | None) -> onnx.ValueInfoProto:
        """A value of the main type."""
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype)), dims
        )


class Mixed(Products):
    """A network of MatMuls of all kinds, and of what lies between them.

    Args:
        seed: of all choices and numbers.
    """

    def einsum(self, x: _Value) -> _Value:
        """The last axis by a matrix."""
        letters, columns = "abcdefg"[: len(x.shape)], self.width()
        equation = f"{letters},{letters[-1]}z->{letters[:-1]}z"
        return _Value(
            self.add("Einsum", [x.name, self.matrix(x.shape[-1], columns)], equation=equation),
            (*x.shape[:-1], columns),
        )

    def both_constant(self, x: _Value) -> _Value:
        """A MatMul of two constants, added."""
        row = self.add("MatMul", [self.matrix(1, 16), self.matrix(16, x.shape[-1])])
        return _Value(
            self.add("Add", [x.name, row]), (*(() if len(x.shape) > 1 else (1,)), *x.shape)
        )

    def function(self, x: _Value) -> _Value:
        """Something of one operand."""
        op_type = self.rng.choice(
            (
                "Relu",
                "Tanh",
                "Sigmoid",
                "Neg",
                "Identity",
                "Softmax",
                "LeakyRelu",
                "Exp",
                "Abs",
                "HardSigmoid",
                "Clip",
            )
        )
        return _Value(self.add(op_type, [x.name]), x.shape)

    def normalized(self, x: _Value) -> _Value | None:
        """A LayerNormalization or a BatchNormalization."""
        if self.opset >= 17 and self.rng.random() < 0.6:
            names = [
                self.store(np.abs(self.numbers.standard_normal(x.shape[-1])).astype(self.dtype))
                for _ in range(2)
            ]
            return _Value(self.add("LayerNormalization", [x.name, *names]), x.shape)
        if len(x.shape) < 3 or not x.shape[1]:
            return None
        names = [
            self.store((np.abs(self.numbers.standard_normal(x.shape[1])) + 0.1).astype(self.dtype))
            for _ in range(4)
        ]
        return _Value(self.add("BatchNormalization", [x.name, *names]), x.shape)

    def joined(self, x: _Value) -> _Value:
        """With another value of the same sizes."""
        other = self.rng.choice([each for each in self.values if each.shape == x.shape] or [x])
        op_type = self.rng.choice(("Add", "Mul", "Sub", "Concat"))
        more = {"axis": len(x.shape) - 1} if op_type == "Concat" else {}
        shape = (*x.shape[:-1], 2 * x.shape[-1]) if more else x.shape
        return _Value(self.add(op_type, [x.name, other.name], **more), shape)

    def moved(self, x: _Value) -> _Value:
        """With other axes."""
        rank = len(x.shape)
        if rank > 2 and self.rng.random() < 0.6:
            order = [0, *self.rng.sample(range(1, rank), rank - 1)]
            return _Value(
                self.add("Transpose", [x.name], perm=order),
                tuple(x.shape[place] for place in order),
            )
        if rank < 5 and x.shape and self.rng.random() < 0.6:
            shape = self.store(np.array([0, *([1] if rank == 1 else [1, *x.shape[1:]])]))
            return _Value(self.add("Reshape", [x.name, shape]), (x.shape[0], 1, *x.shape[1:]))
        if rank > 2:
            return _Value(
                self.add("Flatten", [x.name], axis=1), (x.shape[0], int(np.prod(x.shape[1:])))
            )
        return x

    def converted(self, x: _Value) -> _Value:
        """Through another type and back."""
        kinds = [
            TensorProto.FLOAT16,
            TensorProto.DOUBLE,
            TensorProto.FLOAT,
            *([TensorProto.BFLOAT16] if self.opset >= 13 else []),
        ]
        there = self.add("Cast", [x.name], to=self.rng.choice(kinds))
        return _Value(
            self.add("Cast", [there], to=helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))),
            x.shape,
        )

    def first(self) -> _Value:
        """An input of any rank; with an axis at least, and with two where it had one."""
        rank = self.rng.choice((0, 1, 2, 2, 3, 3, 4, 4, 5))
        shape = tuple(
            self.rng.choice((0, 0, 2)) if not place else self.rng.choice((1, 4, 16, 32, 64))
            for place in range(rank)
        )
        self.inputs["x"] = shape
        if not shape:
            return _Value(self.add("Reshape", ["x", self.store(np.array([1, 1]))]), (1, 1))
        if rank == 1:
            axes = [self.store(np.array([1]))] if self.opset >= 13 else []
            return _Value(
                self.add("Unsqueeze", ["x", *axes], **({} if axes else {"axes": [1]})),
                (shape[0], 1),
            )
        return _Value("x", shape)

    def model(self) -> onnx.ModelProto:
        """The network."""
        x = self.first()
        products = (self.mat_mul, self.left, self.gemm, self.table, self.conv, self.recurrent)
        rare = (self.einsum, self.branch, self.loop, self.vector, self.both_constant)
        others = (
            self.function,
            self.function,
            self.normalized,
            self.joined,
            self.moved,
            self.converted,
        )
        for _ in range(self.rng.randint(2, 9)):
            step = self.rng.choice(self.rng.choices((products, rare, others), (4, 2, 4))[0])
            made = step(x)
            if made is None:
                continue
            self.values.append(made)
            if self.rng.random() < 0.15:
                self.ends.append(made.name)
            is_open = bool(made.shape) and made.shape[-1] != 0
            x = (
                made
                if is_open
                else self.rng.choice(
                    [each for each in self.values if each.shape and each.shape[-1]] or [x]
                )
            )
        if not self.values:
            self.values.append(self.function(x))
        return self.whole(dict.fromkeys((*self.ends, self.values[-1].name)))

    def whole(self, names: Iterable[str]) -> onnx.ModelProto:
        """The model of all nodes, with some results as outputs."""
        own = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        kinds = {name: TensorProto.INT64 if name.startswith("i") else own for name in self.inputs}
        inputs = [
            helper.make_tensor_value_info(name, kinds[name], [size or "n" for size in sizes])
            for name, sizes in self.inputs.items()
        ]
        tensors = [numpy_helper.from_array(array, name) for name, array in self.stored.items()]
        if self.rng.random() < 0.05:  # weights that may be given
            inputs += [
                helper.make_tensor_value_info(each.name, each.data_type, each.dims)
                for each in tensors[:1]
            ]
        graph = helper.make_graph(
            self.nodes, "drawn", inputs, [self.port(name, None) for name in names], tensors
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10
        )

    def samples(self, count: int) -> list[dict[str, np.ndarray]]:
        """Values of the inputs, in sizes that differ."""
        found = []
        for _ in range(count):
            size = self.rng.choice(
                (
                    1,
                    2,
                    3,
                    5,
                    5,
                    *(
                        [0]
                        if self.rng.random() < 0.1
                        and not any(n.op_type in ("LSTM", "GRU", "RNN") for n in self.nodes)
                        else []
                    ),
                )
            )
            shapes = {
                name: tuple(each or size for each in shape) for name, shape in self.inputs.items()
            }
            found.append(
                {
                    name: (
                        self.numbers.integers(-16, 16, shape)
                        if name[0] == "i"
                        else self.numbers.standard_normal(shape).astype(self.dtype)
                    )
                    for name, shape in shapes.items()
                }
            )
        return found
