"""``xopt extract DECODER --into ENCODER``."""

import re
from pathlib import Path

import onnx

from tests.cli.command import Xopt, write
from tests.preparation.test_pairing import DECODER, ENCODER, op_types
from tests.support import values_in


def both() -> None:
    write(ENCODER, "encoder.onnx")
    write(DECODER, "decoder.onnx")


def test_both_models_are_written(xopt: Xopt) -> None:
    both()
    outcome = xopt("extract", "decoder.onnx", "--into", "encoder.onnx", "-o", "out")
    assert outcome.code == 0
    lines = [line.split(maxsplit=1) for line in outcome.out.splitlines()]
    assert (lines[0][0], values_in(lines[0][1])) == ("moved", ["1", "2"])
    assert lines[2] == ["inputs", "y, encoded_0"]
    assert lines[3][1].startswith("equal ")
    assert lines[4] == ["written", f"{Path('out/encoder.onnx')}, {Path('out/decoder.onnx')}"]
    assert op_types(onnx.load("out/encoder.onnx"))[-2:] == ["MatMul", "Transpose"]
    assert op_types(onnx.load("out/decoder.onnx")) == ["MatMul"]


def test_json(xopt: Xopt) -> None:
    both()
    document = xopt("extract", "decoder.onnx", "--into", "encoder.onnx", "-o", "out", "--json").json
    assert document["links"] == {"encoded_0": "encoded_0"}
    assert [result["result"] for result in document["moved"]] == ["keys"]
    assert document["nodes"] == 2
    assert document["verification"][0]["status"] == "equal"


def test_nothing_to_move(xopt: Xopt) -> None:
    write(ENCODER, "encoder.onnx")
    write("agraph (float[b,n,4] h) => (float[b,n,4] z) { z = Exp(h) }", "decoder.onnx")
    outcome = xopt("extract", "decoder.onnx", "--into", "encoder.onnx", "-o", "out")
    assert outcome.code == 1
    assert re.match(r"xopt: error: decoder\.onnx .* h ", outcome.err)
    assert not [*Path("out").iterdir()]


def test_results_that_differ_are_not_written(xopt: Xopt) -> None:
    both()
    words = ("extract", "decoder.onnx", "--into", "encoder.onnx", "-o", "out")
    outcome = xopt(*words, "--feeds", "missing.npz")
    assert outcome.code == 2
    assert not Path("out").exists()
    assert xopt(*words, "--no-verify").code == 0


def test_mistakes(xopt: Xopt) -> None:
    both()
    words = ("extract", "decoder.onnx", "--into", "encoder.onnx")
    assert xopt(*words, "-o", ".").error.startswith("'encoder.onnx' is an input")
    assert xopt(*words, "-o", "encoder.onnx").error.endswith("is not a folder")
    assert "'h'" in xopt(*words, "-o", "out", "--link", "h").error
    error = xopt("extract", "encoder.onnx", "--into", "encoder.onnx", "-o", "out").error
    assert error.startswith("both models are named 'encoder.onnx'")
    assert xopt(*words, "-o", "out", "--no-verify", "--rtol", "0.1").code == 2
    assert values_in(xopt(*words, "-o", "out", "--to", "z").error)[:2] == ["--to", "--into"]


def test_links_to_an_input_or_to_each_other_are_not_followed(xopt: Xopt) -> None:
    both()
    words = ("extract", "decoder.onnx", "--into", "encoder.onnx", "-o", "out")
    before = Path("decoder.onnx").read_bytes()
    link = Path("out/encoder.onnx")
    link.parent.mkdir()
    link.symlink_to(Path("decoder.onnx").resolve())
    assert xopt(*words).error.startswith(f"{str(link)!r} is an input")
    assert Path("decoder.onnx").read_bytes() == before
    link.unlink()
    link.symlink_to("decoder.onnx")
    assert xopt(*words).error.startswith(f"{link} and {link.with_name('decoder.onnx')} are ")
    assert not link.exists()
