import pytest

from tests.proof.denotations.checking import check

_WINDOWS = [
    "kernel_shape = [2, 3]",
    "kernel_shape = [2, 2], strides = [2, 1]",
    "kernel_shape = [3, 2], pads = [1, 0, 1, 1]",
    "kernel_shape = [2, 2], strides = [3, 2], pads = [1, 1, 0, 1]",
    'kernel_shape = [3, 2], auto_pad = "SAME_UPPER", strides = [2, 1]',
    'kernel_shape = [3, 2], auto_pad = "SAME_LOWER", strides = [2, 2]',
    'kernel_shape = [2, 2], auto_pad = "VALID"',
]


@pytest.mark.parametrize("settings", [*_WINDOWS, "kernel_shape = [2, 2], dilations = [2, 1]"])
@pytest.mark.parametrize("includes_pads", [0, 1])
def test_average_pool(settings: str, includes_pads: int) -> None:
    check(
        "(float[1,2,4,5] x) => (float[A,B,C,D] y) "
        f"{{ y = AveragePool <{settings}, count_include_pad = {includes_pads}> (x) }}",
        19,
        exact=False,
    )


@pytest.mark.parametrize("settings", [*_WINDOWS, "kernel_shape = [2, 2], dilations = [2, 1]"])
def test_max_pool(settings: str) -> None:
    check(
        f"(float[1,2,4,5] x) => (float[A,B,C,D] y) {{ y = MaxPool <{settings}> (x) }}",
        exact=False,
    )


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_rounded_up(op_type: str) -> None:
    check(
        f"(float[1,1,4,5] x) => (float[A,B,C,D] y) {{ y = {op_type} "
        "<kernel_shape = [2, 2], strides = [3, 2], ceil_mode = 1> (x) }",
        exact=False,
    )


def test_global_max_pool() -> None:
    check("(float[2,2,2,3] x) => (float[A,B,C,D] y) { y = GlobalMaxPool(x) }", exact=False)


@pytest.mark.parametrize(
    "settings", ['auto_pad = "SAME_UPPER", strides = [2, 1]', 'auto_pad = "SAME_LOWER"']
)
def test_conv_with_computed_pads(settings: str) -> None:
    check(
        "(float[1,2,3,4] x, float[3,2,3,2] w) => (float[A,B,C,D] y) "
        f"{{ y = Conv <{settings}> (x, w) }}",
        exact=False,
    )


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("beta", ["0.5", "0.75", "1.0"])
def test_local_response_normalization(size: int, beta: str) -> None:
    check(
        "(float[1,4,1,2] x) => (float[A,B,C,D] y) "
        f"{{ y = LRN <size = {size}, alpha = 0.5, beta = {beta}, bias = 2.0> (x) }}",
        exact=False,
    )


@pytest.mark.parametrize("operands", ["(x, w)", "(x, w, b)"])
@pytest.mark.parametrize(
    "settings",
    [
        "",
        "<strides = [2, 1]>",
        "<pads = [1, 0, 0, 1]>",
        "<strides = [2, 3], output_padding = [1, 0]>",
        "<dilations = [2, 1], pads = [1, 1, 1, 1]>",
    ],
)
def test_transposed_convolution(operands: str, settings: str) -> None:
    check(
        "(float[1,2,3,2] x, float[2,3,2,3] w, float[3] b) => (float[A,B,C,D] y) "
        f"{{ y = ConvTranspose {settings} {operands} }}",
        exact=False,
    )


def test_transposed_convolution_of_groups() -> None:
    check(
        "(float[1,4,3] x, float[4,2,2] w) => (float[A,B,C] y) "
        "{ y = ConvTranspose <group = 2> (x, w) }",
        exact=False,
    )
