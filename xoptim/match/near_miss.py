"""The nearest miss of an attempt that failed: the same search runs again, for a listener.

The first condition that fails is skipped, to measure how much of the pattern fits apart from it.
The search path that gets furthest is reported. Steps and conditions are those of
`xoptim.match.pairing`; each failure is turned into a message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from xoptim.facts.attributes import AttributeReference
from xoptim.facts.operators import operator_label
from xoptim.graph.node import Node
from xoptim.match.conditions import suits, unexpected_operands, unfit_attribute
from xoptim.match.create import read_moved
from xoptim.match.pairing import Examine, MatchAttempt, Pairing, Tree
from xoptim.match.program import Program
from xoptim.match.refusal import COMPLETE, Listener, Misfit, Refusal, listening
from xoptim.match.trace import Constant, PatternNode, Scalar, Symbol, Variadic
from xoptim.match.view import GraphView


def report_miss(pairing: NearPairing, examine: Examine, anchor: Node) -> None:
    """Search at a node where a program does not match, and report the refusal that came nearest to
    a match (see `MatchAttempt`).
    """
    _NearSearch(pairing, lambda _: pairing.judge(examine)).run(anchor)
    pairing.report()


class _NearSearch(MatchAttempt):
    """An attempt that reports where its search ends."""

    __slots__ = ()
    pairing: NearPairing

    def _producer(self, name: str, spec: PatternNode) -> Node | None:
        node = super()._producer(name, spec)
        if node is None:
            self.pairing.refuse(None, f"{name!r} is not produced by {_kind(spec)}", spec, name)
        return node

    def _readers(self, name: str, spec: PatternNode) -> Collection[Node]:
        readers = super()._readers(name, spec)
        if not readers:
            self.pairing.refuse(None, f"nothing reads {name!r}", spec, name)
        return readers

    def _are_too_many(self, readers: Collection[Node], limit: int) -> bool:
        return False  # `examine` reports which node reads the result

    def _trees(self, spec: PatternNode) -> Iterator[Tree]:
        yield from super()._trees(spec)
        root, count = self.pairing.node_of(spec), len(spec.inputs)
        if len(root.input) <= count:
            self.pairing.refuse(
                root, f"no tree of {spec.op_type} nodes with {count} operands", spec
            )


class NearPairing(Pairing):
    """A pairing that continues after the first condition that fails, and reports to ``listen`` the
    refusal of the search path that got furthest.
    """

    __slots__ = ("_furthest", "_is_complete", "_listen", "_pattern", "_waived")

    def __init__(self, program: Program, g: GraphView, pattern: str, listen: Listener) -> None:
        super().__init__(program, g)
        self._pattern = pattern
        self._listen = listen
        self._furthest: Refusal | None = None
        self._waived: Refusal | None = None
        """The condition that was skipped on this search path."""
        self._is_complete = False
        """Whether some search path paired all nodes; each such path is reported, and no other."""

    def report(self) -> None:
        """Report the refusal that came nearest to a match, unless complete assignments were
        reported.
        """
        if self._furthest is not None and not self._is_complete:
            self._listen(self._furthest)

    def refuse(
        self,
        node: Node | None,
        reason: str,
        spec: PatternNode,
        *values: str,
        near: bool = False,
        waive: bool = False,
        is_last: bool = False,
    ) -> bool:
        """Remember the first condition that failed on this search path, if no other path got
        further.

        Returns whether the search continues as if the condition held, because no condition failed
        before. Such a search ends without a match.

        Args:
            node: the node that does not fit.
            reason: the reason.
            spec: the pattern node.
            *values: results that the condition is about.
            near: whether only a value does not fit: such a miss is nearer than a wrong operator.
            waive: whether the search may continue as if the condition held.
            is_last: whether everything else fits: such a miss is nearer than a path that ended
                early with as many pairs.
        """
        if self._is_complete:
            return False
        trace = self.program.trace
        refusal = self._waived
        if refusal is None:
            total, line = len(trace.nodes), spec.line
            refusal = Refusal(
                self._pattern, node, reason, trace.file, line, near, (), total, values
            )
            if waive:
                self._waived = refusal
                return True
        self._remember(refusal, is_last)
        return False

    def _remember(self, refusal: Refusal, is_last: bool) -> None:
        """Keep a refusal if its search path got further than earlier paths."""
        nodes = self.bound
        count = sum(name is not None for name in self.names)
        progress = 1000 * len(nodes) + 2 * count + refusal.progress + is_last
        if self._furthest is None or self._furthest.progress < progress:
            matched = tuple(node for node in nodes if node is not refusal.node)
            self._furthest = replace(refusal, progress=progress, matched=matched)

    def judge(self, examine: Examine) -> None:
        """Report why nodes that fit one by one are not a match."""
        if self._waived is not None:
            self.refuse(None, "", self.program.anchor, is_last=True)
            return
        self._is_complete = True
        refusals: list[Refusal] = []
        with listening(refusals.append):
            miss = examine(self)
        if isinstance(miss, Misfit):
            nodes = (*self.bound, *self.extra)
            line, values = miss.line or self.program.anchor.line, tuple(filter(None, miss.values))
            file = miss.file or self.program.trace.file
            own_refusal = Refusal(
                self._pattern, miss.node, miss.reason, file, line, COMPLETE, values=values
            )
            for refusal in refusals if refusals and miss.is_general else [*refusals, own_refusal]:
                is_mine = refusal.pattern == self._pattern
                self._listen(
                    replace(refusal, matched=nodes, total=len(nodes)) if is_mine else refusal
                )

    def alternatives(
        self, spec: PatternNode, choices: Iterable[Any], fits: Callable[[PatternNode, Any], bool]
    ) -> Iterator[None]:
        """As in `Pairing`.

        A choice may skip the first condition that fails unless one was skipped before.
        """
        waived = self._waived

        def fits_alone(spec: PatternNode, choice: Any) -> bool:
            self._waived = waived
            return fits(spec, choice)

        yield from super().alternatives(spec, choices, fits_alone)
        self._waived = waived

    def bind(self, spec: PatternNode, node: Node) -> bool:
        """As in `Pairing`."""
        if node.op_type != spec.op_type or node.domain != spec.domain:
            reason = f"expected {_kind(spec)}, found {_kind(node)}"
            return self.refuse(node, reason, spec, waive=node not in self.nodes) and self._results(
                spec, node
            )
        if node in self.nodes or node in self.extra:
            return self.refuse(node, "one node cannot match two nodes of the pattern", spec)
        return self._attributes(spec, node) and self._results(spec, node)

    def _is_inner(self, spec: PatternNode, node: Node) -> bool:
        return node not in self.nodes and node not in self.extra and self._attributes(spec, node)

    def _attributes(self, spec: PatternNode, node: Node) -> bool:
        """Compare the attributes; each that does not fit is refused."""
        excused: set[str] = set()
        while (name := unfit_attribute(self.g, spec, node, self.attributes, excused)) is not None:
            if name in spec.attributes:
                reason = (
                    f"attribute {name}={_shown(read_moved(self.g.graph, node, name))} does not fit"
                )
            elif spec.others is None:
                reason = f"attribute {name}={node.attribute[name]!r} is not its default"
            else:
                return self.refuse(node, "attributes cannot be captured", spec, near=True)
            if not self.refuse(node, reason, spec, near=True, waive=True):
                return False
            excused.add(name)
        return True

    def _results(self, spec: PatternNode, node: Node) -> bool:
        if super()._results(spec, node):
            return True
        symbols = [symbol for symbol in spec.outputs if symbol.kind is not Variadic]
        if len(node.output) < len(symbols) or not self._may_have_more_results(spec, node):
            return self.refuse(
                node, f"expected {len(symbols)} results, found {len(node.output)}", spec
            )
        for symbol, name in zip(symbols, node.output, strict=False):
            partner = self.names[symbol.index]
            if partner is not None and partner != name:
                return self.refuse(
                    node, f"expected {partner!r}, found {name!r}", spec, partner, name
                )
        return False  # `_unify_list` reported that the remaining results do not fit

    def _may_have_more_operands(self, spec: PatternNode, node: Node) -> bool:
        reason = f"expected {len(spec.inputs)} operands, found {len(node.input)}"
        return all(
            self.refuse(node, reason, spec, waive=True)
            for _ in unexpected_operands(self.g, spec, node)
        )

    def _may_produce(self, spec: PatternNode, name: str) -> bool:
        return True  # the next step reports which operator it found

    def _is_absent(self, place: int, spec: PatternNode, node: Node) -> bool:
        if super()._is_absent(place, spec, node):
            return True
        return self.refuse(
            node, f"operand {place} must be absent", spec, node.input[place], waive=True
        )

    def _operands_and_list(self, spec: PatternNode, node: Node, order: tuple[int, ...]) -> bool:
        minimum = len(spec.inputs) - 1
        if len(node.input) < minimum:
            return self.refuse(
                node, f"expected at least {minimum} operands, found {len(node.input)}", spec
            )
        return super()._operands_and_list(spec, node, order)

    def _unify(
        self,
        symbol: Symbol,
        name: str,
        spec: PatternNode,
        node: Node,
        siblings: Sequence[str] | None = None,
    ) -> bool:
        if super()._unify(symbol, name, spec, node, siblings):
            return True
        partner = self.names[symbol.index]
        if partner is not None:
            return self.refuse(
                node, f"expected {partner!r}, found {name!r}", spec, partner, name, waive=True
            )
        if symbol.kind is None and symbol.literal is None:
            return self.refuse(node, "an operand is missing", spec)
        if symbol.kind is Variadic:
            return self.refuse(node, f"{symbol.name!r} is a list of results, not one", spec)
        if suits(self.g, symbol, name):
            return self.refuse(
                node, f"{name!r} may change the shape of the result", spec, name, waive=True
            )
        return self.refuse(
            node,
            self._unsuitable(symbol, name),
            spec,
            name,
            near=self.g.is_constant(name),
            waive=True,
        )

    def _unsuitable(self, symbol: Symbol, name: str) -> str:
        """The reason why a result does not satisfy the literal or the annotation of a symbol."""
        if symbol.literal is not None:
            return f"{name!r} is not the constant {symbol.literal!r}"
        if not name:
            return "an operand is missing"
        if symbol.kind is Scalar and self.g.get_constant_scalar(name) is None:
            return f"{name!r} is not a constant with one element"
        if symbol.kind is Constant and not self.g.is_constant(name):
            return f"{name!r} is not constant"
        return f"the value of {name!r} does not satisfy the condition on {symbol.name!r}"

    def _unify_list(
        self, symbol: Symbol, names: tuple[str, ...], spec: PatternNode, node: Node
    ) -> bool:
        if super()._unify_list(symbol, names, spec, node):
            return True
        partner = self.attributes.get(symbol.name)
        if partner is not None:
            return self.refuse(node, f"expected {partner}, found {names}", spec, *names)
        if len(names) < symbol.least:
            reason = (
                f"expected at least {symbol.least} results for {symbol.name!r}, found {len(names)}"
            )
            return self.refuse(node, reason, spec)
        variable = next(name for name in names if name and not self.g.is_constant(name))
        return self.refuse(node, f"{variable!r} is not constant", spec, variable)


def _shown(value: Any) -> str:
    return (
        "(absent)"
        if value is None
        else "(not constant)"
        if isinstance(value, AttributeReference)
        else repr(value)
    )


def _kind(node: Node | PatternNode) -> str:
    return operator_label(node.op_type, node.domain)
