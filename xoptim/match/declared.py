"""Conditions on operands that a pattern declares as class attributes: element types, numbers of axes, kernels."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from xoptim.facts.dtypes import type_name
from xoptim.facts.errors import PatternError
from xoptim.facts.words import meant
from xoptim.match.lines import attribute_line
from xoptim.match.pattern import PatternOptimization, operator_key
from xoptim.match.view import GraphBuilderPatternOptimization, runs


class Unmet(NamedTuple):
    """A declared condition that an operand does not satisfy."""

    attribute: str  # class attribute that declares it
    operand: str  # name of the operand in the graph
    reason: str


class DeclaredConditions(PatternOptimization):
    """A pattern that states conditions on its operands, by their names in `match_pattern`; absent operands satisfy all.

    Class attributes:
        constant_operands: operands that must be constants.
        operand_types: element types that an operand may have.
        operand_ranks: number of axes that an operand must have.
        kernels: operators for which the provider must have a kernel (`xoptim.match.runs`), each with the operand whose
            element type counts: ``{"Relu": "x", "com.microsoft::FusedMatMul": "a"}``.
    """

    constant_operands: ClassVar[tuple[str, ...]] = ()
    operand_types: ClassVar[Mapping[str, Collection[int]]] = {}
    operand_ranks: ClassVar[Mapping[str, int]] = {}
    kernels: ClassVar[Mapping[str, str]] = {}

    def unmet(self, g: GraphBuilderPatternOptimization, captured: Mapping[str, Any]) -> Unmet | None:
        """The first condition that does not hold, ``None`` when all do; ``captured`` are results by names in the pattern."""
        for name in self.constant_operands:
            operand = captured.get(name)
            if operand and not g.is_constant(operand):
                return Unmet("constant_operands", operand, f"{operand!r} is not constant")
        for name, types in self.operand_types.items():
            operand = captured.get(name)
            if operand and (dtype := g.try_infer_type(operand)) not in types:
                known = f"the type {type_name(dtype)} of {operand!r} does not fit"
                return Unmet("operand_types", operand, known if dtype else f"the type of {operand!r} is unknown")
        for name, rank in self.operand_ranks.items():
            operand = captured.get(name)
            if operand and g.info(operand).rank != rank:
                return Unmet("operand_ranks", operand, f"{operand!r} is not known to have {rank} axes")
        for operator, name in self.kernels.items():
            operand, (domain, op_type) = captured.get(name), operator_key(operator)
            if operand and not runs(g, op_type, operand, domain):
                return Unmet("kernels", operand, f"{op_type} has no kernel for the type of {operand!r}")
        return None

    def check_declarations(self, captured: Collection[str]) -> None:
        """Check that conditions are declared for captured names only; raises PatternError for another one."""
        declared: dict[str, Iterable[str]] = {
            "constant_operands": self.constant_operands,
            "operand_types": self.operand_types,
            "operand_ranks": self.operand_ranks,
            "kernels": self.kernels.values(),
        }
        for attribute, names in declared.items():
            unknown = next((name for name in names if name not in captured), None)
            if unknown is not None:
                file, line = attribute_line(type(self), attribute)
                place = f"{file}:{line}: {self.name()}"
                raise PatternError(f"{place}: {attribute} names {unknown!r}, which nothing captures{meant(unknown, captured)}")
