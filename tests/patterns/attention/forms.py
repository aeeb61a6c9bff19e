"""The parts of an attention, as exporters write them: rows of ONNX text."""

from typing import Final

HEADS: Final = 4
SIZE: Final = 8

QUERIES: Final = {
    "plain": "q = Identity(q4)",
    "multiplied": "q = Mul(q4, scale)",
    "divided": "q = Div(q4, divisor)",
    "root": "q = Mul(q4, root)",
}
KEYS: Final = {
    "swapped": (
        "k4 = Transpose <perm = [0, 2, 1, 3]> (kr) kt = Transpose <perm = [0, 1, 3, 2]> (k4)"
    ),
    "moved": "kt = Transpose <perm = [0, 2, 3, 1]> (kr)",
    "merged batches": (
        "k4 = Transpose <perm = [0, 2, 1, 3]> (kr) ks = Shape <start = 2, end = 3> (k4) "
        "three = Concat <axis = 0> (minus_one, ks, size) "
        "four = Concat <axis = 0> (minus_one, heads, size, ks) k3 = Reshape(k4, three) "
        "kx = Transpose <perm = [0, 2, 1]> (k3) kt = Reshape(kx, four)"
    ),
}
SCORES: Final = {
    "plain": "scaled = Identity(scores)",
    "multiplied": "scaled = Mul(scores, scale)",
    "divided": "scaled = Div(scores, divisor)",
}
PADDING: Final = "padded = Unsqueeze(mask, middle)"
LENGTH: Final = "n = Shape <start = 1, end = 2> (x) length = Squeeze(n)"
CAUSAL: Final = (
    f"{LENGTH} places = Range(none, length, single) columns = Unsqueeze(places, first) "
    "rows = Unsqueeze(places, second) "
)
SQUARE: Final = f"{LENGTH} square = Concat <axis = 0> (n, n)"
LATER: Final = (
    f"{LENGTH} p = Shape <start = 2, end = 3> (past_key) start = Squeeze(p) "
    "total = Add(start, length) all_places = Range(none, total, single) "
    "columns = Unsqueeze(all_places, first) new_places = Range(start, total, single) "
    "rows = Unsqueeze(new_places, second) "
)
MASKS: Final = {
    "none": "masked = Identity(scaled)",
    "lowest times": (
        f"{PADDING} there = Cast <to = 1> (padded) gone = Sub(one, there) bias = Mul(gone, low) "
        "masked = Add(scaled, bias)"
    ),
    "lowest chosen": (
        f"{PADDING} there = Cast <to = 9> (padded) bias = Where(there, zero, low) "
        "masked = Add(bias, scaled)"
    ),
    "ten thousand": (
        f"{PADDING} there = Cast <to = 1> (padded) gone = Sub(one, there) bias = Mul(gone, large) "
        "masked = Add(scaled, bias)"
    ),
    "causal and padding": (
        f"{PADDING} there = Cast <to = 9> (padded) {CAUSAL} lower = LessOrEqual(columns, rows) "
        "both = And(lower, there) bias = Where(both, zero, low) masked = Add(scaled, bias)"
    ),
    "causal plus padding": (
        f"{PADDING} there = Cast <to = 9> (padded) {CAUSAL} lower = LessOrEqual(columns, rows) "
        "a = Where(lower, zero, low) c = Where(there, zero, low) bias = Add(a, c) "
        "masked = Add(scaled, bias)"
    ),
    "relative positions": (
        f"{CAUSAL} far = Sub(columns, rows) far_f = Cast <to = 1> (far) near = Abs(far_f) "
        "bias = Mul(near, slopes) masked = Add(scaled, bias)"
    ),
}
"""Masks that `Attention` accepts, for keys and values without earlier ones."""

