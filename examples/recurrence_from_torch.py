"""A recurrence over tokens, exported by torch as one call, and run by LinearAttention.

pip install 'xoptim[torch]'
python examples/recurrence_from_torch.py

Exporters unroll loops over tokens, or freeze their number. As an operator of your own domain, the
loop is one node for any number of tokens. A local function defines it in standard operators, and a
pattern replaces it where a runtime has a kernel.
"""

from typing import Any

import torch
from onnx import parser

import xoptim
from xoptim.doc import pretty_onnx
from xoptim.match import (
    EasyPatternOptimization,
    GraphBuilderPatternOptimization,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.verification import VerificationOptions, verify_models

FUNCTION = """
<domain: "demo", opset_import: ["": 20]>
GatedDeltaRule (q, k, v, g, beta, past) => (present, y) {
  present, y = Scan <num_scan_inputs = 5, scan_input_axes = [1, 1, 1, 1, 1], scan_output_axes = [1],
    body = step (float[b,h,m,n] state, float[b,h,m] qt, float[b,h,m] kt, float[b,h,n] vt,
                 float[b,h] gt, float[b,h] rate) => (float[b,h,m,n] next, float[b,h,n] yt) {
      two = Constant <value = int64[1] {2}> ()
      last = Constant <value = int64[1] {-1}> ()
      both = Constant <value = int64[2] {2, 3}> ()
      factor = Exp (gt)
      decay = Unsqueeze (factor, both)
      kept = Mul (state, decay)
      key = Unsqueeze (kt, last)
      matched = Mul (kept, key)
      recalled = ReduceSum <keepdims = 0> (matched, two)
      error = Sub (vt, recalled)
      rates = Unsqueeze (rate, last)
      change = Mul (error, rates)
      row = Unsqueeze (change, two)
      outer = Mul (key, row)
      next = Add (kept, outer)
      query = Unsqueeze (qt, last)
      read = Mul (next, query)
      yt = ReduceSum <keepdims = 0> (read, two)
    }> (past, q, k, v, g, beta)
}
"""
"""The loop in standard operators: one step for each token."""


class GatedDeltaRule(torch.nn.Module):  # type: ignore[misc]  # where torch is not installed
    """The recurrence of Qwen3-Next: (batch, tokens, heads, size), and a state for each head."""

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        g: torch.Tensor,
        beta: torch.Tensor,
        past: torch.Tensor,
    ) -> Any:
        """One node in an export, a loop elsewhere."""
        if torch.onnx.is_in_onnx_export():
            return torch.onnx.ops.symbolic_multi_out(
                "demo::GatedDeltaRule",
                (q, k, v, g, beta, past),
                dtypes=(past.dtype, v.dtype),
                shapes=(past.shape, v.shape),
                version=1,
            )
        results = []
        for t in range(q.shape[1]):
            past = past * g[:, t].exp()[..., None, None]
            key = k[:, t, :, :, None]
            change = (v[:, t] - (past * key).sum(-2)) * beta[:, t, :, None]
            past = past + key * change[:, :, None]
            results.append((past * q[:, t, :, :, None]).sum(-2))
        return past, torch.stack(results, 1)


class ToLinearAttention(EasyPatternOptimization):
    """demo.GatedDeltaRule(q, k, v, g, beta, past) → com.microsoft.LinearAttention(...).

    Refuses when:
    1. the number of heads is not known.
    """

    phase = "target"
    exactness = "rounding"
    produces = ("com.microsoft",)
    operand_ranks = {"past": 4}
    derives = ("heads",)

    def match_pattern(
        self, g: PatternBuilder, q: Symbol, k: Symbol, v: Symbol, d: Symbol, b: Symbol, past: Symbol
    ) -> Any:
        """The call of the function."""
        return g.op.GatedDeltaRule(q, k, v, d, b, past, domain="demo", outputs=2)

    def validate_mapping(self, g: GraphBuilderPatternOptimization, m: Match) -> bool | None:
        """Check that the state says how many heads there are."""
        heads = g.get_shape(m.past)[1]
        if isinstance(heads, int):
            return m.derive(heads=heads)
        return self.none(m.nodes[0], msg="the number of heads is unknown")  # (1)

    def apply_pattern(
        self, g: PatternRewriter, q: str, k: str, v: str, d: str, b: str, past: str, heads: int
    ) -> Any:
        """The operator has all heads of a token in one axis."""
        queries, keys, values = (g.op.Reshape(name, [0, 0, -1]) for name in (q, k, v))
        y, present = g.op.LinearAttention(
            *(queries, keys, values, past, d, b),
            domain="com.microsoft",
            outputs=2,
            q_num_heads=heads,
            kv_num_heads=heads,
            scale=1.0,
        )
        return present, g.op.Reshape(y, [0, 0, heads, -1])


def main() -> None:
    """Export for any number of tokens, then replace the call; the results are compared."""
    tokens = torch.export.Dim("tokens")
    shapes = [(1, 5, 4, 16), (1, 5, 4, 16), (1, 5, 4, 8), (1, 5, 4), (1, 5, 4), (1, 4, 16, 8)]
    program = torch.onnx.export(
        GatedDeltaRule(),
        tuple(torch.rand(shape) - 0.5 for shape in shapes),
        input_names=["q", "k", "v", "g", "beta", "past"],
        dynamic_shapes=({1: tokens},) * 5 + ({},),
        verbose=False,
    )
    assert program is not None
    model = program.model_proto
    model.functions.append(parser.parse_function(FUNCTION))
    fused = xoptim.optimize(model, patterns=[ToLinearAttention()])
    print(pretty_onnx(fused))
    print(verify_models(model, fused, VerificationOptions(dims={"tokens": 3})).summary())


if __name__ == "__main__":
    main()
