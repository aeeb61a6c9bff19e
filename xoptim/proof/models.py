"""The two models of a proof."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from xoptim.facts.assumptions import Assumptions
from xoptim.graph.propagate import quietly
from xoptim.proof.congruence import has_subgraphs, require_same_values
from xoptim.proof.indices import OutOfTime
from xoptim.proof.meaning import Side


class Models:
    """Both models of a proof, loaded once for all attempts that read them in the same way."""

    def __init__(
        self,
        before: onnx.ModelProto,
        after: onnx.ModelProto,
        assumptions: Assumptions,
        constants: Sequence[str] = (),
    ) -> None:
        self.assumptions = assumptions
        self._constants = constants
        self._protos = before, after
        self._sides: dict[bool, tuple[Side, Side]] = {}

    @property
    def have_subgraphs(self) -> bool:
        """Whether nodes of a model have subgraphs."""
        return any(map(has_subgraphs, self._protos))

    def have_same_values(self) -> bool:
        """Whether both models apply the same operators to equal operands."""
        try:
            with quietly():
                require_same_values(*self._protos)
        except OutOfTime:
            raise
        except Exception:  # as for other attempts
            return False
        return True

    def sides(self, *, is_exact: bool) -> tuple[Side, Side]:
        """Both models as they are written, or over real numbers."""
        if is_exact not in self._sides:
            written = self._sides.get(True)
            if written is not None:
                before, after = (side.over_real_numbers() for side in written)
            else:
                before, after = (
                    Side(proto, self.assumptions, self._constants, is_exact=is_exact)
                    for proto in self._protos
                )
            self._sides[is_exact] = before, after
        return self._sides[is_exact]
