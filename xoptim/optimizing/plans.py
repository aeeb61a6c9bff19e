"""Plans: how a model is loaded, how its result is verified, and where the result is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import onnx

from xoptim.facts.progress import silent
from xoptim.graph.save import Draft as Draft  # for the command
from xoptim.optimizing.builder import GraphBuilder
from xoptim.verification.options import VerificationOptions

OnLoaded: TypeAlias = Callable[[GraphBuilder], object]
"""Called when a model is loaded, before any rewrite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """How a model is loaded."""

    inline: bool = False  # whether to replace calls of local functions by their bodies first
    on_loaded: OnLoaded = silent  # called when the model is loaded, before any rewrite


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPlan:
    """How an optimized model is verified, and what happens when it differs."""

    # options of the comparison, which gives one report for each of its providers
    checks: VerificationOptions = field(default_factory=VerificationOptions)
    whole: bool = True  # whether the result is compared with the original
    each: bool = False  # whether each rewrite is also checked alone
    proves: bool = False  # whether each rewrite is proved, where that is possible
    refuses_unproved: bool = False  # whether rewrites that are not proved are undone
    certifies: bool = False  # whether both sides of each rewrite are kept for a certificate
    # whether to search for the rewrite that changed results, and to optimize again without it
    bisect: bool = True

    @property
    def is_proving(self) -> bool:
        """Whether rewrites are proved, for whatever purpose."""
        return self.proves or self.refuses_unproved or self.certifies


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """The receiver of the result, and of the descriptions of the steps to it."""

    on_step: Callable[[str], object] = silent  # called with a description of the next step
    # keeps the weights of the result in a file; by default, the protobuf has those that changed
    draft: Draft | None = None

    def take(self, builder: GraphBuilder) -> tuple[onnx.ModelProto, Path | None]:
        """The model as a protobuf, and the folder of its external data."""
        if self.draft is None:
            return builder.to_onnx(optimize=False), builder.model.base_dir
        self.on_step("writing the weights")
        return self.draft.export(builder.model), self.draft.folder

    def discard(self, proto: onnx.ModelProto) -> None:
        """Remove the weights that were written for a result that is not kept."""
        if self.draft is not None:
            self.draft.discard(proto)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The way from a model to its verified result: loading, verification, and the receiver."""

    load: LoadPlan = field(default_factory=LoadPlan)
    verify: VerifyPlan = field(default_factory=VerifyPlan)
    sink: Sink = field(default_factory=Sink)

    def checking(self, checks: VerificationOptions) -> Plan:
        """The plan with other options of the comparison."""
        return replace(self, verify=replace(self.verify, checks=checks))

    def reloading(self) -> Plan:
        """The plan for a model made from the loaded one, without a call of ``on_loaded``."""
        return replace(self, load=replace(self.load, on_loaded=silent))
