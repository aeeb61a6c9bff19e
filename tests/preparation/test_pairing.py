"""What a decoder computes from results of an encoder alone moves into the encoder."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, run
from xoptim import ModelError, prepare
from xoptim.api.pairing import pair
from xoptim.preparation import joining
from xoptim.preparation.pairing import Pair

ENCODER = "agraph (float[b,s,4] x) => (float[b,s,4] h) { k = Relu(x) h = Neg(k) }"
WEIGHTS = "float[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3, 2}"
DECODER = f"""agraph (float[b,t,4] y, float[b,n,4] h) => (float[b,t,n] z) <{WEIGHTS}> {{
    k = MatMul(h, w)
    keys = Transpose <perm = [0, 2, 1]> (k)
    z = MatMul(y, keys)
}}"""


def op_types(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def inputs(model: onnx.ModelProto) -> list[str]:
    return [value.name for value in model.graph.input]


def moved(encoder: str, decoder: str, links: Mapping[str, str] | None = None) -> Pair:
    """The models after, which are valid and compute the same numbers as before."""
    before, after = pair(parse(encoder), parse(decoder), links)
    for model in (after.encoder, after.decoder, after.joined()):
        onnx.checker.check_model(model, full_check=True)
    rng = np.random.default_rng(0)
    sizes = {"b": 2, "s": 5, "n": 5, "t": 3}
    feeds = {
        value.name: rng.normal(
            size=[sizes.get(d.dim_param, d.dim_value) for d in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in before.joined().graph.input
    }
    assert inputs(before.joined()) == inputs(after.joined())
    results = [run(model.joined(), feeds) for model in (before, after)]
    for expected, actual in zip(*results, strict=True):
        np.testing.assert_array_equal(actual, expected)
    return after


def test_keys_are_computed_by_the_encoder() -> None:
    after = moved(ENCODER, DECODER)
    assert op_types(after.encoder) == ["Relu", "Neg", "MatMul", "Transpose"]
    assert op_types(after.decoder) == ["MatMul"]
    assert inputs(after.decoder) == ["y", "encoded_0"]
    assert [value.name for value in after.encoder.graph.output] == ["h", "encoded_0"]
    assert after.links == {"encoded_0": "encoded_0"}
    assert [(result.name, result.result) for result in after.moved] == [("encoded_0", "keys")]
    assert after.node_count == 2


def test_sizes_have_the_names_of_the_encoder() -> None:
    decoder = DECODER.replace("float[b,t,4] y", "float[b,s,4] y").replace("[b,t,n]", "[b,s,n]")
    dims = moved(ENCODER, decoder).encoder.graph.output[1].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["b", 4, "s"]


def test_a_size_that_the_decoder_alone_fixes_is_not_declared() -> None:
    decoder = DECODER.replace("float[b,n,4] h", "float[2,n,4] h").replace("[b,t", "[2,t")
    dims = moved(ENCODER, decoder).encoder.graph.output[1].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == [0, 4, "s"]


def test_nothing_is_moved_for_nodes_that_nothing_reads() -> None:
    idle = "most = ReduceMax <keepdims = 0> (y) idle = Mul(k, most)"
    decoder = DECODER.replace("z = MatMul", f"{idle} z = MatMul")
    after = moved(ENCODER, decoder)
    assert [result.result for result in after.moved] == ["keys"]
    assert op_types(after.decoder) == ["MatMul"]


def test_random_numbers_of_a_branch_stay_in_the_decoder() -> None:
    decoder = parse(f"""agraph (float[b,t,4] y, float[b,n,4] h) => (float[b,t,n] z) <{WEIGHTS}> {{
        most = ReduceMax <keepdims = 0> (h) c = Cast <to = 9> (most)
        v = If (c) <then_branch = yes () => (float[4,4] p) {{
            p = RandomNormal <shape = [4, 4]> () }}, else_branch = no () => (float[4,4] q) {{
            q = Identity(w) }}>
        k = MatMul(h, v) keys = Transpose <perm = [0, 2, 1]> (k) z = MatMul(y, keys)
    }}""")
    assert not pair(parse(ENCODER), decoder)[1].moved


def test_inputs_are_linked_by_the_names_of_transformers_or_as_stated() -> None:
    encoder = ENCODER.replace(" h", " last_hidden_state")
    decoder = DECODER.replace(" h", " encoder_hidden_states").replace(
        "(h,", "(encoder_hidden_states,"
    )
    assert moved(encoder, decoder).moved
    other = DECODER.replace(" h", " memory").replace("(h,", "(memory,")
    assert moved(encoder, other, {"memory": "last_hidden_state"}).moved
    assert moved(encoder, other, {"memory": "x"}).moved, "an input of the encoder"


def test_what_nodes_read_for_its_sizes_alone_stays() -> None:
    after = moved(
        ENCODER,
        f"""agraph (float[b,t,4] y, float[b,n,4] h) => (float[b,t,n] z, int64[3] size)
        <{WEIGHTS}> {{
            k = MatMul(h, w) keys = Transpose <perm = [0, 2, 1]> (k)
            z = MatMul(y, keys) size = Shape(h)
        }}""",
    )
    assert sorted(op_types(after.decoder)) == ["MatMul", "Shape"]
    assert inputs(after.decoder) == ["y", "h", "encoded_0"]
    assert after.links == {"h": "h", "encoded_0": "encoded_0"}


def test_a_result_that_is_an_output_is_copied() -> None:
    decoder = DECODER.replace("=> (", "=> (float[b,4,n] keys, ")
    after = moved(ENCODER, decoder)
    assert sorted(op_types(after.decoder)) == ["Identity", "MatMul"]
    assert [value.name for value in after.decoder.graph.output] == ["keys", "z"]


def test_copies_of_elements_stay_in_the_decoder() -> None:
    after = moved(
        ENCODER,
        f"""agraph (float[b,3,4] y, float[b,n,4] h) => (float[b,3,n] z)
        <{WEIGHTS}, int64[4] sizes = {{1, 3, 1, 1}}, int64[1] one = {{1}}> {{
            k = MatMul(h, w) tall = Unsqueeze(k, one) many = Expand(tall, sizes)
            keys = Transpose <perm = [0, 1, 3, 2]> (many)
            row = Unsqueeze(y, two) two = Constant <value_ints = [2]> ()
            scores = MatMul(row, keys) z = Squeeze(scores, two)
        }}""".replace(
            "row = Unsqueeze(y, two) two = Constant <value_ints = [2]> ()",
            "two = Constant <value_ints = [2]> () row = Unsqueeze(y, two)",
        ),
    )
    assert "Expand" in op_types(after.decoder)
    assert op_types(after.encoder) == ["Relu", "Neg", "MatMul", "Unsqueeze"]


def test_subgraphs_read_what_was_moved() -> None:
    after = moved(
        ENCODER,
        f"""agraph (float[b,t,4] y, float[b,n,4] h) => (float[b,t,n] z) <{WEIGHTS}> {{
            k = MatMul(h, w) keys = Transpose <perm = [0, 2, 1]> (k)
            sum = ReduceSum <keepdims = 0> (y) zero = Constant <value_float = 0.0> ()
            c = Greater(sum, zero)
            z = If (c) <
                then_branch = yes () => (p) {{ p = MatMul(y, keys) }},
                else_branch = no () => (q) {{ r = Neg(keys) q = MatMul(y, r) }}>
        }}""",
    )
    assert op_types(after.encoder) == ["Relu", "Neg", "MatMul", "Transpose"]
    assert inputs(after.decoder) == ["y", "encoded_0"]


@pytest.mark.parametrize(
    "body",
    [
        "keys = Transpose <perm = [0, 2, 1]> (h) z = MatMul(y, keys)",
        "k = MatMul(y, w) keys = Transpose <perm = [0, 2, 1]> (h) z = MatMul(k, keys)",
        "noise = RandomNormalLike <seed = 1.0> (h) k = MatMul(noise, w) "
        "keys = Transpose <perm = [0, 2, 1]> (k) z = MatMul(y, keys)",
    ],
)
def test_nothing_moves(body: str) -> None:
    decoder = DECODER[: DECODER.index("{\n")] + f"{{ {body} }}"
    _, after = pair(parse(ENCODER), parse(decoder))
    assert (after.moved, after.node_count) == ((), 0)
    assert op_types(after.encoder) == ["Relu", "Neg"]


def test_a_weight_that_callers_may_replace_keeps_its_product_in_the_decoder() -> None:
    decoder = parse(DECODER)
    decoder.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, [4, 4]))
    _, after = pair(parse(ENCODER), decoder)
    assert not after.moved


def test_functions_of_the_decoder() -> None:
    text = (
        DECODER.replace("k = MatMul(h, w)", "k = mine.Keys(h, w)")
        + '<domain: "mine", opset_import: ["" : 18]> Keys (a, b) => (c) { c = MatMul(a, b) }'
    )
    _, after = pair(parse(ENCODER), parse(text, domains={"mine": 1}))
    assert op_types(after.encoder) == ["Relu", "Neg", "MatMul", "Transpose"]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({"m": "h"}, "decoder .*'m'; .* y, h"),
        ({"h": "k"}, "encoder .*'k'; .* x, h"),
        ({"y": "other"}, "encoder .*'other'; .* x, h"),
    ],
)
def test_links_that_do_not_exist(links: dict[str, str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        pair(parse(ENCODER), parse(DECODER), links)


def test_models_that_do_not_fit_each_other() -> None:
    with pytest.raises(ModelError, match=r"\(y, memory\)"):
        pair(parse(ENCODER), prepare(parse(DECODER), rename={"h": "memory"}))
    with pytest.raises(ModelError, match=r"'h' .*'h' .*types"):
        pair(parse(ENCODER.replace("4]", "8]")), parse(DECODER))
    with pytest.raises(ModelError, match=r" 17 .*decoder 18; "):
        pair(parse(ENCODER, opset=17), parse(DECODER))


def stored(folder: Path, name: str, text: str) -> Path:
    """A file of a model with external data."""
    folder.mkdir(exist_ok=True)
    model = parse(text)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    path = folder / name
    onnx.save(model, path, save_as_external_data=True, location=f"{name}.data", size_threshold=0)
    return path


@pytest.mark.parametrize("folder", ["encoders", "decoders"])
def test_external_data_of_another_folder(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = stored(tmp_path / "encoders", "encoder.onnx", ENCODER)
    decoder = stored(tmp_path / folder, "decoder.onnx", DECODER)
    before, after = pair(encoder, decoder)
    weights = after.encoder.graph.initializer[0]
    is_inside = weights.data_location != onnx.TensorProto.EXTERNAL
    assert is_inside == (folder == "decoders")
    assert len(before.decoder.graph.initializer) == 1
    monkeypatch.setattr(joining, "_LARGEST", 8)
    if is_inside:
        with pytest.raises(ModelError, match="one folder"):
            pair(encoder, decoder)
    else:
        assert pair(encoder, decoder)[1].moved


@pytest.mark.parametrize("kinds", [("seq(float[n])", "seq(int64[n])"), ("float", "seq(float[n])")])
def test_containers_that_do_not_fit_each_other(kinds: tuple[str, str]) -> None:
    encoder = parse(f"agraph ({kinds[0]} x) => ({kinds[0]} h) {{ h = Identity(x) }}")
    decoder = parse(f"agraph ({kinds[1]} h) => ({kinds[1]} y) {{ y = Identity(h) }}")
    with pytest.raises(ModelError, match=r"'h' .*types"):
        pair(encoder, decoder)


def test_an_output_of_the_decoder_that_no_node_computes() -> None:
    decoder = parse(DECODER.replace("=> (", "=> (float[b,t,4] y, "))
    with pytest.raises(ModelError, match=r"'y'; .* --drop-output y"):
        pair(parse(ENCODER), decoder)


def test_the_models_are_left_unchanged() -> None:
    encoder, decoder = parse(ENCODER), parse(DECODER)
    copies = [model.SerializeToString(deterministic=True) for model in (encoder, decoder)]
    pair(encoder, decoder)
    assert copies == [model.SerializeToString(deterministic=True) for model in (encoder, decoder)]


def test_inputs_that_nothing_reads_stay() -> None:
    decoder = DECODER.replace(" h) =>", " h, float[b,n] mask) =>")
    after = moved(ENCODER, decoder)
    assert inputs(after.decoder) == ["y", "mask", "encoded_0"]
    assert after.links == {"encoded_0": "encoded_0"}


def test_two_decoders_in_turn() -> None:
    decoder = parse(DECODER)
    for number, node in enumerate(decoder.graph.node):
        node.name = f"node{number}"
    _, once = pair(parse(ENCODER), decoder)
    _, twice = pair(once.encoder, decoder)
    run(twice.encoder, {"x": np.ones((1, 2, 4), np.float32)})
    names = [node.name for node in twice.encoder.graph.node if node.name]
    assert len({*names}) == len(names) == 4
