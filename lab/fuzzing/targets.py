"""The functions to fuzz. Each reads bytes, and may raise only errors that are meant for users."""

import ast
import atexit
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import onnx
from google.protobuf import json_format, text_format
from google.protobuf.message import Message
from onnx import numpy_helper

from tests.engine.faults import model as model_of_many_parts
from tests.support import parse, verify as verify_tables
from xoptim import (
    GraphBuilder,
    OptimizationOptions,
    Query,
    XoptimError,
    database,
    optimize,
    parse_rules,
    replay,
    save,
    select,
)
from xoptim.cli.commands import COMMANDS
from xoptim.cli.settings import read_settings
from xoptim.cli.verification import Comparison, Values
from xoptim.engine.environment import DebugSettings
from xoptim.facts.assumptions import ENTRY, Assumptions
from xoptim.graph.load import read_proto
from xoptim.integrations.genai import assumptions_for, config_of
from xoptim.integrations.mcp.streams import LONGEST_REQUEST, Requests
from xoptim.scaffold.new_pattern import pattern_from_model
from xoptim.tuning.settings import read_settings as session_settings, settings_text
from xoptim.verification import SessionSettings, load_test_data, verify_models

MEANT = (XoptimError, click.ClickException)
"""Errors with a message for the user."""
_SEPARATOR = b"\n====\n"
FEED = "agraph (float[n,4] x, int64[m] i) => (float[m,4] y) { r = Relu(x) y = Gather(r, i) }"
RULE = """
<domain: "unit", opset_import: ["": 18]>
match (x) => (y) { one = Constant<value_float: float = 1.0>() y = Mul (x, one) }
<domain: "unit", opset_import: ["": 18]>
replace (x) => (y) { y = Identity (x) }

<domain: "twice", opset_import: ["": 18]>
match (x) => (y) { s = rule.settings <keep_names = 1> () a = Neg (x) y = Neg (a) }
<domain: "twice", opset_import: ["": 18]>
replace (x) => (y) { y = Identity (x) }
"""
_RULES = Path(__file__).parents[2] / "examples" / "rules"
SELECTIONS = (
    "default+onnxruntime-Gelu",
    "default, -TransposeTranspose + fast_run",
    "default\nonnxruntime\ncanonicalize\nexact",
    "TransposeTranspose,MulMul-Gelu+preview",
)


class Target(NamedTuple):
    """A function to fuzz.

    Attributes:
        run: the function, which takes one input.
        seeds: returns valid and nearly valid inputs to mutate.
        kind: kind of the inputs, as for `mutate`.
    """

    run: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]
    kind: str | type[Message]


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="xoptim_fuzzing_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _options() -> OptimizationOptions:
    return OptimizationOptions(patterns="default+onnxruntime", debug=DebugSettings())


# -------------------------------------------------------------------- models


def load_and_save(data: bytes) -> None:
    """Run ``xopt MODEL --no-verify``, from a file to a file."""
    path = _folder() / "model.onnx"
    path.write_bytes(data)
    builder = GraphBuilder(path, optimization_options=_options())
    builder.optimize()
    verify_tables(builder.model)
    proto = builder.to_onnx(optimize=False)
    save(
        proto,
        _folder() / "written.onnx",
        builder.model.base_dir,
        external=len(data) % 2 == 0 or None,
    )
    assert path.read_bytes() == data


