"""Optimize a model, verify the result, and optimize again without rewrites that are wrong."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import onnx

from xoptim import diagnose, optimizing, proof, verification
from xoptim.diagnose.report import Culprit, OptimizationReport
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.errors import XoptimError
from xoptim.facts.progress import silent
from xoptim.graph.save import (
    Draft as Draft,  # for the command
    serialized,
    shared_files as shared_files,
)
from xoptim.graph.sources import Source, size_of
from xoptim.optimizing.builder import GraphBuilder
from xoptim.optimizing.plans import Plan
from xoptim.verification.options import VerificationOptions

if TYPE_CHECKING:
    from xoptim.diagnose.each import EachCheck
    from xoptim.proof.observer import ProofObserver
    from xoptim.verification.judging.report import VerificationReport
    from xoptim.verification.runs.protos import ModelLike

MOST_CULPRITS: Final = 10
"""Maximal number of rewrites that are dropped for one model."""
MOST_PLACES: Final = 50
"""Maximal number of nodes at which an unproved pattern is skipped; with more, it is dropped."""
_LOGGER = logging.getLogger("xoptim")


@dataclass(slots=True)
class VerifiedModel:
    """An optimized model, and its comparison with the original."""

    builder: GraphBuilder  # the optimized model
    proto: onnx.ModelProto  # the same as a protobuf
    base_dir: Path | None  # folder of the external data of ``proto``
    before: dict[str, int]  # number of nodes by operator in the original, subgraphs included
    load_seconds: float  # reading and shape inference
    optimize_seconds: float  # rewriting and export
    opset_before: int = 0  # operator set of ONNX that the original imports, 0 for none
    verify_seconds: float = 0.0  # the comparison with the original
    # one for each provider; empty without a comparison
    reports: list[VerificationReport] = field(default_factory=list)
    each: EachCheck | None = None  # the check of each single rewrite, if any
    proofs: ProofObserver | None = None  # the proofs of the rewrites, if any
    # the rewrites that were dropped because they changed results
    dropped: list[Culprit] = field(default_factory=list)

    @property
    def report(self) -> OptimizationReport:
        """The report of the optimization, of its verification and of its proofs."""
        return replace(
            self.builder.report(),
            verification=tuple(self.reports),
            dropped=tuple(self.dropped),
            proofs=self.proofs,
        )

    @property
    def external_before(self) -> int:
        """Bytes of the original's external data."""
        return self.builder.graph.model.external_size

    @property
    def bytes_after(self) -> int:
        """Bytes of the optimized model, with its external weights."""
        return size_of(self.proto)

    def to_bytes(self) -> bytes:
        """The optimized model as bytes that refer to no file.

        Raises ModelError when it does not fit into a protobuf.
        """
        return serialized(self.proto, self.base_dir)

    @property
    def failure(self) -> VerificationReport | None:
        """The report that refutes the model, else one without a verdict, else ``None``."""
        doubtful = [report for report in self.reports if not report.ok]
        return min(doubtful, key=lambda report: report.status != "different", default=None)


def optimize_verified(
    model: Source | str | Path | onnx.ModelProto, options: OptimizationOptions, plan: Plan
) -> VerifiedModel:
    """Optimize a model and compare it with the original; if results differ, repeat both without the
    culprit.

    A warning is logged for each rewrite that is dropped. Raises `ModelError` when the model cannot
    be read, `UnknownPatternError` when a pattern name is unknown, and `ProviderUnavailable` when
    onnxruntime lacks a requested execution provider.
    """
    options.scheduled()  # a misspelt pattern is noticed before a large model is read
    dropped: list[Culprit] = []
    verify_plan, sink = plan.verify, plan.sink
    original, checks = located(model, verify_plan.checks)
    checks = assuming(checks, options)
    if options.drop_unused_inputs:
        checks = replace(checks, fewer_inputs=True)
    plan = plan.checking(checks)
    proofs = (
        proof.observer.ProofObserver(keeps_sides=verify_plan.certifies)
        if verify_plan.is_proving
        else None
    )
    while True:
        check = diagnose.each.EachCheck(original, checks) if verify_plan.each else None
        proofs = None if proofs is None else proofs.again()
        listener = _all_of(check, proofs, options.on_application)
        verified = _optimize(model, replace(options, on_application=listener), plan, proofs)
        verified.each, verified.proofs, verified.dropped = check, proofs, dropped
        if verify_plan.refuses_unproved and proofs is not None and proofs.unproved:
            options = _without_unproved(options, proofs)
            sink.discard(verified.proto)
            continue
        if verify_plan.whole:
            sink.on_step("verifying")
            start = perf_counter()
            verified.reports = compare_each_provider(original, verified, checks, sink.on_step)
            verified.verify_seconds = perf_counter() - start
        if not verify_plan.bisect or len(dropped) == MOST_CULPRITS:
            return verified
        culprit = _culprit(original, verified, options, plan, dropped)
        if culprit is None:
            return verified
        consequence = "not applied there" if culprit.is_local(options) else "dropped"
        _LOGGER.warning(
            "%s; it is %s (`xopt bisect` writes a small model that shows it)", culprit, consequence
        )
        options = culprit.avoided_by(options)
        sink.discard(verified.proto)
        dropped.append(culprit)


