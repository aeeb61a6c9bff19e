"""Deductions about nodes that move no element, such as Reshape, to drop or merge them."""

from collections.abc import Callable, Sequence

from xoptim.facts.dims import Dim, before_wrapping, exact_quotient, is_nonnegative, is_nonzero
from xoptim.facts.shapes import Shape
from xoptim.match import GraphView, Node

from ._shapes import is_given_size


def keeps_shape(g: GraphView, node: Node, source: str | None = None) -> bool:
    """Whether the first result of a node is known to have the shape of ``source``.

    ``source`` is the first operand by default. Dimension names that the model declares for the
    result are ignored: exporters declare names like ``seq`` on outputs that are shorter than the
    inputs with these names, and no runtime raises an error.
    """
    source = node.input[0] if source is None else source
    # The first test is cheap, but may rely on declared shapes. The second one infers the shape from
    # the operands alone.
    return g.same_shape(source, node.output[0]) and g.infer(node)[0].shape == g.try_infer_shape(
        source
    )


def known_values(g: GraphView, name: str) -> tuple[Dim, ...] | None:
    """The elements of an integer vector, numbers or symbols; ``None`` if one is unknown."""
    data = g.info(name).data
    if data is not None:
        return data
    numbers = g.get_ints(name)
    return None if numbers is None else tuple(numbers)


def survives_zeros(
    middle: Shape | None, target: Sequence[Dim] | None, nonzero: Callable[[Dim], bool] = is_nonzero
) -> bool:
    """Whether the result of a Reshape has the sizes of its target even if a symbol in it is 0.

    A 0 in the target copies the size of ``middle``, the operand, at this index. If the symbol
    divides this size, the size is 0 as well, and the result is right. If no symbol does, and no
    other size may be 0, the Reshape fails, so that there is no result.

    Args:
        middle: the shape of the operand.
        target: the elements of the target.
        nonzero: returns whether a size is known or assumed not to be 0.
    """
    if (
        middle is None
        or target is None
        or not all(size == -1 or is_nonnegative(size) for size in target)
    ):
        return False
    sizes = [
        (size, middle[i] if i < len(middle) else 1)
        for i, size in enumerate(target)
        if not is_nonzero(size)
    ]
    safe = [size == 0 or exact_quotient(copied, size) is not None for size, copied in sizes]
    if all(fine or nonzero(size) for fine, (size, _) in zip(safe, sizes, strict=True)):
        return True
    return not (-1 in target or any(safe) or any(not is_nonzero(copied) for _, copied in sizes))


def reshapes_as_inferred(g: GraphView, node: Node) -> bool:
    """Whether the result of a node has the inferred shape even if a size is 0 at run time.

    Only Reshape matters. Inference takes the elements of its target as sizes, but without
    ``allowzero``, a 0 copies the size of the operand.
    """
    if node.op_type != "Reshape" or node.opset < 5 or node.attribute.get("allowzero"):
        return True
    target = known_values(g, node.input[1])
    if target is None or all(isinstance(size, int) for size in target):
        return True
    result = g.infer(node)[0].shape
    if result is None:
        return True
    # If a size may exceed the element type of the target, the target holds a wrapped integer; only
    # the inferred shape has the size.
    sizes = [
        dim if before_wrapping(size) is dim else size
        for size, dim in zip(target, result, strict=True)
    ]
    return survives_zeros(
        g.try_infer_shape(node.input[0]),
        sizes,
        lambda size: is_nonzero(size) or is_given_size(g, size),
    )


def determined_target(g: GraphView, node: Node) -> list[int] | None:
    """A constant target for a Reshape with a single computed dimension, which becomes -1.

    The number of elements and the other dimensions determine this dimension, if no other is 0. So
    its value does not matter, even if it is 0 or -1 at run time, as long as the original runs.
    ``None`` if there is no such target.
    """
    source, values = g.try_infer_shape(node.input[0]), known_values(g, node.input[1])
    if source is None or values is None or (0 in values and node.attribute.get("allowzero")):
        return None
    target: list[int] = []
    for axis, size in enumerate(values):
        if isinstance(size, int) and 0 < size < 2**31:
            target.append(size)
        else:
            is_copied = axis < len(source) and size in (0, source[axis])
            target.append(0 if is_copied else -1)
    computed = [size for size, entry in zip(values, target, strict=True) if entry == -1]
    if len(computed) != 1 or (isinstance(computed[0], int) and computed[0] != -1):
        return None
    copied = [source[axis] for axis, entry in enumerate(target) if entry == 0]
    if computed != [-1] and not all(is_nonzero(dim) or is_given_size(g, dim) for dim in copied):
        return None
    return target


def merged_target(
    source: Sequence[Dim] | None, copied: Sequence[Dim | None] | None, target: Sequence[Dim]
) -> list[Dim] | None:
    """The target for a Reshape of ``source``, from the target for another operand.

    A 0 in ``target`` stands for the size in ``copied``. In the result, it copies the size of
    ``source``: it stays if the two sizes are equal, and becomes a number if the size is static.
    ``None`` if neither is possible.
    """
    merged: list[Dim] = []
    for axis, size in enumerate(target):
        copied_size = copied[axis] if copied is not None and axis < len(copied) else None
        if is_nonzero(size) or (
            source is not None
            and copied_size is not None
            and [*source[axis : axis + 1]] == [copied_size]
        ):
            merged.append(size)
        elif size == 0 and isinstance(copied_size, int) and copied_size > 0:
            merged.append(copied_size)
        else:
            return None
    return merged
