"""Facts about results after a run."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support import verify
from xoptim import GraphBuilder, OptimizationOptions

TINY_BERT = Path("examples/models/tiny_bert.onnx")


@pytest.mark.parametrize("patterns", [None, "default", "default+onnxruntime"])
def test_the_table_of_facts_describes_the_values_that_exist_and_nothing_else(patterns: str | None) -> None:
    builder = GraphBuilder(onnx.load(TINY_BERT), optimization_options=OptimizationOptions(patterns=patterns))
    verify(builder.model)
    builder.optimize()
    verify(builder.model)
