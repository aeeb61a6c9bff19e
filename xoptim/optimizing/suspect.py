"""A model whose optimization changes results, and the search for the reason."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from xoptim.diagnose.bisect import Bisection, Optimized
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.optimizing.builder import GraphBuilder
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.protos import ModelLike


class Suspect(Bisection):
    """A model, a file or a protobuf, whose optimization changes results.

    With ``inline``, its functions are inlined first. ``report`` is the comparison of the complete
    models in the last search, ``None`` when a wrong rewrite was found without it. The rewrites of
    ``unproved`` patterns are checked alone before all others.
    """

    def __init__(
        self,
        model: ModelLike,
        options: OptimizationOptions,
        checks: VerificationOptions | None = None,
        *,
        inline: bool = False,
        unproved: Collection[str] = (),
    ) -> None:
        super().__init__(model, partial(_optimized, inline=inline), options, checks)
        self.unproved = unproved


def _optimized(source: Source, options: OptimizationOptions, *, inline: bool) -> Optimized:
    builder = GraphBuilder(source, optimization_options=options, inline=inline)
    builder.optimize()
    return Optimized(
        builder.to_onnx(optimize=False), builder.report().exactness, builder.model.base_dir
    )
