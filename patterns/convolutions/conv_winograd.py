from ._winograd import _Winograd, tile_example


class ConvWinogradPattern(_Winograd):
    """Conv(x, w of 3 by 3) → DepthToSpace(A · Conv(B · x, G · w, group=16)) in tiles of 2 by 2

    What: Winograd's algorithm: 16 products for each tile, channel and result, where the window takes 36.
    Why: measured 0.6 to 0.9 of the time of onnxruntime's CPU kernel, whose products run at the speed of the processor. The
    transformed weights take 1.8 times the bytes; `max_growth` says whether they are stored, or computed when a session begins.
    Refuses when:
    1. the window is not 3 by 3, has gaps or moves by more than one, or the convolution has groups.
    2. the size of the image is unknown, there are fewer than 16 tiles, or its transformed elements take more than 64 MiB.
    3. there are few channels, or 16 does not divide their number.
    4. the type is not float.
    """

    priority = 1  # after the wide tiles
    exactness = "finite"  # an infinity gives NaN in the other results of its tile
    points = (0.0, 1.0, -1.0)
    least_channels = 96

    examples = (tile_example(points, 192, (9, 7)),)
