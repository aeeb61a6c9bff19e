"""Order maintenance: a doubly linked list of labelled nodes, where one comparison of labels tells
which of two nodes comes first.
"""

from collections.abc import Iterable, Iterator

from xoptim.graph.node import Node

GAP = 1 << 32
"""Distance between the labels of two nodes as loaded: room for 32 insertions at the same place
before any relabelling.
"""


class OrderedNodes:
    """The nodes of one graph, in an order in which they can run.

    Labels follow Bender et al., *Two Simplified Algorithms for Maintaining Order in a List* (2002):
    a new node gets the middle between the labels of its neighbours. If there is no integer between
    them, the labels of the smallest neighbourhood that is sparse enough are spread out again.
    """

    __slots__ = ("_count", "first", "last")

    def __init__(self) -> None:
        self.first: Node | None = None
        self.last: Node | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Node]:
        """Nodes in order. The current node may be removed while iterating."""
        node = self.first
        while node is not None:
            following = node.next
            yield node
            node = following

    def __reversed__(self) -> Iterator[Node]:
        node = self.last
        while node is not None:
            following = node.previous
            yield node
            node = following

    def append(self, node: Node) -> None:
        """Add a node at the end."""
        last = self.last
        node.previous, node.next = last, None
        if last is None:
            self.first = node
            node.label = 0
        else:
            last.next = node
            node.label = last.label + GAP
        self.last = node
        self._count += 1

    def extend(self, nodes: Iterable[Node]) -> None:
        """Add nodes at the end."""
        for node in nodes:
            self.append(node)

    def insert_after(self, place: Node | None, node: Node) -> None:
        """Add a node right after another one, or at the very beginning when ``place`` is
        ``None``.
        """
        following = self.first if place is None else place.next
        if following is None:
            self.append(node)
            return
        if place is None:
            node.label = following.label - GAP
            self.first = node
        else:
            if following.label - place.label < 2:
                self._make_gap(place)
            node.label = (place.label + following.label) // 2
            place.next = node
        node.previous, node.next = place, following
        following.previous = node
        self._count += 1

    def unlink(self, node: Node) -> None:
        """Take a node out.

        Its ``next`` link keeps its value so that an iteration over the list can continue.
        """
        before, after = node.previous, node.next
        if before is None:
            self.first = after
        else:
            before.next = after
        if after is None:
            self.last = before
        else:
            after.previous = before
        self._count -= 1

    def clear(self) -> None:
        """Take all nodes out, without changing their links."""
        self.first = self.last = None
        self._count = 0

    def _make_gap(self, place: Node) -> None:
        size = 8
        while True:
            left = right = place
            count = 1
            while count < size and (left.previous is not None or right.next is not None):
                if left.previous is not None:
                    left, count = left.previous, count + 1
                if right.next is not None:
                    right, count = right.next, count + 1
            at_border = left.previous is None or right.next is None
            span = GAP * count if at_border else right.label - left.label
            # A larger neighbourhood must be sparser, so that it is relabelled more rarely.
            if span // count >= 4 * size:
                break
            size *= 2
        step = span // count
        # At the beginning or the end of the list, the labels may exceed the old range in that
        # direction.
        label = (
            left.label if right.next is None or not at_border else right.label - step * (count - 1)
        )
        node: Node | None = left
        for _ in range(count):
            assert node is not None
            node.label = label
            label += step
            node = node.next
