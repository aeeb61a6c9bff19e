"""The report of a batch."""

from __future__ import annotations

from dataclasses import dataclass

from xoptim.batching.record import Record, worst_code


@dataclass(frozen=True, slots=True)
class Step:
    """The state of a batch while it runs.

    Attributes:
        done: number of models that ended.
        total: number of models.
        record: the model that ended last, ``None`` at the beginning.
        was_done: whether that model was skipped, since it was done before and is unchanged.
    """

    done: int
    total: int
    record: Record | None = None
    was_done: bool = False


@dataclass(frozen=True, slots=True)
class BatchReport:
    """How the models of a batch ended.

    Attributes:
        records: one for each model, in the order of the models.
        skipped: results (`Record.output`) of the models that were done before and are unchanged.
        seconds: time of the whole batch.
    """

    records: list[Record]
    skipped: frozenset[str]
    seconds: float

    @property
    def exit_code(self) -> int:
        """That of the worst model: 0 all written and equal, 3 written but not validated, 1 different, 2 without a result."""
        return worst_code(self.records)
