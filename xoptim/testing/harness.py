"""Checks of each example of a pattern."""

import difflib
from copy import deepcopy
from functools import partial

import onnx

from xoptim.doc import pretty_onnx
from xoptim.engine.applier import TAG
from xoptim.facts.protos import hide_from_onnx
from xoptim.facts.schema import schema
from xoptim.match.quantization import RangedPattern
from xoptim.match.rewrite import Example, Rewrite
from xoptim.testing.canonical import canonical
from xoptim.testing.digits import is_rounding
from xoptim.testing.feeds import make_all_feeds
from xoptim.testing.numbers import never, same_numbers
from xoptim.testing.variant import (
    INFERENCE_ERRORS,
    OptimizedAlone,
    all_nodes,
    opset_of,
    optimize_alone,
    parse,
    provider_of,
    serialized,
)

_HIDDEN = ("LayerNormalization", "SimplifiedLayerNormalization")
"""Operators that onnxruntime defines in every version of the standard domain, and ONNX in none or
only in later ones.
"""


def check_example(pattern_class: type[Rewrite], example: Example) -> None:
    """Check that a pattern rewrites an example as expected.

    Only this pattern and the default cleaning run. The checks:

    - Both models of the example are valid, and the model before is not modified.
    - The pattern applies, and the result equals the model after, up to names.
    - The result is valid, has the same inputs and outputs, and computes the same numbers.
    - A second run changes nothing, and new nodes are tagged.

    Raises `AssertionError`, which shows the models as text, when a check fails, and `ValueError`
    when the example is not valid text.
    """
    before = parse(example.before, example.opset, example.domains)
    after = parse(example.after, example.opset, example.domains)
    for stage, model in (("before", before), ("after", after)):
        if reason := invalid(model):
            raise AssertionError(f"the model {stage}: {reason}\n{pretty_onnx(model)}")
    original = serialized(before)
    result = optimize_alone(pattern_class, before)
    expected = optimize_alone(None, after).model
    failure = (
        ("the model given was modified" if serialized(before) != original else "")
        or ("the pattern does not apply" if not result.applied else "")
        or _graphs_differ(expected, result.model)
        or _signatures_differ(before, result.model)
        or invalid(result.model)
        or _numbers_differ(pattern_class, example, before, result.model)
        or _changes_again(pattern_class, result.model)
        or _untagged(pattern_class, result)
    )
    if failure:
        raise AssertionError(
            report(pattern_class, failure, before=before, expected=expected, found=result.model)
        )


def report(pattern_class: type[Rewrite], failure: str, **models: onnx.ModelProto) -> str:
    """A message with the models as text."""
    parts = [f"{pattern_class.__name__}: {failure}"]
    parts += [f"--- {name}\n{pretty_onnx(model)}" for name, model in models.items()]
    return "\n".join(parts)


def contradiction(model: onnx.ModelProto) -> str:
    """A contradiction in the types and shapes of a model, empty without one.

    Unlike `invalid` it accepts untyped outputs.
    """
    try:
        onnx.shape_inference.infer_shapes(
            _known_to_onnx(model), check_type=True, strict_mode=True, data_prop=True
        )
    except INFERENCE_ERRORS as error:
        return f"onnx.shape_inference: {str(error).strip()}"
    return ""


def invalid(model: onnx.ModelProto) -> str:
    """The reason why ``onnx.checker`` refuses a model, empty when it does not."""
    try:
        onnx.checker.check_model(_known_to_onnx(model), full_check=True)
    except INFERENCE_ERRORS as error:
        return f"onnx.checker: {str(error).strip()}"
    return ""


def _known_to_onnx(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with onnxruntime's operators moved from the standard domain to its own, where onnx
    does not check them.

    EyeLike is moved as well: onnx 1.23 ends the process if the type of its operand is unknown.
    """
    hidden = {
        "EyeLike",
        *(op_type for op_type in _HIDDEN if schema(op_type, "", opset_of(model)) is None),
    }
    if not any(node.op_type in hidden and not node.domain for node in all_nodes(model)):
        return model
    copy = deepcopy(model)
    hide_from_onnx(copy, hidden)
    return copy


def _graphs_differ(expected: onnx.ModelProto, actual: onnx.ModelProto) -> str:
    a, b = canonical(expected), canonical(actual)
    if a == b:
        return ""
    lines = difflib.unified_diff(
        a.splitlines(), b.splitlines(), "expected", "found", lineterm="", n=99
    )
    return "\n".join(("the result is not the expected one", *lines))


def _signatures_differ(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    for kind in ("input", "output"):
        old, new = (
            [(v.name, v.type) for v in getattr(model.graph, kind)] for model in (before, after)
        )
        if old != new:
            return f"the {kind}s of the model changed"
    return ""


def _numbers_differ(
    pattern_class: type[Rewrite], example: Example, before: onnx.ModelProto, after: onnx.ModelProto
) -> str:
    feeds = make_all_feeds(before, example.ranges, special=pattern_class.exactness)
    pardon = never
    # ranges determine the quantization steps, not the numbers that are fed
    if issubclass(pattern_class, RangedPattern):
        pardon = partial(is_rounding, before, after, ranges=example.ranges, bits=pattern_class.bits)
    numbers = same_numbers(before, after, feeds, pattern_class.exactness, most=99, pardon=pardon)
    if provider_of(pattern_class) != "cpu":  # its operators may have no kernel here
        return "" if "refuses the result" in numbers.difference else numbers.difference
    return numbers.difference or numbers.skipped


def _changes_again(pattern_class: type[Rewrite], model: onnx.ModelProto) -> str:
    again = optimize_alone(pattern_class, model).model
    return (
        ""
        if serialized(again) == serialized(model)
        else f"a second run changes the result to\n{pretty_onnx(again)}"
    )


def _untagged(pattern_class: type[Rewrite], result: OptimizedAlone) -> str:
    new = set(result.created) - {"Identity"}
    tag = TAG, pattern_class.name()
    tags = {
        n.op_type
        for n in all_nodes(result.model)
        for p in n.metadata_props
        if (p.key, p.value) == tag
    }
    remaining = new & {n.op_type for n in all_nodes(result.model)}
    if remaining and not remaining & tags:
        return (
            f"no new node ({', '.join(sorted(new))}) has the metadata {TAG}={pattern_class.name()}"
        )
    return ""
