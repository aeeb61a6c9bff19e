"""How many nodes xoptim leaves on the models of other optimizers' tests, as `lab/reach/peers.py`
counts them.
"""

from typing import Final, NamedTuple


class Suite(NamedTuple):
    """The tests of one optimizer.

    Attributes:
        peer: whose tests.
        models: that count: both results have the same inputs and outputs and compute the same
            numbers.
        before: of these, models with at most as many nodes as the peer's result when they were
            first counted.
        after: likewise, now.
        wrong: further models whose result of the peer computes other numbers.
    """

    peer: str
    models: int
    before: int
    after: int
    wrong: int

    def row(self) -> str:
        """The row of the page."""
        shares = " | ".join(
            f"{count} ({count / self.models:.1%})" for count in (self.before, self.after)
        )
        return f"| {self.peer} | {self.models} | {shares} | {self.wrong} |\n"


SUITES: Final = (
    Suite("onnxoptimizer 0.4.2", 476, 422, 422, 8),
    Suite("onnxsim 0.8.1, 60 of 168 files of tests", 338, 317, 318, 5),
    Suite("onnxruntime 1.21, the models that scripts write", 298, 249, 250, 0),
    Suite("onnxscript 0.7.2, models like those of the tests of its rules", 168, 158, 168, 2),
    Suite("OnnxSlim 0.1.98", 98, 98, 98, 1),
    Suite("transformers of onnxruntime 1.21", 24, 12, 12, 7),
)


class Cause(NamedTuple):
    """A form of which the peer's result has fewer nodes.

    Attributes:
        form: in words.
        models: how many, by peer.
        reason: why it is not written; it is open where that begins with "Open".
    """

    form: str
    models: dict[str, int]
    reason: str

    def row(self) -> str:
        """The row of the page."""
        return (
            f"| {self.form} | {', '.join(f'{peer} {count}' for peer, count in self.models.items())}"
            f" | {self.reason} |\n"
        )


CAUSES: Final = (
    Cause(
        "ArgMax(Softmax(x)) → ArgMax(x), and the same for LogSoftmax, Exp, Log and Sqrt",
        {"onnxoptimizer": 54},
        "Ties and NaN: different numbers may be rounded to equal ones.",
    ),
    Cause(
        "com.microsoft.Attention, which computes queries, keys and values by one product",
        {"onnxsim": 8, "transformers": 1},
        "Written for at most 256 channels and 128 tokens. With 768 channels, it takes 0.97 to 1.03 "
        "times the time of Attention after three products for one sequence, and 1.06 to 1.17 for 4 "
        "to 16 sequences.",
    ),
    Cause(
        "Cast(x) + Cast(z) or Cast(x) @ Cast(z), casts to float16 → Cast(x + z), Cast(x @ z)",
        {"onnxruntime": 15},
        "The operation has another type, so results differ by roundings of 16 bits.",
    ),
    Cause(
        "SkipLayerNormalization, BiasGelu, FastGelu with a bias",
        {"onnxruntime": 11},
        "SkipLayerNormalization is written for CUDA only: without onnxruntime's own optimizations, "
        "a CPU takes 2.2 to 6.6 times the time for 16 to 1024 rows. The others are written since; "
        "these models are not counted again.",
    ),
    Cause(
        "Cast(MatMulInteger(a, b)) · (s · t) → MatMulIntegerToFloat for a vector t of unknown "
        "length",
        {"onnxruntime": 10},
        "b may have one column and t several factors: onnxruntime crashes then (a matrix of 3 by "
        "1, five factors).",
    ),
    Cause(
        "Softmax(x) along an axis of length 1 → ones",
        {"onnxsim": 5},
        "An infinity or NaN gives NaN.",
    ),
    Cause(
        "Einsum kept",
        {"onnxsim": 2},
        "MatMul with Reshape and Transpose takes 0.58 to 0.90 of the time (lab/payoff.md).",
    ),
    Cause(
        "FusedMatMul(Transpose(x), z) → FusedMatMul(x, z) where the sums may have no terms",
        {"onnxruntime": 1},
        "onnxruntime's FusedMatMul does not return zeros then.",
    ),
    Cause(
        "QLinearMul; Transpose of a quantized constant past DequantizeLinear with an axis",
        {"onnxruntime": 6},
        "Open.",
    ),
    Cause(
        "com.microsoft.Attention for a Softmax with a mask that is made of integers",
        {"transformers": 6},
        "It takes the mask for zeros and ones, and computes other numbers where it has others. "
        "Small layers become com.microsoft.Attention with the mask added to the scores.",
    ),
    Cause(
        "EmbedLayerNormalization",
        {"transformers": 4},
        "0.75 to 0.88 of the time for one token, but 1.04 to 2.07 for 16 to 1024 tokens.",
    ),
    Cause(
        "GroupQueryAttention without a cache",
        {"onnxsim": 3},
        "Open: measured 0.87 of the time for a tiny model.",
    ),
    Cause(
        "FusedMatMul with transposed batches, or with a factor that several products read",
        {"onnxruntime": 4},
        "Written since; these models are not counted again.",
    ),
    Cause("Gemm between Reshapes for MatMul and Add of three axes", {"onnxsim": 1}, "Open."),
    Cause("ScatterElements of whole rows → ScatterND", {"onnxsim": 1}, "Open."),
    Cause(
        "FusedConv with a Clip without bounds; FastGelu from nine nodes",
        {"onnxruntime": 1, "transformers": 1},
        "Open.",
    ),
)


def section() -> str:
    """The part of the page about these tests."""
    total = Suite(
        "all", *(sum(getattr(suite, name) for suite in SUITES) for name in Suite._fields[1:])
    )
    reasoned = sum(
        sum(cause.models.values()) for cause in CAUSES if not cause.reason.startswith("Open")
    )
    given = (total.after + reasoned) / total.models
    return (
        "\n"
        "## Models of other optimizers' tests\n"
        "\n"
        "Nodes that are left, next to the result of the optimizer in whose tests a model is\n"
        "(`python -m lab.reach.peers`). A model counts if onnxruntime runs it and the peer's "
        "result computes the same\n"
        f"numbers. Together with the forms that are left out for a reason, these are {given:.1%} "
        "of the models.\n"
        "\n"
        "| tests of | models | at most as many nodes, first | at most as many nodes, now | wrong "
        "results of the peer |\n"
        "|---|---|---|---|---|\n"
        + "".join(suite.row() for suite in (*SUITES, total))
        + "\n| fewer nodes in the peer's result | models | reason |\n|---|---|---|\n"
        + "".join(cause.row() for cause in CAUSES)
    )
