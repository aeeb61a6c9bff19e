"""The nearest miss of an attempt that failed: the same steps run once more, for a listener.

The first condition that fails is skipped, to measure how much else would fit; the search path that
gets furthest is reported. Each step and each condition of `xoptim.match.pairing` that can fail runs
as there; a failure is turned into a message.
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

    def _producer(self, name: str, wanted: PatternNode) -> Node | None:
        node = super()._producer(name, wanted)
        if node is None:
            self.pairing.refuse(None, f"{name!r} is not produced by {_kind(wanted)}", wanted, name)
        return node

    def _readers(self, name: str, wanted: PatternNode) -> Collection[Node]:
        readers = super()._readers(name, wanted)
        if not readers:
            self.pairing.refuse(None, f"nothing reads {name!r}", wanted, name)
        return readers

    def _are_too_many(self, readers: Collection[Node], most: int) -> bool:
        return False  # `examine` reports which node reads the result

    def _trees(self, wanted: PatternNode) -> Iterator[Tree]:
        yield from super()._trees(wanted)
        root, count = self.pairing.node_of(wanted), len(wanted.inputs)
        if len(root.input) <= count:
            self.pairing.refuse(
                root, f"no tree of {wanted.op_type} nodes with {count} operands", wanted
            )


class NearPairing(Pairing):
    """A pairing that reports each pair that does not fit to ``listen``, and goes on after the first
    one.
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
        """Whether all nodes fitted one by one.

        No search path gets further than that, and each such assignment is reported.
        """

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
        wanted: PatternNode,
        *values: str,
        near: bool = False,
        waive: bool = False,
        is_last: bool = False,
    ) -> bool:
        """Remember the first condition that failed on this search path, if no other path got
        further.

        Returns whether the search continues, because no condition has failed before. It then
        returns no match.

        Args:
            node: the node that does not fit.
            reason: the reason.
            wanted: the pattern node.
            *values: results that the condition is about.
            near: whether only a value is wrong, which is nearer than another operator.
            waive: whether the search may continue as if the condition held.
            is_last: whether all else fits, which is nearer than as many results on a path that
                ends.
        """
        if self._is_complete:
            return False
        trace = self.program.trace
        found = self._waived
        if found is None:
            total, line = len(trace.nodes), wanted.line
            found = Refusal(self._pattern, node, reason, trace.file, line, near, (), total, values)
            if waive:
                self._waived = found
                return True
        self._remember(found, is_last)
        return False

    def _remember(self, found: Refusal, is_last: bool) -> None:
        """Keep a refusal if it came further than those before."""
        bound = self.bound
        known = sum(name is not None for name in self.names)
        progress = 1000 * len(bound) + 2 * known + found.progress + is_last
        if self._furthest is None or self._furthest.progress < progress:
            matched = tuple(each for each in bound if each is not found.node)
            self._furthest = replace(found, progress=progress, matched=matched)

    def judge(self, examine: Examine) -> None:
        """Report why nodes that fit one by one are not a match."""
        if self._waived is not None:
            self.refuse(None, "", self.program.anchor, is_last=True)
            return
        self._is_complete = True
        heard: list[Refusal] = []
        with listening(heard.append):
            found = examine(self)
        if isinstance(found, Misfit):
            nodes = (*self.bound, *self.extra)
            line, values = found.line or self.program.anchor.line, tuple(filter(None, found.values))
            file = found.file or self.program.trace.file
            own = Refusal(
                self._pattern, found.node, found.reason, file, line, COMPLETE, values=values
            )
            for refusal in heard if heard and found.is_general else [*heard, own]:
                is_mine = refusal.pattern == self._pattern
                self._listen(
                    replace(refusal, matched=nodes, total=len(nodes)) if is_mine else refusal
                )

    def alternatives(
        self, wanted: PatternNode, choices: Iterable[Any], fits: Callable[[PatternNode, Any], bool]
    ) -> Iterator[None]:
        """As in a pairing.

        A choice may skip the first condition that fails unless one was skipped before.
        """
        waived = self._waived

        def fits_alone(wanted: PatternNode, choice: Any) -> bool:
            self._waived = waived
            return fits(wanted, choice)

        yield from super().alternatives(wanted, choices, fits_alone)
        self._waived = waived

    def bind(self, wanted: PatternNode, node: Node) -> bool:
        """As in a pairing."""
        if node.op_type != wanted.op_type or node.domain != wanted.domain:
            reason = f"expected {_kind(wanted)}, found {_kind(node)}"
            return self.refuse(
                node, reason, wanted, waive=node not in self.nodes
            ) and self._results(wanted, node)
        if node in self.nodes or node in self.extra:
            return self.refuse(node, "one node cannot match two nodes of the pattern", wanted)
        return self._attributes(wanted, node) and self._results(wanted, node)

    def _is_inner(self, wanted: PatternNode, node: Node) -> bool:
        return node not in self.nodes and node not in self.extra and self._attributes(wanted, node)

    def _attributes(self, wanted: PatternNode, node: Node) -> bool:
        """Compare the attributes; each that does not fit is refused."""
        excused: set[str] = set()
        while (name := unfit_attribute(self.g, wanted, node, self.attributes, excused)) is not None:
            if name in wanted.attributes:
                reason = (
                    f"attribute {name}={_shown(read_moved(self.g.graph, node, name))} does not fit"
                )
            elif wanted.others is None:
                reason = f"attribute {name}={node.attribute[name]!r} is not its default"
            else:
                return self.refuse(node, "attributes cannot be captured", wanted, near=True)
            if not self.refuse(node, reason, wanted, near=True, waive=True):
                return False
            excused.add(name)
        return True

    def _results(self, wanted: PatternNode, node: Node) -> bool:
        if super()._results(wanted, node):
            return True
        symbols = [symbol for symbol in wanted.outputs if symbol.kind is not Variadic]
        if len(node.output) < len(symbols) or not self._has_as_many(wanted, node):
            return self.refuse(
                node, f"expected {len(symbols)} results, found {len(node.output)}", wanted
            )
        for symbol, name in zip(symbols, node.output, strict=False):
            known = self.names[symbol.index]
            if known is not None and known != name:
                return self.refuse(node, f"expected {known!r}, found {name!r}", wanted, known, name)
        return False  # the list of remaining results does not fit, which has been reported

    def _has_no_more(self, wanted: PatternNode, node: Node) -> bool:
        reason = f"expected {len(wanted.inputs)} operands, found {len(node.input)}"
        return all(
            self.refuse(node, reason, wanted, waive=True)
            for _ in unexpected_operands(self.g, wanted, node)
        )

    def _is_absent(self, place: int, wanted: PatternNode, node: Node) -> bool:
        if super()._is_absent(place, wanted, node):
            return True
        return self.refuse(
            node, f"operand {place} must be absent", wanted, node.input[place], waive=True
        )

    def _operands_and_list(self, wanted: PatternNode, node: Node, order: tuple[int, ...]) -> bool:
        named = len(wanted.inputs) - 1
        if len(node.input) < named:
            return self.refuse(
                node, f"expected at least {named} operands, found {len(node.input)}", wanted
            )
        return super()._operands_and_list(wanted, node, order)

    def _unify(
        self,
        symbol: Symbol,
        name: str,
        wanted: PatternNode,
        node: Node,
        siblings: Sequence[str] | None = None,
    ) -> bool:
        if super()._unify(symbol, name, wanted, node, siblings):
            return True
        known = self.names[symbol.index]
        if known is not None:
            return self.refuse(
                node, f"expected {known!r}, found {name!r}", wanted, known, name, waive=True
            )
        if symbol.kind is None and symbol.literal is None:
            return self.refuse(node, "an operand is missing", wanted)
        if symbol.kind is Variadic:
            return self.refuse(node, f"{symbol.name!r} is a list of results, not one", wanted)
        if suits(self.g, symbol, name):
            return self.refuse(
                node, f"{name!r} may change the shape of the result", wanted, name, waive=True
            )
        return self.refuse(
            node,
            self._unsuitable(symbol, name),
            wanted,
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
        self, symbol: Symbol, names: tuple[str, ...], wanted: PatternNode, node: Node
    ) -> bool:
        if super()._unify_list(symbol, names, wanted, node):
            return True
        known = self.attributes.get(symbol.name)
        if known is not None:
            return self.refuse(node, f"expected {known}, found {names}", wanted, *names)
        if len(names) < symbol.least:
            reason = (
                f"expected at least {symbol.least} results for {symbol.name!r}, found {len(names)}"
            )
            return self.refuse(node, reason, wanted)
        variable = next(name for name in names if name and not self.g.is_constant(name))
        return self.refuse(node, f"{variable!r} is not constant", wanted, variable)


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
