"""The report of an optimization and of the verification of its result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, Final, Literal

from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.dtypes import Exactness
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.passes.blocks.finding import Repetition
from xoptim.passes.growth import Unfolded

if TYPE_CHECKING:
    from xoptim.diagnose.each import Disagreement
    from xoptim.diagnose.explanation import Explanation
    from xoptim.proof.observer import ProofObserver
    from xoptim.verification.judging.report import VerificationReport
    from xoptim.verification.runs.session import Value

Step = Literal["pattern", "constant_folding", "merge", "unknown"]
STEPS: Final[tuple[Step, ...]] = ("constant_folding", "merge")
"""Steps other than patterns that change a model and can be switched off."""


@dataclass(frozen=True, slots=True)
class Culprit(JsonResult):
    """The rewrite or step with which a model computes different results.

    Attributes:
        step: ``pattern``, or a step of the optimizer.
        name: name of the pattern, or of the step.
        number: number of the rewrite in the run, from 1; 0 for a step.
        node: name of the node at which the pattern matched.
        result: the first result of that node, if it suffices to switch the pattern off there; else
            empty.
        evidence: how the results differ, in one line.
        around: results of the nodes of the rewrite.
        feeds: values of the results near the node in the original model.
        runs: number of comparisons that the search took.
    """

    __json__ = JsonForm("step name number node evidence runs")
    step: Step
    name: str
    number: int = 0
    node: str = ""
    evidence: str = ""
    around: tuple[str, ...] = ()
    feeds: Mapping[str, Value] = field(default_factory=dict)
    runs: int = 0
    result: str = ""

    def __str__(self) -> str:
        subject = f"pattern {self.name}" if self.step == "pattern" else f"step {self.name}"
        location = f" at {self.node!r} (rewrite {self.number})" if self.node else ""
        return f"{subject}{location}: {self.evidence}"

    @classmethod
    def of(cls, found: Disagreement) -> Culprit:
        """The culprit of a disagreement that the check of each rewrite found."""
        nodes = found.before.graph.node
        around = tuple(name for node in nodes for name in node.output if name)
        return cls(
            "pattern",
            found.pattern,
            found.number,
            found.node,
            found.report.reason,
            around,
            found.feeds,
            result=found.result,
        )

    def avoided_by(self, options: OptimizationOptions) -> OptimizationOptions:
        """The options with the culprit switched off, at its node only if `is_local`."""
        if not self.is_local(options):
            return replace(options, drop=(*options.drop, self.name))
        return replace(options, skip_at={**options.skip_at, self.name: (self.result,)})

    def is_local(self, options: OptimizationOptions) -> bool:
        """Whether the culprit is switched off at its node only: it has a ``result``, and the
        options do not switch it off at a node already.
        """
        return bool(self.result) and self.name not in options.skip_at


@dataclass(frozen=True, slots=True)
class OptimizationReport:
    """The report of an optimization.

    Attributes:
        rows: statistics, one dictionary per row, for ``pandas.DataFrame``.
        applied: number of applications of each pattern, by name.
        nodes_before: number of nodes, subgraphs included.
        nodes_after: number of nodes of the optimized model.
        exactness: the weakest guarantee of the patterns applied, and of folding (``rounding`` when
            it stored matrices). It is at best ``rounding`` in two cases. An operand of a MatMul
            became a constant, or ceased to be one: runtimes then choose other kernels. Or the model
            computes in float16 or bfloat16: the runtime then decides which results are rounded.
        verification: comparisons of the result with the original, one for each provider; empty when
            they were not compared.
        dropped: rewrites and steps that changed results and were dropped.
        unfolded: results that were not folded because they would make the model larger than
            ``max_growth`` allows, ``None`` if there are none.
        repetitions: repeated blocks that the option ``outline`` wrote once.
        unused_inputs: inputs of the result that nothing reads.
        dropped_inputs: inputs of the original that the option ``drop_unused_inputs`` removed.
        unguarded: assumptions for which the option ``guard`` could write no nodes.
        proofs: the proofs of the rewrites; ``None`` if none were asked for.
    """

    rows: list[dict[str, Any]]
    applied: dict[str, int]
    nodes_before: int
    nodes_after: int
    exactness: Exactness
    verification: tuple[VerificationReport, ...] = ()
    dropped: tuple[Culprit, ...] = ()
    unfolded: Unfolded | None = None
    repetitions: tuple[Repetition, ...] = ()
    unused_inputs: tuple[str, ...] = ()
    dropped_inputs: tuple[str, ...] = ()
    unguarded: tuple[str, ...] = ()
    proofs: ProofObserver | None = None

    @property
    def changes(self) -> bool:
        """Whether a rewrite or a step changed the model."""
        has_changed_nodes = any(row["added"] or row["removed"] for row in self.rows)
        return (
            has_changed_nodes
            or bool(self.applied or self.dropped_inputs)
            or self.nodes_before != self.nodes_after
        )

    def __repr__(self) -> str:
        applied = sum(self.applied.values())
        verified = "".join(
            f", {', '.join(report.providers)}: {report.status}" for report in self.verification
        )
        dropped = f", {len(self.dropped)} dropped" if self.dropped else ""
        return (
            f"<{type(self).__name__}: {self.nodes_before} → {self.nodes_after} nodes, {applied} "
            f"rewrites, {self.exactness}{verified}{dropped}>"
        )

    def _repr_html_(self) -> str:
        """A summary for notebooks: figures and rewrites. `xoptim.report` draws the graphs."""
        figures = [
            ("nodes", f"{self.nodes_before} → {self.nodes_after}"),
            ("exactness", self.exactness),
        ]
        figures += [("verification", report.summary()) for report in self.verification]
        figures += [("proofs", self.proofs.summary())] if self.proofs is not None else []
        figures += [("dropped", str(culprit)) for culprit in self.dropped]
        rewrites = sorted(self.applied.items(), key=lambda item: (-item[1], item[0]))
        return _table(figures) + _table([(name, str(count)) for name, count in rewrites])


def _table(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(
        f"<tr><th style='text-align: left'>{escape(a)}</th><td>{escape(b)}</td></tr>"
        for a, b in rows
    )
    return f"<table>{cells}</table>" if rows else ""


class FirstRewrites:
    """A listener that remembers which rewrite removed each node first."""

    def __init__(self) -> None:
        # number of the rewrite and name of its pattern, by result of the node
        self._rewrites: dict[str, tuple[int, str]] = {}

    def __call__(self, application: Application) -> None:
        """Remember a rewrite."""
        for node in set(application.matched) - set(application.given):
            for name in node.output:
                self._rewrites.setdefault(name, (application.number, application.pattern.name()))

    def explain(
        self, matches: Sequence[Explanation], final_results: Collection[str]
    ) -> list[Explanation]:
        """The matches that the optimization removed, each with the reason: it was applied, another
        pattern rewrote one of its nodes, or another step removed one.

        ``final_results`` are the names of the results after the optimization.
        """
        results = []
        for match in matches:
            names = [name for place in match.matched for name in place.outputs if name]
            rewrites = sorted(self._rewrites[name] for name in names if name in self._rewrites)
            if any(name == match.pattern for _, name in rewrites):
                reason = "it was applied"
            elif rewrites:
                reason = f"{rewrites[0][1]} rewrote one of its nodes"
            elif all(name in final_results for name in names):
                continue
            else:
                reason = "cleanup, constant folding or merging removed one of its nodes"
            results.append(
                replace(match, status="taken", reason=reason, progress=0.0, bindings=None)
            )
        return results


def is_at(explanation: Explanation, at: str) -> bool:
    """Whether ``at`` is the name, the name of a result, or the position of a node of a match."""
    return any(
        at in (place.name, f"#{place.position}", *place.outputs) for place in explanation.matched
    )
