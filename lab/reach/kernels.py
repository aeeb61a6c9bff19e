"""Forms of one operation that onnxruntime computes at different speeds."""

from lab.reach.rows import Refused, Row, Theme

THEME = Theme(
    "Faster forms of one operation",
    rows=(
        Row(
            "Softmax(x) along the channels of an image → Softmax along axis 1 of a Reshape to "
            "three dimensions",
            "agraph (float[a,3,16,16] x) => (float[a,3,16,16] y) { y = Softmax <axis = 1> (x) }",
            "Reshape Reshape Softmax",
            ("SoftmaxReshape",),
        ),
        Row(
            "Resize(x, 2, nearest, half_pixel) → Resize(x, 2, nearest, asymmetric)",
            "agraph (float[a,3,h,w] x) => (float[a,3,k,l] y) <float[4] s = {1, 1, 2, 2}> { "
            "y = Resize(x, , s) }",
            "Resize",
            ("NearestResize",),
        ),
        Row(
            "LeakyRelu(x of float16) → Cast(LeakyRelu(Cast(x, to=float)), to=float16), and the "
            "same for Softmax, Gelu, ...",
            "agraph (float16[a,b] x) => (float16[a,b] y) { y = LeakyRelu(x) }",
            "Cast Cast LeakyRelu",
            ("Float16Function",),
        ),
        Row(
            "AveragePool(x) of a signal → Conv(x, 1 / n, group=channels) from operator set 19 on",
            "agraph (float[a,3,64] x) => (float[a,3,62] y) { "
            "y = AveragePool <kernel_shape = [3]> (x) }",
            "Conv",
            ("AveragePoolConv",),
            opset=19,
        ),
    ),
    refused=(
        Refused(
            "MaxPool(x, 5), MaxPool(x, 9) → y = MaxPool(x, 5), MaxPool(y, 5)",
            "Not by default: a NaN hides other elements of its window. MaxPoolMaxPool of the "
            "preset finite does it.",
        ),
        Refused(
            "Resize(x, 2, cubic) → Resize(x, 2, cubic, antialias=1)",
            "Not by default: an infinity gives NaN in one of them. CubicResize of the preset "
            "finite does it.",
        ),
        Refused(
            "Conv(x) with a 3x3 kernel → Winograd convolution with tiles of 2x2 or 4x4",
            "Not by default: an infinity gives NaN in its tile, and 4x4 tiles have larger rounding "
            "errors. ConvWinograd of the preset finite and ConvWinograd4x4 of the preset "
            "approximate do it.",
        ),
        Refused(
            "LRN(x) → x / t ** 0.75 with t = Conv(x², a / n, k)",
            "Not by default: seven nodes more. LRNConv of the preset onnxruntime does it.",
        ),
        Refused(
            "Conv(x) of one spatial axis with a group for each channel → "
            "Squeeze(Conv(Unsqueeze(x)))",
            "With ORT graph optimizations, takes 0.27 to 1.2 of the time up to a length of 1000, "
            "and 1.5 for 4000. Without them, 1.0 to 1.3.",
        ),
        Refused(
            "Conv(SpaceToDepth(x, 2)) with a 3x3 kernel → Conv(x) with a 6x6 kernel and strides of "
            "2",
            "Takes 0.80 to 0.97 of the time with ORT graph optimizations, 1.1 to 1.2 without them.",
        ),
        Refused(
            "ConvTranspose whose windows do not overlap → DepthToSpace(Conv(x))",
            "Takes 0.90 to 1.69 of the time.",
        ),
    ),
)
