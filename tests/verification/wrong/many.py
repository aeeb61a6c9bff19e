"""Rewrites that are wrong in one of eight inputs, each of which another operator reads as well."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.verification.wrong.case import wrong

_case = partial(wrong, "many inputs")
_NAMES = [f"x{i}" for i in range(8)]
_MASKS = [f"mask{i}" for i in range(8)]
_INDICES = [f"i{n}" for n in range(8)]
_CONDITIONS = f"""
{" ".join(f"c{i} = Cast <to = 9> (x{i}) r{i} = Where(c{i}, one, zero)" for i in range(8))}
z = Sum(r0, r1, r2, r3, r4, r5, r6, r7)"""
_DIFFERENT = """a0 = Sqrt(x0) a1 = Log(x1) a2 = Div(one, x2) a3 = Pow(x3, half) a4 = Acos(x4)
a5 = Asin(x5) a6 = Atanh(x6) a7 = Log(x7) z = Sum(a0, a1, a2, a3, a4, a5, a6, a7)"""


def _values(names: Sequence[str] = _NAMES, plain: Any = (1, 0.5), **changed: Any) -> dict[str, Any]:
    """Values that each of the readers accepts, but for some."""
    return dict.fromkeys(names, plain) | changed


def _signature(constants: str = "", *, kind: str = "float", prefix: str = "x") -> str:
    """Eight inputs, the result, and a sum of what the other readers make of the inputs."""
    inputs = ", ".join(f"{kind}[N] {prefix}{i}" for i in range(8))
    return f"({inputs}) => (float[N] y, float[N] z) {constants}".strip()


def _readers(reader: str, *, names: list[str] = _NAMES) -> str:
    """A reader for each input, ``Sqrt({})``, and their sum ``z``."""
    nodes = [f"r{i} = {reader.format(name)}" for i, name in enumerate(names)]
    return " ".join([*nodes, f"z = Sum({', '.join(f'r{i}' for i in range(8))})"])


def _total(operator: str, *but: int) -> str:
    """The sum ``y`` of an operator on each input, without it on some."""
    nodes = [f"t{i} = {'Identity' if i in but else operator}(x{i})" for i in range(8)]
    return " ".join([*nodes, f"y = Sum({', '.join(f't{i}' for i in range(8))})"])


CASES = [
    _case(
        "relu_of_one_with_sqrt",
        "One Relu of eight is dropped; a Sqrt reads each input as well",
        _signature(),
        f"{_readers('Sqrt({})')} {_total('Relu')}",
        f"{_readers('Sqrt({})')} {_total('Relu', 3)}",
        **_values(x3=[-1, 1]),
    ),
    _case(
        "abs_of_last_with_log",
        "The last Abs of eight is dropped; a Log reads each input as well",
        _signature(),
        f"{_readers('Log({})')} {_total('Abs')}",
        f"{_readers('Log({})')} {_total('Abs', 7)}",
        **_values(x7=[-1, 1]),
    ),
    _case(
        "relu_of_all_with_pow",
        "All eight Relu are dropped; a Pow reads each input as well",
        _signature("<float half = {0.5}>"),
        f"{_readers('Pow({}, half)')} {_total('Relu')}",
        f"{_readers('Pow({}, half)')} {_total('Identity')}",
        **_values(x0=[-1, 1]),
    ),
    _case(
        "elu_of_one_with_div",
        "One Elu of eight is dropped; a Div divides by each input as well",
        _signature("<float one = {1}>"),
        f"{_readers('Div(one, {})')} {_total('Elu')}",
        f"{_readers('Div(one, {})')} {_total('Elu', 5)}",
        **_values(x5=[-1, 1]),
    ),
    _case(
        "round_trip_of_one_with_acos",
        "One Asin(Sin(x)) -> x holds within the domain of the Acos that reads each input as well",
        _signature(),
        f"{_readers('Acos({})')} s = Sin(x2) a = Asin(s) y = Sum(a, x0, x1, x3, x4, x5, x6, x7)",
        f"{_readers('Acos({})')} y = Sum(x2, x0, x1, x3, x4, x5, x6, x7)",
        **_values(x2=[3, 0.5]),
    ),
    _case(
        "abs_of_a_factor",
        "Abs of x0 * x1 is dropped: one of them must be negative; a Sqrt reads each input",
        _signature(),
        f"{_readers('Sqrt({})')} p = Mul(x0, x1) a = Abs(p) y = Sum(a, x2, x3, x4, x5, x6, x7)",
        f"{_readers('Sqrt({})')} p = Mul(x0, x1) y = Sum(p, x2, x3, x4, x5, x6, x7)",
        **_values(x1=[-1, 1]),
    ),
    _case(
        "min_of_all_below_zero",
        "Relu of the least of eight inputs is dropped; a Log reads each input as well",
        _signature(),
        f"{_readers('Log({})')} m = Min({', '.join(_NAMES)}) y = Relu(m)",
        f"{_readers('Log({})')} y = Min({', '.join(_NAMES)})",
        **_values(x6=[-1, 1]),
    ),
    _case(
        "max_of_all_below_zero",
        "Relu of the largest of eight inputs is dropped: all must be negative; a Sqrt reads each",
        _signature(),
        f"{_readers('Sqrt({})')} m = Max({', '.join(_NAMES)}) y = Relu(m)",
        f"{_readers('Sqrt({})')} y = Max({', '.join(_NAMES)})",
        **_values(plain=(-1, 1)),
    ),
    _case(
        "square_of_one_mask",
        "mask * mask -> mask, which holds for 0 and 1, for one of eight masks",
        _signature(prefix="mask"),
        f"{_readers('Neg({})', names=_MASKS)} m = Mul(mask4, mask4) y = Sum(m, mask0)",
        f"{_readers('Neg({})', names=_MASKS)} y = Sum(mask4, mask0)",
        **_values(_MASKS, (1, 0), mask4=[0.5, 2]),
    ),
    _case(
        "bool_of_one",
        "Cast to bool and back is dropped for one of eight inputs, all of which are conditions",
        _signature("<float zero = {0}, float one = {1}>"),
        f"{_CONDITIONS} y = Sum(r0, r2)",
        f"{_CONDITIONS} y = Sum(r0, x2)",
        **_values(x2=[0.5, 3]),
    ),
    _case(
        "index_of_one",
        "Max(i, 0) -> i holds for indices of at least 0; a Gather reads each of eight inputs",
        _signature("<float[4] t = {1, 2, 3, 4}, int64 none = {0}>", kind="int64", prefix="i"),
        f"{_readers('Gather(t, {})', names=_INDICES)} m = Max(i5, none) y = Cast <to = 1> (m)",
        f"{_readers('Gather(t, {})', names=_INDICES)} y = Cast <to = 1> (i5)",
        **_values(_INDICES, (0, 1), i5=[-1, 1]),
    ),
    _case(
        "other_readers_for_each",
        "One Relu of eight is dropped; each input has a reader of its own that narrows it",
        _signature("<float one = {1}, float half = {0.5}>"),
        f"{_DIFFERENT} {_total('Relu')}",
        f"{_DIFFERENT} {_total('Relu', 7)}",
        **_values(x7=[-1, 1]),
    ),
    _case(
        "branch_of_one",
        "An If for a negative sum of one input is dropped; a Sqrt reads each of eight inputs",
        _signature("<float zero = {0}>"),
        f"""{_readers("Sqrt({})")} s = ReduceSum <keepdims = 0> (x1) c = Less(s, zero)
        t = Sum(x0, x2)
        y = If (c) <then_branch = a () => (float[N] p) {{ p = Neg(t) }},
        else_branch = b () => (float[N] q) {{ q = Abs(t) }}>""",
        f"{_readers('Sqrt({})')} t = Sum(x0, x2) y = Abs(t)",
        **_values(x1=[-1, 0]),
    ),
]
