import pytest

from tests.proof.denotations.checking import check
from tests.support import parse
from xoptim.facts.assumptions import USUAL
from xoptim.proof.indices import CaseFacts, Unproved
from xoptim.proof.meaning import Side

IMAGE = "(float[2,3,4] x) => (float[A,B,C] y)"

MOVES = (
    "y = Identity(x)",
    "y = Transpose <perm = [2, 0, 1]> (x)",
    "y = Transpose(x)",
    "y = Concat <axis = 1> (x, x)",
    "t = Neg(x) y = Concat <axis = -1> (x, t, x)",
    "a, b = Split <axis = 2, num_outputs = 2> (x) y = Concat <axis = 2> (b, a)",
    "y = Trilu(x)",
    "y = Dropout(x)",
)


@pytest.mark.parametrize("nodes", MOVES)
def test_movement(nodes: str) -> None:
    check(f"{IMAGE} {{ {nodes} }}")


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_split_in_uneven_parts(axis: int) -> None:
    check(
        f"""(float[5,7,5] x) => (float[A,B,C] y) {{
        a, b, c = Split <axis = {axis}, num_outputs = 3> (x) y = Concat <axis = {axis}> (c, a, b)
        }}"""
    )
    sizes = [2, 4, 1] if axis == 1 else [1, 3, 1]
    check(
        f"""(float[5,7,5] x) => (float[A,B,C] y) <int64[3] s = {{{str(sizes)[1:-1]}}}> {{
        a, b, c = Split <axis = {axis}> (x, s) y = Concat <axis = {axis}> (c, a, b)
        }}"""
    )


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ("2,3,4", [6, 4]),
        ("2,3,4", [4, 6]),
        ("2,3,4", [0, -1]),
        ("2,3,4", [-1]),
        ("2,3,4", [2, 2, 2, 3]),
        ("24", [2, 3, 4]),
        ("6,4", [3, 8]),
        ("1,6,1,4", [2, 1, 3, 4]),
    ],
)
def test_reshape(shape: str, target: list[int]) -> None:
    rank = len(target)
    sizes = ",".join("ABCD"[:rank])
    check(
        f"""(float[{shape}] x) => (float[{sizes}] y) <int64[{rank}] s = {{{str(target)[1:-1]}}}> {{
        y = Reshape(x, s) }}"""
    )


def test_views() -> None:
    check(
        """(float[2,1,3,1] x) => (float[A,B] y, float[C,D,E,F,G] z, float[H,I] w)
        <int64[2] s = {1, -1}, int64[1] t = {1}, int64[2] u = {0, -1}> {
        y = Squeeze(x, s) k = Squeeze(x, t) z = Unsqueeze(k, u) w = Flatten <axis = 2> (x) }"""
    )
    check("(float[2,1,3,1] x) => (float[A,B] y) { y = Squeeze(x) }")
    check("(float[2,1,3] x) => (float[A,B,C,D] y) { y = Unsqueeze <axes = [1]> (x) }", 11)
    check("(float[2,1,3] x) => (float[A,B] y) { y = Squeeze <axes = [1]> (x) }", 11)


