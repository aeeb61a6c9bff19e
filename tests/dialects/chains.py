"""Chains made at run time, for tests of what a single property of them does."""

from collections.abc import Mapping, Sequence
from typing import Any

from xoptim.dialects.chain import ChainPattern
from xoptim.match import PatternRewriter
from xoptim.match.easy import Match


def chained(
    *operators: str,
    configs: Sequence[Mapping[str, Any]] = (),
    subs: Sequence[Mapping[str, type[ChainPattern]]] = (),
    output: bool = False,
    name: str = "",
    **fields: Any,
) -> type[ChainPattern]:
    """A chain with these entries; it is called after them unless it has a name."""

    class Chain(ChainPattern):
        @classmethod
        def entries(cls) -> Sequence[str]:
            return operators

        @classmethod
        def config_patterns(cls) -> Sequence[Mapping[str, Any]]:
            return configs

        @classmethod
        def sub_patterns(cls) -> Sequence[Mapping[str, type[ChainPattern]]]:
            return subs

        @classmethod
        def is_output(cls) -> bool:
            return output

        def apply_pattern(self, g: PatternRewriter, inputs: tuple[str, ...]) -> Any:
            return g.op.Sin(inputs[0])

    title = name or "".join(operator.rpartition("::")[2] for operator in reversed(operators))
    return type(f"{title}Pattern", (Chain,), {"__module__": __name__, **fields})


def becomes(*operators: str) -> Any:
    """A rule that puts a chain of operators in the place of the matched one, the first of them
    first in the dataflow.
    """

    def rule(g: PatternRewriter, match: Match) -> str:
        result: str = match.inputs[0]
        for operator in operators:
            result = getattr(g.op, operator)(result)
        return result

    return rule
