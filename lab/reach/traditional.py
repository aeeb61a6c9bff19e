"""Rewrites of models that converters of scikit-learn, LightGBM and XGBoost write."""

from lab.reach.rows import Refused, Row, Theme

_SCALER = "ai.onnx.ml.Scaler <offset = [1.0, 0.5], scale = [1.0, 2.0]> (x)"
_TREE = (
    "ai.onnx.ml.TreeEnsembleRegressor <nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],"
    " nodes_featureids = [1, 0, 0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0],"
    ' nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], target_treeids = [0, 0], target_nodeids = [1,'
    " 2], target_ids = [0, 0], target_weights = [3.0, 4.0], n_targets = 1, nodes_values = [0.5,"
    " 0.0, 0.0]>"
)

THEME = Theme(
    "Models of scikit-learn",
    rows=(
        Row(
            "LinearRegressor(Scaler(x)) → LinearRegressor(x)",
            f"agraph (float[a,2] x) => (float[a,1] y) {{ t = {_SCALER} "
            "y = ai.onnx.ml.LinearRegressor <coefficients = [3.0, -1.0], intercepts = [0.5]> (t) }",
            "LinearRegressor",
            ("ScalerLinear",),
        ),
        Row(
            "LinearClassifier(Scaler(x)) → LinearClassifier(x)",
            f"agraph (float[a,2] x) => (float[a,2] y) {{ t = {_SCALER} "
            "l, y = ai.onnx.ml.LinearClassifier <coefficients = [3.0, -1.0, 2.0, 0.5], "
            "intercepts = [0.5, 1.0], classlabels_ints = [4, 5]> (t) }",
            "LinearClassifier",
            ("ScalerLinear",),
        ),
        Row(
            "Gemm(Scaler(x), w, b) → Gemm(x, w, b)",
            "agraph (float[a,2] x) => (float[a,2] y) <float[2,2] w = {3, 1, -1, 2}> { "
            f"t = {_SCALER} y = Gemm(t, w) }}",
            "Gemm",
            ("ScalerGemm",),
        ),
        Row(
            "TreeEnsembleRegressor(Scaler(x)) → TreeEnsembleRegressor(x)",
            f"agraph (float[a,2] x) => (float[a,1] y) {{ t = {_SCALER} y = {_TREE} (t) }}",
            "TreeEnsembleRegressor",
            ("ScalerTreeEnsemble",),
        ),
        Row(
            "TreeEnsembleRegressor(x) · c → TreeEnsembleRegressor(x)",
            f"agraph (float[a,2] x) => (float[a,1] y) <float c = {{0.5}}> {{ t = {_TREE} (x) "
            "y = Mul(t, c) }",
            "TreeEnsembleRegressor",
            ("RegressorMul",),
        ),
        Row(
            "LinearRegressor([Scaler(x), z + c]) → LinearRegressor([x, z])",
            "agraph (float[a,2] x, float[a,1] z) => (float[a,1] y) <float c = {2}> { "
            f"t = {_SCALER} u = Add(z, c) v = Concat <axis = 1> (t, u) "
            "y = ai.onnx.ml.LinearRegressor <coefficients = [3.0, -1.0, 2.0], "
            "intercepts = [0.5]> (v) }",
            "Concat LinearRegressor",
            ("ScalerLinear",),
        ),
        Row(
            "TreeEnsembleRegressor(x · s + o) → TreeEnsembleRegressor(x)",
            "agraph (float[a,2] x) => (float[a,1] y) <float[2] s = {2, 3}, float[2] o = {1, "
            f"-1}}> {{ t = Mul(x, s) u = Add(t, o) y = {_TREE} (u) }}",
            "TreeEnsembleRegressor",
            ("ScalerTreeEnsemble",),
        ),
        Row(
            "TreeEnsembleRegressor(Imputer(x)) → TreeEnsembleRegressor(x)",
            "agraph (float[a,2] x) => (float[a,1] y) { "
            "t = ai.onnx.ml.Imputer <imputed_value_floats = [1.0, 0.25], "
            f"replaced_value_float = nan> (x) y = {_TREE} (t) }}",
            "TreeEnsembleRegressor",
            ("ImputerTreeEnsemble",),
        ),
        Row(
            "TreeEnsembleRegressor(ArrayFeatureExtractor(x, i)) → TreeEnsembleRegressor(x)",
            "agraph (float[a,4] x) => (float[a,1] y) <int64[2] i = {3, 1}> { "
            f"t = ai.onnx.ml.ArrayFeatureExtractor(x, i) y = {_TREE} (t) }}",
            "TreeEnsembleRegressor",
            ("ExtractorTreeEnsemble",),
        ),
        Row(
            "TreeEnsembleRegressor([Scaler(columns i of x), Scaler(columns j of x)]) → "
            "TreeEnsembleRegressor(x)",
            "agraph (float[a,4] x) => (float[a,1] y) <int64[2] i = {0, 1}, int64[2] j = {2, 3}> { "
            "p = ai.onnx.ml.ArrayFeatureExtractor(x, i) "
            "q = ai.onnx.ml.ArrayFeatureExtractor(x, j) "
            "s = ai.onnx.ml.Scaler <offset = [1.0, 0.5], scale = [1.0, 2.0]> (p) "
            "t = ai.onnx.ml.Scaler <offset = [2.0, 1.5], scale = [3.0, 0.5]> (q) "
            f"u = Concat <axis = 1> (s, t) y = {_TREE} (u) }}",
            "TreeEnsembleRegressor",
            ("ScalerTreeEnsemble", "ExtractorsConcat", "IdentityExtractor"),
        ),
        Row(
            "ArrayFeatureExtractor(ArrayFeatureExtractor(x, i), j) → ArrayFeatureExtractor(x, "
            "i[j])",
            "agraph (float[a,4] x) => (float[a,2] y) <int64[3] i = {3, 1, 0}, int64[2] j = {2, "
            "0}> { p = ai.onnx.ml.ArrayFeatureExtractor(x, i) "
            "y = ai.onnx.ml.ArrayFeatureExtractor(p, j) }",
            "ArrayFeatureExtractor",
            ("ExtractorExtractor",),
        ),
        Row(
            "TreeEnsembleRegressor(x) / c → TreeEnsembleRegressor(x)",
            f"agraph (float[a,2] x) => (float[a,1] y) <float c = {{4}}> {{ t = {_TREE} (x) "
            "y = Div(t, c) }",
            "TreeEnsembleRegressor",
            ("RegressorMul",),
        ),
        Row(
            "TreeEnsembleRegressor(x) + c → TreeEnsembleRegressor(x)",
            f"agraph (float[a,2] x) => (float[a,1] y) <float c = {{4}}> {{ t = {_TREE} (x) "
            "y = Add(t, c) }",
            "TreeEnsembleRegressor",
            ("RegressorAdd",),
        ),
        Row(
            "TreeEnsembleRegressor(x) + TreeEnsembleRegressor(x) → TreeEnsembleRegressor(x)",
            f"agraph (float[a,2] x, float[a,1] z) => (float[a,1] y) {{ t = {_TREE} (x) "
            f"u = {_TREE.replace('0.5', '0.75')} (x) y = Sum(t, z, u) }}",
            "Add TreeEnsembleRegressor",
            ("TreeEnsemblesSum",),
        ),
        Row(
            "The mean of a stack of TreeEnsembleRegressors, as bagging writes it → "
            "TreeEnsembleRegressor(x)",
            "agraph (float[a,2] x) => (float[a,1] y) <int64[3] s = {1, -1, 1}, "
            f"int64[1] k = {{0}}> {{ t = {_TREE} (x) u = {_TREE.replace('0.5', '0.75')} (x) "
            "p = Reshape(t, s) q = Reshape(u, s) c = Concat <axis = 0> (p, q) "
            "y = ReduceMean <keepdims = 0> (c, k) }",
            "TreeEnsembleRegressor",
            ("StackReduce", "TreeEnsemblesSum"),
        ),
        Row(
            "ZipMap that nothing reads → none",
            "agraph (float[a,2] x) => (float[a,2] y) { y = Relu(x) "
            "z = ai.onnx.ml.ZipMap <classlabels_int64s = [4, 5]> (y) }",
            "Relu",
            (),
        ),
    ),
    refused=(
        Refused(
            "ArrayFeatureExtractor(x, constant) → Gather(x) or Split(x)",
            "Measured 1.0 (one row) to 33 times the time for Gather: it copies single elements "
            "along the last axis.",
        ),
        Refused(
            "[TreeEnsembleRegressor(x), TreeEnsembleRegressor(x)] → TreeEnsembleRegressor(x) of "
            "two targets",
            "Measured 1.05 to 1.38 times the time for 1,000 rows, 0.63 to 1.02 for one row: "
            "onnxruntime is faster with one target.",
        ),
        Refused(
            "LabelEncoder(LabelEncoder(x)) → LabelEncoder(x)",
            "Open: not found in 90 pipelines of converters; onnx 1.23 crashes when it infers a "
            "LabelEncoder without keys.",
        ),
        Refused(
            "LinearClassifier(Imputer(x)), LinearClassifier(Normalizer(x)) → LinearClassifier(x)",
            "Neither is linear: Imputer replaces single elements, Normalizer divides each row by "
            "its norm. Tree ensembles absorb an Imputer.",
        ),
        Refused(
            "Scan(Sub, ReduceSumSquare), the distances of skl2onnx's nearest neighbours and "
            "Gaussian processes → CDist",
            "Measured 0.12 to 0.14 of the time (100 rows, 200 points), but wrong: onnxruntime "
            "computes x² + y² - 2xy. Between points near 1000, the error is up to 0.7 for "
            "distances of at most 4.6. skl2onnx writes CDist with `optim='cdist'`.",
        ),
        Refused(
            "LinearClassifier(ArrayFeatureExtractor(x, i)) → LinearClassifier(x)",
            "A coefficient of 0 gives NaN for an infinite element or NaN in a column that the "
            "original does not read.",
        ),
    ),
)
