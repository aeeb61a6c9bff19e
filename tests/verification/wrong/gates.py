"""Gates, directions, groups and axes whose sizes are equal."""

from functools import partial

import numpy as np

from tests.verification.wrong.case import wrong

_case = partial(wrong, "gates")

CASES = [
    _case(
        "lengths_that_are_stored",
        "Stored lengths of the sequences of an LSTM are dropped",
        """(float[S,2,1] x) => (float[S,D,2,H] y) <float[1,4,1] w = {0.5, -0.5, 1, 0.3},
        float[1,4,1] r = {0.1, 0.2, 0.3, 0.4}>""",
        "<int32[2] l = {4, 6}> y = LSTM <hidden_size = 1> (x, w, r, , l)",
        "y = LSTM <hidden_size = 1> (x, w, r)",
        x=np.ones((7, 2, 1)),
    ),
    _case(
        "directions_of_a_gru",
        "The weights of both directions of a GRU are swapped",
        "(float[S,N,1] x) => (float[S,2,N,1] y) <float[2,3,1] r = {0.1, 0.2, 0.3, 0.1, 0.2, 0.3}>",
        """<float[2,3,1] w = {0.5, -0.5, 1, 0.1, 0.7, 2}> y = GRU <hidden_size = 1, direction =
        "bidirectional"> (x, w, r)""",
        """<float[2,3,1] w = {0.1, 0.7, 2, 0.5, -0.5, 1}> y = GRU <hidden_size = 1, direction =
        "bidirectional"> (x, w, r)""",
        x=[[[0]], [[1]], [[2]]],
    ),
    _case(
        "directions_of_equal_weights",
        "The results of both directions of a GRU with equal weights are swapped",
        """(float[S,N,1] x) => (float[S,2,N,1] y) <float[2,3,1] r = {0.1, 0.2, 0.3, 0.1, 0.2,
        0.3}, float[2,3,1] w = {0.5, -0.5, 1, 0.5, -0.5, 1}>""",
        """y = GRU <hidden_size = 1, direction = "bidirectional"> (x, w, r)""",
        """<int64[2] i = {1, 0}> g = GRU <hidden_size = 1, direction = "bidirectional"> (x, w, r)
        y = Gather <axis = 1> (g, i)""",
        x=[[[0]], [[1]], [[2]]],
    ),
    _case(
        "bias_of_the_forget_gate",
        "The bias of the forget gate of an LSTM is added to the output gate",
        """(float[S,N,1] x) => (float[S,D,N,H] y) <float[1,4,1] r = {0.1, 0.2, 0.3, 0.4},
        float[1,4,1] w = {0.5, -0.5, 1, 0.3}>""",
        "<float[1,8] b = {0, 0, 1, 0, 0, 0, 0, 0}> y = LSTM <hidden_size = 1> (x, w, r, b)",
        "<float[1,8] b = {0, 1, 0, 0, 0, 0, 0, 0}> y = LSTM <hidden_size = 1> (x, w, r, b)",
        x=[[[1]], [[2]]],
    ),
    _case(
        "coupled_gates",
        "input_forget of an LSTM is dropped",
        """(float[S,N,1] x) => (float[S,D,N,H] y) <float[1,4,1] r = {0.1, 0.2, 0.3, 0.4},
        float[1,4,1] w = {0.5, -0.5, 1, 0.3}>""",
        "y = LSTM <hidden_size = 1, input_forget = 1> (x, w, r)",
        "y = LSTM <hidden_size = 1> (x, w, r)",
        x=[[[1]], [[2]]],
    ),
    _case(
        "relu_of_an_rnn",
        "The Relu of an RNN becomes the default, Tanh",
        "(float[S,N,1] x) => (float[S,D,N,H] y) <float[1,1,1] r = {0.1}, float[1,1,1] w = {0.5}>",
        """y = RNN <hidden_size = 1, activations = ["Relu"]> (x, w, r)""",
        "y = RNN <hidden_size = 1> (x, w, r)",
        x=[[[1]], [[2]]],
    ),
    _case(
        "cell_as_state",
        "The last cell of an LSTM is taken for the last state",
        """(float[S,N,1] x) => (float[D,N,H] y) <float[1,4,1] r = {0.1, 0.2, 0.3, 0.4},
        float[1,4,1] w = {0.5, -0.5, 1, 0.3}>""",
        "a, h, y = LSTM <hidden_size = 1> (x, w, r)",
        "a, y, h = LSTM <hidden_size = 1> (x, w, r)",
        x=[[[1]], [[2]]],
    ),
    _case(
        "last_of_a_reversed_gru",
        "The last state of a reversed GRU becomes its last result, which is its first state",
        """(float[S,N,1] x) => (float[1,N,1] y) <float[1,3,1] w = {0.5, -0.5, 1}, float[1,3,1] r
        = {0.1, 0.2, 0.3}>""",
        """a, y = GRU <hidden_size = 1, direction = "reverse"> (x, w, r)""",
        """<int64 i = {-1}> a, b = GRU <hidden_size = 1, direction = "reverse"> (x, w, r) y =
        Gather(a, i)""",
        x=[[[1]], [[2]]],
    ),
    _case(
        "scales_of_groups",
        "The scales of the channels of a GroupNormalization are taken in another order",
        "(float[N,4,L] x) => (float[N,4,L] y) <float[4] b = {0, 0, 0, 0}>",
        "<float[4] s = {1, 1, 2, 2}> y = GroupNormalization <num_groups = 2> (x, s, b)",
        "<float[4] s = {1, 2, 1, 2}> y = GroupNormalization <num_groups = 2> (x, s, b)",
        x=[[[0, 1], [2, 3], [4, 5], [6, 7]]],
    ),
    _case(
        "norm_over_rows",
        "A LayerNormalization over the last of two equal axes also covers the other one",
        "(float[N,4,4] x) => (float[N,4,4] y) <float[4] w = {1, 1, 1, 1}>",
        "y = LayerNormalization(x, w)",
        """<float[4,4] w2 = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}> y =
        LayerNormalization <axis = -2> (x, w2)""",
        x=np.arange(16).reshape((1, 4, 4)),
    ),
    _case(
        "momentum_in_training",
        "The momentum of a BatchNormalization in training is 0.8 in place of 0.9",
        """(float[N,2,L] x) => (float[N,2,L] y, float[2] a, float[2] b2) <float[2] s = {1, 1},
        float[2] b = {0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}>""",
        "y, a, b2 = BatchNormalization <training_mode = 1, momentum = 0.9> (x, s, b, m, v)",
        "y, a, b2 = BatchNormalization <training_mode = 1, momentum = 0.8> (x, s, b, m, v)",
        x=[[[1, 2], [3, 4]]],
    ),
    _case(
        "keys_of_an_einsum",
        "The second operand of an Einsum of equal sizes is not transposed",
        "(float[N,3,3] a, float[N,3,3] b) => (float[N,3,3] y)",
        """y = Einsum <equation = "bij,bkj->bik"> (a, b)""",
        """y = Einsum <equation = "bij,bjk->bik"> (a, b)""",
        a=np.arange(9).reshape((1, 3, 3)),
        b=np.arange(9).reshape((1, 3, 3)),
    ),
    _case(
        "row_of_each_batch",
        "GatherND with a batch axis reads from the first batch only",
        "(float[N,N,2] x, int64[N,1] i) => (float[N,2] y)",
        "y = GatherND <batch_dims = 1> (x, i)",
        "<int64 z = {0}> x0 = Gather(x, z) y = GatherND(x0, i)",
        x=[[[0, 1], [2, 3]], [[4, 5], [6, 7]]],
        i=[[0], [1]],
    ),
    _case(
        "mask_of_heads",
        "A mask of keys is applied to heads, of which there are as many",
        "(float[N,T,T,T] x, bool[N,T] m) => (float[N,T,T,T] y) <float l = {-1e4}>",
        "<int64[2] a = {1, 2}> u = Unsqueeze(m, a) y = Where(u, x, l)",
        "<int64[2] a = {2, 3}> u = Unsqueeze(m, a) y = Where(u, x, l)",
        x=[[[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]],
        m=[[True, False]],
    ),
    _case(
        "columns_first",
        "DepthToSpace reads channels in the order of CRD in place of DCR",
        "(float[N,8,H,W] x) => (float[N,2,A,B] y)",
        "y = DepthToSpace <blocksize = 2> (x)",
        """y = DepthToSpace <blocksize = 2, mode = "CRD"> (x)""",
        x=[[[[0]], [[1]], [[2]], [[3]], [[4]], [[5]], [[6]], [[7]]]],
    ),
    _case(
        "ratio_of_a_dropout",
        "A Dropout in training with an input ratio, usually 0, is dropped",
        "(float[N,4] x, float r) => (float[N,4] y)",
        "<bool t = {1}> y = Dropout <seed = 3> (x, r, t)",
        "y = Identity(x)",
        x=[[1, 2, 3, 4]],
        r=0.5,
    ),
    _case(
        "mask_of_a_dropout",
        "The mask of a Dropout, all true, is negated",
        "(float[N,4] x) => (float[N,4] y, bool[N,4] m)",
        "y, m = Dropout(x)",
        "y, k = Dropout(x) m = Not(k)",
        x=[[1, 2, 3, 4]],
    ),
    _case(
        "places_of_a_sort",
        "The values of a descending sort come with the places of an ascending one",
        "(float[N,4] x) => (float[N,4] v, int64[N,4] i) <int64[1] k = {4}>",
        "v, i = TopK(x, k)",
        """<int64[1] s = {-1}, int64[1] e = {-99}, int64[1] m = {-1}, int64[1] o = {1}> w, i =
        TopK <largest = 0> (x, k) v = Slice(w, s, e, o, m)""",
        x=[[1, 2, 3, 4]],
    ),
]
