"""Measure the proof of a large decoder, its weights in a file of its own: ``python -m benchmarks.proof [--layers 4]``.

The model is written here, as exporters write a LLaMA with caches: about 170 MB for each layer of 2,048 channels, and 500 MB for
a vocabulary of 32,000. Each line is measured in a process of its own; peaks include mapped weights. Under "loading and running"
onnxruntime alone loads each of the two models once, one after the other, and runs each three times.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import onnx
from onnx import TensorProto

_HEAD = 64
_GROUPS = 4
"""Elements of a head, and heads of keys."""
_CACHE = f"float[batch,{_GROUPS},past,{_HEAD}]"

_BEFORE = """
    zero = Constant <value_int = 0> () one = Constant <value_int = 1> () at0 = Constant <value_ints = [0]> ()
    at2 = Constant <value_ints = [2]> () last = Constant <value_ints = [-1]> () axis3 = Constant <value_ints = [3]> ()
    half = Constant <value_ints = [32]> () end = Constant <value_ints = [64]> () flat = Constant <value_ints = [0, 0, -1]> ()
    heads = Constant <value_ints = [0, 0, -1, 64]> () joined = Constant <value_ints = [0, 32, -1, 64]> ()
    two = Constant <value = float {2}> () eps = Constant <value = float {1e-5}> () scale = Constant <value = float {8}> ()
    none = Constant <value = float {0}> () far = Constant <value = float {-1e9}> ()
    b_q = Shape <start = 1, end = 2> (ids) b_p = Shape <start = 2, end = 3> (past0k) t1 = Add(b_p, b_q)
    p = Squeeze(b_p, at0) t = Squeeze(t1, at0) rows1 = Range(p, t, one) columns1 = Range(zero, t, one)
    rows = Unsqueeze(rows1, last) columns = Unsqueeze(columns1, at0)
    seen = LessOrEqual(columns, rows) mask = Where(seen, none, far)
    turns1 = Cast <to = 1> (rows) turns2 = Mul(turns1, frequencies) turns = Concat <axis = -1> (turns2, turns2)
    cosine = Cos(turns) sine = Sin(turns) x0 = Gather(words, ids)
"""
_NORM = """
    {0}p = Pow({1}, two) {0}m = ReduceMean({0}p, last) {0}e = Add({0}m, eps) {0}r = Sqrt({0}e) {0}c = Reciprocal({0}r)
    {0}n = Mul({1}, {0}c) {0} = Mul({0}n, {0}w)
"""
_LINEAR = "{0}t = Transpose <perm = [1, 0]> ({0}w) {0} = MatMul({1}, {0}t)\n"
_HEADS = "{0}r = Reshape({0}, heads) {0}h = Transpose <perm = [0, 2, 1, 3]> ({0}r)\n"
_ROTARY = """
    {0}_1 = Slice({0}h, at0, half, axis3) {0}_2 = Slice({0}h, half, end, axis3) {0}g = Neg({0}_2)
    {0}x = Concat <axis = -1> ({0}g, {0}_1) {0}a = Mul({0}h, cosine) {0}b = Mul({0}x, sine) {0}o = Add({0}a, {0}b)
"""
_REPEAT = "{0}u = Unsqueeze({0}, at2) {0}y = Expand({0}u, repeats) {0}z = Reshape({0}y, joined)\n"
_ATTENTION = """
    present{0}k = Concat <axis = 2> (past{0}k, k{0}o) present{0}v = Concat <axis = 2> (past{0}v, v{0}h)
"""
_SCORES = """
    c{0} = Transpose <perm = [0, 1, 3, 2]> (present{0}kz) d{0} = MatMul(q{0}o, c{0}) e{0} = Div(d{0}, scale)
    f{0} = Add(e{0}, mask) g{0} = Softmax <axis = -1> (f{0}) h{0} = MatMul(g{0}, present{0}vz)
    i{0} = Transpose <perm = [0, 2, 1, 3]> (h{0}) j{0} = Reshape(i{0}, flat)
