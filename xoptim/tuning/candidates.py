"""Make the models of recipes from an original: the candidates of a search."""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import onnx

from xoptim.engine.environment import DebugSettings
from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.run import Optimizer
from xoptim.facts.errors import XoptimError
from xoptim.graph.assumed import assumed_of
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.graph.model import Model as LoadedModel
from xoptim.graph.sources import Source
from xoptim.graph.splice import inline_functions
from xoptim.match.rewrite import Rewrite
from xoptim.optimizing.plans import Plan, VerifyPlan
from xoptim.optimizing.verified import located
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.quantized import Quantized
from xoptim.precision.sources import with_samples
from xoptim.system.collection import collection_paused
from xoptim.tuning.choices import Recipe, groups_of
from xoptim.verification.errors import ChoiceError
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.protos import ModelLike
from xoptim.workflow.job import Job, JobOptions

_MAX_MODELS: Final = 8  # that are kept in memory
_SHARE_OF_SEARCH: Final = 0.5
"""Part of the time left that the search of a quantization may take."""
_LEAST_SECONDS: Final = 1.0
"""Smallest time limit of such a search."""


class Model(NamedTuple):
    """A model as onnxruntime loads it."""

    model: ModelLike  # a file, or a protobuf
    base_dir: Path | None  # folder of the external data of a protobuf


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The facts about the model of a recipe."""

    nodes: int  # number of nodes, subgraphs included
    size: int  # of the protobuf in bytes, without external data
    digest: bytes  # of the protobuf; equal models have equal digests
    # number of nodes that each group of patterns wrote, by operator; the groups that did not apply
    # are dropped
    written: Mapping[str, Mapping[str, int]]


class Candidates:
    """Makes models from an original, and keeps the last ones.

    With ``inline``, calls of local functions are replaced by their bodies first. Recipes name
    groups of patterns of ``options``. Quantization keeps the error of ``precision``, on values of
    ``checks``, and its search takes at most half of the ``seconds_left``: there are several
    schemes, and their results are measured.
    """

    def __init__(
        self,
        source: Source,
        options: OptimizationOptions,
        *,
        inline: bool = False,
        precision: PrecisionOptions | None = None,
        checks: VerificationOptions | None = None,
        seconds_left: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.source = source  # the original
        # the options that the original is optimized with when all groups of patterns run
        self.all_options = options
        self._inline = inline
        self._precision = with_samples(precision or PrecisionOptions(), source.proto)
        self._checks = checks or VerificationOptions()
        self._seconds_left = seconds_left
        self._quantized: dict[Recipe, Quantized | XoptimError] = {}
        self._facts: dict[Recipe, ModelFacts] = {}
        self._models: dict[Recipe, Model] = {}

    @cached_property
    def groups(self) -> dict[str, list[Rewrite]]:
        """The groups of the patterns of the options."""
        return groups_of(self.all_options.selected())

    def options(self, recipe: Recipe) -> OptimizationOptions:
        """The options that make the model of a recipe."""
        if not recipe.rewrites:
            disabled_steps: dict[str, Any] = {
                "remove_unused": False,
                "remove_identity": False,
                "constant_folding": False,
                "merge": False,
            }
            return replace(self.all_options, patterns=None, drop=(), **disabled_steps)
        names = {rewrite.name() for name in recipe.without for rewrite in self.groups.get(name, ())}
        patterns = [
            rewrite for rewrite in self.all_options.selected() if rewrite.name() not in names
        ]
        return replace(
            self.all_options,
            patterns=patterns,
            opset="newest" if recipe.newest_opset else self.all_options.opset,
        )

    def make(self, recipe: Recipe) -> Model:
        """The model of a recipe; raises XoptimError when it cannot be made."""
        if not recipe.rewrites:
            model, checks = located(self.source, VerificationOptions())
            return Model(model, checks.original_dir)
        if recipe not in self._models:
            self._models[recipe] = self._build(recipe)
            if len(self._models) > _MAX_MODELS:
                del self._models[next(iter(self._models))]
        self._models[recipe] = self._models.pop(recipe)  # the last one used is the last one dropped
        return self._models[recipe]

    def describe(self, recipe: Recipe) -> ModelFacts:
        """The facts about the model of a recipe; raises XoptimError when it cannot be made."""
        if recipe not in self._facts:
            if recipe.rewrites:
                self.make(recipe)
            else:
                model = load_model(self.source.proto, self.source.base_dir, infer=False)
                self._facts[recipe] = _facts_of(model, self.source.proto, {})
                model.dispose()
        return self._facts[recipe]

    def quantized(self, recipe: Recipe) -> Quantized:
        """The quantized model of a recipe.

        Raises XoptimError when no quantization is faster, or the model computes something else.
        """
        assert recipe.scheme is not None
        if recipe not in self._quantized:
            try:
                self._quantized[recipe] = self._quantize(
                    recipe, self._precision.with_scheme(recipe.scheme)
                )
            except XoptimError as error:
                self._quantized[recipe] = error
        result = self._quantized[recipe]
        if isinstance(result, XoptimError):
            raise result
        return result

    def _quantize(self, recipe: Recipe, precision: PrecisionOptions) -> Quantized:
        seconds = max(self._seconds_left() * _SHARE_OF_SEARCH, _LEAST_SECONDS)
        if seconds < (precision.budget or math.inf):
            precision = replace(precision, budget=seconds)
        # The optimized model before quantization is verified with its own recipe.
        plan = Plan(verify=VerifyPlan(checks=self._checks, bisect=False))
        job = JobOptions(
            optimization=self.options(recipe),
            plan=plan,
            verifies_floats=False,
            precision=precision,
        )
        result = Job(self.source, job).run().quantized
        assert result is not None
        # weights that are only stored in lower precision save no time
        if result.fault or not result.operators:
            raise ChoiceError(result.fault or "no choice within the tolerance is faster here")
        return result

    def _build(self, recipe: Recipe) -> Model:
        if recipe.scheme is not None:
            verified = self.quantized(recipe).verified
            model = load_model(verified.proto, verified.base_dir, infer=False)
            self._facts[recipe] = _facts_of(model, verified.proto, {})
            model.dispose()
            return Model(verified.proto, verified.base_dir)
        group_of = {
            rewrite.name(): name for name, rewrites in self.groups.items() for rewrite in rewrites
        }
        written: dict[str, Counter[str]] = defaultdict(Counter)

        def record(application: Application) -> None:
            op_types = (
                node.op_type for node in application.given if node not in application.matched
            )
            written[group_of[application.pattern.name()]].update(op_types)

        # Without tags, models that differ in the names of patterns only are equal; dumps are for
        # the written model.
        options = replace(
            self.options(recipe),
            tag_nodes=False,
            on_application=record,
            on_event=None,
            debug=DebugSettings(),
        )
        with collection_paused():
            proto = self.source.proto
            if self._inline and proto.functions:
                proto = inline_functions(proto)
            assumed = assumed_of(proto, options.assume, from_model=options.assume_from_model)
            model = load_model(proto, self.source.base_dir, assumptions=assumed)
            Optimizer(model, options).run()
            proto = export_model(model)
            self._facts[recipe] = _facts_of(model, proto, written)
            folder = model.base_dir
            model.dispose()
        return Model(proto, folder)


def _facts_of(
    model: LoadedModel, proto: onnx.ModelProto, written: Mapping[str, Counter[str]]
) -> ModelFacts:
    digest = hashlib.sha256(proto.SerializeToString(deterministic=True)).digest()
    return ModelFacts(
        sum(len(graph.nodes) for graph in model.graphs()), proto.ByteSize(), digest, written
    )