@pytest.mark.parametrize("shape", ["3,1", "1,4", "1,1", "1"])
def test_expand(shape: str) -> None:
    check(
        f"""(float[{shape}] x) => (float[A,B,C] y) <int64[3] s = {{2, 3, 4}}> {{
        y = Expand(x, s) }}"""
    )


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1], [3], [1], [1]),
        ([0], [9223372036854775807], [1], [1]),
        ([-3], [-1], [1], [1]),
        ([0], [100], [-1], [2]),
        ([1], [7], [1], [3]),
        ([-1], [-9223372036854775807], [1], [-1]),
        ([100], [0], [1], [-1]),
        ([5], [-7], [1], [-2]),
        ([0, 2], [2, 5], [0, 1], [1, 2]),
    ],
)
def test_slice(starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> None:
    lists = {"b": starts, "e": ends, "a": axes, "s": steps}
    constants = ", ".join(
        f"int64[{len(v)}] {name} = {{{str(v)[1:-1]}}}" for name, v in lists.items()
    )
    check(f"(float[3,7] x) => (float[A,B] y) <{constants}> {{ y = Slice(x, b, e, a, s) }}")


def test_slice_of_attributes() -> None:
    check(
        """(float[3,7] x) => (float[A,B] y) {
        y = Slice <starts = [1, -4], ends = [2147483647, -1]> (x) }""",
        9,
    )
    check(
        """(float[3,7] x) => (float[A,B] y) {
        y = Slice <starts = [2], ends = [5], axes = [1]> (x) }""",
        9,
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("places", [[1], [0, 2], [-1, 0, 1, 2, -3], [2, 2, 0, 1, 1]])
def test_gather_of_constants(axis: int, places: list[int]) -> None:
    text = str(places)[1:-1]
    check(
        f"""(float[3,4,3] x) => (float[A,B,C] y) <int64[{len(places)}] i = {{{text}}}> {{
        y = Gather <axis = {axis}> (x, i) }}"""
    )


def test_gather_of_data() -> None:
    check("(float[3,4] x, int64[2,2] i) => (float[A,B,C] y) { y = Gather(x, i) }")
    check("(float[3,4] x, int64[2,2] i) => (float[A,B,C] y) { y = Gather <axis = 1> (x, i) }")
    check(
        """(float[3,4] x, int64[2,2] i) => (float[A,B,C] y) <int64 k = {-1}> {
        j = Mul(i, k) y = Gather <axis = 1> (x, j) }"""
    )
    check(
        """(float[3,4] x, int64 i) => (float[A] y) {
        t = Transpose(x) y = Gather <axis = 1> (t, i) }"""
    )


@pytest.mark.parametrize("pads", ["0, 1, 0, 2", "1, 0, 0, 0", "2, 2, 1, 1"])
@pytest.mark.parametrize("value", ["", ", v"])
def test_pad(pads: str, value: str) -> None:
    check(
        f"""(float[3,4] x) => (float[A,B] y) <int64[4] p = {{{pads}}}, float v = {{3.5}}> {{
        y = Pad(x, p{value}) }}"""
    )


def test_pad_of_some_axes() -> None:
    check(
        """(float[3,4] x) => (float[A,B] y) <int64[2] p = {1, 2}, int64[1] a = {-1}> {
        y = Pad(x, p, , a) }"""
    )
    check("(float[3,4] x) => (float[A,B] y) { y = Pad <pads = [0, 1, 2, 0], value = 2.0> (x) }", 10)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(mode: str) -> None:
    check(
        f"""(float[2,8,2,3] x) => (float[A,B,C,D] y) {{
        y = DepthToSpace <blocksize = 2, mode = "{mode}"> (x) }}"""
    )


def test_space_to_depth() -> None:
    check("(float[1,2,4,6] x) => (float[A,B,C,D] y) { y = SpaceToDepth <blocksize = 2> (x) }")


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [-1, 0, 2])
def test_trilu(upper: int, k: int) -> None:
    check(
        f"""(float[3,4] x) => (float[A,B] y) <int64 k = {{{k}}}> {{
        y = Trilu <upper = {upper}> (x, k) }}"""
    )


def test_tile_and_constants() -> None:
    check("""(float[2,3] x) => (float[A,B] y) <int64[2] r = {2, 3}> { y = Tile(x, r) }""")
    check(
        """() => (float[A,B] y) <int64[2] s = {2, 3}> {
        y = ConstantOfShape <value = float[1] {2.5}> (s) }"""
    )
    check(
        """() => (int64[A] y) <int64 a = {2}, int64 b = {90}, int64 c = {1}> {
        y = Range(a, b, c) }"""
    )


def test_constants_keep_their_elements() -> None:
    check(
        """(float[2,3] x) => (float[A,B] y)
        <float[2,3] w = {1, 1, 1, -0.0, 0, 2}, float[1,3] v = {5, 5, 5}> {
        y = Concat <axis = 0> (x, w, v) }"""
    )


def test_shapes_are_known() -> None:
    check(
        """(float[2,3] x) => (int64[A] y) {
        s = Shape(x) t = Shape <start = 1> (x) y = Concat <axis = 0> (s, t, s) }"""
    )


@pytest.mark.parametrize(
    "text",
    [
        "(string[2] x) => (string[2] y) { y = Identity(x) }",
        "(seq(float[2]) x) => (seq(float[2]) y) { y = Identity(x) }",
        "(float[2] x) => (float[2] y) { y = RandomUniformLike(x) }",
    ],
)
def test_what_is_not_covered_is_refused(text: str) -> None:
    model = parse(f"g {text}")
    with pytest.raises(Unproved):
        [x.at([0] * x.rank) for x in Side(model, USUAL).outputs(CaseFacts(is_exact=True), {})]


def test_a_call_that_is_not_understood_is_a_function_of_its_operand() -> None:
    model = parse("g (float[5] x) => (float[N] y) <int64[2] p = {0, -2}> { y = Pad(x, p) }")
    (tensor,) = Side(model, USUAL).outputs(CaseFacts(is_exact=True), {})
    single = tensor.at([0]).single
    assert single is not None
    assert single.key[:2] == ("whole", "Pad")


@pytest.mark.parametrize("batch", [0, 1])
def test_gather_nd(batch: int) -> None:
    tuples = "2,3,1" if batch else "2,2"
    sizes = "A,B" if batch else "A"
    check(
        f"""(float[2,3] x, int64[{tuples}] i) => (float[{sizes}] y) {{
        y = GatherND <batch_dims = {batch}> (x, i) }}"""
    )


def test_integers_in_equal_steps() -> None:
    check(
        """(float[2,3] x) => (float[A,B,C] y) <int64[2,2] i = {0, 2, -3, -1}> {
        y = Gather <axis = 1> (x, i) }"""
    )
