"""Measure the optimization of a decoder with gigabytes of weights, from file to file: ``python -m
benchmarks.large [--gigabytes 4.4] [--sparse]``.

The model is a LLaMA with a KV cache as torch's exporter writes it, with a Transpose of the weights
before each MatMul. Its weights are random. With ``--sparse``, only the first bytes of each weight
are random, and the rest is a hole of a sparse file. One run prints time and peak memory of the
command, of ``cp`` of the same files, of onnxruntime's offline optimization and of onnxsim. Peaks
include memory-mapped weights. ``--verification`` adds the command with its verification, ``xopt
verify``, and onnxruntime alone: it loads the original and the result one after the other, and runs
each three times.
"""

import argparse
import math
import mmap
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from xoptim.cli.exit_codes import NOT_VERIFIED

_PAGE: Final = 4096
_SPARSE_BYTES: Final = 64
"""Bytes at the beginning of a weight that a sparse file holds, so that weights differ."""


class Sizes(NamedTuple):
    """Sizes of a decoder; by default of TinyLlama. ``kept_heads`` are its key/value heads."""

    layers: int = 22
    width: int = 2048
    inner: int = 5632
    heads: int = 32
    kept_heads: int = 4
    vocabulary: int = 32_000

    @property
    def head(self) -> int:
        """The width of a head."""
        return self.width // self.heads

    def layer(self, n: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights of a layer."""
        kept = self.kept_heads * self.head
        shapes: dict[str, tuple[int, ...]] = {
            f"before{n}w": (self.width,),
            f"after{n}w": (self.width,),
        }
        shapes |= {f"{name}{n}w": (self.width, self.width) for name in ("q", "o")}
        shapes |= {f"{name}{n}w": (kept, self.width) for name in ("k", "v")}
        shapes |= {f"{name}{n}w": (self.inner, self.width) for name in ("gate", "up")}
        return shapes | {f"down{n}w": (self.width, self.inner)}

    def ends(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights before and after the layers."""
        return {
            "words": (self.vocabulary, self.width),
            "finalw": (self.width,),
            "logitsw": (self.vocabulary, self.width),
        }


# The graph in ONNX text. In `_BEFORE`, `turns` are the angles of the rotary embedding, and `mask`
# is the causal mask of `rows` (new tokens) by `columns` (all tokens).
_BEFORE: Final = """
    zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
      at0 = Constant <value_ints = [0]> ()
    at2 = Constant <value_ints = [2]> () last = Constant <value_ints = [-1]> ()
      axis3 = Constant <value_ints = [3]> ()
    half = Constant <value_ints = [HALF]> () end = Constant <value_ints = [WIDTH]> ()
    heads = Constant <value_ints = [0, 0, -1, WIDTH]> ()
      joined = Constant <value_ints = [0, HEADS, -1, WIDTH]> ()
    flat = Constant <value_ints = [0, 0, -1]> ()
      repeats = Constant <value_ints = [1, 1, REPEATS, 1, 1]> ()
    two = Constant <value = float {2}> () eps = Constant <value = float {1e-5}> ()
      scale = Constant <value = float {ROOT}> ()
    none = Constant <value = float {0}> () far = Constant <value = float {-1e9}> ()
    b_q = Shape <start = 1, end = 2> (ids) b_p = Shape <start = 2, end = 3> (past0k)
      t1 = Add(b_p, b_q)
    p = Squeeze(b_p, at0) t = Squeeze(t1, at0) rows1 = Range(p, t, one)
      columns1 = Range(zero, t, one)
    rows = Unsqueeze(rows1, last) columns = Unsqueeze(columns1, at0)
    seen = LessOrEqual(columns, rows) mask = Where(seen, none, far)
    turns1 = Cast <to = 1> (rows) turns2 = Mul(turns1, frequencies)
      turns = Concat <axis = -1> (turns2, turns2)
    cosine = Cos(turns) sine = Sin(turns) x0 = Gather(words, ids)
"""
_NORM: Final = """
    {0}p = Pow({1}, two) {0}m = ReduceMean({0}p, last) {0}e = Add({0}m, eps) {0}r = Sqrt({0}e)
      {0}c = Reciprocal({0}r)
    {0}n = Mul({1}, {0}c) {0} = Mul({0}n, {0}w)
"""
_LINEAR: Final = "{0}t = Transpose <perm = [1, 0]> ({0}w) {0} = MatMul({1}, {0}t)\n"
_HEADS: Final = "{0}r = Reshape({0}, heads) {0}h = Transpose <perm = [0, 2, 1, 3]> ({0}r)\n"
_ROTARY: Final = """
    {0}_1 = Slice({0}h, at0, half, axis3) {0}_2 = Slice({0}h, half, end, axis3) {0}g = Neg({0}_2)
    {0}x = Concat <axis = -1> ({0}g, {0}_1) {0}a = Mul({0}h, cosine) {0}b = Mul({0}x, sine)
      {0}o = Add({0}a, {0}b)
"""
_REPEAT: Final = (
    "{0}u = Unsqueeze({0}, at2) {0}y = Expand({0}u, repeats) {0}z = Reshape({0}y, joined)\n"
)
_CACHE: Final = """
    present{0}k = Concat <axis = 2> (past{0}k, k{0}o)
      present{0}v = Concat <axis = 2> (past{0}v, v{0}h)
"""
_SCORES: Final = """
    c{0} = Transpose <perm = [0, 1, 3, 2]> (present{0}kz) d{0} = MatMul(q{0}o, c{0})
      e{0} = Div(d{0}, scale)
    f{0} = Add(e{0}, mask) g{0} = Softmax <axis = -1> (f{0}) h{0} = MatMul(g{0}, present{0}vz)
    i{0} = Transpose <perm = [0, 2, 1, 3]> (h{0}) j{0} = Reshape(i{0}, flat)
"""


def _layer(n: int) -> Iterator[str]:
    yield _NORM.format(f"before{n}", f"x{n}")
    for name in (f"q{n}", f"k{n}", f"v{n}"):
        yield _LINEAR.format(name, f"before{n}") + _HEADS.format(name)
    yield _ROTARY.format(f"q{n}") + _ROTARY.format(f"k{n}") + _CACHE.format(n)
    yield _REPEAT.format(f"present{n}k") + _REPEAT.format(f"present{n}v") + _SCORES.format(n)
    yield (
        _LINEAR.format(f"o{n}", f"j{n}")
        + f"y{n} = Add(x{n}, o{n})"
        + _NORM.format(f"after{n}", f"y{n}")
    )
    yield _LINEAR.format(f"gate{n}", f"after{n}") + _LINEAR.format(f"up{n}", f"after{n}")
    yield f"s{n} = Sigmoid(gate{n}) l{n} = Mul(gate{n}, s{n}) m{n} = Mul(l{n}, up{n})\n"
    yield _LINEAR.format(f"down{n}", f"m{n}") + f"x{n + 1} = Add(y{n}, down{n})"


def model_of(sizes: Sizes) -> onnx.ModelProto:
    """The decoder without its weights."""
    cache = f"float[batch,{sizes.kept_heads},LENGTH,{sizes.head}]"
    names = [f"{n}{kind}" for n in range(sizes.layers) for kind in "kv"]
    inputs = [
        "int64[batch,seq] ids",
        *(f"{cache.replace('LENGTH', 'past')} past{name}" for name in names),
    ]
    outputs = [
        f"float[batch,seq,{sizes.vocabulary}] logits",
        *(f"{cache.replace('LENGTH', 'total')} present{name}" for name in names),
    ]
    before = (
        _BEFORE.replace("WIDTH", str(sizes.head))
        .replace("HALF", str(sizes.head // 2))
        .replace("HEADS", str(sizes.heads))
    )
    before = before.replace("REPEATS", str(sizes.heads // sizes.kept_heads)).replace(
        "ROOT", str(sizes.head**0.5)
    )
    layers = "".join(text for n in range(sizes.layers) for text in _layer(n))
    after = _NORM.format("final", f"x{sizes.layers}") + _LINEAR.format("logits", "final")
    ports = f"({', '.join(inputs)}) => ({', '.join(outputs)})"
    text = f"agraph {ports} {{ {before} {layers} {after} }}"
    model: onnx.ModelProto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 18]> {text}'
    )
    frequencies = 10000.0 ** (-np.arange(0, sizes.head, 2, dtype=np.float32) / sizes.head)
    model.graph.initializer.append(numpy_helper.from_array(frequencies, "frequencies"))
    return model


def build(folder: Path, gigabytes: float, *, is_sparse: bool) -> Path:
    """Write a decoder with about this many gigabytes of weights; their size determines the number
    of its layers.
    """
    sizes = Sizes() if gigabytes < 10 else Sizes(width=4096, inner=11008, kept_heads=32)
    of_ends, of_layer = (
        4 * sum(map(math.prod, shapes.values())) for shapes in (sizes.ends(), sizes.layer(0))
    )
    sizes = sizes._replace(layers=max(1, round((gigabytes * 1e9 - of_ends) / of_layer)))
    model, random = model_of(sizes), np.random.default_rng(0)
    shapes = sizes.ends()
    for n in range(sizes.layers):
        shapes |= sizes.layer(n)
    with (folder / "large.onnx.data").open("wb") as stream:
        for name, shape in shapes.items():
            offset, size = stream.tell(), 4 * math.prod(shape)
            tensor = TensorProto(
                name=name,
                data_type=TensorProto.FLOAT,
                dims=shape,
                data_location=TensorProto.EXTERNAL,
            )
            for key, value in (
                ("location", "large.onnx.data"),
                ("offset", offset),
                ("length", size),
            ):
                tensor.external_data.add(key=key, value=str(value))
            model.graph.initializer.append(tensor)
            random_bytes = min(size, _SPARSE_BYTES) if is_sparse else size
            for start in range(0, random_bytes, 1 << 26):
                count = min(1 << 26, random_bytes - start) // 4
                numbers = random.standard_normal(count, np.float32)
                stream.write((numbers * np.float32(0.02 if len(shape) > 1 else 1)).tobytes())
            stream.truncate(offset + size)
            stream.seek(-(-(offset + size) // _PAGE) * _PAGE)
    path = folder / "large.onnx"
    path.write_bytes(model.SerializeToString())
    return path


class Cost(NamedTuple):
    """What a command needed.

    Attributes:
        seconds: wall time.
        processors: seconds of CPU time.
        peak: bytes of memory at the peak.
        problem: why the command failed; empty if it did not.
    """

    seconds: float
    processors: float
    peak: int
    problem: str = ""


def cost(*command: str) -> Cost:
    """Run and measure a command."""
    start = perf_counter()
    # RUSAGE_CHILDREN has the peak over all children so far. A process in between has this one only.
    code = (
        "import resource, subprocess, sys; "
        "done = subprocess.run(sys.argv[1:], capture_output=True, "
        "text=True);used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_maxrss, "
        "used.ru_utime + used.ru_stime);print(done.stderr[-300:], "
        "file=sys.stderr); sys.exit(done.returncode)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, check=False
    )
    lines = done.stderr.strip().splitlines()
    problem = (
        ""
        if done.returncode in (0, NOT_VERIFIED)
        else (lines[-1] if lines else f"exit code {done.returncode}")
    )
    peak, processors = done.stdout.split()
    return Cost(perf_counter() - start, float(processors), int(peak) * 1024, problem)


_OFFLINE: Final = """
import sys, onnxruntime as ort
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
options.optimized_model_filepath = sys.argv[2]
weights = "session.optimized_model_external_initializers_"
options.add_session_config_entry(f"{weights}file_name", "ort.data")
options.add_session_config_entry(f"{weights}min_size_in_bytes", "1024")
ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""
_ALONE: Final = """
import sys, numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
for path in sys.argv[1:]:
    session = ort.InferenceSession(path, options)
    shapes = {port.name: (2, port.shape[1], 3, port.shape[3]) for port in session.get_inputs()[1:]}
    feeds = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    for _ in range(3):
        session.run(None, feeds | {"ids": np.ones((2, 6), np.int64)})
    del session
"""


def rows(
    path: Path, folder: Path, *, with_verification: bool, peers: bool
) -> list[tuple[str, Cost]]:
    """Names and costs of all commands.

    Commands that write a model begin with an empty folder. The others read the result of ``xopt``.
    """
    source, target = str(path), str(folder / "out.onnx")
    command = [sys.executable, "-m", "xoptim"]
    optimize = [*command, source, "-o", target, "--quiet"]
    writing = {
        "imports": [
            sys.executable,
            "-c",
            "import xoptim, onnxruntime; xoptim.installed_patterns()",
        ],
        "cp": ["cp", str(path.with_name("large.onnx.data")), str(folder)],
        "xopt --no-verify": [*optimize, "--no-verify"],
    }
    reading = {}
    if peers:
        offline = [sys.executable, "-c", _OFFLINE, source, str(folder / "ort.onnx")]
        simplify = [
            sys.executable,
            "-m",
            "onnxsim",
            source,
            str(folder / "sim.onnx"),
            "--save-as-external-data",
        ]
        writing |= {"onnxruntime offline": offline, "onnxsim": simplify}
    if with_verification:
        writing["xopt"] = optimize
        reading["xopt verify"] = [*command, "verify", source, target]
        reading["onnxruntime alone"] = [sys.executable, "-c", _ALONE, source, target]
    costs = []
    for name, words in (writing | reading).items():
        if name in writing:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        subprocess.run(["sync"], check=True)
        costs.append((name, cost(*words)))
    return costs


def main() -> None:
    """Build the model, run all commands, print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=4.4)
    parser.add_argument(
        "--sparse", action="store_true", help="store only the first bytes of each weight"
    )
    parser.add_argument(
        "--verification", action="store_true", help="measure the verification as well"
    )
    parser.add_argument("--no-peers", action="store_true", help="skip the other optimizers")
    parser.add_argument(
        "--folder",
        type=Path,
        help="folder for temporary files, several times the size of the weights",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        path = build(Path(name), arguments.gigabytes, is_sparse=arguments.sparse)
        size = path.with_name("large.onnx.data").stat().st_size
        nodes = len(onnx.load(path, load_external_data=False).graph.node)
        print(f"{size / 1e9:.2f} GB of weights, {nodes} nodes, {mmap.PAGESIZE} bytes a page")
        costs = rows(
            path,
            Path(name) / "out",
            with_verification=arguments.verification,
            peers=not arguments.no_peers,
        )
    import_peak = costs[0][1].peak
    print(f"{'command':22} {'seconds':>9} {'of CPU':>9} {'peak MB':>9} {'above imports':>14}")
    for label, entry in costs:
        figures = (
            f"{entry.seconds:9.1f} {entry.processors:9.1f} {entry.peak / 1e6:9.0f} "
            f"{(entry.peak - import_peak) / 1e6:14.0f}"
        )
        print(f"{label:22} {figures}  {entry.problem}")


if __name__ == "__main__":
    main()