def _models() -> list[bytes]:
    texts = (
        FEED,
        (
            "agraph (float[2,3] x) => (float[3,2] y) <int64[2] s = {3, 2}> { a = Reshape(x, s) "
            "b = Constant<value_float = 1.0>() y = Mul(a, b) }"
        ),
        (
            "agraph (float[n] x, bool c) => (float[n] y) <float[1] w = {2}> { "
            "y = If (c) < then_branch = t () => (float[n] p) { p = Add(x, w) }, else_branch = e () "
            "=> (float[n] q) { q = Sub(x, w) } > }"
        ),
        (
            "agraph (float[n] x, int64 k, bool c) => (float[n] y) { "
            "y = Loop (k, c, x) < body = b (int64 i, bool d, float[n] s) "
            "=> (bool e, float[n] t) { e = Identity(d) t = Add(s, s) } > }"
        ),
        (
            "agraph (float[n,m] x) => (int64[2] s, float[m,n] y) { s = Shape(x) t = Transpose(x) "
            "u = Cast<to = 1>(t) y = Neg(u) }"
        ),
        (
            "agraph (float[4] x) => (float[4] y) { y = mine.Twice(x) } "
            '<domain: "mine", opset_import: ["": 18]> Twice (x) => (y) { y = Add(x, x) }'
        ),
        "agraph (seq(float[n]) l) => (float[m] y) <int64 z = {0}> { y = SequenceAt(l, z) }",
        "agraph (string[n] x) => (float[2,2] y) <int64[2] s = {2, 2}> { y = ConstantOfShape(s) }",
        (
            "agraph (uint8[4] x) => (float[4] y) <float s = {0.5}, uint8 z = {3}> { "
            "d = DequantizeLinear(x, s, z) q = QuantizeLinear(d, s, z) "
            "y = DequantizeLinear(q, s, z) }"
        ),
        (
            "agraph (float[a,8] x) => (float[a,4] p, float[a,4] q) <int64[2] k = {4, 4}> { "
            "p0, q0 = Split<axis = 1>(x, k) c = Concat<axis = 1>(p0, q0) "
            "p, q = Split<axis = 1>(c, k) }"
        ),
    )
    protos = [parse(text, domains={"mine": 1}) for text in texts]
    external = protos[2].graph.initializer[0]
    external.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", "0"), ("length", "4")):
        external.external_data.add(key=key, value=value)
    external.ClearField("float_data")
    external.ClearField("raw_data")
    return [p.SerializeToString() for p in (*protos, model_of_many_parts())]


def load_weights(data: bytes) -> None:
    """Run ``xopt MODEL --no-verify`` in a folder with a file of external weights."""
    (_folder() / "weights.bin").write_bytes(b"\0\0\x80\x3f" * 16)
    load_and_save(data)


# -------------------------------------------------------------------- texts


def read_rule_text(data: bytes) -> None:
    """A file of ``--rewrite``, and what its rules do to a model."""
    rules = parse_rules(data.decode(errors="replace"), "rules.onnxtxt")
    if rules:
        text = """agraph (float[n,n] x) => (float[n,n] y) <float one = {1}, float two = {2}> {
            a = Mul(x, one) b = Neg(a) c = Neg(b) d = Pow(c, two) e = Gemm(d, x, c)
              y = Gemm<alpha = 0.5>(e, x, c)
        }"""
        optimize(parse(text), patterns=list(rules), debug=DebugSettings())


def read_model_text(data: bytes) -> None:
    """A model in one of the text forms."""
    path = _folder() / "model.onnxtxt"
    path.write_bytes(data)
    read_proto(path)


def _model_texts() -> list[bytes]:
    model = onnx.load_from_string(_models()[2])
    texts = (
        onnx.printer.to_text(model),
        text_format.MessageToString(model),
        json_format.MessageToJson(model),
    )
    nested = "If (c) <a = g () => (float p) { p = " * 30
    return [
        *(text.encode() for text in texts),
        f"<ir_version: 8>\ng (bool c) => (float y) {{ y = {nested}Neg(c)".encode(),
    ]


def read_assumptions(data: bytes) -> None:
    """Assumptions in the metadata of a model, then ``--assume`` with each of them."""
    text = data.decode(errors="replace")
    model = parse(FEED)
    model.metadata_props.add(key=ENTRY, value=text)
    builder = GraphBuilder(model, optimization_options=_options())
    builder.optimize()
    for assumption in text.split("; "):
        Assumptions.of([assumption])


ASSUMPTIONS = (
    "n >= 1; n % 8 == 0; m == n + 4",
    "4 <= m <= 64; finite(x); sorted(i)",
    "nothing; nonempty; x:1 == 4; finite",
)


def read_selection(data: bytes) -> None:
    """``--patterns`` in the first line, and the words of a query in the others."""
    text, *words = data.decode(errors="replace").split("\n")
    select(text)
    database().query(Query(words[:1], require=words[1:2], exclude=words[2:3]))
    select([text, Query(words)], drop=words[3:])


