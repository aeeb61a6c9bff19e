"""Every pattern is needed: other patterns do not reach the same result on all its examples."""

from collections.abc import Iterator

import pytest
from onnx import ModelProto

from tests.share import is_pattern_in_share
from xoptim import installed_patterns, optimize, select
from xoptim.catalogue.selection import resolve
from xoptim.match.rewrite import Rewrite
from xoptim.testing.canonical import canonical
from xoptim.testing.variant import Case, parse, provider_of

_PARTS = 3
PATTERNS = [
    cls
    for name, cls in installed_patterns().items()
    if cls.examples and is_pattern_in_share(cls, f"basis {name}", _PARTS)
]
DEFAULT = {pattern.name() for pattern in select("default")}


def without_sizes(model: ModelProto) -> ModelProto:
    """The model with inputs and outputs of known rank whose dimensions are unknown."""
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    return model


def without_shapes(model: ModelProto) -> ModelProto:
    """The model with inputs and outputs of unknown rank."""
    for value in (*model.graph.input, *model.graph.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return model


def variants(pattern: type[Rewrite]) -> Iterator[ModelProto]:
    """The examples of a pattern: with shapes, with ranks only, and without either."""
    examples = [Case(example) for example in pattern.examples]
    for change in (lambda model: model, without_sizes, without_shapes):
        yield from (change(example.copy()) for example in examples)


def needs(pattern: type[Rewrite], model: ModelProto) -> bool:
    """Whether all patterns reach another result than all patterns except for this one."""
    name = pattern.name()
    selection = "default" if name in DEFAULT else f"default+{name}"
    complete, incomplete = (
        canonical(
            optimize(model, patterns=words, provider=provider_of(pattern), assume_from_model=True)
        )
        for words in (selection, f"{selection}-{name}")
    )
    return complete != incomplete


@pytest.mark.parametrize("pattern", PATTERNS, ids=[cls.name() for cls in PATTERNS])
def test_an_example_needs_the_pattern(pattern: type[Rewrite]) -> None:
    assert any(needs(pattern, model) for model in variants(pattern))


def test_the_check_notices_a_pattern_that_others_replace() -> None:
    """Two Squeezes in a row are one without the pattern for them, as long as the shape is known."""
    pattern = installed_patterns()["SqueezeSqueeze"]
    text = pattern.examples[0].before
    assert not needs(pattern, parse(text))
    assert needs(pattern, without_shapes(parse(text)))


@pytest.mark.parametrize(("former", "present"), [("Expand", "ShapeBasedExpand")])
def test_a_pattern_that_others_replaced_is_found_by_its_name(former: str, present: str) -> None:
    assert [cls.name() for cls in resolve(former)] == [present]
