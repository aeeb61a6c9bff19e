"""The examples of patterns: as models, and proofs that the models before and after are equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import onnx
from onnx import ModelProto

from xoptim.engine.options import OptimizationOptions
from xoptim.graph.assumed import noted
from xoptim.match.rewrite import Example, Rewrite
from xoptim.optimizing.builder import GraphBuilder
from xoptim.proof.grades import GRADES, Grade
from xoptim.proof.proving import Proof, prove_models

_IR_VERSION: Final = 10
_METADATA: Final = re.compile(r"<(?=metadata_props)([^<>]*)>\s*")
_SECONDS: Final = 600.0
"""Time limit of a proof; after it, the grade is ``only run``. Grades should not depend on it.

The longest proof, of ConvWinograd, takes half a minute.
"""


def parse(text: str, opset: int = 18, domains: Sequence[tuple[str, int]] = ()) -> ModelProto:
    """A model from the text of its graph, ``agraph (float[n] x) => (float[n] y) { y = Neg(x) }``,
    and of local functions.

    The text is in ONNX's syntax, with no header except metadata, ``<metadata_props: ["key" :
    "value"]>``. Raises `ValueError`, which shows the text, if the text is not valid.
    """
    metadata, text = (
        (f", {match[1]}", text[match.end() :]) if (match := _METADATA.match(text)) else ("", text)
    )
    imports = [
        onnx.helper.make_opsetid(domain, version) for domain, version in (("", opset), *domains)
    ]
    version = max(_IR_VERSION, onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True))
    import_list = ", ".join(f'"{o.domain}" : {o.version}' for o in imports)
    try:
        return onnx.parser.parse_model(
            f"<ir_version: {version}, opset_import: [{import_list}]{metadata}>\n{text}"
        )
    except onnx.parser.ParseError as error:
        raise ValueError(f"this is not the text of an ONNX graph:\n{text}\n{error}") from error


def provider_of(pattern: type[Rewrite]) -> str:
    """The execution provider with which the pattern is used: the CPU if the pattern supports it."""
    return "cpu" if not pattern.providers or "cpu" in pattern.providers else pattern.providers[0]


def prove_example(pattern: type[Rewrite], example: Example) -> Proof:
    """Prove that an example computes the same before and after a pattern, for all sizes.

    The pattern is used with the default cleaning. Raises `ValueError` when the example is not valid
    text.
    """
    before = parse(example.before, example.opset, example.domains)
    options = OptimizationOptions(
        patterns=[pattern], provider=provider_of(pattern), assume_from_model=True
    )
    after = GraphBuilder(before, optimization_options=options).to_onnx()
    return prove_models(before, after, noted(before), seconds=_SECONDS)


def grade_of(pattern: type[Rewrite]) -> Grade:
    """The weakest grade of the examples of a pattern; ``only run`` without examples."""
    grades = [prove_example(pattern, example).grade for example in pattern.examples]
    return max(grades, key=GRADES.index, default=GRADES[-1])
