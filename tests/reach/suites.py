"""How many nodes xoptim leaves on the models of other optimizers' tests, as `benchmarks/peer_suites.py` counts them."""

from typing import Final, NamedTuple


class Suite(NamedTuple):
    """The tests of one optimizer.

    Attributes:
        peer: whose tests.
        models: that count: both results have the same inputs and outputs and compute the same numbers.
        before: of these, models with at most as many nodes as the peer's result when they were first counted.
        after: likewise, now.
        wrong: further models whose result of the peer computes other numbers.
    """

    peer: str
    models: int
    before: int
    after: int
    wrong: int


SUITES: Final = (Suite("onnxoptimizer", 476, 422, 422, 8),)


class Cause(NamedTuple):
    """A form of which the peer's result has fewer nodes.

    Attributes:
        form: in words.
        models: how many, by peer.
        reason: why it is not written, or that it is open.
    """

    form: str
    models: str
    reason: str


CAUSES: Final = (
    Cause(
        "ArgMax(Softmax(x)) → ArgMax(x), and the same for LogSoftmax, Exp, Log and Sqrt",
        "onnxoptimizer 54",
        "Ties and NaN: different numbers may be rounded to equal ones.",
    ),
    Cause(
        "Softmax(x) along an axis of length 1 → ones",
        "onnxsim 5",
        "An infinity or NaN gives NaN.",
    ),
    Cause(
        "Cast(x) + Cast(z), Cast(x) @ Cast(z) to float16 → Cast(x + z), Cast(x @ z); Transpose before the Cast, for FusedMatMul",
        "onnxruntime 15",
        "Another type is computed: results differ by the rounding of 16 bits.",
    ),
    Cause(
        "Cast(MatMulInteger(a, b)) · (s · t) → MatMulIntegerToFloat for a vector of factors of unknown length",
        "onnxruntime 10",
        "b may have one column where there are several factors: onnxruntime ends with an access violation (3 by 1, five factors).",
    ),
    Cause(
        "com.microsoft.Attention, which computes queries, keys and values by one product",
        "onnxsim 7, transformers 6",
        "Attention after three products is written. Measured 0.99 (16 tokens, 256 channels) to 1.01 times the time (128 tokens, 768 "
        "channels).",
    ),
    Cause(
        "SkipLayerNormalization, BiasGelu, FastGelu with a bias",
        "onnxruntime 11",
        "Written for CUDA only: on a CPU onnxruntime fuses them itself when it loads a model. Measured 0.99 to 1.01 times the time "
        "for 8 rows of 64 to 1024 rows of 768.",
    ),
    Cause(
        "Gemm with Reshape around it for MatMul and Add of three axes",
        "onnxsim 1",
        "As many passes: onnxruntime's MatMul is fused with what is around it.",
    ),
    Cause("EmbedLayerNormalization", "transformers 4", "Open: measured 0.87 of the time for a tiny model."),
    Cause("QLinearMul; Transpose of a quantized constant past DequantizeLinear with an axis", "onnxruntime 5", "Open."),
)


def section() -> str:
    """The part of the page about these tests."""
    total = [sum(column) for column in zip(*(suite[1:] for suite in SUITES), strict=True)]
    suites = "".join(
        f"| {peer} | {models} | {before} ({before / models:.0%}) | {after} ({after / models:.0%}) | {wrong} |\n"
        for peer, models, before, after, wrong in (*SUITES, ("all", *total))
    )
    causes = "".join(f"| {cause.form} | {cause.models} | {cause.reason} |\n" for cause in CAUSES)
    return (
        "\n## Models of other optimizers' tests\n\n"
        "Nodes that are left, beside the result of the optimizer in whose tests a model is (`python -m benchmarks.peer_suites`).\n"
        "A model counts if onnxruntime runs it and the peer's result computes the same numbers.\n\n"
        "| tests of | models | at most as many nodes, first | at most as many nodes, now | wrong results of the peer |\n"
        f"|---|---|---|---|---|\n{suites}"
        "\n| fewer nodes in the peer's result | models | reason |\n|---|---|---|\n"
        f"{causes}"
    )
