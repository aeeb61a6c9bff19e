"""Strings, classifiers and losses: labels, weights, and what counts."""

from functools import partial

from tests.verification.wrong.case import wrong

_case = partial(wrong, "labels")
_LOSS = "(float[N,3] x, int64[N] labels) => (float y)"
_BAG = """mode = "{mode}", min_gram_length = {least}, max_gram_length = 2, max_skip_count = {skip},
        ngram_counts = [0, 2],
ngram_indexes = [0, 1, 2], pool_int64s = [4, 5, 4, 5], weights = [2.0, 3.0, 0.5]"""


def _bag(mode: str = "TF", least: int = 1, skip: int = 0) -> str:
    """Counts of the tokens 4 and 5, and of the pair 4 5."""
    return f"y = TfIdfVectorizer <{_BAG.format(mode=mode, least=least, skip=skip)}> (x)"


CASES = [
    _case(
        "label_that_is_ignored",
        "ignore_index of a NegativeLogLikelihoodLoss is dropped",
        _LOSS,
        "y = NegativeLogLikelihoodLoss <ignore_index = 0> (x, labels)",
        "y = NegativeLogLikelihoodLoss(x, labels)",
        x=[[1, 2, 3], [4, 5, 6]],
        labels=[0, 1],
    ),
    _case(
        "mean_of_weighted_labels",
        "The mean of a weighted loss divides by the number of rows in place of the sum of their "
        "weights",
        f"{_LOSS} <float[3] w = {{1, 2, 4}}>",
        "y = NegativeLogLikelihoodLoss(x, labels, w)",
        """u = NegativeLogLikelihoodLoss <reduction = "none"> (x, labels, w) y = ReduceMean
        <keepdims = 0> (u)""",
        x=[[1, 2, 3], [4, 5, 6]],
        labels=[1, 2],
    ),
    _case(
        "sum_of_losses",
        "The mean of a SoftmaxCrossEntropyLoss becomes the sum: the same for one row",
        _LOSS,
        "y = SoftmaxCrossEntropyLoss(x, labels)",
        """y = SoftmaxCrossEntropyLoss <reduction = "sum"> (x, labels)""",
        x=[[1, 2, 3], [4, 5, 6]],
        labels=[1, 2],
    ),
    _case(
        "label_that_is_padding",
        "Labels of 2, which are padding, are counted in the mean of a loss",
        _LOSS,
        "y = SoftmaxCrossEntropyLoss <ignore_index = 2> (x, labels)",
        """u = SoftmaxCrossEntropyLoss <ignore_index = 2, reduction = "none"> (x, labels) y =
        ReduceMean <keepdims = 0> (u)""",
        x=[[1, 2, 3], [4, 5, 7]],
        labels=[1, 2],
    ),
    _case(
        "logistic_of_a_classifier",
        "The logistic function of a LinearClassifier is dropped",
        "(float[N,2] x) => (int64[N] label, float[N,2] y)",
        """label, y = ai.onnx.ml.LinearClassifier <coefficients = [1.0, -1.0, -1.0, 1.0],
        intercepts = [0.5, 0.0],
        classlabels_ints = [0, 1], post_transform = "LOGISTIC"> (x)""",
        """label, y = ai.onnx.ml.LinearClassifier <coefficients = [1.0, -1.0, -1.0, 1.0],
        intercepts = [0.5, 0.0],
        classlabels_ints = [0, 1]> (x)""",
        x=[[1, 2]],
    ),
    _case(
        "softmax_of_zeros",
        "SOFTMAX_ZERO of a LinearClassifier, which keeps numbers that are exactly 0, becomes "
        "SOFTMAX",
        "(float[N,2] x) => (int64[N] label, float[N,2] y)",
        """label, y = ai.onnx.ml.LinearClassifier <coefficients = [1.0, 0.0, 0.0, 1.0], intercepts
        = [0.0, 0.0],
        classlabels_ints = [0, 1], post_transform = "SOFTMAX_ZERO"> (x)""",
        """label, y = ai.onnx.ml.LinearClassifier <coefficients = [1.0, 0.0, 0.0, 1.0], intercepts
        = [0.0, 0.0],
        classlabels_ints = [0, 1], post_transform = "SOFTMAX"> (x)""",
        x=[[0, 2]],
    ),
    _case(
        "width_of_a_kernel",
        "The gamma of a support vector regression is 0.5 in place of 0.4",
        "(float[N,2] x) => (float[N,1] y)",
        """y = ai.onnx.ml.SVMRegressor <kernel_type = "RBF", kernel_params = [0.4, 0.0, 3.0],
        n_supports = 2,
        support_vectors = [1.0, 0.0, 0.0, 1.0], coefficients = [1.0, -2.0], rho = [0.1]> (x)""",
        """y = ai.onnx.ml.SVMRegressor <kernel_type = "RBF", kernel_params = [0.5, 0.0, 3.0],
        n_supports = 2,
        support_vectors = [1.0, 0.0, 0.0, 1.0], coefficients = [1.0, -2.0], rho = [0.1]> (x)""",
        x=[[0.5, 0]],
    ),
    _case(
        "pairs_of_tokens",
        "The pairs of a TfIdfVectorizer are not counted",
        "(int64[T] x) => (float[3] y)",
        _bag(),
        f"<float[3] m = {{1, 1, 0}}> {_bag().replace('y =', 'u =')} y = Mul(u, m)",
        x=[4, 5, 4],
    ),
    _case(
        "weights_of_tokens",
        "A TfIdfVectorizer counts without its weights",
        "(int64[T] x) => (float[3] y)",
        _bag("TFIDF"),
        _bag(),
        x=[4, 5, 4],
    ),
    _case(
        "presence_of_tokens",
        "A TfIdfVectorizer weighs the presence of tokens in place of their counts: the same where "
        "none repeats",
        "(int64[T] x) => (float[3] y)",
        _bag("TFIDF"),
        _bag("IDF"),
        x=[4, 5, 4],
    ),
    _case(
        "pairs_with_a_gap",
        "A TfIdfVectorizer counts pairs without the ones that have a token between them",
        "(int64[T] x) => (float[3] y)",
        _bag(skip=1),
        _bag(),
        x=[4, 7, 5],
    ),
    _case(
        "words_that_stop",
        "The stop words of a StringNormalizer stay",
        "(string[N] x) => (string[M] y)",
        """y = StringNormalizer <stopwords = ["the"], is_case_sensitive = 1> (x)""",
        "y = StringNormalizer <is_case_sensitive = 1> (x)",
        x=["the", "cat"],
    ),
    _case(
        "split_of_two_parts",
        "A split of strings at commas into two parts at most becomes one at all commas",
        "(string[N] x) => (string[N,M] y, int64[N] n)",
        """y, n = StringSplit <delimiter = ",", maxsplit = 1> (x)""",
        """y, n = StringSplit <delimiter = ","> (x)""",
        x=["a,b,c"],
    ),
    _case(
        "order_of_distinct_numbers",
        "Distinct numbers in the order of their first occurrence become sorted",
        "(int64[T] x) => (int64[M] y)",
        "y = Unique <sorted = 0> (x)",
        "y = Unique(x)",
        x=[3, 1, 3],
    ),
    _case(
        "first_of_distinct_numbers",
        "The places of the first occurrences of distinct numbers become those of the last ones",
        "(int64[T] x) => (int64[M] y)",
        "u, y = Unique(x)",
        """<int64[1] m = {-1}, int64[1] far = {-1000000}, int64[1] z = {0}> r = Slice(x, m, far, z,
        m) u, i = Unique(r)
        s = Shape(x) t = Add(s, m) y = Sub(t, i)""",
        x=[3, 1, 3],
    ),
    _case(
        "missing_key_of_numbers",
        "The default of a LabelEncoder, -7, becomes 0",
        "(int64[N] x) => (float[N] y)",
        "y = ai.onnx.ml.LabelEncoder <keys_int64s = [1, 2], values_floats = [0.5, 1.5], "
        "default_float = -7.0> (x)",
        "y = ai.onnx.ml.LabelEncoder <keys_int64s = [1, 2], values_floats = [0.5, 1.5], "
        "default_float = 0.0> (x)",
        x=[1, 5],
    ),
    _case(
        "number_in_words",
        "Numbers are written as integers: the same for whole ones",
        "(float[N] x) => (string[N] y)",
        "y = Cast <to = 8> (x)",
        "i = Cast <to = 7> (x) y = Cast <to = 8> (i)",
        x=[1.5],
    ),
    _case(
        "base_of_a_forest",
        "The base value of a forest is lost",
        "(float[N,2] x) => (float[N,1] y)",
        """y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, base_values = [0.25], nodes_treeids
        = [0, 0, 0],
        nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], nodes_modes = ["BRANCH_LT",
        "LEAF", "LEAF"],
        nodes_values = [0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0,
        0], target_treeids = [0, 0],
        target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]> (x)""",
        """y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0],
        nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], nodes_modes = ["BRANCH_LT",
        "LEAF", "LEAF"],
        nodes_values = [0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0,
        0], target_treeids = [0, 0],
        target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]> (x)""",
        x=[[1, 0]],
    ),
    _case(
        "missing_value_goes_right",
        "A missing value, NaN, goes to the other side of a split",
        "(float[N,2] x) => (float[N,1] y)",
        """y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0],
        nodes_missing_value_tracks_true = [1, 0, 0],
        nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], nodes_modes = ["BRANCH_LT",
        "LEAF", "LEAF"],
        nodes_values = [0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0,
        0], target_treeids = [0, 0],
        target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]> (x)""",
        """y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0],
        nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], nodes_modes = ["BRANCH_LT",
        "LEAF", "LEAF"],
        nodes_values = [0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0,
        0], target_treeids = [0, 0],
        target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]> (x)""",
        x=[[float("nan"), 0]],
    ),
]
