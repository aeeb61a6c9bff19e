"""Time and errors of convolutions in tiles, in whole networks.

    python -m benchmarks.winograd                            # all networks, one thread
    python -m benchmarks.winograd --only U-Net --threads 2

Networks with random weights are optimized with the preset `default`, and with `finite` and
`approximate` besides. All run in onnxruntime with its own optimizations, in rounds of random order.
The errors are those next to the original, divided by the largest result.
"""

import argparse
from typing import Final

import xoptim
from benchmarks.families import Graph, drawn
from xoptim.bench import bench

SELECTIONS: Final = ("default", "default+finite", "default+approximate")


def vgg16(g: Graph) -> str:
    """Convolutions one after another, with poolings."""
    x, into = g.input(1, 3, 224, 224), 3
    for count, out in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            x, into = g.add("Relu", g.conv(x, into, out)), out
        x = g.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    return x


def resnet34(g: Graph) -> str:
    """Blocks of two convolutions, added to their operand."""
    x = g.add("Relu", g.conv(g.input(1, 3, 224, 224), 3, 64, window=7, step=2))
    x, into = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 64
    for count, out in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for _ in range(count):
            step = 1 if into == out else 2
            y = g.conv(g.add("Relu", g.conv(x, into, out, step=step)), out, out)
            x = x if into == out else g.conv(x, into, out, window=1, step=step)
            x, into = g.add("Relu", g.add("Add", x, y)), out
    return g.add("GlobalAveragePool", x)


def unet(g: Graph) -> str:
    """An encoder and a decoder, which reads the results of the encoder."""
    x, into, kept = g.input(1, 3, 128, 128), 3, []
    for out in (64, 128, 256, 512):
        x = g.add("Relu", g.conv(g.add("Relu", g.conv(x, into, out)), out, out))
        kept.append((x, out))
        x, into = g.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), out
    x = g.add("Relu", g.conv(g.add("Relu", g.conv(x, 512, 1024)), 1024, 1024))
    for other, out in reversed(kept):
        x = g.add("ConvTranspose", x, g.weight(2 * out, out, 2, 2, terms=2 * out), strides=[2, 2])
        x = g.add("Relu", g.conv(g.add("Concat", x, other, axis=1), 2 * out, out))
        x = g.add("Relu", g.conv(x, out, out))
    return g.conv(x, 64, 2, window=1)


def diffusion(g: Graph) -> str:
    """Blocks of a network that removes noise."""
    x = g.conv(g.input(1, 4, 32, 32), 4, 320)
    for _ in range(3):
        y = x
        for _ in range(2):
            y = g.conv(g.add("Mul", y, g.add("Sigmoid", y)), 320, 320)
        x = g.add("Add", x, y)
    return g.conv(x, 320, 4)


NETWORKS: Final = {"VGG-16": vgg16, "ResNet-34": resnet34, "U-Net": unet, "diffusion": diffusion}


def measure(name: str, threads: int, seconds: float) -> str:
    """A row: the time of the original, and the ratio and the error of each selection."""
    original = drawn(NETWORKS[name])
    models = {
        "original": original,
        **{each: xoptim.optimize(original, patterns=each) for each in SELECTIONS},
    }
    report = bench(models, threads=threads, seconds=seconds, loading=False)
    cells = [name, f"{1e3 * report.models[0].median:.0f}"]
    for each in report.models[1:]:
        error = max(
            output.max_rel
            for run in xoptim.verify(original, models[each.label]).runs
            for output in run.comparisons
        )
        ratio = each.ratio
        cells.append("" if ratio is None else f"{ratio.value:.2f} ({error:.0e})")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="networks, separated by commas")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="of measured runs for each model"
    )
    given = parser.parse_args()
    print(f"| network | ms | {' | '.join(SELECTIONS)} |\n|---|---:|{'---:|' * len(SELECTIONS)}")
    for name in given.only.split(",") if given.only else NETWORKS:
        print(measure(name, given.threads, given.seconds), flush=True)


if __name__ == "__main__":
    main()
