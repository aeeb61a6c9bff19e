"""Find the rewrite with which a model computes different results, and reduce the model to what
reproduces it.
"""

from __future__ import annotations

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
from xoptim.verification.options import VerificationOptions
from xoptim.verification.protos import ModelLike
from xoptim.verification.report import VerificationReport
from xoptim.verification.session import Value
from xoptim.verification.verify import compare

Shows = Callable[[onnx.ModelProto], bool]
_MOST_TRIALS: Final = 400
"""Maximal number of parts of the model that are tried."""


def minimize(
    model: onnx.ModelProto, shows: Shows, around: Collection[str] = ()
) -> onnx.ModelProto | None:
    """The smallest model found that reproduces a fault, which ``shows`` decides.

    ``None`` when neither it nor a part does.

    Results of dropped nodes become inputs. Nodes of subgraphs are kept or dropped with the node
    that owns the subgraph. The growing neighbourhoods of the results in ``around`` are tried first.
    """
    graph = load_model(model).graph
    trials = 0

    def fails(nodes: Sequence[Node]) -> bool:
        nonlocal trials
        trials += 1
        return bool(nodes) and trials <= _MOST_TRIALS and shows(part(graph, nodes))

    found = next((nodes for nodes in _neighbourhoods(graph, around) if fails(nodes)), None)
    if found is None:
        found = list(graph.nodes)
        if not shows(model):
            return None
    return part(graph, _minimized(found, fails))


def part(graph: Graph, nodes: Sequence[Node]) -> onnx.ModelProto:
    """Some nodes as a model.

    Its outputs are the results that none of them reads, and outputs of the graph.
    """
    read = {name for node in nodes for name in reads(node)}
    results = [
        n for node in nodes for n in node.output if n and (n not in read or graph.is_output(n))
    ]
    return fragment(graph, nodes, results)


def _neighbourhoods(graph: Graph, around: Collection[str]) -> list[list[Node]]:
    """The producers of some results, then the nodes up to 1, 2, 4, ... steps away, all connected
    nodes last.
    """
    found = {node: None for name in around if (node := graph.producer(name)) is not None}
    if not found:
        return []
    rings = [list(found)]
    edge = list(found)
    distance, wanted = 0, 1
    while edge:
        edge = list(
            dict.fromkeys(n for node in edge for n in _neighbours(graph, node) if n not in found)
        )
        found.update(dict.fromkeys(edge))
        distance += 1
        if distance == wanted or not edge:
            rings.append(sorted(found, key=lambda node: node.label))
            wanted *= 2
    return rings


def _neighbours(graph: Graph, node: Node) -> list[Node]:
    before = [producer for name in reads(node) if (producer := graph.producer(name)) is not None]
    return before + [reader for name in node.output for reader in graph.consumers(name)]


def _minimized(nodes: Sequence[Node], fails: Callable[[Sequence[Node]], bool]) -> list[Node]:
    """A subset of nodes that fails, although no smaller subset that was tried does."""
    left = list(nodes)
    pieces = 2
    while len(left) >= 2:
        size = -(-len(left) // pieces)
        for chunk in [left[start : start + size] for start in range(0, len(left), size)]:
            rest = [node for node in left if node not in chunk]
            if fails(rest):
                left, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if size == 1:
                break
            pieces = min(2 * pieces, len(left))
    return left


class Optimized(NamedTuple):
    """An optimized model, with the data that its comparison needs: the weakest guarantee of its
    rewrites, and its folder.
    """

    proto: onnx.ModelProto
    exactness: Exactness
    base_dir: Path | None


Optimize: TypeAlias = Callable[[Source, OptimizationOptions], Optimized]


class Bisection:
    """Searches for the rewrite with which the optimized model computes different results.

    ``optimize`` makes the same rewrites for the same model and options.
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
        # comparison of the whole models in the last search, ``None`` when a wrong rewrite was found
        # without it
        self.report: VerificationReport | None = None
        self._runs = 0
        self._source: Source | None = None

    def find_culprit(self) -> Culprit | None:
        """The rewrite or step that changes a result.

        ``None`` when the models are equal or cannot be compared.

        Every rewrite is checked alone first; when each of them is right alone, the sequence of
        rewrites is bisected, which takes a number of runs that is logarithmic in their number.
        """
        self._runs, self.report = 0, None
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

    def minimal_model(self, culprit: Culprit) -> onnx.ModelProto | None:
        """A model of few nodes that reproduces the fault, ``None`` when none was found.

        It consists of nodes as they are just before the rewrite, so that the pattern alone changes
        the result.
        """
        changes: dict[str, Any] = (
            {} if culprit.step == "pattern" else {"constant_folding": False, "merge": False}
        )
        before = self._optimized(max_rewrites=max(culprit.number - 1, 0), **changes)
        alone = self._alone(culprit)

        def shows(model: onnx.ModelProto) -> bool:
            given = {value.name for value in model.graph.input}
            feeds = {name: value for name, value in culprit.feeds.items() if name in given}
            known = fitting(alone.assume, model)[0]  # a part may lack sizes and inputs
            return (
                self._verdict(
                    self.optimize(Source(model), replace(alone, assume=known)), model, feeds
                ).status
                == "different"
            )

        return minimize(before.proto, shows, culprit.around)

    def _alone(self, culprit: Culprit) -> OptimizationOptions:
        if culprit.step == "pattern":
            chosen = [
                pattern for pattern in self.options.selected() if pattern.name() == culprit.name
            ]
            return replace(self.options, patterns=chosen, constant_folding=False, merge=False)
        folding, merging = culprit.step == "constant_folding", culprit.step == "merge"
        return replace(self.options, patterns=None, constant_folding=folding, merge=merging)

    # ---------------------------------------------------------------- ways to find it

    def _step(self) -> Culprit:
        """The step that changes a result, called when the results differ even without a rewrite."""
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
        good, bad = 0, len(applications)
        report: VerificationReport | None = None
        while bad - good > 1:
            middle = (good + bad) // 2
            found = self._verdict(self._optimized(max_rewrites=middle))
            if found.status == "different":
                bad, report = middle, found
            else:
                good = middle
        report = report or self._verdict(self._optimized(max_rewrites=bad))
        wrong = applications[bad - 1]
        results = tuple(
            name for node in (*wrong.matched, *wrong.given) for name in node.output if name
        )
        node = wrong.anchor.name or wrong.anchor.output[0]
        name = wrong.pattern.name()
        is_alone = sum(each.pattern.name() == name for each in applications) > 1
        return Culprit(
            "pattern",
            name,
            bad,
            node,
            report.reason,
            results,
            check.values,
            self._runs,
            first_result(wrong.anchor) if is_alone else "",
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
            part: dict[str, Any] = {
                "feeds": feeds,
                "dims": {},
                "assume": (),
                "assignments": 1,
                "original_dir": folder,
            }
            checks = replace(checks, test_data=None, **part)
        return compare(self.model if model is None else model, optimized.proto, checks)