MORE_MASKS: Final = {
    "padding filled": (
        f"{PADDING} gone = Equal(padded, none) bias = Where(gone, low, zero) "
        "masked = Add(scaled, bias)"
    ),
    "Less": (
        f"{CAUSAL} next = Add(rows, single) seen = Less(columns, next) "
        "bias = Where(seen, zero, low) masked = Add(scaled, bias)"
    ),
    "Greater": (
        f"{CAUSAL} unseen = Greater(columns, rows) bias = Where(unseen, low, zero) "
        "masked = Add(scaled, bias)"
    ),
    "lower Trilu": (
        f"{SQUARE} ones = Expand(one, square) lower = Trilu <upper = 0> (ones) "
        "seen = Cast <to = 9> (lower) bias = Where(seen, zero, low) masked = Add(scaled, bias)"
    ),
    "upper Trilu": (
        f"{SQUARE} lows = Expand(low, square) bias = Trilu <upper = 1> (lows, single) "
        "masked = Add(scaled, bias)"
    ),
    "window": (
        f"{CAUSAL} lower = LessOrEqual(columns, rows) left = Sub(rows, window) "
        "near = Greater(columns, left) both = And(lower, near) bias = Where(both, zero, low) "
        "masked = Add(scaled, bias)"
    ),
    "buckets of distances": (
        f"{PADDING} there = Cast <to = 1> (padded) gone = Sub(one, there) "
        f"hidden = Mul(gone, low) {CAUSAL} far = Sub(columns, rows) near = Max(far, lowest_bucket) "
        "capped = Min(near, highest_bucket) bucket = Add(capped, highest_bucket) "
        "biases = Gather <axis = 0> (buckets, bucket) "
        "moved = Transpose <perm = [2, 0, 1]> (biases) relative = Unsqueeze(moved, first) "
        "bias = Add(relative, hidden) masked = Add(scaled, bias)"
    ),
    "buckets of distances, then padding": (
        f"{PADDING} there = Cast <to = 9> (padded) hidden = Where(there, zero, low) {CAUSAL} "
        "far = Sub(columns, rows) near = Max(far, lowest_bucket) "
        "capped = Min(near, highest_bucket) bucket = Add(capped, highest_bucket) "
        "biases = Gather <axis = 0> (buckets, bucket) "
        "moved = Transpose <perm = [2, 0, 1]> (biases) relative = Unsqueeze(moved, first) "
        "placed = Add(scaled, relative) masked = Add(placed, hidden)"
    ),
    "causal and padding, later": (
        f"{PADDING} there = Cast <to = 9> (padded) {LATER} lower = LessOrEqual(columns, rows) "
        "both = And(lower, there) bias = Where(both, zero, low) masked = Add(scaled, bias)"
    ),
    "causal, later": (
        f"{LATER} lower = LessOrEqual(columns, rows) bias = Where(lower, zero, low) "
        "masked = Add(scaled, bias)"
    ),
}
"""More of them; the last ones where keys and values of earlier calls come first."""

INFINITE: Final = {
    "infinite causal": (
        f"{CAUSAL} lower = LessOrEqual(columns, rows) bias = Where(lower, zero, infinite) "
        "masked = Add(scaled, bias)"
    ),
    "infinite Trilu": (
        f"{SQUARE} ones = Expand(one, square) lower = Trilu <upper = 0> (ones) "
        "unseen = Equal(lower, zero) bias = Where(unseen, infinite, zero) "
        "masked = Add(scaled, bias)"
    ),
    "infinite padding": (
        f"{PADDING} there = Cast <to = 9> (padded) bias = Where(there, zero, infinite) "
        "masked = Add(scaled, bias)"
    ),
}
"""Masks of -infinity; a row that the last one hides as a whole is NaN."""

GIVEN: Final = {
    "given": "masked = Add(scaled, hiding)",
    "given, for each head": "masked = Add(scaled, heads_hiding)",
    "given Booleans": "bias = Where(seen_keys, zero, infinite) masked = Add(scaled, bias)",
    "given Booleans, lowest": "bias = Where(seen_keys, zero, low) masked = Add(scaled, bias)",
}
"""Masks that the caller gives, of numbers or of Booleans."""

GUARD: Final = "odd = IsNaN(unguarded) weights = Where(odd, zero, unguarded)"
FINITE_MASKS: Final = {
    "scores replaced": (
        f"{PADDING} there = Cast <to = 9> (padded) masked = Where(there, scaled, low)"
    ),
    "scores filled": (
        f"{PADDING} there = Cast <to = 9> (padded) not_there = Not(there) "
        "masked = Where(not_there, low, scaled)"
    ),
    "scores replaced and masked": (
        f"{PADDING} there = Cast <to = 9> (padded) {CAUSAL} lower = LessOrEqual(columns, rows) "
        "kept = Where(lower, scaled, low) bias = Where(there, zero, low) masked = Add(kept, bias)"
    ),
}
"""Masks that `MaskedAttention` accepts."""

