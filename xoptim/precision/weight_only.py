"""Weight-only quantization: single constants are stored in lower precision, for any operator.

All operators compute in float32.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from xoptim.facts.protos import UNLISTED_SINCE, inner_graphs
from xoptim.graph.names import Names
from xoptim.match.quantization import FEWEST_STORED, StoringPattern
from xoptim.precision.candidates import Candidate, Form
from xoptim.precision.constant_writer import ConstantWriter, remove_indices
from xoptim.precision.large_constants import large_constants, small_constants
from xoptim.preparation.ports import defined_names


class WeightOnlyQuantizer:
    """The large constants of a model, and their float32 values after storage in lower precision.

    Args:
        model: the model.
        folder: of its external data.
        patterns: that store constants.
    """

    def __init__(
        self, model: onnx.ModelProto, folder: Path | None, patterns: Iterable[type[StoringPattern]]
    ) -> None:
        self._constants = large_constants(model)
        self._folder = folder
        self._patterns = {cls.name(): cls for cls in patterns}
        self._kept: dict[Form, np.ndarray] = {}

    def candidates(
        self, operators: Iterable[Candidate], *, keep_small: bool = False
    ) -> list[Candidate]:
        """The forms in which each constant can be stored.

        Args:
            operators: operators that can be quantized. The forms of their weights are candidates
                for the same result.
            keep_small: leave `small_constants` as they are.
        """
        small = small_constants(self._constants.values()) if keep_small else set()
        owners = {
            operator.weights: operator.shared_with or operator.result
            for operator in operators
            if operator.weights
        }
        candidates = list[Candidate]()
        for name, constant in self._constants.items():
            if name in small:
                continue
            numbers = constant.numbers(self._folder)
            owner = owners.get(constant.tensor.name, name)
            shape = math.prod(constant.tensor.dims[:-1]), constant.tensor.dims[-1]
            reader = constant.readers[0]
            candidates += [
                Candidate(
                    owner,
                    reader.name or reader.output[0],
                    pattern,
                    reader.op_type,
                    shape,
                    name,
                    relative_time=1.0,
                    bits=cls.width + 8 * _overhead(name, cls) / numbers.size,
                    original_bits=constant.bits,
                    element_bits=int(cls.width),
                    is_weight_only=True,
                )
                for pattern, cls in self._patterns.items()
                if cls.width < constant.bits and cls.fits(numbers)
            ]
        return candidates

    def feeds(self, forms: Mapping[str, str]) -> dict[str, np.ndarray]:
        """The float32 values of constants in lower precision, and of all others that a Cast widens.

        The arrays are kept for the next call.

        Args:
            forms: the pattern that stores each constant.
        """
        needed = dict.fromkeys(forms.items())
        needed |= {
            (name, ""): None
            for name, constant in self._constants.items()
            if constant.bits < 32 and name not in forms
        }
        self._kept = {
            form: self._kept[form] if form in self._kept else self._widened(*form)
            for form in needed
        }
        return {name: array for (name, _), array in self._kept.items()}

    def rounding_error(self, constant: Candidate) -> float:
        """The root mean square difference of a constant and its form in lower precision."""
        exact = self._widened(constant.weights, "").astype(np.float64)
        rounded = self._widened(constant.weights, constant.pattern)
        return float(np.sqrt(np.mean(np.square(rounded - exact))))

    def make_inputs(self, model: onnx.ModelProto) -> None:
        """Make the constants inputs, so that each run can be fed with other numbers.

        Args:
            model: the model, or a copy with further nodes; changed in place.
        """
        # In older models, an initializer that is an input cannot be replaced by a run.
        model.ir_version = max(model.ir_version, UNLISTED_SINCE)
        inputs = {value.name for value in model.graph.input}
        for graph in (model.graph, *inner_graphs(model.graph.node)):
            casts = [index for index, node in enumerate(graph.node) if self._is_cast(node)]
            remove_indices(graph.node, casts)
            if graph is not model.graph:
                self._move_constants(graph, model.graph)
        for name, constant in self._constants.items():
            if name not in inputs:
                model.graph.input.append(
                    helper.make_tensor_value_info(name, TensorProto.FLOAT, constant.tensor.dims)
                )

    def store(
        self, model: onnx.ModelProto, forms: Mapping[str, str]
    ) -> tuple[onnx.ModelProto, dict[str, str]]:
        """A copy of a model with some constants stored in lower precision, and the pattern of each.

        Constants that the model does not have are ignored.

        Args:
            model: the model, or one in which some operators were quantized.
            forms: the pattern that stores each constant.
        """
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        constants = large_constants(copy)
        stored = {name: pattern for name, pattern in forms.items() if name in constants}
        names = Names()
        names.reserve(defined_names(copy), {})
        for name, pattern in stored.items():
            numbers = constants[name].numbers(self._folder)
            ConstantWriter(copy, name, names).write(self._patterns[pattern], numbers)
        return copy, stored

    def _widened(self, name: str, pattern: str) -> np.ndarray:
        numbers = self._constants[name].numbers(self._folder)
        return self._patterns[pattern].widened(numbers) if pattern else numbers

    def _is_cast(self, node: onnx.NodeProto) -> bool:
        return bool(node.output) and node.op_type == "Cast" and node.output[0] in self._constants

    def _move_constants(self, graph: onnx.GraphProto, main: onnx.GraphProto) -> None:
        initializers = graph.initializer
        indices = [
            index for index, tensor in enumerate(initializers) if tensor.name in self._constants
        ]
        main.initializer.extend(initializers[index] for index in indices)
        remove_indices(initializers, indices)


def _overhead(name: str, pattern: type[StoringPattern]) -> int:
    """Bytes of the nodes that widen a constant."""
    numbers = np.ones(FEWEST_STORED, np.float32)
    written = ConstantWriter(onnx.ModelProto(), name, Names()).written(pattern, numbers)
    return written - round(pattern.width * FEWEST_STORED / 8)
