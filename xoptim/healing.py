"""When an optimized model computes something else: which rewrite did it, and a result without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import onnx

from xoptim.builder import GraphBuilder
from xoptim.culprit import STEPS, Culprit
from xoptim.graph.sources import Source
from xoptim.match.rewrite import ModelPass
from xoptim.optimize.application import Application
from xoptim.optimize.options import OptimizationOptions
from xoptim.reduction import reduce_model
from xoptim.validate.each import EachCheck
from xoptim.validate.options import ValidationOptions
from xoptim.validate.protos import ModelLike
from xoptim.validate.report import ValidationReport
from xoptim.validate.session import Value
from xoptim.validate.validation import validate


class Suspect:
    """A model whose optimization gives other results.

    Args:
        model: the original, a file or a protobuf.
        options: of the optimization.
        checks: of the validation.
        inline: whether local functions are replaced by their bodies first.

    Attributes:
        report: how the whole compared in the last search, ``None`` when a rewrite was found wrong before that was asked.
    """

    def __init__(
        self,
        model: ModelLike,
        options: OptimizationOptions,
        checks: ValidationOptions | None = None,
        *,
        inline: bool = False,
    ) -> None:
        self.model = model
        quiet = replace(options.debug, dump=None)
        self.options = replace(options, on_event=None, on_application=None, verbose=0, debug=quiet)
        self.report: ValidationReport | None = None
        self.checks = checks or ValidationOptions()
        self.inline = inline
        self._runs = 0
        self._source: Source | None = None

    def find_culprit(self) -> Culprit | None:
        """What is to blame, ``None`` when the optimized model computes the same (or cannot be judged).

        Every rewrite is checked by itself first; when each of them is right alone, the sequence of rewrites is bisected, which
        takes a number of runs that grows with the logarithm of their number.
        """
        self._runs, self.report = 0, None
        check = EachCheck(self.model, self.checks)
        applications: list[Application] = []

        def listen(application: Application) -> None:
            check(application)
            applications.append(application)

        builder = self._optimized(on_application=listen)
        if check.disagreements:
            count = check.checked + len(check.unchecked) + len(check.disagreements)
            return replace(Culprit.of(check.disagreements[0]), runs=count)
        self.report = self._verdict(builder)
        if self.report.status != "different":
            return None
        if self._differs(self._optimized(max_rewrites=0)):
            return self._step()
        return self._bisect(applications, check)

    def minimal_model(self, culprit: Culprit) -> onnx.ModelProto | None:
        """A model of few nodes that shows the fault, ``None`` when none was found that does by itself.

        It is made of the nodes as they are just before the rewrite, so that the pattern alone spoils it.
        """
        before = replace(self.options, max_rewrites=max(culprit.number - 1, 0))
        if culprit.step != "pattern":
            before = replace(before, constant_folding=False, merge=False)
        state = self._build(before).to_onnx(optimize=False)
        alone = self._alone(culprit)

        def shows(model: onnx.ModelProto) -> bool:
            given = {value.name for value in model.graph.input}
            feeds = {name: value for name, value in culprit.feeds.items() if name in given}
            builder = GraphBuilder(model, optimization_options=alone)
            builder.optimize()
            return self._verdict(builder, model, feeds).status == "different"

        return reduce_model(state, shows, culprit.around)

    def _alone(self, culprit: Culprit) -> OptimizationOptions:
        if culprit.step == "pattern":
            chosen = [pattern for pattern in self.options.selected() if pattern.name() == culprit.name]
            return replace(self.options, patterns=chosen, constant_folding=False, merge=False)
        folding, merging = culprit.step == "constant_folding", culprit.step == "merge"
        return replace(self.options, patterns=None, constant_folding=folding, merge=merging)

    # ---------------------------------------------------------------- ways to find it

    def _step(self) -> Culprit:
        """Which step is to blame when even without a rewrite the results differ."""
        evidence = ""
        suspects = [Culprit(step, step) for step in STEPS]
        suspects += [Culprit("pattern", p.name()) for p in self.options.selected() if isinstance(p, ModelPass)]
        for culprit in suspects:
            report = self._verdict(self._build(culprit.avoided_by(replace(self.options, max_rewrites=0))))
            if report.status != "different":
                return replace(culprit, evidence=f"without it the results are equal{evidence}", runs=self._runs)
            evidence = f"; {report.reason}"
        return Culprit("unknown", "reading and writing the model", evidence=evidence.lstrip("; "), runs=self._runs)

    def _bisect(self, applications: list[Application], check: EachCheck) -> Culprit:
        good, bad = 0, len(applications)
        report: ValidationReport | None = None
        while bad - good > 1:
            middle = (good + bad) // 2
            found = self._verdict(self._optimized(max_rewrites=middle))
            if found.status == "different":
                bad, report = middle, found
            else:
                good = middle
        report = report or self._verdict(self._optimized(max_rewrites=bad))
        guilty = applications[bad - 1]
        results = tuple(name for node in (*guilty.matched, *guilty.given) for name in node.output if name)
        values = check.values
        node = guilty.anchor.name or guilty.anchor.output[0]
        return Culprit("pattern", guilty.pattern.name(), bad, node, report.reason, results, values, self._runs)

    # ---------------------------------------------------------------- running

    def _optimized(self, on_application: Callable[[Application], None] | None = None, **changes: Any) -> GraphBuilder:
        return self._build(replace(self.options, on_application=on_application, **changes))

    def _build(self, options: OptimizationOptions) -> GraphBuilder:
        if self._source is None:
            self._source = Source(self.model, self.checks.original_dir)
        builder = GraphBuilder(self._source, optimization_options=options, inline=self.inline)
        builder.optimize()
        return builder

    def _differs(self, builder: GraphBuilder) -> bool:
        return self._verdict(builder).status == "different"

    def _verdict(
        self, builder: GraphBuilder, model: ModelLike | None = None, feeds: Mapping[str, Value] | None = None
    ) -> ValidationReport:
        self._runs += 1
        exactness = builder.report().exactness
        checks = replace(self.checks, exactness=exactness, optimized_dir=builder.model.base_dir)
        if feeds is not None:
            checks = replace(checks, feeds=feeds, dims={}, test_data=None, assignments=1, original_dir=builder.model.base_dir)
        return validate(self.model if model is None else model, builder.to_onnx(optimize=False), checks)
