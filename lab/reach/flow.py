"""Rewrites of branches, loops and recurrent layers."""

from lab.reach.rows import Refused, Row, Theme

_ROUND = "round (int64 i, bool d, float[a] s) => (bool e, float[a] t)"

THEME = Theme(
    "Branches, loops and recurrent layers",
    rows=(
        Row(
            "If of a constant condition → the branch",
            "agraph (float[a] x) => (float[a] y) <bool c = {1}> { "
            "y = If(c) < then_branch = yes () "
            "=> (float[a] p) { p = Relu(x) }, else_branch = no () => (float[a] q) { "
            "q = Neg(x) }> }",
            "Relu",
            ("IfConstant",),
        ),
        Row(
            "If(rank(x) = 4) of a known rank → the branch",
            "agraph (float[a,b,c,d] x) => (float[a,b,c,d] y) <int64[1] k = {4}> { s = Shape(x) "
            "n = Shape(s) e = Equal(n, k) y = If(e) < then_branch = yes () "
            "=> (float[a,b,c,d] p) { p = Relu(x) }, else_branch = no () => (float[] q) { "
            "q = Neg(x) }> }",
            "Relu",
            ("IfConstant",),
        ),
        Row(
            "If of equal branches → the branch",
            "agraph (float[a] x, bool c) => (float[a] y) { "
            "y = If(c) < then_branch = yes () "
            "=> (float[a] p) { t = Exp(x) p = Relu(t) }, else_branch = no () => (float[a] q) { "
            "t = Exp(x) q = Relu(t) }> }",
            "Exp Relu",
            ("IfCommon",),
        ),
        Row(
            "If of branches that both begin with f(x) → f(x) before the If",
            "agraph (float[a] x, bool c) => (float[a] y) { "
            "y = If(c) < then_branch = yes () "
            "=> (float[a] p) { t = Exp(x) p = Relu(t) }, else_branch = no () => (float[a] q) { "
            "t = Exp(x) q = Sin(t) }> }",
            "Exp If",
            ("IfCommon",),
        ),
        Row(
            "Loop of s · f(x) → f(x) before the Loop",
            "agraph (float[a] x, float[a] z) => (float[a] y) <int64 n = {9}> { "
            f"y = Loop(n, , x) < body = {_ROUND} {{ e = Identity(d) m = Exp(z) t = Mul(s, "
            "m) }> }",
            "Exp Loop",
            ("LoopInvariant",),
        ),
        Row(
            "Scan of s + f(x) → f(x) before the Scan",
            "agraph (float[2,a] x, float[a] z) => (float[2,a] y) { "
            "y = Scan <num_scan_inputs = 1, body = step (float[a] s) "
            "=> (float[a] t) { m = Exp(z) t = Add(s, m) }> (x) }",
            "Exp Scan",
            ("LoopInvariant",),
        ),
        Row(
            "a state that the body returns as it is → its initial value",
            "agraph (float[a] x, float[a] z, int64 n) => (float[a] y) { "
            "p, q = Loop(n, , x, z) < body = round (int64 i, bool d, float[a] s, float[a] u) "
            "=> (bool e, float[a] t, float[a] v) { e = Identity(d) t = Mul(s, u) "
            "v = Identity(u) }> y = Sub(p, q) }",
            "Loop Sub",
            ("LoopState",),
        ),
        Row(
            "a state that nothing reads → none",
            "agraph (float[a] x, float[a] z, int64 n) => (float[a] y) { "
            "y, q = Loop(n, , x, z) < body = round (int64 i, bool d, float[a] s, float[a] u) "
            "=> (bool e, float[a] t, float[a] v) { e = Identity(d) t = Sin(s) v = Cos(u) }> }",
            "Loop",
            ("LoopState",),
        ),
        Row(
            "Loop that does not run → its initial values",
            "agraph (float[a] x) => (float[a] y) <int64 n = {0}> { "
            f"z = Loop(n, , x) < body = {_ROUND} {{ e = Identity(d) t = Sin(s) }}> y = Neg(z) }}",
            "Neg",
            ("LoopNever",),
        ),
        Row(
            "Loop of one round → the body",
            "agraph (float[a] x) => (float[a] y) <int64 n = {1}> { "
            f"y = Loop(n, , x) < body = {_ROUND} {{ e = Identity(d) t = Sin(s) }}> }}",
            "Sin",
            ("LoopOnce",),
        ),
        Row(
            "Loop of a few rounds that is shorter written out",
            "agraph (float[a] x) => (float[a] y) <int64 n = {3}> { "
            f"y = Loop(n, , x) < body = {_ROUND} {{ e = Identity(d) f = Cast <to = 1> (i) g = "
            "Exp(f) t = Mod <fmod = 1> (s, g) }> }",
            "Mod Mod Mod",
            ("LoopUnroll",),
        ),
        Row(
            "Scan of one step → the body",
            "agraph (float[a] x, float[1,a] z) => (float[a] y) { "
            "y = Scan <num_scan_inputs = 1, body = step (float[a] s, float[a] u) "
            "=> (float[a] t) { t = Mod <fmod = 1> (s, u) }> (x, z) }",
            "Mod Squeeze",
            ("ScanOnce",),
        ),
        Row(
            "LSTM, GRU and RNN whose initial state is computed as zeros → without an initial state",
            "agraph (float[s,b,3] x, float[1,6,3] w, float[1,6,2] r) "
            "=> (float[s,1,b,2] y) <int64[1] one = {1}, int64[1] o = {0}, float[1,1,2] z = {0, "
            "0}> { n = Shape <start = 1, end = 2> (x) t = Concat <axis = 0> (n, one, one) "
            "u = Tile(z, t) v = Transpose <perm = [1, 0, 2]> (u) h = Slice(v, o, one, o) "
            "y = GRU <hidden_size = 2> (x, w, r, , , h) }",
            "GRU",
            ("RecurrentZeroState",),
        ),
        Row(
            "Loop of one step of LSTM, GRU or RNN → the operator for all steps",
            "agraph (float[b,s,3] x, float[b,2] h, float[1,6,3] w, float[1,6,2] r) => (float[b,2] "
            "y) <bool go = {1}, int64 one = {1}, int64[1] z = {0}> { d = Shape(x) "
            "n = Gather(d, one) y = Loop(n, go, h) <body = step (int64 i, bool c, float[b,2] s) "
            "=> (bool e, float[b,2] t) { e = Identity(c) p = Gather <axis = 1> (x, i) "
            "q = Unsqueeze(p, z) u = Unsqueeze(s, z) a, v = GRU <hidden_size = 2> (q, w, r, , , u) "
            "t = Squeeze(v, z) }> }",
            "GRU Squeeze Transpose Unsqueeze",
            ("LoopRecurrent",),
        ),
    ),
    refused=(
        Refused(
            "LSTM(Transpose(If(the axis is 1, Squeeze(x), x))) → LSTM(Transpose(Squeeze(x)))",
            "Right only because the LSTM refuses x of another rank. The rewritten If alone "
            "computes something else, so the check of a rewrite fails unless the LSTM is part of "
            "it.",
        ),
        Refused(
            "Loop of a few rounds → the rounds, where that is longer",
            "More nodes. Takes 0.65 of the time, but the model grows with the number of rounds.",
        ),
        Refused(
            "f(x) out of a Loop that may not run",
            "Done only for shape arithmetic and small tensors (LoopInvariant): if the Loop does "
            "not run, the operator might raise an error that the original does not raise, or take "
            "time for nothing.",
        ),
        Refused(
            "a forward and a backward LSTM, GRU or RNN of one input → a bidirectional one",
            "Open: takes 0.90 to 0.96 of the time, and 1.02 to 1.12 for an LSTM with a hidden size "
            "of 128.",
        ),
        Refused(
            "X·W of all steps of a recurrent layer before the loop",
            "The operators LSTM, GRU and RNN do this inside, and LoopRecurrent, LoopLSTM and "
            "UnrolledLSTM write them. Before a Loop of an LSTM cell, it takes 0.72 to 1.10 of the "
            "time.",
        ),
        Refused(
            "ReverseSequence of full lengths → Slice by a step of -1",
            "Takes 0.97 to 1.10 of the time.",
        ),
        Refused(
            "cells of LSTM and GRU, written out or in a Loop → the operator, if inputs may be NaN",
            "The kernels of onnxruntime clip NaN to a number: `--assume finite` allows it.",
        ),
        Refused(
            "a call of a local function that blocks a rewrite → the nodes of the function",
            "Functions are kept, as an author or `--outline` chose them, and optimized "
            "separately. The summary lists the rewrites that `--inline` would allow. onnxruntime "
            "inlines functions before it optimizes.",
        ),
        Refused(
            "If(c, x, z) → Where(c, x, z)", "Where copies its result, and both branches would run."
        ),
    ),
)
