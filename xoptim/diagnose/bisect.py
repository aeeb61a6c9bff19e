"""Find the rewrite that changes the results of a model, and a minimal model that reproduces it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import onnx

from xoptim.diagnose.each import EachCheck
from xoptim.diagnose.report import STEPS, Culprit
from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.dtypes import Exactness
from xoptim.graph.assumed import fitting
from xoptim.graph.fragment import fragment
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.sources import Source
from xoptim.graph.walk import reads
from xoptim.match.quantization import first_result
from xoptim.match.rewrite import ModelPass
from xoptim.verification.judging.report import VerificationReport
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.protos import ModelLike
from xoptim.verification.runs.session import Value
from xoptim.verification.verify import compare

Reproduces = Callable[[onnx.ModelProto], bool]
"""Whether a model shows the fault that is looked for."""
_MAX_TRIALS: Final = 400
"""Maximum number of submodels that are tried."""


def minimize(
    model: onnx.ModelProto, reproduces: Reproduces, around: Collection[str] = ()
) -> onnx.ModelProto | None:
    """The smallest submodel that reproduces a fault, ``None`` when the model does not.

    Results of dropped nodes become inputs. Nodes of subgraphs are kept or dropped with the node
    that owns the subgraph. Neighbourhoods of the results in ``around`` are tried first.
    """
    graph = load_model(model).graph
    trials = 0

    def fails(nodes: Sequence[Node]) -> bool:
        nonlocal trials
        trials += 1
        return bool(nodes) and trials <= _MAX_TRIALS and reproduces(part(graph, nodes))

    subset = next((nodes for nodes in _neighbourhoods(graph, around) if fails(nodes)), None)
    if subset is None:
        subset = list(graph.nodes)
        if not reproduces(model):
            return None
    return part(graph, _minimized(subset, fails))


def part(graph: Graph, nodes: Sequence[Node]) -> onnx.ModelProto:
    """Some nodes as a model, whose outputs are outputs of the graph, and results that none of the
    nodes reads.
    """
    operands = {name for node in nodes for name in reads(node)}
    results = [
        n for node in nodes for n in node.output if n and (n not in operands or graph.is_output(n))
    ]
    return fragment(graph, nodes, results)


def _neighbourhoods(graph: Graph, around: Collection[str]) -> list[list[Node]]:
    """The producers of some results, then these with all nodes up to 1, 2, 4, ... steps away; the
    last one has all connected nodes.
    """
    nodes = {node: None for name in around if (node := graph.producer(name)) is not None}
    if not nodes:
        return []
    neighbourhoods = [list(nodes)]
    edge = list(nodes)
    distance, radius = 0, 1
    while edge:
        edge = list(
            dict.fromkeys(n for node in edge for n in _neighbours(graph, node) if n not in nodes)
        )
        nodes.update(dict.fromkeys(edge))
        distance += 1
        if distance == radius or not edge:
            neighbourhoods.append(sorted(nodes, key=lambda node: node.label))
            radius *= 2
    return neighbourhoods


def _neighbours(graph: Graph, node: Node) -> list[Node]:
    producers = [producer for name in reads(node) if (producer := graph.producer(name)) is not None]
    return producers + [reader for name in node.output for reader in graph.consumers(name)]


def _minimized(nodes: Sequence[Node], fails: Callable[[Sequence[Node]], bool]) -> list[Node]:
    """A subset that fails; no smaller subset that was tried does."""
    subset = list(nodes)
    pieces = 2
    while len(subset) >= 2:
        size = -(-len(subset) // pieces)
        for chunk in [subset[start : start + size] for start in range(0, len(subset), size)]:
            remaining_nodes = [node for node in subset if node not in chunk]
            if fails(remaining_nodes):
                subset, pieces = remaining_nodes, max(pieces - 1, 2)
                break
        else:
            if size == 1:
                break
            pieces = min(2 * pieces, len(subset))
    return subset


class Optimized(NamedTuple):
    """An optimized model, the weakest exactness of its rewrites, and its folder."""

    proto: onnx.ModelProto
    exactness: Exactness
    base_dir: Path | None


Optimize: TypeAlias = Callable[[Source, OptimizationOptions], Optimized]


class Bisection:
    """Searches for the rewrite that changes the results of a model.

    ``optimize`` must make the same rewrites for the same model and options.
    """

    def __init__(
        self,
        model: ModelLike,
        optimize: Optimize,
        options: OptimizationOptions,
        checks: VerificationOptions | None = None,
    ) -> None:
        self.model = model
        self.optimize = optimize
        # the runs of the search must not add to the dumps
        quiet = replace(options.debug, dump=None)
        self.options = replace(options, on_event=None, on_application=None, verbose=0, debug=quiet)
        self.checks = checks or VerificationOptions()
        self.unproved: Collection[str] = ()  # names of patterns with rewrites that are not proved
        # comparison of the complete models in the last search; ``None`` when the check of each
        # rewrite found the culprit
        self.report: VerificationReport | None = None
        self._runs = 0
        self._source: Source | None = None

    def find_culprit(self) -> Culprit | None:
        """The rewrite or step that changes a result.

        ``None`` when the models are equal or cannot be compared.

        Each rewrite is checked alone first, beginning with those that are not proved. When all are
        right, their sequence is bisected.
        """
        self._runs, self.report = 0, None
        suspect = self._wrong_unproved() if self.unproved else None
        if suspect is not None:
            return suspect
        check = EachCheck(self.model, self.checks)
        applications: list[Application] = []

        def listen(application: Application) -> None:
            check(application)
            applications.append(application)

        optimized = self._optimized(on_application=listen)
        if check.culprit is not None:
            count = check.checked + len(check.unchecked) + len(check.disagreements)
            return replace(check.culprit, runs=count)
        self.report = self._verdict(optimized)
        if self.report.status != "different":
            return None
        if self._verdict(self._optimized(max_rewrites=0)).status == "different":
            return self._step()
        return self._bisect(applications, check)

    def _wrong_unproved(self) -> Culprit | None:
        """A rewrite that is wrong when it is checked alone, among those that are not proved."""
        check = EachCheck(self.model, self.checks)

        def listen(application: Application) -> None:
            if application.pattern.name() in self.unproved:
                check(application)

        self._optimized(on_application=listen)
        culprit = check.culprit
        if culprit is None:
            return None
        evidence = f"{culprit.evidence}; this rewrite is not proved"
        return replace(culprit, evidence=evidence, runs=check.checked + len(check.disagreements))

    def minimal_model(self, culprit: Culprit) -> onnx.ModelProto | None:
        """A model of few nodes that reproduces the fault, ``None`` when none was found.

        Its nodes are in their state just before the rewrite, so that only the pattern changes the
        result.
        """
        changes: dict[str, Any] = (
            {} if culprit.step == "pattern" else {"constant_folding": False, "merge": False}
        )
        before = self._optimized(max_rewrites=max(culprit.number - 1, 0), **changes)
        options = self._options_for(culprit)

        def reproduces(model: onnx.ModelProto) -> bool:
            inputs = {value.name for value in model.graph.input}
            feeds = {name: value for name, value in culprit.feeds.items() if name in inputs}
            # a submodel may lack the dimensions and inputs that assumptions name
            assumptions = fitting(options.assume, model)[0]
            return (
                self._verdict(
                    self.optimize(Source(model), replace(options, assume=assumptions)), model, feeds
                ).status
                == "different"
            )

        return minimize(before.proto, reproduces, culprit.around)

    def _options_for(self, culprit: Culprit) -> OptimizationOptions:
        if culprit.step == "pattern":
            patterns = [
                pattern for pattern in self.options.selected() if pattern.name() == culprit.name
            ]
            return replace(self.options, patterns=patterns, constant_folding=False, merge=False)
        folding, merging = culprit.step == "constant_folding", culprit.step == "merge"
        return replace(self.options, patterns=None, constant_folding=folding, merge=merging)

    # ---------------------------------------------------------------- ways to find the culprit

    def _step(self) -> Culprit:
        """The step that changes a result when the results differ even without rewrites."""
        evidence = ""
        suspects = [Culprit(step, step) for step in STEPS]
        suspects += [
            Culprit("pattern", p.name())
            for p in self.options.selected()
            if isinstance(p, ModelPass)
        ]
        for culprit in suspects:
            report = self._verdict(
                self._run(culprit.avoided_by(replace(self.options, max_rewrites=0)))
            )
            if report.status != "different":
                return replace(
                    culprit, evidence=f"without it the results are equal{evidence}", runs=self._runs
                )
            evidence = f"; {report.reason}"
        return Culprit(
            "unknown",
            "reading and writing the model",
            evidence=evidence.lstrip("; "),
            runs=self._runs,
        )

    def _bisect(self, applications: list[Application], check: EachCheck) -> Culprit:
        reports: dict[int, VerificationReport] = {}

        def differs(count: int) -> bool:
            reports[count] = self._verdict(self._optimized(max_rewrites=count))
            return reports[count].status == "different"

        least_count = bisect_left(range(len(applications)), True, lo=1, key=differs)
        report = reports.get(least_count) or self._verdict(
            self._optimized(max_rewrites=least_count)
        )
        rewrite = applications[least_count - 1]
        results = tuple(
            name for node in (*rewrite.matched, *rewrite.given) for name in node.output if name
        )
        node = rewrite.anchor.name or rewrite.anchor.output[0]
        name = rewrite.pattern.name()
        applies_elsewhere = (
            sum(application.pattern.name() == name for application in applications) > 1
        )
        return Culprit(
            "pattern",
            name,
            least_count,
            node,
            report.reason,
            results,
            check.values,
            self._runs,
            first_result(rewrite.anchor) if applies_elsewhere else "",
        )

    # ---------------------------------------------------------------- running

    def _optimized(self, **changes: Any) -> Optimized:
        return self._run(replace(self.options, **changes))

    def _run(self, options: OptimizationOptions) -> Optimized:
        if self._source is None:
            self._source = Source(self.model, self.checks.original_dir)
        return self.optimize(self._source, options)

    def _verdict(
        self,
        optimized: Optimized,
        model: ModelLike | None = None,
        feeds: Mapping[str, Value] | None = None,
    ) -> VerificationReport:
        self._runs += 1
        folder = optimized.base_dir
        checks = replace(self.checks, exactness=optimized.exactness, optimized_dir=folder)
        if feeds is not None:
            overrides: dict[str, Any] = {
                "feeds": feeds,
                "dims": {},
                "assume": (),
                "assignments": 1,
                "original_dir": folder,
            }
            checks = replace(checks, test_data=None, **overrides)
        return compare(self.model if model is None else model, optimized.proto, checks)
