"""Prove the passes of an optimization while it runs: folding, merging, cleaning and others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from xoptim.engine.events import Event, EventKind
from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.graph.model import Model
from xoptim.proof.chain import Chain
from xoptim.proof.changes import RAISE, Change
from xoptim.proof.grades import GRADES, Grade
from xoptim.proof.indices import Unproved
from xoptim.proof.proving import Proof
from xoptim.proof.values import Value

_STACKING: Final = ("Repeated", "RepeatedOnCpu")
"""Horizontal fusion: passes that stack the operands of equal operators.

The stacked values are new, so the removed nodes are compared with their replacement.
"""
_Outputs: TypeAlias = Mapping[str, Value]
_MAX_NODES: Final = 20_000
"""Maximal number of nodes of a model whose passes are proved."""
_MAX_BYTES_HELD: Final = 1 << 28
"""Bytes of constants, among them replaced ones, after which all of the model is read again."""


@dataclass(slots=True)
class ProvedPass(JsonResult):
    """A pass over the model, with all of its runs that changed something.

    Attributes:
        name: name of the pass.
        changes: number of nodes, constants and inputs that it removed or changed.
        reason: why it is only run; empty where all of its runs are proved.
        recomputed: number of constants that were computed again, with equal bits.
        weakest: the weakest grade of its runs that are proved.
    """

    __json__ = JsonForm("name changes grade reason recomputed")
    name: str
    changes: int = 0
    reason: str = ""
    recomputed: int = 0
    weakest: Grade = "same bits"

    @property
    def grade(self) -> Grade:
        """How equal the model is proved to be before and after the pass."""
        return "only run" if self.reason else self.weakest


@dataclass(slots=True)
class PassProver:
    """Compares the values of a model before and after each pass.

    It listens to the events of an optimization.

    Attributes:
        model: the model that is optimized.
        passes: the passes that changed something, by name, except those that count as rewrites.
    """

    kinds: ClassVar[tuple[EventKind, ...]] = ("starting", "timed")
    model: Model
    passes: dict[str, ProvedPass] = field(default_factory=dict)
    _starts: dict[str, _Outputs | str] = field(default_factory=dict, repr=False)
    _changes: dict[str, Change] = field(default_factory=dict, repr=False)
    _version: int = 0
    _chain: Chain | None = field(default=None, repr=False)
    _read: tuple[int, _Outputs | str] = field(default=(-1, ""), repr=False)

    def __call__(self, event: Event) -> None:
        """Read the model before a pass, and compare it afterwards."""
        name = event.pattern
        if event.kind == "starting":
            self._starts[name] = self._current()
            if name == RAISE or name in _STACKING:
                self._changes[name] = Change(self.model)
        elif name in self._starts and (event.count or self._has_raised(name)):
            self._ended(name, event.count)

    def proof_of(self, name: str) -> Proof:
        """The proof of a pass that has just changed the model."""
        reason = self._compared(self._starts[name])[0]
        if not reason:
            return Proof(GRADES[0])
        if name not in _STACKING:
            return Proof(GRADES[-1], reason)
        try:
            return self._changes[name].of_stacks()
        except (Unproved, XoptimError) as error:
            return Proof(GRADES[-1], str(error))

    # The model tells of its changes: nothing is read twice while it stays the same.

    def inserted(self, _node: object) -> None:
        """A node was added."""
        self._version += 1

    removed = touched = inserted

    def _current(self) -> _Outputs | str:
        if self._read[0] != self._version:
            self._read = self._version, self._outputs()
        return self._read[1]

    def _outputs(self) -> _Outputs | str:
        """The outputs of the model as it is, or the reason why their values are not known."""
        if sum(len(graph.nodes) for graph in self.model.graphs()) > _MAX_NODES:
            return f"more than {_MAX_NODES} nodes"
        chain, self._chain = self._chain, None
        try:
            if chain is None or chain.bytes_held > _MAX_BYTES_HELD:
                chain = Chain(self.model)
            else:
                chain.renew(self.model)
        except (Unproved, XoptimError) as error:
            return str(error)
        self._chain = chain
        return chain.outputs

    def _ended(self, name: str, changes: int) -> None:
        record = self.passes.setdefault(name, ProvedPass(name))
        record.changes += changes
        if name == RAISE:
            reason, recomputed = self._raised(record, self._changes[name]), 0
        else:
            reason, recomputed = self._compared(self._starts[name])
        record.reason = record.reason or reason
        record.recomputed += recomputed

    def _has_raised(self, name: str) -> bool:
        """Whether a pass has changed the operator set, even if all nodes stay as they are."""
        return name == RAISE and self._changes[name].has_raised

    def _raised(self, record: ProvedPass, change: Change) -> str:
        """The reason why a change of the operator set is not proved, empty for a proof."""
        try:
            grade = change.of_operator_set()
        except (Unproved, XoptimError) as error:
            return str(error)
        record.weakest = max(record.weakest, grade, key=GRADES.index)
        return ""

    def _compared(self, outputs: _Outputs | str) -> tuple[str, int]:
        """The reason why a pass is not proved, empty for a proof; and the recomputed constants."""
        chain = self._chain
        if isinstance(outputs, str):
            return outputs, 0
        if chain is None:
            return "its values are not known", 0
        before = chain.recomputed
        try:
            names = chain.differing(self.model, outputs)
        except (Unproved, XoptimError) as error:
            return str(error), 0
        if not names:
            self._read = self._version, outputs
            return "", chain.recomputed - before
        return f"output {names[0]!r} is not found equal", 0
