"""Definitions of activations of ONNX and onnxruntime, and the numbers at which they have kinks."""

from collections.abc import Mapping
from typing import Final

from xoptim.operators.definitions import defines
from xoptim.operators.registry import Trait, kinks, register

PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign"), ()),
    **dict.fromkeys(("LeakyRelu", "Elu", "ThresholdedRelu"), ("alpha",)),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
    "Clip": ("min", "max"),
}
"""The attributes of each activation, in the order in which a fused operator takes them."""

register(
    Trait.HAS_BODY,
    *("Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "PRelu", "Selu"),
    *("Shrink", "Softplus", "Softsign", "SwiGLU", "Swish", "ThresholdedRelu"),
)
kinks("HardSigmoid", 2.5)
kinks("HardSwish", 3.0)
kinks("Shrink", "lambd", "bias")
kinks("Softplus", 20.0)
kinks("ThresholdedRelu", "alpha")

defines("""
    Celu <alpha: float = 1.0> (x) => (y)
    {
        zero = Constant <value_float = 0.0> ()
        one = Constant <value_float = 1.0> ()
        alpha = Constant <value_float: float = @alpha> ()
        negative = Min (x, zero)
        exponent = Div (negative, alpha)
        power = Exp (exponent)
        curve = Sub (power, one)
        positive = Relu (x)
        scaled = Mul (curve, alpha)
        y = Add (positive, scaled)
    }
""")
defines("""
    Elu <alpha: float = 1.0> (x) => (y)
    {
        zero = Constant <value_float = 0.0> ()
        one = Constant <value_float = 1.0> ()
        alpha = Constant <value_float: float = @alpha> ()
        negative = Min (x, zero)
        power = Exp (negative)
        curve = Sub (power, one)
        positive = Relu (x)
        scaled = Mul (curve, alpha)
        y = Add (positive, scaled)
    }
""")
defines("""
    HardSigmoid <alpha: float = 0.2, beta: float = 0.5> (x) => (y)
    {
        alpha = Constant <value_float: float = @alpha> ()
        beta = Constant <value_float: float = @beta> ()
        scaled = Mul (x, alpha)
        line = Add (scaled, beta)
        y = Clip <min = 0.0, max = 1.0> (line)
    }
""")
# ONNX defines the operator with 1/6 in 32 bits, for all types.
defines("""
    HardSwish (x) => (y)
    {
        sixth = Constant <value_float = 0.16666667> ()
        half = Constant <value_float = 0.5> ()
        scaled = Mul (x, sixth)
        line = Add (scaled, half)
        clipped = Clip <min = 0.0, max = 1.0> (line)
        y = Mul (x, clipped)
    }
""")
defines("""
    LeakyRelu <alpha: float = 0.01> (x) => (y)
    {
        zero = Constant <value_float = 0.0> ()
        alpha = Constant <value_float: float = @alpha> ()
        is_negative = Less (x, zero)
        product = Mul (x, alpha)
        y = Where (is_negative, product, x)
    }
""")
# The fraction is Tanh(Log(1 + Exp(x))), and 1 beyond 20, where the square would overflow.
defines("""
    Mish (x) => (y)
    {
        twenty = Constant <value_float = 20.0> ()
        two = Constant <value_float = 2.0> ()
        small = Min (x, twenty)
        e = Exp (small)
        e_2 = Add (e, two)
        n = Mul (e, e_2)
        n_2 = Add (n, two)
        fraction = Div (n, n_2)
        y = Mul (x, fraction)
    }
""")
# Relu(x) + slope · Min(x, 0) would be NaN for x > 0 and an infinite slope.
defines("""
    PRelu (x, slope) => (y)
    {
        zero = Constant <value_float = 0.0> ()
        is_negative = Less (x, zero)
        product = Mul (x, slope)
        y = Where (is_negative, product, x)
    }
""")
defines("""
    Selu <
        alpha: float = 1.67326319217681884765625,
        gamma: float = 1.05070102214813232421875
    > (x) => (y)
    {
        zero = Constant <value_float = 0.0> ()
        one = Constant <value_float = 1.0> ()
        alpha = Constant <value_float: float = @alpha> ()
        gamma = Constant <value_float: float = @gamma> ()
        negative = Min (x, zero)
        power = Exp (negative)
        curve = Sub (power, one)
        positive = Relu (x)
        scaled = Mul (curve, alpha)
        elu = Add (positive, scaled)
        y = Mul (elu, gamma)
    }
""")
defines("""
    Sigmoid (x) => (y)
    {
        one = Constant <value_float = 1.0> ()
        negative = Neg (x)
        power = Exp (negative)
        divisor = Add (power, one)
        y = Div (one, divisor)
    }
""")
# Log(w) + (u - (w - 1)) / w is the logarithm of 1 + u, with the digits of u that w loses.
defines("""
    Softplus (x) => (y)
    {
        one = Constant <value_float = 1.0> ()
        distance = Abs (x)
        negative = Neg (distance)
        u = Exp (negative)
        w = Add (u, one)
        rounded = Sub (w, one)
        lost = Sub (u, rounded)
        positive = Relu (x)
        logarithm = Log (w)
        correction = Div (lost, w)
        corrected = Add (logarithm, correction)
        y = Add (positive, corrected)
    }
""")
defines("""
    Softsign (x) => (y)
    {
        one = Constant <value_float = 1.0> ()
        distance = Abs (x)
        divisor = Add (distance, one)
        y = Div (x, divisor)
    }
""")
defines("""
    Swish <alpha: float = 1.0> (x) => (y)
    {
        alpha = Constant <value_float: float = @alpha> ()
        scaled = Mul (x, alpha)
        gate = Sigmoid (scaled)
        y = Mul (x, gate)
    }
""")
defines("""
    ThresholdedRelu <alpha: float = 1.0> (x) => (y)
    {
        zero = Constant <value_float = 0.0> ()
        alpha = Constant <value_float: float = @alpha> ()
        is_above = Greater (x, alpha)
        y = Where (is_above, x, zero)
    }
""")


def _by_erf(x: str) -> str:
    """The nodes of x / 2 · (1 + Erf(x / √2))."""
    return f"""
        root = Constant <value = double {{0.7071067811865476}}> ()
        one = Constant <value_float = 1.0> ()
        half = Constant <value_float = 0.5> ()
        argument = Mul ({x}, root)
        curve = Erf (argument)
        shifted = Add (curve, one)
        halved = Mul ({x}, half)
        y = Mul (halved, shifted)
    """


def _by_tanh(x: str) -> str:
    """The nodes of x / 2 · (1 + Tanh(√(2 / π) · (x + 0.044715 · x³))), with the argument x ·
    (√(2 / π) + 0.0357 · x²).
    """
    return f"""
        root = Constant <value = double {{0.7978845608028654}}> ()
        factor = Constant <value = double {{0.035677408136300125}}> ()
        one = Constant <value_float = 1.0> ()
        half = Constant <value_float = 0.5> ()
        square = Mul ({x}, {x})
        scaled = Mul (square, factor)
        slope = Add (scaled, root)
        argument = Mul ({x}, slope)
        curve = Tanh (argument)
        shifted = Add (curve, one)
        halved = Mul ({x}, half)
        y = Mul (halved, shifted)
    """


_MICROSOFT: Final = "com.microsoft"
defines(f"Gelu (x) => (y) {{ {_by_erf('x')} }}", _MICROSOFT)
defines(f"BiasGelu (x, bias) => (y) {{ z = Add (x, bias) {_by_erf('z')} }}", _MICROSOFT)
defines(f"FastGelu (x, bias) => (y) {{ z = Add (x, bias) {_by_tanh('z')} }}", _MICROSOFT)
defines(
    """
    QuickGelu <alpha: float = 1.702> (x) => (y)
    {
        alpha = Constant <value_float: float = @alpha> ()
        scaled = Mul (x, alpha)
        gate = Sigmoid (scaled)
        y = Mul (x, gate)
    }
    """,
    _MICROSOFT,
)
