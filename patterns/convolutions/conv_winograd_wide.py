import math

from ._winograd import _Winograd, tile_example

_NEAR, _FAR = math.sqrt(0.5), math.sqrt(2)


class ConvWinogradWidePattern(_Winograd):
    """Conv(x, w of 3 by 3) → DepthToSpace(A · Conv(B · x, G · w, group=36)) in tiles of 4 by 4

    What: Winograd's algorithm: 36 products for each tile, channel and result, where the window takes 144.
    Why: measured 0.4 to 0.9 of the time of onnxruntime's CPU kernel. It errs by a millionth of the results, five times as much
    as the window. The transformed weights take 4 times the bytes; `max_growth` says whether they are stored, or computed when a
    session begins.
    Refuses when:
    1. the window is not 3 by 3, has gaps or moves by more than one, or the convolution has groups.
    2. the size of the image is unknown, there are fewer than 16 tiles, or its transformed elements take more than 64 MiB.
    3. there are few channels, or 16 does not divide their number.
    4. the type is not float.
    """

    exactness = "approximate"  # an infinity gives NaN in the other results of its tile, too
    points = (0.0, _NEAR, -_NEAR, _FAR, -_FAR)  # of the points near 1, those that round least
    least_channels = 40

    examples = (tile_example(points, 80, (13, 16)),)
