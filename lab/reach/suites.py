"""Results of xoptim on the models of other optimizers' tests, as `lab/reach/peers.py` counts
them.
"""

from typing import Final, NamedTuple


class Suite(NamedTuple):
    """The tests of one optimizer.

    Attributes:
        peer: name and version of the optimizer.
        models: number of models whose results by both optimizers have the same inputs and outputs,
            and compute the same numbers.
        before: number of these models for which xoptim had at most as many nodes as the peer, at
            the first count.
        after: the same number at the last count.
        wrong: number of further models for which the peer's result computes other numbers.
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
    """A rewrite with which a peer's result has fewer nodes.

    Attributes:
        form: description of the rewrite.
        models: number of models by peer.
        reason: why xoptim does not do it; a reason that begins with "Open" says that it might.
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
        "com.microsoft.Attention, which computes queries, keys and values by one MatMul",
        {"onnxsim": 8, "transformers": 1},
        "Written for at most 256 channels and 128 tokens. With 768 channels, it takes 0.97 to 1.03 "
        "times the time of Attention after three MatMuls for one sequence, and 1.06 to 1.17 for 4 "
        "to 16 sequences.",
    ),
    Cause(
        "Cast(x) + Cast(z) or Cast(x) @ Cast(z), casts to float16 → Cast(x + z), Cast(x @ z)",
        {"onnxruntime": 15},
        "The original computes in float16, the rewrite in float32: results differ by a rounding.",
    ),
    Cause(
        "SkipLayerNormalization, BiasGelu, FastGelu with a bias",
        {"onnxruntime": 11},
        "SkipLayerNormalization is written for CUDA only: with ORT graph optimizations disabled, a "
        "CPU takes 2.2 to 6.6 times the time for 16 to 1024 rows. xoptim writes the others now; "
        "these models were not counted again.",
    ),
    Cause(
        "Cast(MatMulInteger(a, b)) · (s · t) → MatMulIntegerToFloat for a vector t of unknown "
        "length",
        {"onnxruntime": 10},
        "If b has one column and t several elements, onnxruntime crashes (b of 3 by 1, t of 5).",
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
        "FusedMatMul(Transpose(x), z) → FusedMatMul(x, z) if the inner dimension may be 0",
        {"onnxruntime": 1},
        "For a sum over a dimension of size 0, onnxruntime's FusedMatMul does not return zeros.",
    ),
    Cause(
        "QLinearMul; Transpose of a quantized constant past DequantizeLinear with an axis",
        {"onnxruntime": 6},
        "Open.",
    ),
    Cause(
        "com.microsoft.Attention for a Softmax with a mask that is made of integers",
        {"transformers": 6},
        "The operator assumes that the mask has only zeros and ones, and computes other numbers "
        "for other integers. Small layers become com.microsoft.Attention with the mask added to "
        "the scores.",
    ),
    Cause(
        "EmbedLayerNormalization",
        {"transformers": 4},
        "Takes 0.75 to 0.88 of the time for one token, but 1.04 to 2.07 for 16 to 1024 tokens.",
    ),
    Cause(
        "GroupQueryAttention without a cache",
        {"onnxsim": 3},
        "Open: measured 0.87 of the time for a tiny model.",
    ),
    Cause(
        "FusedMatMul with transposed batches, or with a factor that several MatMuls read",
        {"onnxruntime": 4},
        "xoptim writes it now; these models were not counted again.",
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
    """The section of the page about the models of other optimizers' tests."""
    total = Suite(
        "all", *(sum(getattr(suite, name) for suite in SUITES) for name in Suite._fields[1:])
    )
    reasoned = sum(
        sum(cause.models.values()) for cause in CAUSES if not cause.reason.startswith("Open")
    )
    share = (total.after + reasoned) / total.models
    return (
        "\n"
        "## Models of other optimizers' tests\n"
        "\n"
        "Number of nodes, compared with the result of the optimizer whose tests contain the model\n"
        "(`python -m lab.reach.peers`). A model counts if onnxruntime runs it and the peer's "
        "result computes the same\n"
        "numbers. xoptim has at most as many nodes, or a reason below for more of them, for "
        f"{share:.1%} of the models.\n"
        "\n"
        "| tests of | models | at most as many nodes, first | at most as many nodes, now | wrong "
        "results of the peer |\n"
        "|---|---|---|---|---|\n"
        + "".join(suite.row() for suite in (*SUITES, total))
        + "\n| fewer nodes in the peer's result | models | reason |\n|---|---|---|\n"
        + "".join(cause.row() for cause in CAUSES)
    )