# -------------------------------------------------------------------- values


def read_feeds(data: bytes) -> None:
    """``--feeds FILE.npz``, and a verification on its values."""
    path = _folder() / "feeds.npz"
    path.write_bytes(data)
    options = Comparison(values=Values(feeds=path)).read(("cpu",))
    model = parse(FEED)
    verify_models(model, model, options)


def _archives() -> list[bytes]:
    x, i = np.arange(8, dtype=np.float32).reshape(2, 4), np.array([1, 0, 1])
    archives = []
    for write, arrays in (
        (np.savez, {"x": x, "i": i}),
        (np.savez_compressed, {"x": x, "i": i}),
        (np.savez, {"i": i}),
        (np.savez, {}),
    ):
        stream = io.BytesIO()
        write(stream, **arrays)  # type: ignore[arg-type]
        archives.append(stream.getvalue())
    npy_stream = io.BytesIO()
    np.save(npy_stream, x)
    return [*archives, npy_stream.getvalue()]


_DATA_MODELS = (
    FEED,
    "agraph (seq(float[n]) l) => (float[m] y) <int64 z = {0}> { y = SequenceAt(l, z) }",
    "agraph (optional(float[n]) x) => (float[m] y) { y = OptionalGetElement(x) }",
)


def read_test_data(data: bytes) -> None:
    """``--test-data FOLDER``: a tensor, a sequence or an optional value in ``input_0.pb``, as the
    first byte says.
    """
    folder = _folder() / "test_data_set_0"
    folder.mkdir(exist_ok=True)
    (folder / "input_0.pb").write_bytes(data[1:])
    load_test_data(_folder(), parse(_DATA_MODELS[data[0] % 3 if data else 0]))


def _test_data() -> list[bytes]:
    values: list[Message] = []
    for array in (np.ones((2, 4), np.float32), np.array(["a", "é"], object), np.array(3, np.int64)):
        tensor = numpy_helper.from_array(array)
        values += [
            tensor,
            numpy_helper.from_list([array, array]),
            numpy_helper.from_optional(array),
        ]
    unpacked = onnx.helper.make_tensor("t", onnx.TensorProto.INT4, [3], [1, 2, 3])
    values += [unpacked, onnx.SequenceProto(), onnx.OptionalProto()]
    return [bytes([number % 3]) + value.SerializeToString() for number, value in enumerate(values)]


def read_dump(data: bytes) -> None:
    """``xopt replay FOLDER`` with two models, which are the bytes before and after a separator."""
    folder = _folder() / "dump"
    folder.mkdir(exist_ok=True)
    before, _, after = data.partition(_SEPARATOR)
    (folder / "1_Fuzz.before.onnx").write_bytes(before)
    (folder / "1_Fuzz.after.onnx").write_bytes(after)
    (folder / "1_Fuzz.txt").write_bytes(b"")
    for entry in replay(folder):
        entry.to_json()


def _dumps() -> list[bytes]:
    dumps = []
    for exactness in ("exact", "approximate", "wrong"):
        bodies = ("a = Neg(x) y = Neg(a) }", "y = Abs(x) }")
        models = [parse("agraph (float[n] x) => (float[n] y) { " + body) for body in bodies]
        for model in models:
            onnx.helper.set_model_props(
                model, {"xoptim.pattern": "Fuzz", "xoptim.exactness": exactness}
            )
        dumps.append(_SEPARATOR.join(m.SerializeToString() for m in models))
    return dumps


def read_settings_file(data: bytes) -> None:
    """``--config FILE`` for two commands only, because importing all commands is slow."""
    path = _folder() / "xoptim.toml"
    path.write_bytes(data)
    read_settings(path, {name: COMMANDS[name] for name in ("optimize", "bench")})


