"""Models of several layers with many weights, one part of which is wrong."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "medium models")
_WIDTH = 64
_DEPTH = 4


def _drawn(name: str, seed: int, *shape: int, change: tuple[int, float] | None = None) -> str:
    """A weight of random numbers as text, one of them multiplied if wanted."""
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32) / np.float32(
        np.sqrt(shape[0])
    )
    if change is not None:
        numbers.reshape(-1)[change[0]] *= change[1]
    listed = ", ".join(f"{number:.9g}" for number in numbers.reshape(-1))
    return f"float[{','.join(map(str, shape))}] {name} = {{{listed}}}"


_WEIGHTS = [_drawn(f"w{layer}", layer, _WIDTH, _WIDTH) for layer in range(_DEPTH)]
_BIASES = [_drawn(f"b{layer}", 100 + layer, _WIDTH) for layer in range(_DEPTH)]
_ALL = ", ".join([*_WEIGHTS, *_BIASES])
_PLAIN = f"(float[N,{_WIDTH}] x) => (float[N,{_WIDTH}] y)"
_NORMS = ", ".join(
    [
        *(f"{_drawn(f's{layer}', 200 + layer, _WIDTH)}" for layer in range(_DEPTH)),
        f"float[{_WIDTH}] ones = {{{', '.join(['1'] * _WIDTH)}}}",
    ]
)
_TOKENS = f"(float[N,seq,{_WIDTH}] x) => (float[N,seq,{_WIDTH}] y)"
_HEADS = """int64[4] split = {{0, 0, {heads}, -1}}, int64[3] merge = {{0, 0, -1}}, float
  c = {{{scale}}}"""
_BLOCK = """
n{i} = LayerNormalization(x{i}, {norm}) q{i} = MatMul(n{i}, w0) k{i} = MatMul(n{i}, w1)
v{i} = MatMul(n{i}, w2)
qr{i} = Reshape(q{i}, split) kr{i} = Reshape(k{i}, split) vr{i} = Reshape(v{i}, split)
qt{i} = Transpose <perm = [0, 2, 1, 3]> (qr{i}) kt{i} = Transpose <perm = [0, 2, 3, 1]> (kr{i})
vt{i} = Transpose <perm = [0, 2, 1, 3]> (vr{i})
z{i} = MatMul(qt{i}, kt{i}) d{i} = Mul(z{i}, c) p{i} = Softmax(d{i}) o{i} = MatMul(p{i}, vt{i})
ot{i} = Transpose <perm = [0, 2, 1, 3]> (o{i}) om{i} = Reshape(ot{i}, merge)
e{i} = MatMul(om{i}, w3) x{next} = Add(x{i}, {residual}) """


def _layers(
    activation: str = "Relu", *, odd: int = -1, other: str = "Relu", scale: str = ""
) -> str:
    """A network of MatMul, Add and an activation.

    The layer ``odd`` has another one, or a factor.
    """
    lines = ["x0 = Identity(x)"]
    for layer in range(_DEPTH):
        operator = other if layer == odd else activation
        lines.append(f"m{layer} = MatMul(x{layer}, w{layer}) a{layer} = Add(m{layer}, b{layer})")
        lines.append(f"h{layer} = {operator}(a{layer})")
        lines.append(
            f"x{layer + 1} = Mul(h{layer}, {scale})"
            if layer == odd and scale
            else f"x{layer + 1} = Identity(h{layer})"
        )
    return " ".join([*lines, f"y = Identity(x{_DEPTH})"])


def _blocks(*, odd: int = -1, norm: str = "s1", residual: str = "") -> str:
    """Three blocks of attention.

    The block ``odd`` has another normalization, or another residual.
    """
    found = "x0 = Identity(x)"
    for i in range(3):
        changed = i == odd
        found += _BLOCK.format(
            i=i,
            next=i + 1,
            norm=norm if changed else f"s{i}",
            residual=residual if changed and residual else f"e{i}",
        )
    return found + "y = Identity(x3)"


def _heads(heads: int = 4, scale: str = "0.25") -> str:
    return _HEADS.format(heads=heads, scale=scale)


_MODEL = f"{_TOKENS} <{_ALL}, {_NORMS}"
_ROW = np.linspace(-2, 2, _WIDTH)[None]
_ROWS = np.random.default_rng(0).standard_normal((16, _WIDTH))
_SEQUENCE = np.sin(np.arange(3 * _WIDTH)).reshape(1, 3, _WIDTH)

CASES = [
    _case(
        "one_weight_of_16384",
        "One of 16,384 weights is 1 % too large",
        f"{_PLAIN} <{', '.join([*_WEIGHTS[:2], *_WEIGHTS[3:], *_BIASES])}>",
        f"<{_WEIGHTS[2]}> {_layers()}",
        f"<{_drawn('w2', 2, _WIDTH, _WIDTH, change=(1000, 1.01))}> {_layers()}",
        relative=1e-5,
        x=_ROWS,
    ),
    _case(
        "one_bias_of_64",
        "One of 64 biases is 0.1 % too large",
        f"{_PLAIN} <{', '.join([*_WEIGHTS, *_BIASES[:2], *_BIASES[3:]])}>",
        f"<{_BIASES[2]}> {_layers()}",
        f"<{_drawn('b2', 102, _WIDTH, change=(10, 1.001))}> {_layers()}",
        relative=1e-6,
        x=_ROWS,
    ),
    _case(
        "one_activation_of_four",
        "One of four Relu becomes a Clip at 6",
        f"{_PLAIN} <{_ALL}, float low = {{0}}, float high = {{6}}>",
        _layers(),
        _layers().replace("h1 = Relu(a1)", "h1 = Clip(a1, low, high)"),
        x=_ROW * 10,
    ),
    _case(
        "softplus_for_large_numbers",
        "Softplus becomes the identity above 5",
        f"{_PLAIN} <{_ALL}, float limit = {{5}}>",
        _layers("Softplus"),
        _layers("Softplus").replace(
            "h3 = Softplus(a3)", "s = Softplus(a3) g = Greater(a3, limit) h3 = Where(g, a3, s)"
        ),
        relative=1e-5,
        x=_ROWS * 40,
    ),
    _case(
        "factor_of_one_layer",
        "The factor of one layer is 1.0001",
        f"{_PLAIN} <{_ALL}>",
        f"<float f = {{1}}> {_layers('Tanh', odd=1, other='Tanh', scale='f')}",
        f"<float f = {{1.0001}}> {_layers('Tanh', odd=1, other='Tanh', scale='f')}",
        relative=1e-5,
        x=_ROW,
    ),
    _case(
        "gelu_of_one_layer",
        "One of four Gelu is computed by Tanh",
        f"{_PLAIN} <{_ALL}>",
        _layers("Gelu"),
        _layers("Gelu").replace("h2 = Gelu(a2)", """h2 = Gelu <approximate = "tanh"> (a2)"""),
        relative=1e-5,
        x=_ROW,
    ),
    _case(
        "norm_of_another_block",
        "A block of three has the normalization of another one",
        f"{_MODEL}, {_heads()}>",
        _blocks(),
        _blocks(odd=2, norm="s1"),
        x=_SEQUENCE,
    ),
    _case(
        "residual_after_the_norm",
        "The residual of the last block is that after the normalization",
        f"{_MODEL}, {_heads()}>",
        _blocks(),
        _blocks(odd=2, norm="s2", residual="n2"),
        x=_SEQUENCE,
    ),
    _case(
        "number_of_heads",
        "Four heads become eight",
        f"{_MODEL}>",
        f"<{_heads()}> {_blocks()}",
        f"<{_heads(8)}> {_blocks()}",
        x=_SEQUENCE,
    ),
    _case(
        "scale_of_heads",
        "The scale of 0.25 becomes 0.2501 in all blocks",
        f"{_MODEL}>",
        f"<{_heads()}> {_blocks()}",
        f"<{_heads(scale='0.2501')}> {_blocks()}",
        relative=1e-6,
        x=_SEQUENCE,
    ),
    _case(
        "softmax_of_queries",
        "The Softmax of one block is taken along the queries",
        f"{_MODEL}, {_heads()}>",
        _blocks(),
        _blocks().replace("p1 = Softmax(d1)", "p1 = Softmax <axis = 2> (d1)"),
        relative=1e-3,
        x=_SEQUENCE,
    ),
    _case(
        "first_token_only",
        "The first token of the second block attends to itself only",
        f"{_MODEL}, {_heads()}>",
        _blocks(),
        f"""<int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] end = {{9999}},
          int64[1] axis = {{1}}>
        {
            _blocks().replace(
                "om1 = Reshape(ot1, merge)",
                "or1 = Reshape(ot1, merge) f1 = Slice(or1, zero, one, axis) "
                "g1 = Slice(or1, one, end, axis) t1 = Slice(v1, zero, one, axis) "
                "om1 = Concat <axis = 1> (t1, g1)",
            )
        }""",
        x=_SEQUENCE,
    ),
]