"""


def _layer(n: int) -> Iterator[str]:
    yield _NORM.format(f"before{n}", f"x{n}")
    for name in (f"q{n}", f"k{n}", f"v{n}"):
        yield _LINEAR.format(name, f"before{n}") + _HEADS.format(name)
    yield _ROTARY.format(f"q{n}") + _ROTARY.format(f"k{n}") + _ATTENTION.format(n)
    yield _REPEAT.format(f"present{n}k") + _REPEAT.format(f"present{n}v") + _SCORES.format(n)
    yield _LINEAR.format(f"o{n}", f"j{n}") + f"y{n} = Add(x{n}, o{n})" + _NORM.format(f"after{n}", f"y{n}")
    yield _LINEAR.format(f"gate{n}", f"after{n}") + _LINEAR.format(f"up{n}", f"after{n}")
    yield f"s{n} = Sigmoid(gate{n}) l{n} = Mul(gate{n}, s{n}) m{n} = Mul(l{n}, up{n})\n"
    yield _LINEAR.format(f"down{n}", f"m{n}") + f"x{n + 1} = Add(y{n}, down{n})"


def _shapes(layers: int, width: int, vocabulary: int) -> dict[str, tuple[int, ...]]:
    small, wide = _GROUPS * _HEAD, width * 11 // 4
    found: dict[str, tuple[int, ...]] = {"words": (vocabulary, width)}
    for n in range(layers):
        found |= {f"before{n}w": (width,), f"after{n}w": (width,), f"q{n}w": (width, width), f"o{n}w": (width, width)}
        found |= {f"k{n}w": (small, width), f"v{n}w": (small, width), f"down{n}w": (width, wide)}
        found |= {f"gate{n}w": (wide, width), f"up{n}w": (wide, width)}
    return found | {"finalw": (width,), "logitsw": (vocabulary, width)}


def build(folder: Path, layers: int, width: int, vocabulary: int) -> Path:
    """Write the decoder; returns its file."""
    caches = [f"{n}{kind}" for n in range(layers) for kind in "kv"]
    given = ", ".join(["int64[batch,seq] ids", *(f"{_CACHE} past{cache}" for cache in caches)])
    made = ", ".join(
        [f"float[batch,seq,{vocabulary}] logits", *(f"{_CACHE.replace('past', 'total')} present{c}" for c in caches)]
    )
    body = [_BEFORE, *(text for n in range(layers) for text in _layer(n)), _NORM.format("final", f"x{layers}")]
    before = body[0].replace("[0, 32, -1, 64]", f"[0, {width // _HEAD}, -1, {_HEAD}]")
    text = f"agraph ({given}) => ({made}) {{ {before} {' '.join(body[1:])} {_LINEAR.format('logits', 'final')} }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> {text}')
    frequencies = 10000.0 ** (-np.arange(0, _HEAD, 2, dtype=np.float32) / _HEAD)
    repeats = np.array([1, 1, width // _HEAD // _GROUPS, 1, 1])
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(a, n) for n, a in (("frequencies", frequencies), ("repeats", repeats))
    )
    rng, offset = np.random.default_rng(0), 0
    with (folder / "weights.bin").open("wb") as stream:
        for name, shape in _shapes(layers, width, vocabulary).items():
            scale = 0.02 if len(shape) > 1 else 1.0
            array = rng.standard_normal(shape, np.float32) * np.float32(scale)
            array.tofile(stream)
            tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "weights.bin"), ("offset", offset), ("length", array.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            model.graph.initializer.append(tensor)
            offset += array.nbytes
    path = folder / "decoder.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def optimize(path: Path, target: Path) -> None:
    """Write the optimized model."""
    import xoptim

    builder = xoptim.GraphBuilder(path)
    builder.optimize()
    xoptim.save(builder.to_onnx(optimize=False), target, builder.model.base_dir, external=True)


def load_and_run(*paths: Path) -> None:
    """Load each model once, and run it three times, on six tokens after a short past."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for path in paths:
        session = onnxruntime.InferenceSession(path, options)
        feeds = {port.name: np.zeros((2, _GROUPS, 3, _HEAD), np.float32) for port in session.get_inputs()}
        for _ in range(3):
            session.run(None, feeds | {"ids": np.ones((2, 6), np.int64)})
        del session


def validate(*paths: Path) -> None:
    """Compare the models."""
    import xoptim.validate

    report = xoptim.validate.validate(paths[0], paths[1])
    print(report.summary(), *report.notes, sep="; ")


_STEPS: dict[str, Callable[..., None]] = {"optimize": optimize, "load and run": load_and_run, "validate": validate}


def measured(step: str, *paths: Path) -> str:
    """Seconds, peak of memory and output of a step in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.proof", "--step", step, *map(str, paths)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().replace("\n", "; ")


def main() -> None:
    """Build, run in processes of their own, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--step", choices=_STEPS)
    parser.add_argument("paths", nargs="*", type=Path)
    arguments = parser.parse_args()
    if arguments.step is not None:
        start = perf_counter()
        _STEPS[arguments.step](*arguments.paths)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6 * 1024 / 1e3
        print(f"{perf_counter() - start:.1f} s, of CPU {process_time():.1f} s, peak {peak:.2f} GB")
        return
    with tempfile.TemporaryDirectory() as name:
        path = build(Path(name), arguments.layers, arguments.width, arguments.vocabulary)
        target = path.with_name("optimized.onnx")
        print(f"weights          {(path.parent / 'weights.bin').stat().st_size / 1e9:.2f} GB")
        print(f"optimizing       {measured('optimize', path, target)}")
        print(f"loading, running {measured('load and run', path, target)}")
        print(f"proof            {measured('validate', path, target)}")


if __name__ == "__main__":
    main()
