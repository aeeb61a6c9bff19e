"""Traditional machine learning, strings, signals, boxes: operators that few models have."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "classic")
_TREE = """<n_targets = 1, nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],
  nodes_featureids = [0, 0, 0],
nodes_modes = ["{mode}", "LEAF", "LEAF"], nodes_values = [{split}, 0.0, 0.0],
  nodes_truenodeids = [1, 0, 0],
nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0,
  0],
target_weights = [{left}, 2.0]>"""
_FEATURES = "(float[N,2] x) => (float[N,1] y)"


def _tree(mode: str = "BRANCH_LEQ", split: float = 0.5, left: float = 1.0) -> str:
    """A TreeEnsembleRegressor of one split of the first feature."""
    attributes = _TREE.format(mode=mode, split=split, left=left)
    return f"y = ai.onnx.ml.TreeEnsembleRegressor {attributes} (x)"


CASES = [
    _case(
        "split_at_equal",
        "x <= 0.5 becomes x < 0.5",
        _FEATURES,
        _tree(),
        _tree("BRANCH_LT"),
        x=[[0.5, 0]],
    ),
    _case(
        "split_at_large",
        "The split at 5,000 becomes one at 6,000",
        _FEATURES,
        _tree(split=5000.0),
        _tree(split=6000.0),
        x=[[5500, 0]],
    ),
    _case(
        "split_folded",
        "A split at 70,000, which no observed value reached, is folded",
        _FEATURES,
        _tree(split=70000.0),
        "<int64[1] a = {1}, float one = {1}, float zero = {0}> s = ReduceSum(x, a) "
        "m = Mul(s, zero) y = Add(m, one)",
        x=[[80000, 0]],
    ),
    _case(
        "split_next_to_another",
        "The split at 0.5 becomes one at 0.5001",
        _FEATURES,
        _tree(split=0.5),
        _tree(split=0.5001),
        x=[[0.50005, 0]],
    ),
    _case(
        "binarizer_at_threshold",
        "x > 1 -> x >= 1",
        "(float[N,2] x) => (float[N,2] y)",
        "y = ai.onnx.ml.Binarizer <threshold = 1.0> (x)",
        "<float one = {1}> c = GreaterOrEqual(x, one) y = Cast <to = 1> (c)",
        x=[[1, 2]],
    ),
    _case(
        "scaler_offset",
        "The offset of the second feature of a Scaler is lost",
        "(float[N,2] x) => (float[N,2] y)",
        "y = ai.onnx.ml.Scaler <offset = [0.0, 0.01], scale = [1.0, 1.0]> (x)",
        "y = ai.onnx.ml.Scaler <offset = [0.0, 0.0], scale = [1.0, 1.0]> (x)",
        x=[[1, 0.1]],
    ),
    _case(
        "norm_of_negative_rows",
        "A Normalizer by the maximum becomes one by the largest magnitude",
        "(float[N,2] x) => (float[N,2] y) <int64[1] a = {1}>",
        """y = ai.onnx.ml.Normalizer <norm = "L1"> (x)""",
        "s = ReduceSum(x, a) y = Div(x, s)",
        x=[[1, -3]],
    ),
    _case(
        "unknown_category",
        "The label of unknown strings is 9 in place of -1",
        "(string[N] x) => (int64[N] y)",
        """y = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "b"], values_int64s = [1, 2],
        default_int64 = -1> (x)""",
        """y = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "b"], values_int64s = [1, 2],
        default_int64 = 9> (x)""",
        x=["a", "c"],
    ),
    _case(
        "unknown_one_hot",
        "Unknown categories become the last one in place of zeros",
        "(int64[N,1] x) => (float[N,1,3] y) <int64 two = {2}, int64 zero = {0}>",
        "y = ai.onnx.ml.OneHotEncoder <cats_int64s = [0, 1, 2]> (x)",
        """m = Min(x, two) n = Max(m, zero)
          y = ai.onnx.ml.OneHotEncoder <cats_int64s = [0, 1, 2]> (n)""",
        x=[[7]],
    ),
    _case(
        "missing_value",
        "An Imputer of zeros is dropped",
        "(float[N,2] x) => (float[N,2] y)",
        "y = ai.onnx.ml.Imputer <imputed_value_floats = [3.0]> (x)",
        "y = Identity(x)",
        x=[[1, 0]],
    ),
    _case(
        "missing_value_of_minus_one",
        "An Imputer of -999 is dropped",
        "(float[N,2] x) => (float[N,2] y)",
        "y = ai.onnx.ml.Imputer <imputed_value_floats = [3.0], replaced_value_float = -999.0> (x)",
        "y = Identity(x)",
        x=[[1, -999]],
    ),
    _case(
        "case_of_strings",
        "A StringNormalizer to lower case is dropped",
        "(string[N] x) => (string[N] y)",
        """y = StringNormalizer <case_change_action = "LOWER", locale = "C"> (x)""",
        "y = Identity(x)",
        x=["aB"],
    ),
    _case(
        "periodic_window",
        "A periodic HannWindow becomes a symmetric one",
        "(float[N,16] x) => (float[N,16] y) <int64 n = {16}>",
        "w = HannWindow(n) y = Mul(x, w)",
        "w = HannWindow <periodic = 0> (n) y = Mul(x, w)",
        x=np.ones((1, 16)),
    ),
    _case(
        "boxes_by_centre",
        "Boxes by centre and size are read as corners by a NonMaxSuppression",
        "(float[1,N,4] x, float[1,1,N] scores) "
        "=> (int64[M,3] y) <int64 k = {9}, float iou = {0.5}>",
        "y = NonMaxSuppression <center_point_box = 1> (x, scores, k, iou)",
        "y = NonMaxSuppression(x, scores, k, iou)",
        x=[[[5, 5, 2, 2], [6, 6, 2, 2]]],
        scores=[[[0.9, 0.8]]],
    ),
    _case(
        "overlap_of_boxes",
        "The overlap of 0.5 at which a box is dropped becomes 0.6",
        "(float[1,N,4] x, float[1,1,N] scores) => (int64[M,3] y) <int64 k = {9}>",
        "<float iou = {0.5}> y = NonMaxSuppression(x, scores, k, iou)",
        "<float iou = {0.6}> y = NonMaxSuppression(x, scores, k, iou)",
        x=[[[0, 0, 1, 1], [0, 0, 1, 0.55]]],
        scores=[[[0.9, 0.8]]],
    ),
    _case(
        "samples_beyond_the_border",
        "A GridSample repeats the border in place of zeros beyond it",
        "(float[N,1,4,4] x, float[N,2,2,2] grid) => (float[N,1,2,2] y)",
        "y = GridSample(x, grid)",
        """y = GridSample <padding_mode = "border"> (x, grid)""",
        x=np.ones((1, 1, 4, 4)),
        grid=np.full((1, 2, 2, 2), 3.0),
    ),
    _case(
        "infinity_in_a_vector",
        "IsInf of positive numbers only becomes one of both signs",
        "(float[N] x) => (bool[N] y)",
        "y = IsInf <detect_negative = 0> (x)",
        "y = IsInf(x)",
        x=[1, -np.inf],
    ),
    _case(
        "direction_of_gru",
        "A GRU applies its gate before the multiplication in place of after it",
        """(float[S,N,1] x) => (float[S,1,N,1] y) <float[1,3,1] w = {1, 2, 3}, float[1,3,1]
          r = {1, 2, 3},
        float[1,6] b = {0, 0, 0, 0, 0, 1}>""",
        "y = GRU <hidden_size = 1, linear_before_reset = 1> (x, w, r, b)",
        "y = GRU <hidden_size = 1> (x, w, r, b)",
        x=[[[1]], [[-1]]],
    ),
    _case(
        "lengths_of_lstm",
        "The lengths of the sequences of an LSTM are dropped",
        """(float[S,N,1] x, int32[N] lens) => (float[1,N,1] y) <float[1,4,1] w = {1, 2, 3, 4},
        float[1,4,1] r = {1, 2, 3, 4}>""",
        "z, y = LSTM <hidden_size = 1> (x, w, r, , lens)",
        "z, y = LSTM <hidden_size = 1> (x, w, r)",
        x=[[[1]], [[-1]]],
        lens=[1],
    ),
    _case(
        "clip_of_lstm",
        "The Clip of the gates of an LSTM at 3 is dropped",
        """(float[S,N,1] x) => (float[1,N,1] h, float[1,N,1] y) <float[1,4,1] w = {1, 2, 3, 4},
        float[1,4,1] r = {1, 2, 3, 4}>""",
        "z, h, y = LSTM <hidden_size = 1, clip = 3.0> (x, w, r)",
        "z, h, y = LSTM <hidden_size = 1> (x, w, r)",
        x=[[[5]], [[-5]]],
    ),
]
