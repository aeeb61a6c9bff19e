"""Optimize a model with very large external weights, and measure memory: ``python benchmarks/memory.py [--gigabytes 100]``.

The weights are holes in a sparse file, so that no disk space is needed.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import onnx
from onnx import TensorProto, helper

_SIDE = 8192
_BYTES = _SIDE * _SIDE * 4


def build(folder: Path, gigabytes: int) -> Path:
    """A chain of products with one weight each, and things to optimize in between."""
    count = max(1, gigabytes * 10**9 // _BYTES)
    nodes, weights = [], []
    current = "x"
    for index in range(count):
        weight = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, dims=(_SIDE, _SIDE))
        weight.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights.bin"), ("offset", str(index * _BYTES)), ("length", str(_BYTES))):
            weight.external_data.add(key=key, value=value)
        weights.append(weight)
        nodes.append(helper.make_node("MatMul", [current, f"w{index}"], [f"m{index}"]))
        nodes.append(helper.make_node("Identity", [f"m{index}"], [f"i{index}"]))
        nodes.append(helper.make_node("Transpose", [f"i{index}"], [f"t{index}"]))
        nodes.append(helper.make_node("Transpose", [f"t{index}"], [f"y{index}"]))
        current = f"y{index}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", _SIDE]) for name in ("x", current)]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], weights)
    path = folder / "large.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    with (folder / "weights.bin").open("wb") as stream:
        stream.truncate(count * _BYTES)
    return path


def child(path: Path | None) -> None:
    """Print the peak memory of this process in MB, after optimizing ``path`` if given, with the seconds and nodes."""
    import xoptim

    xoptim.installed_patterns()
    start = perf_counter()
    text = ""
    if path is not None:
        before = len(onnx.load(path, load_external_data=False).graph.node)
        builder = xoptim.GraphBuilder(path)
        builder.optimize()
        builder.save(path.with_name("large.opt.onnx"))
        text = f" {perf_counter() - start:.2f} {before} {len(builder.nodes)}"
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, text)


def main() -> None:
    """Build, run in processes of their own, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=int, default=100)
    parser.add_argument("--child", nargs="?", const="")
    arguments = parser.parse_args()
    if arguments.child is not None:
        child(Path(arguments.child) if arguments.child else None)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = build(Path(folder), arguments.gigabytes)
        size = (path.parent / "weights.bin").stat().st_size
        command = [sys.executable, __file__, "--child"]
        idle = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0])
        out = subprocess.run([*command, str(path)], check=True, capture_output=True, text=True).stdout.split()
        print(f"weights          {size / 1e9:.1f} GB")
        print(f"nodes            {out[2]} -> {out[3]}")
        print(f"seconds          {out[1]}")
        print(f"peak memory      {float(out[0]):.0f} MB, {float(out[0]) - idle:.0f} MB above the interpreter with its imports")
        print(f"written          {sum(p.stat().st_size for p in path.parent.glob('large.opt*')) / 1e6:.3f} MB")


if __name__ == "__main__":
    main()
