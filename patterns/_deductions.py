"""Deductions from the definition of an operator, for patterns that drop or merge operators that
move no element.
"""

from collections.abc import Callable, Sequence

from xoptim.facts.dims import Dim, before_wrapping, exact_quotient, is_nonnegative, is_nonzero
from xoptim.facts.shapes import Shape
from xoptim.match import GraphView, Node

from ._shapes import is_given_size


def keeps_shape(g: GraphView, node: Node, source: str | None = None) -> bool:
    """Whether the first result of a node is known to have the shape of ``source``, by default its
    first operand.

    Names of dimensions that the model declares for the result are ignored: exporters write
    ``batch`` and ``seq`` on outputs that are shorter than the input of these dimensions, and no
    runtime raises an error.
    """
    source = node.input[0] if source is None else source
    # The first test is cheap and may rely on declared shapes, the second one infers from the
    # operands alone.
    return g.same_shape(source, node.output[0]) and g.infer(node)[0].shape == g.try_infer_shape(
        source
    )


def known_values(g: GraphView, name: str) -> tuple[Dim, ...] | None:
    """Elements of an integer vector, numbers or symbols, when all are known."""
    data = g.info(name).data
    if data is not None:
        return data
    numbers = g.get_ints(name)
    return None if numbers is None else tuple(numbers)


def survives_zeros(
    middle: Shape | None, target: Sequence[Dim] | None, nonzero: Callable[[Dim], bool] = is_nonzero
) -> bool:
    """Whether a target for ``middle`` gives its sizes even where a symbol in it is 0, and so copies
    a size of ``middle``.

    A symbol that divides the size that it would copy copies a 0 then. If none does, and nothing
    else may be 0, the run ends with an error. ``nonzero`` says whether a size is known, or assumed,
    not to be 0.
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
    """Whether the shape inferred for the result of a node holds even where a size that a Reshape
    reads is 0 at run time.

    Inference uses the elements of the target as sizes, but a Reshape without ``allowzero`` copies
    an axis in place of 0. All other nodes give the inferred shape.
    """
    if node.op_type != "Reshape" or node.opset < 5 or node.attribute.get("allowzero"):
        return True
    target = known_values(g, node.input[1])
    if target is None or all(isinstance(size, int) for size in target):
        return True
    result = g.infer(node)[0].shape
    if result is None:
        return True
    # Where a size may not fit its element type, the target holds a wrapped integer and only the
    # shape holds the size.
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
    """A constant target for a Reshape in which -1 stands for the only computed dimension; ``None``
    without such a target.

    The number of elements and the other dimensions determine this one, if no other is 0. So its
    value does not matter, even if it is 0 or -1 at run time, as long as the original runs.
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
    """The target for a Reshape of ``source`` that gives the sizes of ``target``, where a 0 stands
    for the size in ``copied``; ``None`` if there is none.

    There, a 0 copies the size of ``source`` in its place: it stays where that is the same size, and
    becomes a number otherwise.
    """
    merged: list[Dim] = []
    for axis, size in enumerate(target):
        wanted = copied[axis] if copied is not None and axis < len(copied) else None
        if is_nonzero(size) or (
            source is not None and wanted is not None and [*source[axis : axis + 1]] == [wanted]
        ):
            merged.append(size)
        elif size == 0 and isinstance(wanted, int) and wanted > 0:
            merged.append(wanted)
        else:
            return None
    return merged
