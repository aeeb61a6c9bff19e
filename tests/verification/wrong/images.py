"""Networks of convolutions with a fault in one channel, one border or one layer.

64-bit floats have no kernels there.
"""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "images")


def _drawn(name: str, seed: int, *shape: int, change: tuple[int, float] | None = None) -> str:
    """Weights of random numbers as text, one of them multiplied if wanted."""
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    numbers /= np.float32(np.sqrt(np.prod(shape[1:])))
    if change is not None:
        numbers.reshape(-1)[change[0]] *= change[1]
    listed = ", ".join(f"{number:.9g}" for number in numbers.reshape(-1))
    return f"float[{','.join(map(str, shape))}] {name} = {{{listed}}}"


_IMAGE = "(float[N,3,16,16] x) => (float[N,8,16,16] y)"
_FIRST, _SECOND, _THIRD = (
    _drawn("w", 1, 8, 3, 3, 3),
    _drawn("v", 2, 8, 8, 3, 3),
    _drawn("u", 3, 8, 8, 3, 3),
)
_BIAS = _drawn("b", 4, 8)
_NET = """a = Conv <pads = [1, 1, 1, 1]> (x, w, b) c = Relu(a) d = Conv <pads = [1, 1, 1, 1]> (c, v)
e = Relu(d) f = Conv <pads = [1, 1, 1, 1]> (e, u) y = Add(f, c)"""
_ALL = f"{_IMAGE} <{_FIRST}, {_SECOND}, {_THIRD}, {_BIAS}>"
_X = np.random.default_rng(5).standard_normal((1, 3, 16, 16))
_SIXTEEN = np.random.default_rng(6).standard_normal((1, 8, 16, 16))
_CHANNELS = "(float[N,8,16,16] x) => (float[N,8,16,16] y)"
_NORM = """float[8] s = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] o = {0, 0, 0, 0, 0, 0, 0, 0},
float[8] m = {0, 1, 0, 1, 0, 1, 0, 1}"""
_VARIANCES = "float[8] q = {1, 1, 1, 1, 1, 1, 1, 0.01}"

CASES = [
    _case(
        "one_weight_of_a_kernel",
        "One of 576 weights of the second Conv is 1 % too large",
        f"{_IMAGE} <{_FIRST}, {_THIRD}, {_BIAS}>",
        f"<{_SECOND}> {_NET}",
        f"<{_drawn('v', 2, 8, 8, 3, 3, change=(100, 1.01))}> {_NET}",
        relative=1e-4,
        x=_X,
    ),
    _case(
        "bias_of_one_channel",
        "The bias of one channel is 0.1 % too large",
        f"{_IMAGE} <{_FIRST}, {_SECOND}, {_THIRD}>",
        f"<{_BIAS}> {_NET}",
        f"<{_drawn('b', 4, 8, change=(3, 1.001))}> {_NET}",
        relative=1e-4,
        x=_X,
    ),
    _case(
        "factor_of_images",
        "The result of a Conv gets a factor of 1.0001",
        _ALL,
        _NET,
        f"<float k = {{1.0001}}> {_NET.replace('y = Add(f, c)', 'g = Mul(f, k) y = Add(g, c)')}",
        relative=1e-4,
        x=_X,
    ),
    _case(
        "residual_before_activation",
        "The residual is that before the Relu",
        _ALL,
        _NET,
        _NET.replace("Add(f, c)", "Add(f, a)"),
        x=_X,
    ),
    _case(
        "relu_of_the_second_layer",
        "The second Relu is a LeakyRelu of 0.001",
        _ALL,
        _NET,
        _NET.replace("e = Relu(d)", "e = LeakyRelu <alpha = 0.001> (d)"),
        relative=1e-4,
        x=_X,
    ),
    _case(
        "one_side_of_the_padding",
        "The last Conv pads two rows above and none below",
        _ALL,
        _NET,
        _NET.replace("f = Conv <pads = [1, 1, 1, 1]>", "f = Conv <pads = [2, 1, 0, 1]>"),
        x=_X,
    ),
    _case(
        "dilation_with_padding",
        "The last Conv has a dilation of 2",
        _ALL,
        _NET,
        _NET.replace(
            "f = Conv <pads = [1, 1, 1, 1]>", "f = Conv <pads = [2, 2, 2, 2], dilations = [2, 2]>"
        ),
        x=_X,
    ),
    _case(
        "flipped_kernel",
        "The kernels of the last Conv are transposed in space",
        _ALL,
        _NET,
        f"t = Transpose <perm = [0, 1, 3, 2]> (u) {_NET.replace('(e, u)', '(e, t)')}",
        x=_X,
    ),
    _case(
        "channels_swapped",
        "Input and output channels of the last Conv are swapped",
        _ALL,
        _NET,
        f"t = Transpose <perm = [1, 0, 2, 3]> (u) {_NET.replace('(e, u)', '(e, t)')}",
        x=_X,
    ),
    _case(
        "epsilon_of_one_channel",
        "The epsilon of a BatchNormalization is dropped, which one channel with a small variance "
        "shows",
        f"{_CHANNELS} <{_SECOND}, {_NORM}, {_VARIANCES}>",
        "a = Conv <pads = [1, 1, 1, 1]> (x, v) y = BatchNormalization(a, s, o, m, q)",
        """a = Conv <pads = [1, 1, 1, 1]> (x, v)
        y = BatchNormalization <epsilon = 0.000001> (a, s, o, m, q)""",
        relative=1e-4,
        x=_SIXTEEN,
    ),
    _case(
        "norm_of_groups",
        "A GroupNormalization of 4 groups gets 2",
        f"{_CHANNELS} <{_SECOND}, {_NORM}>",
        """a = Conv <pads = [1, 1, 1, 1]> (x, v)
          y = GroupNormalization <num_groups = 4> (a, s, o)""",
        """a = Conv <pads = [1, 1, 1, 1]> (x, v)
          y = GroupNormalization <num_groups = 2> (a, s, o)""",
        x=_SIXTEEN,
    ),
    _case(
        "epsilon_of_instances",
        "An InstanceNormalization gets an epsilon of 1e-3 in place of 1e-5",
        f"{_CHANNELS} <{_SECOND}, {_NORM}>",
        "a = Conv <pads = [1, 1, 1, 1]> (x, v) y = InstanceNormalization(a, s, o)",
        """a = Conv <pads = [1, 1, 1, 1]> (x, v)
        y = InstanceNormalization <epsilon = 0.001> (a, s, o)""",
        relative=1e-4,
        x=_SIXTEEN,
    ),
]
