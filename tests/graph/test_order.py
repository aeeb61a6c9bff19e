from hypothesis import given, strategies as st

from xoptim.graph.node import Node
from xoptim.graph.order import OrderedNodes


def node() -> Node:
    return Node("Op", [], [])


def check(order: OrderedNodes, expected: list[Node]) -> None:
    assert list(order) == expected
    assert list(reversed(order)) == expected[::-1]
    assert len(order) == len(expected)
    labels = [n.label for n in expected]
    assert labels == sorted(set(labels))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1 << 30)), max_size=60), st.integers(0, 5)
)
def test_random_insertions_and_removals(moves: list[tuple[int, int]], start: int) -> None:
    order = OrderedNodes()
    model: list[Node] = []
    for _ in range(start):
        model.append(node())
        order.append(model[-1])
    for kind, number in moves:
        place = number % (len(model) + 1)
        if kind == 0 and model:
            order.unlink(model.pop(place % len(model)))
        elif kind == 1:
            model.append(node())
            order.append(model[-1])
        else:
            new = node()
            order.insert_after(model[place - 1] if place else None, new)
            model.insert(place, new)
    check(order, model)


def dense(count: int) -> tuple[OrderedNodes, list[Node]]:
    order, nodes = OrderedNodes(), [node() for _ in range(count)]
    for each in nodes:
        order.append(each)
    return order, nodes


def test_ten_thousand_insertions_at_one_place_in_the_middle() -> None:
    """Each costs a few new labels (amortized, a logarithm of the length), not a renumbering of the
    list.
    """
    order, nodes = dense(1000)
    new = [node() for _ in range(10_000)]
    relabelled = 0
    for each in new:
        labels = [n.label for n in order] if len(order) % 100 == 0 else []
        order.insert_after(nodes[500], each)
        if labels:
            relabelled += sum(
                n.label != label
                for n, label in zip((n for n in order if n is not each), labels, strict=True)
            )
    assert relabelled < 200, "by a hundred of the insertions; 56 were measured"
    check(order, [*nodes[:501], *new[::-1], *nodes[501:]])


def test_ten_thousand_insertions_in_a_row() -> None:
    order, nodes = dense(3)
    place, new = nodes[0], [node() for _ in range(10_000)]
    for each in new:
        order.insert_after(place, each)
        place = each
    check(order, [nodes[0], *new, *nodes[1:]])


def test_insertions_between_the_last_two_and_at_both_ends() -> None:
    order, nodes = dense(2)
    expected = list(nodes)
    for index in range(300):
        front, middle, back = node(), node(), node()
        order.insert_after(None, front)
        order.insert_after(nodes[0], middle)
        order.insert_after(order.last, back)
        expected = [front, *expected, back]
        expected.insert(expected.index(nodes[0]) + 1, middle)
        assert order.first is front, index
    check(order, expected)


def test_relabelling_reaches_both_borders() -> None:
    for place in (0, 1):
        order, nodes = dense(3)
        expected = list(nodes)
        for _ in range(200):
            new = node()
            order.insert_after(nodes[place], new)
            expected.insert(expected.index(nodes[place]) + 1, new)
        check(order, expected)


def test_the_current_node_may_be_removed_while_iterating() -> None:
    order, nodes = dense(10)
    seen = []
    for each in order:
        seen.append(each)
        if each in nodes[::2]:
            order.unlink(each)
    assert seen == nodes
    check(order, nodes[1::2])
    for each in reversed(order):
        order.unlink(each)
    check(order, [])
    assert order.first is order.last is None
