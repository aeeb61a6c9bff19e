"""The differences of two models: `diff`, and `diff_values`, which finds where their values first differ."""

from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from xoptim.diagnose.differences import Difference, common_results, differences
from xoptim.diagnose.each import with_outputs
from xoptim.facts.given import given
from xoptim.facts.operators import operator_label
from xoptim.graph.load import load_model
from xoptim.graph.model import Model
from xoptim.graph.sources import Source
from xoptim.graph.walk import reads
from xoptim.validate.compare import Comparison, compare_values
from xoptim.validate.errors import FeedError, RunError
from xoptim.validate.options import ValidationChanges, ValidationOptions
from xoptim.validate.reference import run_reference
from xoptim.validate.session import Session, Value


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """How a result differs between two models."""

    name: str  # of the result
    operator: str  # that produces it in the first model
    node: str  # name of its node there
    comparison: Comparison  # of the two values
    is_first: bool  # whether all results that its node reads, and that both models have, are equal

    def __str__(self) -> str:
        return f"{self.name!r} of {self.operator} {self.node!r}: {self.comparison.message or 'differs'}"

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return {
            "name": self.name,
            "operator": self.operator,
            "node": self.node,
            "is_first": self.is_first,
            "max_abs": self.comparison.max_abs if np.isfinite(self.comparison.max_abs) else str(self.comparison.max_abs),
            "message": self.comparison.message,
        }


def diff(first: Any, second: Any) -> list[Difference]:
    """The differences of two models, of the kinds that `xoptim.optimize` takes: nodes by structure and name, constants, types.

    Raises `ModelError` when one of them cannot be read.
    """
    return differences(_loaded(Source(first)), _loaded(Source(second)))


def diff_values(
    first: Any, second: Any, options: ValidationOptions | None = None, **changes: Unpack[ValidationChanges]
) -> list[ValueDifference]:
    """The results of one name that differ between two models when both run on the same values, in the order of the first.

    Args:
        first: a model as for `xoptim.optimize`.
        second: another one, with the same inputs.
        options: values, provider and tolerance of the comparison.
        **changes: fields of `ValidationOptions` to set.

    Raises:
        ModelError: one of them cannot be read.
        LoadError, FeedError, RunError: one of them cannot be run.
    """
    sources = Source(first), Source(second)
    models = [_loaded(source) for source in sources]
    chosen = given(ValidationOptions, options, changes)
    chosen = replace(chosen, assignments=1, original_dir=sources[0].base_dir)
    run = run_reference(sources[0].proto, chosen).runs[0]
    names = common_results(models[0], models[1])
    try:
        values = [_values(source, names, chosen, run.feeds) for source in sources]
    except (FeedError, RunError) as error:
        inputs = [each for each in differences(*models) if each.part == "input"]
        if not inputs:
            raise
        raise FeedError(f"the models do not run on the same values: input {inputs[0].name!r}: {inputs[0].detail}") from error
    found: list[ValueDifference] = []
    wrong: set[str] = set()
    for name in names:
        comparisons = compare_values(name, values[0][name], values[1][name], chosen.rules)
        comparison = next((each for each in comparisons if not each.ok), None)
        if comparison is None:
            continue
        node = models[0].graph.producer(name)
        assert node is not None
        wrong.add(name)
        operator = operator_label(node.op_type, node.domain)
        found.append(ValueDifference(name, operator, node.name, comparison, wrong.isdisjoint(reads(node))))
    return found


def _loaded(source: Source) -> Model:
    return load_model(source.proto, source.base_dir)


def _values(source: Source, names: list[str], options: ValidationOptions, feeds: dict[str, Value]) -> dict[str, Value]:
    session = Session(with_outputs(source.proto, names), options.settings, base_dir=source.base_dir)
    return dict(zip(names, session.run(feeds), strict=True))
