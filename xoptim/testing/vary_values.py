"""The example, unchanged or in another type, fed with other numbers."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import TensorProto

from xoptim.testing.values import LARGE_INTEGERS, TAILS
from xoptim.testing.variant import Case, Variant
from xoptim.testing.vary_types import retyped


def tails(case: Case) -> Iterator[Variant]:
    """Numbers far from 0 and close to it; each result counts by its own digits, as if a Log or a Div read it."""
    if any(v.type.tensor_type.elem_type == TensorProto.FLOAT for v in case.model.graph.input):
        yield Variant("values: tails", case.copy(), values=(TAILS,))


def integers(case: Case) -> Iterator[Variant]:
    """Integers that floating-point numbers cannot represent, in place of floats too."""
    if any(v.type.tensor_type.elem_type == TensorProto.INT64 for v in case.model.graph.input):
        yield Variant("values: large integers", case.copy(), values=(LARGE_INTEGERS,))
    for element in (TensorProto.INT64, TensorProto.INT32):
        model = retyped(case.model, {TensorProto.FLOAT: element})
        if model != case.model:
            yield Variant(f"values: large int{32 if element == TensorProto.INT32 else 64}", model, values=(LARGE_INTEGERS,))