def as_it_is(source: Source, options: OptimizationOptions, plan: Plan) -> VerifiedModel:
    """A model that is neither rewritten nor compared; only unused nodes are removed."""
    settings = replace(
        options,
        patterns=None,
        opset=None,
        remove_identity=False,
        constant_folding=False,
        merge=False,
    )
    plan = plan.reloading()
    verify_plan = replace(plan.verify, whole=False, each=False)
    return optimize_verified(source, settings, replace(plan, verify=verify_plan))


def _without_unproved(options: OptimizationOptions, proofs: ProofObserver) -> OptimizationOptions:
    """The options that undo the rewrites that are not proved: each at its node.

    A pattern with more than `MOST_PLACES` of them is dropped, as is a pass over the model. Raises
    XoptimError when all of them were switched off before.
    """
    proofs.refuse(proofs.unproved)
    places: dict[str, dict[str, None]] = {}
    for step in proofs.refused:
        places.setdefault(step.pattern, {})[step.anchor] = None
    everywhere = [name for name, names in places.items() if "" in names or len(names) > MOST_PLACES]
    local = {name: (*names,) for name, names in places.items() if name not in everywhere}
    skipped = {
        name: (*options.skip_at.get(name, ()), *local.get(name, ()))
        for name in {**options.skip_at, **local}
    }
    skipped = {name: (*dict.fromkeys(names),) for name, names in skipped.items()}
    drop = dict.fromkeys((*options.drop, *everywhere))
    if skipped == options.skip_at and len(drop) == len(options.drop):
        raise XoptimError(f"{proofs.unproved[0].pattern} is not proved, and cannot be dropped")
    return replace(options, drop=(*drop,), skip_at=skipped)


def assuming(checks: VerificationOptions, options: OptimizationOptions) -> VerificationOptions:
    """The options of a comparison with the assumptions of an optimization."""
    from_model = checks.assume_from_model or options.assume_from_model
    return replace(checks, assume=(*checks.assume, *options.assume), assume_from_model=from_model)


def located(
    model: Source | str | Path | onnx.ModelProto, checks: VerificationOptions
) -> tuple[ModelLike, VerificationOptions]:
    """The model to verify, and the options with the folder of its external data."""
    if not isinstance(model, Source):
        return model, checks
    if model.kind == "path":
        return Path(model.original), checks
    return model.proto, replace(checks, original_dir=model.base_dir or checks.original_dir)


def compare_each_provider(
    original: ModelLike,
    optimized: VerifiedModel,
    checks: VerificationOptions,
    on_step: Callable[[str], object] = silent,
) -> list[VerificationReport]:
    """Compare an optimized model with the original; returns a report for each provider."""
    options = replace(
        checks, exactness=optimized.builder.report().exactness, optimized_dir=optimized.base_dir
    )
    return [
        verification.verify.compare(
            original, optimized.proto, replace(options, providers=(provider,)), on_step=on_step
        )
        for provider in checks.providers
    ]


def _all_of(*listeners: Callable[[Any], None] | None) -> Callable[[Any], None] | None:
    """One listener to rewrites for several, ``None`` for none."""
    present = [listener for listener in listeners if listener is not None]
    if not present:
        return None

    def listen(application: Any) -> None:
        for listener in present:
            listener(application)

    return listen


def _optimize(
    model: Source | str | Path | onnx.ModelProto,
    options: OptimizationOptions,
    plan: Plan,
    proofs: ProofObserver | None,
) -> VerifiedModel:
    plan.sink.on_step("loading")
    start = perf_counter()
    builder = GraphBuilder(model, optimization_options=options, inline=plan.load.inline)
    load_end = perf_counter()
    plan.load.on_loaded(builder)
    before, opset = builder.count_types(), builder.model.opsets.get("", 0)
    plan.sink.on_step("optimizing")
    optimizer = builder.session.start(builder.optimization_options)
    if proofs is not None:
        proofs.watch(builder.model, optimizer.state.events)
    optimizer.run()
    proto, folder = plan.sink.take(builder)
    return VerifiedModel(
        builder, proto, folder, before, load_end - start, perf_counter() - load_end, opset
    )


def _culprit(
    original: ModelLike,
    verified: VerifiedModel,
    options: OptimizationOptions,
    plan: Plan,
    dropped: Sequence[Culprit],
) -> Culprit | None:
    """The rewrite to drop, ``None`` when results agree or no rewrite is to blame.

    A pattern that was skipped at one node, after which results still differ, is the first suspect:
    it is dropped without another search.
    """
    if verified.each is not None and verified.each.culprit is not None:
        return verified.each.culprit
    report = verified.failure
    if report is None or report.status != "different":
        return None
    last = dropped[-1] if dropped else None
    if last is not None and last.result and last.name not in options.drop:
        return replace(last, evidence=report.reason, node="", result="")
    plan.sink.on_step("the results differ: looking for the reason")
    culprit = optimizing.suspect.Suspect(
        original,
        options,
        replace(plan.verify.checks, providers=report.providers),
        inline=plan.load.inline,
        unproved={step.pattern for step in verified.proofs.unproved} if verified.proofs else (),
    ).find_culprit()
    return None if culprit is None or culprit.step == "unknown" else culprit
