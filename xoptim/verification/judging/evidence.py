"""Outputs for which no run of the original gives evidence."""

from collections.abc import Sequence

import onnx

from xoptim.facts.advice import Advice
from xoptim.verification.judging.report import RunReport


def hollow_reason(runs: Sequence[RunReport], graph: onnx.GraphProto) -> str:
    """The reason why outputs of the original are no evidence: they are empty, not finite, or
    explode, in every run.

    Empty where each output has a compared element. Outputs whose declared type has a dimension of
    size 0 need none.
    """
    triples = [(c.whole or c.output, c, run) for run in runs for c in run.comparisons]
    names_with_evidence = {name for name, c, run in triples if run.is_evidence(c)}
    names = [value.name for value in graph.output if not _is_empty(value.type)]
    hollow = [name for name in names if name not in names_with_evidence]
    if not hollow:
        return ""
    filled = {name for name, c, _ in triples if c.count}
    defect = "had no finite value in any run"
    if filled.isdisjoint(hollow):
        defect = "had no element in any run"
    sizes = [c.scale for name, c, _ in triples if name in hollow and c.judged]
    if sizes:
        defect = f"grew to {min(sizes):.2g} or more in every run, where rounding hides differences"
    subject = "the outputs"
    if len(hollow) < len(graph.output):
        subject = f"output {', '.join(map(repr, hollow[:4]))}{', ...' if len(hollow) > 4 else ''}"
    return f"{subject} of the original {defect}; give inputs with {Advice('feeds')}"


def _is_empty(type_proto: onnx.TypeProto) -> bool:
    """Whether a tensor type has a dimension of size 0."""
    sizes = type_proto.tensor_type.shape.dim
    return any(size.HasField("dim_value") and size.dim_value == 0 for size in sizes)
