"""Operators that sum: matrix multiplications, convolutions, reductions, normalizations.

Over real numbers only: the order of a sum of floating-point numbers decides its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_letters
from typing import Final

from xoptim.facts.dims import Dim, product
from xoptim.facts.dtypes import is_float
from xoptim.proof.calls import Call, axis_within, denotes, is_arithmetic
from xoptim.proof.denotations.movement import number_of, permuted
from xoptim.proof.elements import Element, function, inverse, of_dim
from xoptim.proof.indices import CaseFacts, Unproved
from xoptim.proof.kinds import MASKED
from xoptim.proof.laws import exponential, logarithm, root
from xoptim.proof.tensors import (
    Indices,
    Tensor,
    broadcast_at,
    elementwise,
    require_broadcast,
    require_equal,
    reshaped,
    total,
)

_FLATTENS_BEFORE: Final = 13
"""Operator set since which Softmax works along one axis."""


def is_covered(call: Call, *places: int) -> bool:
    """Whether some operands have the type of the first result, and `is_arithmetic` holds for it."""
    operands = [call.operand(place) for place in places]
    return is_arithmetic(call) and all(x.dtype == call.dtype() for x in operands)


def contracted(
    case: CaseFacts, labels: Sequence[str], result: str, operands: Sequence[Tensor]
) -> Tensor:
    """The sum of products over the labels that the result lacks (as in Einsum).

    Axes of one label are equal, or 1 and repeated.
    """
    sizes: dict[str, Dim] = {}
    for text, x in zip(labels, operands, strict=True):
        for label, size in zip(text, x.shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
    for text, x in zip(labels, operands, strict=True):
        for label, size in zip(text, x.shape, strict=True):
            require_equal(size, sizes[label], or_one=label in result)
    summed = [label for label in sizes if label not in result]

    def read(indices: Indices) -> Element:
        return _summed(case, summed, dict(zip(result, indices, strict=True)), sizes, compute)

    def compute(places: dict[str, Dim]) -> Element:
        factors = [
            x.at([places[label] for label in text])
            for text, x in zip(labels, operands, strict=True)
        ]
        value = factors[0]
        for factor in factors[1:]:
            value = value * factor
        return real(value)

    return Tensor([sizes[label] for label in result], operands[0].dtype, read)


def real(value: Element) -> Element:
    """The element itself; raises `Unproved` where it may be NaN or infinite."""
    if value.is_special:
        raise Unproved("a sum over numbers that may be NaN or infinite")
    return value


def _summed(
    case: CaseFacts,
    labels: Sequence[str],
    places: dict[str, Dim],
    sizes: dict[str, Dim],
    compute: Callable[[dict[str, Dim]], Element],
) -> Element:
    if not labels:
        return compute(places)
    first, rest = labels[0], labels[1:]
    return total(
        case,
        sizes[first],
        lambda index: _summed(case, rest, {**places, first: index}, sizes, compute),
    )


@denotes("MatMul")
def matmul(call: Call) -> Tensor | None:
    """Products of matrices, whose batch axes broadcast."""
    if not is_covered(call, 0, 1):
        return None
    return multiplied(call.case, call.operand(0), call.operand(1))


def multiplied(case: CaseFacts, a: Tensor, b: Tensor) -> Tensor:
    """The product of two stacks of matrices, or of a vector and a stack."""
    batch = ascii_letters[: max(a.rank, b.rank, 2) - 2]
    first = batch[len(batch) - a.rank + 2 :] + "YZ" if a.rank > 1 else "Z"
    second = batch[len(batch) - b.rank + 2 :] + "ZX" if b.rank > 1 else "Z"
    result = batch + "Y" * (a.rank > 1) + "X" * (b.rank > 1)
    return contracted(case, [first, second], result, [a, b])


@denotes("FusedMatMul", "TransposeMatMul", domain="com.microsoft")
def fused_matmul(call: Call) -> Tensor | None:
    """A product of matrices, which may be transposed, times a number."""
    if not is_covered(call, 0, 1):
        return None
    a, b = call.operand(0), call.operand(1)
    if min(a.rank, b.rank) < 2:
        return None
    pair = [
        _transposed(x) if call.attribute(f"trans{name}", 0) else x
        for x, name in ((_batch_last(call, a, "A"), "A"), (_batch_last(call, b, "B"), "B"))
    ]
    alpha = number_of(call, call.dtype(), call.attribute("alpha", 1.0))
    return multiplied(call.case, *pair).mapped(lambda element: element * alpha)


def _batch_last(call: Call, x: Tensor, name: str) -> Tensor:
    """An operand with its first axis moved before its last one, if ``transBatch`` is set."""
    if not call.attribute(f"transBatch{name}", 0):
        return x
    return permuted(x, [*range(1, x.rank - 1), 0, x.rank - 1])


def _transposed(x: Tensor) -> Tensor:
    return permuted(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


@denotes("Gemm")
def gemm(call: Call) -> Tensor | None:
    """``alpha * A * B + beta * C``."""
    is_old = call.opset < 7 and not call.node.domain
    if not is_covered(call, 0, 1) or is_old or not is_float(call.dtype()):
        return None
    a, b = call.operand(0), call.operand(1)
    a = _transposed(a) if call.attribute("transA", 0) else a
    b = _transposed(b) if call.attribute("transB", 0) else b
    alpha = number_of(call, call.dtype(), call.attribute("alpha", 1.0))
    beta = number_of(call, call.dtype(), call.attribute("beta", 1.0))
    result = multiplied(call.case, a, b).mapped(lambda element: element * alpha)
    if not call.has(2):
        return result
    bias = call.operand(2)
    require_broadcast([bias], result.shape)
    return Tensor(
        result.shape,
        result.dtype,
        lambda indices: result.at(indices) + beta * real(broadcast_at(bias, indices)),
    )


@denotes("Einsum")
def einsum(call: Call) -> Tensor | None:
    """A sum of products of elements whose axes have labels."""
    places = range(len(call.operands))
    equation = call.attribute("equation")
    if not is_covered(call, *places) or not isinstance(equation, str):
        return None
    operands = [call.operand(place) for place in places]
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(operands):
        return None
    if "." in equation:
        parts = _without_ellipsis(texts, right if arrow else None, operands)
        if parts is None:
            return None
        texts, right, arrow = *parts, "->"
        left = ",".join(texts)
    if not arrow:  # the labels that occur once, in the order of the alphabet
        right = "".join(sorted(label for label in {*left} - {","} if left.count(label) == 1))
    if any(len(text) != x.rank for text, x in zip(texts, operands, strict=True)):
        return None
    if len({*right}) != len(right) or not {*right} <= {*left}:
        return None
    for label in {*left} - {*right, ","}:
        sizes = {
            size
            for text, x in zip(texts, operands, strict=True)
            for name, size in zip(text, x.shape, strict=True)
            if name == label
        }
        if len(sizes) > 1:  # ONNX Runtime repeats an axis of size 1
            raise Unproved("sizes of a summed label that may differ")
    return contracted(call.case, texts, right, operands)


def _without_ellipsis(
    texts: Sequence[str], right: str | None, operands: Sequence[Tensor]
) -> tuple[list[str], str] | None:
    """The labels of an equation with letters in place of ellipses; ``None`` for unequal ranks."""
    counts = {
        x.rank - len(text) + 3 for text, x in zip(texts, operands, strict=True) if "." in text
    }
    used = {*"".join(texts)}
    free = [letter for letter in ascii_letters if letter not in used]
    if len(counts) != 1 or not 0 <= min(counts) < len(free):
        return None
    letters = "".join(free[: min(counts)])
    if right is None:
        joined_text = "".join(texts)
        labels = sorted(label for label in used - {"."} if joined_text.count(label) == 1)
        right = "..." + "".join(labels)
    if any(text.replace("...", "").count(".") for text in (*texts, right)):
        return None
    return [text.replace("...", letters) for text in texts], right.replace("...", letters)


def _reduced_axes(call: Call, x: Tensor) -> list[int]:
    axes = call.axes()
    if not axes:
        return [] if call.attribute("noop_with_empty_axes", 0) else [*range(x.rank)]
    return sorted({axis_within(axis, x.rank) for axis in axes})


def summed_over(
    case: CaseFacts,
    x: Tensor,
    axes: Sequence[int],
    *,
    keeps: bool,
    change: Callable[[Element], Element],
) -> Tensor:
    """The sum of a function of the elements over some axes.

    With ``keeps``, these axes stay with size 1; else they are dropped.
    """
    names = ascii_letters[: x.rank]
    summed = [names[axis] for axis in axes]
    sizes = dict(zip(names, x.shape, strict=True))
    kept = [axis for axis in range(x.rank) if axis not in axes]
    shape = [
        1 if axis in axes else x.shape[axis] for axis in range(x.rank) if keeps or axis in kept
    ]

    def read(indices: Indices) -> Element:
        rest = [indices[axis] for axis in kept] if keeps else indices
        places = dict(zip((names[axis] for axis in kept), rest, strict=True))
        return _summed(case, summed, places, sizes, compute)

    def compute(places: dict[str, Dim]) -> Element:
        return change(real(x.at([places[name] for name in names])))

    return Tensor(shape, x.dtype, read)


@denotes("ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL2", "ReduceLogSumExp")
def reduce(call: Call) -> Tensor | None:
    """Sums and means over axes."""
    x, name = call.operand(0), call.node.op_type
    if not is_covered(call, 0) or not (is_float(x.dtype) or name == "ReduceSum"):
        return None
    axes = _reduced_axes(call, x)
    changes: dict[str, Callable[[Element], Element]] = {
        "ReduceSumSquare": lambda e: e * e,
        "ReduceL2": lambda e: e * e,
        "ReduceLogSumExp": exponential,
    }
    change = changes.get(name, lambda e: e)
    keeps = call.attribute("keepdims", 1) == 1
    result = summed_over(call.case, x, axes, keeps=keeps, change=change)
    if name == "ReduceMean":
        share = inverse(of_dim(product(x.shape[axis] for axis in axes)))
        return result.mapped(lambda e: e * share)
    if name == "ReduceL2":
        return result.mapped(root)
    if name == "ReduceLogSumExp":
        return result.mapped(logarithm)
    return result


@denotes("ReduceMax", "ReduceMin", "ReduceProd")
def reduce_without_laws(call: Call) -> Tensor | None:
    """A function of the elements along axes, in any order; a minimum is ``-max(-x)``."""
    x, name = call.operand(0), call.node.op_type
    if not is_covered(call, 0) or not is_float(x.dtype):
        return None
    keeps = call.attribute("keepdims", 1) == 1
    removed = _reduced_axes(call, x)
    if all(x.shape[axis] == 1 for axis in removed):
        return reshaped(call.case, x, call.shape())
    return collected(call.case, x, removed, name, keeps=keeps)


def collected(case: CaseFacts, x: Tensor, axes: Sequence[int], name: str, *, keeps: bool) -> Tensor:
    """A function of all elements along axes, by the name of the operator that reduces them.

    Its argument is the sum of all elements, each tagged by `marked`: their order does not matter.
    """
    sign = -1 if name == "ReduceMin" else 1
    kind = "ReduceMax" if name == "ReduceMin" else name
    result = summed_over(case, x, axes, keeps=keeps, change=lambda e: marked(kind, e.scaled(sign)))
    return result.mapped(lambda e: function(kind, args=[e]).scaled(sign))


def marked(kind: str, value: Element) -> Element:
    """An uninterpreted function of an element, a summand of the argument of reduction ``kind``."""
    return function(kind, "of", args=[value])


@denotes("GlobalAveragePool")
def global_average(call: Call) -> Tensor | None:
    """The mean over the pixels of an image."""
    if not is_covered(call, 0):
        return None
    x = call.operand(0)
    return mean_over(call.case, x, [*range(2, x.rank)])


def mean_over(case: CaseFacts, x: Tensor, axes: Sequence[int]) -> Tensor:
    """The mean over axes, which stay with size 1."""
    share = inverse(of_dim(product(x.shape[axis] for axis in axes)))
    return summed_over(case, x, axes, keeps=True, change=lambda e: e * share)


@denotes("Softmax")
def softmax(call: Call) -> Tensor | None:
    """Exponentials, divided by their sum along an axis."""
    if not is_covered(call, 0):
        return None
    flattens = call.opset < _FLATTENS_BEFORE
    axis = call.attribute("axis", 1 if flattens else -1)
    return softmax_of(call.case, call.operand(0), axis, flattens=flattens)


def softmax_of(case: CaseFacts, x: Tensor, axis: int, *, flattens: bool) -> Tensor:
    """Softmax along an axis, or along all axes from one on."""
    place = axis_within(axis, x.rank)
    if not flattens:
        return _softmax_along(case, x, place)
    flat = (product(x.shape[:place]), product(x.shape[place:]))
    return reshaped(case, _softmax_along(case, reshaped(case, x, flat), 1), x.shape)


@denotes("LogSoftmax")
def log_softmax(call: Call) -> Tensor | None:
    """The logarithm of Softmax."""
    result = softmax(call)
    return None if result is None else result.mapped(logarithm)


def _softmax_along(case: CaseFacts, x: Tensor, axis: int) -> Tensor:
    powers = x.mapped(masked_exponential)
    sums = summed_over(case, powers, [axis], keeps=True, change=lambda e: e)
    return Tensor(
        x.shape, x.dtype, lambda indices: powers.at(indices) * inverse(broadcast_at(sums, indices))
    )


def masked_exponential(value: Element) -> Element:
    """The exponential of a real number, or 0 where it is masked."""
    single = value.single
    if single is not None and single.key[0] == MASKED:
        condition, rest = single.args
        assert isinstance(condition, Element)
        assert isinstance(rest, Element)
        return condition * masked_exponential(rest)
    return exponential(real(value))


@denotes("BatchNormalization")
def batch_normalization(call: Call) -> Tensor | None:
    """``(x - mean) / sqrt(var + epsilon) * scale + bias`` per channel."""
    is_training = call.attribute("training_mode", 0) or sum(map(bool, call.node.output)) > 1
    if not is_covered(call, 0, 1, 2, 3, 4) or is_training or call.opset < 9:
        return None
    x, scale, bias, mean, var = (call.operand(place) for place in range(5))
    epsilon = number_of(call, x.dtype, call.attribute("epsilon", 1e-5))
    for parameter in (scale, bias, mean, var):
        require_equal(parameter.shape[0], x.shape[1], or_one=False)

    def read(indices: Indices) -> Element:
        s, b, m, v = (real(p.at([indices[1]])) for p in (scale, bias, mean, var))
        return (real(x.at(indices)) - m) * inverse(root(v + epsilon)) * s + b

    return Tensor(x.shape, x.dtype, read)


@denotes("InstanceNormalization")
def instance_normalization(call: Call) -> Tensor | None:
    """Each channel of each image: centered, divided by its standard deviation, scaled, shifted."""
    if not is_covered(call, 0, 1, 2) or call.opset < 6:
        return None
    x, scale, bias = (call.operand(place) for place in range(3))
    epsilon = number_of(call, x.dtype, call.attribute("epsilon", 1e-5))
    for parameter in (scale, bias):
        require_equal(parameter.shape[0], x.shape[1], or_one=False)
    y = normalized(call.case, x, [*range(2, x.rank)], epsilon)

    def read(indices: Indices) -> Element:
        return y.at(indices) * scale.at([indices[1]]) + bias.at([indices[1]])

    return Tensor(x.shape, x.dtype, read)


def normalized(
    case: CaseFacts, x: Tensor, axes: Sequence[int], epsilon: Element, *, is_centered: bool = True
) -> Tensor:
    """Elements, less their mean if ``is_centered``, divided by their root mean square."""
    centered = x
    if is_centered:
        means = mean_over(case, x, axes)
        centered = elementwise(lambda a, b: a - b, [x, means], x.shape, x.dtype)
    squares = mean_over(case, centered.mapped(lambda e: e * e), axes)
    return elementwise(
        lambda a, v: a * inverse(root(v + epsilon)), [centered, squares], x.shape, x.dtype
    )


@denotes("LayerNormalization", "RMSNormalization")
@denotes("SimplifiedLayerNormalization")
def layer_normalization(call: Call) -> Tensor | None:
    """The last axes, centered (but for RMS), divided by their root mean square, scaled, shifted."""
    places = [place for place in range(3) if call.has(place)]
    if not is_covered(call, *places) or sum(map(bool, call.node.output)) > 1:
        return None
    x = call.operand(0)
    axis = axis_within(call.attribute("axis", -1), x.rank)
    epsilon = number_of(call, x.dtype, call.attribute("epsilon", 1e-5))
    is_centered = call.node.op_type == "LayerNormalization"
    for place in places[1:]:
        _require_shape(call.operand(place), x.shape[axis:], allows_ones=is_centered)
    axes = [*range(axis, x.rank)]
    result = normalized(call.case, x, axes, epsilon, is_centered=is_centered)
    return _scaled(result, *(call.operand(place) for place in places[1:]))


def _require_shape(x: Tensor, shape: Sequence[Dim], *, allows_ones: bool = False) -> None:
    """Raise where a parameter has another shape than the axes that it scales or shifts.

    ``allows_ones``: it may have more axes of size 1 before these.
    """
    lead = x.rank - len(shape)
    if lead < 0 or (lead and not allows_ones) or any(size != 1 for size in x.shape[:lead]):
        raise Unproved("a scale or a bias of another rank")
    for size, target_size in zip(x.shape[lead:], shape, strict=True):
        if size != target_size and not isinstance(size, int):  # ONNX Runtime accepts one number
            raise Unproved("a scale or a bias whose size may be 1")
        require_equal(size, target_size, or_one=False)


def _scaled(x: Tensor, scale: Tensor, *bias: Tensor) -> Tensor:
    """A tensor times a scale, plus a bias if there is one."""

    def compute(a: Element, s: Element, *b: Element) -> Element:
        return sum(map(real, b), a * real(s))

    return elementwise(compute, [x, scale, *bias], x.shape, x.dtype)


@denotes("SkipLayerNormalization", domain="com.microsoft")
@denotes("SkipSimplifiedLayerNormalization", domain="com.microsoft")
def skip_layer_normalization(call: Call) -> list[Tensor] | None:
    """The normalization of a sum, and the sum."""
    is_centered = call.node.op_type == "SkipLayerNormalization"
    bias, shift = (4, 3) if is_centered else (3, 4)
    places = [place for place in range(5) if call.has(place)]
    if not is_covered(call, *places) or any(call.node.output[1:3]):
        return None
    terms = [call.operand(place) for place in (0, 1, bias) if call.has(place)]
    for place in (2, 3, bias):
        if call.has(place) and place < len(call.operands):
            _require_shape(call.operand(place), terms[0].shape[-1:])
    if not 2 <= terms[1].rank <= terms[0].rank:
        raise Unproved("a skip of another rank")
    # ONNX Runtime broadcasts the skip along the batch only
    for size, target_size in zip(terms[1].shape[-2:], terms[0].shape[-2:], strict=True):
        require_equal(size, target_size, or_one=False)
    x = elementwise(lambda *e: real(sum(e[1:], e[0])), terms, terms[0].shape, call.dtype())
    epsilon = number_of(call, x.dtype, call.attribute("epsilon", 1e-12))
    result = normalized(call.case, x, [x.rank - 1], epsilon, is_centered=is_centered)
    parameters = [call.operand(2)]
    if is_centered and call.has(shift):
        parameters.append(call.operand(shift))
    scaled = _scaled(result, *parameters)
    return [scaled, scaled, scaled, x][: len(call.node.output)]
