"""RNN, GRU, LSTM, and onnxruntime's quantized LSTM."""

from xoptim.facts.dims import Dim, exact_quotient
from xoptim.facts.shapes import Info
from xoptim.operators.inference.arguments import dim_of, dtype_of, fresh_shape, integer, known, text
from xoptim.operators.protocols import Lengths, NodeContext, Results
from xoptim.operators.registry import Trait, infers, register, takes

register(Trait.RECURRENT, "RNN", "GRU", "LSTM")
register(Trait.SUMS_PRODUCTS, "RNN", "GRU", "LSTM")
register(Trait.ROUNDS, "RNN", "GRU", "LSTM")
register(Trait.ROUNDS_NEAR_ONE, "RNN")  # onnxruntime computes Tanh as 2 · Sigmoid(2x) - 1 there
register(Trait.SUMS_PRODUCTS, "DynamicQuantizeLSTM", domain="com.microsoft")
takes({4: Lengths(0, "layout")}, "RNN", "GRU", "LSTM")

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


@infers("RNN", "GRU", "LSTM")
@infers("DynamicQuantizeLSTM", domain="com.microsoft")
def recurrent(ctx: NodeContext) -> Results:
    """Inputs X, W, R, ...; outputs Y (every step), Y_h and, for LSTM, Y_c (the last step).

    X is (steps, batch, features), with ``layout`` 1 (operator set 14) (batch, steps, features).
    """
    x = ctx.input(0)
    batch_first = integer(ctx, "layout", 0) if ctx.opset >= 14 else 0
    if batch_first is None:
        return [
            Info(dtype_of(x), fresh_shape(ctx, 4)),
            *(Info(dtype_of(x), fresh_shape(ctx, 3)) for _ in range(2)),
        ]
    steps = known(ctx, dim_of(x, 1 if batch_first else 0, 3))
    batch = known(ctx, dim_of(x, 0 if batch_first else 1, 3))
    directions: Dim = _DIRECTIONS.get(text(ctx, "direction", "forward") or "") or known(
        ctx, dim_of(ctx.input(1), 0, 3), dim_of(ctx.input(2), 0, 3)
    )
    hidden = _hidden_size(ctx)
    dtype = dtype_of(x)
    if batch_first:
        last = Info(dtype, (batch, directions, hidden))
        return [Info(dtype, (batch, steps, directions, hidden)), last, last]
    last = Info(dtype, (directions, batch, hidden))
    return [Info(dtype, (steps, directions, batch, hidden)), last, last]


def _hidden_size(ctx: NodeContext) -> Dim:
    """From the attribute, the recurrence weights (directions, gates * hidden, hidden), or the input
    weights.

    The weights of DynamicQuantizeLSTM are transposed, the recurrence weights (directions, hidden, 4
    * hidden).
    """
    if ctx.domain:
        return known(ctx, integer(ctx, "hidden_size"), dim_of(ctx.input(2), 1, 3))
    stacked = dim_of(ctx.input(1), 1, 3)
    from_weights = None if stacked is None else exact_quotient(stacked, _GATES.get(ctx.op_type, 1))
    return known(ctx, integer(ctx, "hidden_size"), dim_of(ctx.input(2), 2, 3), from_weights)