STORED: Final = {
    "scores replaced by a stored mask": (
        f"{PADDING} there = Cast <to = 9> (padded) n = Shape <start = 1, end = 2> (x) "
        "stored_rows = Slice(stored_lower, first, n, third) "
        "lower = Slice(stored_rows, first, n, fourth) kept = Where(lower, scaled, low) "
        "bias = Where(there, zero, low) masked = Add(kept, bias)"
    ),
}
"""A mask that is cut out of a larger one: its length is the smaller one of two."""

GUARDED: Final = {
    "guarded": INFINITE["infinite padding"],
    "guarded causal": INFINITE["infinite causal"],
}
"""Masks of attentions with a guard against NaN."""

LATER_GUARDED: Final = {"guarded, later": MORE_MASKS["causal and padding, later"]}
"""The same where keys and values of earlier calls come first."""

MORE_SCORES: Final = {
    "capped": (
        "small = Mul(scores, scale) part = Div(small, cap) bent = Tanh(part) "
        "scaled = Mul(bent, cap)"
    ),
    "between casts": "whole_scores = Cast <to = 1> (scores) scaled = Mul(whole_scores, scale)",
}

ROTARY_WIDTH: Final = {"halves": SIZE, "strides": SIZE, "partial": SIZE // 2, "stored": SIZE}
"""Elements of a head that a rotary embedding turns."""
POSITIONS: Final = {
    "given": "row = Identity(positions)",
    "range": (
        "r_n = Shape <start = 1, end = 2> (x) r_length = Squeeze(r_n) "
        "r_places = Range(none, r_length, single) row = Unsqueeze(r_places, first)"
    ),
    "later": (
        "r_n = Shape <start = 1, end = 2> (x) r_length = Squeeze(r_n) "
        "r_p = Shape <start = 2, end = 3> (past_key) r_start = Squeeze(r_p) "
        "r_total = Add(r_start, r_length) r_places = Range(r_start, r_total, single) "
        "row = Unsqueeze(r_places, first)"
    ),
}
FREQUENCIES: Final = (
    "row_1 = Cast <to = 1> (row) rows_1 = Unsqueeze(row_1, third) angles = Mul(rows_1, frequencies)"
)
COSINES: Final = {
    "halves": (
        f"{FREQUENCIES} twice = Concat <axis = -1> (angles, angles) cos_3 = Cos(twice) "
        "sin_3 = Sin(twice)"
    ),
    "strides": (
        f"{FREQUENCIES} angles_4 = Unsqueeze(angles, fourth) "
        "pairs = Concat <axis = -1> (angles_4, angles_4) twice = Reshape(pairs, doubled) "
        "cos_3 = Cos(twice) sin_3 = Sin(twice)"
    ),
    "stored": "cos_3 = Gather(cosines, row) sin_3 = Gather(sines, row)",
}
COSINES["partial"] = COSINES["halves"]
"""Cosines and sines, (batch or 1, positions, elements)."""
HALVES: Final = (
    "{0}_f = Slice({1}, first, half, fourth) {0}_s = Slice({1}, half, end, "
    "fourth) {0}_m = Neg({0}_s) {0}_t = Concat <axis = -1> ({0}_m, {0}_f)"
)
STRIDES: Final = (
    "{0}_f = Slice({1}, first, end, fourth, new) {0}_s = Slice({1}, second, end, fourth, "
    "new) {0}_m = Neg({0}_s) {0}_m5 = Unsqueeze({0}_m, fifth) {0}_f5 = Unsqueeze({0}_f, "
    "fifth) {0}_p = Concat <axis = -1> ({0}_m5, {0}_f5) {0}_t = Reshape({0}_p, paired)"
)
ROTATED: Final = "{0}_c = Mul({1}, cos_4) {0}_i = Mul({0}_t, sin_4) {0} = Add({0}_c, {0}_i)"