SETTINGS = (
    "report = 'out.html'\nverify = false\n[bench]\nseconds = 2.5\n",
    "dim = ['batch=2', 'seq=8']\n[optimize]\nprecision = 'int8'\ntolerance = '1%'\n",
)
DECODER = """agraph (int64[b,s] ids, int64[b,t] mask, float[b,2,p,4] past_0_key,
    float[b,2,p,4] past_0_value)
  => (float[b,s,v] logits, float[b,2,t,4] now_0_key, float[b,2,t,4] now_0_value)
  <float some = {1}> {
    logits = Identity(some) now_0_key = Identity(some) now_0_value = Identity(some) }"""


def read_decoder_settings(data: bytes) -> None:
    """``--genai FOLDER``."""
    folder = _folder() / "decoder"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_bytes(data)
    model = parse(DECODER)
    assumptions_for(model, folder)
    config_of(model, folder, "model.onnx")


CONFIGS = (
    '{"max_position_embeddings": 32, "eos_token_id": [2, 3], "vocab_size": 9, "top_k": 5}',
    (
        '{"text_config": {"n_ctx": 32, "eos_token_id": 2, "vocab_size": 9, "n_head": 2}, '
        '"temperature": 0.5, "do_sample": true, "bos_token_id": 1, "pad_token_id": null}'
    ),
)


def read_session_settings(data: bytes) -> None:
    """``MODEL.session.json``."""
    path = _folder() / "model.onnx.session.json"
    path.write_bytes(data)
    session_settings(path)


def write_pattern(data: bytes) -> None:
    """``new-pattern --from MODEL``: the written Python parses, whatever names the model has."""
    path = _folder() / "pattern.onnx"
    path.write_bytes(data)
    model = read_proto(path)
    results = [name for node in model.graph.node[:2] for name in node.output[:1]]
    ast.parse(pattern_from_model("FuzzedPattern", model, results))


def read_requests(data: bytes) -> None:
    """The standard input of ``xopt mcp``: `Requests` bounds the length of lines, and keeps JSON
    lines valid.
    """
    stream = Requests(io.BytesIO(data))
    lines = b"".join(iter(lambda: stream.read1(1000), b"")).splitlines()
    assert all(len(line) <= LONGEST_REQUEST for line in lines)
    for line, original in zip(lines, data.splitlines(), strict=False):
        if _is_json(original) and len(lines) == len(data.splitlines()):
            assert _is_json(line)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


REQUESTS = (
    '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n',
    (
        '{"jsonrpc": "2.0", "id": "a-1", "method": "tools/call", "params": {"name": "stats", '
        '"arguments": {"model": "m\\ud83d\\ude00.onnx", "include": ["\\ud800", "x\\n"]}}}\n'
        '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}\n'
    ),
)


TARGETS: dict[str, Target] = {
    "model": Target(load_weights, _models, onnx.ModelProto),
    "rules": Target(
        read_rule_text,
        lambda: [RULE.encode(), *(p.read_bytes() for p in sorted(_RULES.iterdir()))],
        "text",
    ),
    "model-text": Target(read_model_text, _model_texts, "text"),
    "assumptions": Target(
        read_assumptions, lambda: [text.encode() for text in ASSUMPTIONS], "text"
    ),
    "selection": Target(read_selection, lambda: [text.encode() for text in SELECTIONS], "text"),
    "feeds": Target(read_feeds, _archives, "bytes"),
    "test-data": Target(read_test_data, _test_data, "bytes"),
    "replay": Target(read_dump, _dumps, "bytes"),
    "settings": Target(read_settings_file, lambda: [text.encode() for text in SETTINGS], "text"),
    "decoder": Target(read_decoder_settings, lambda: [text.encode() for text in CONFIGS], "text"),
    "new-pattern": Target(
        write_pattern, lambda: [_models()[i] for i in (0, 1, 4, 5, 7, 8, 9)], onnx.ModelProto
    ),
    "requests": Target(read_requests, lambda: [text.encode() for text in REQUESTS], "text"),
    "session": Target(
        read_session_settings, lambda: [settings_text(SessionSettings()).encode()], "text"
    ),
}


def feed(name: str, data: bytes) -> None:
    """Run a target. Errors that are meant for users are ignored.

    Raises:
        Exception: any other error, which is a defect.
    """
    try:
        TARGETS[name].run(data)
    except MEANT:
        return
