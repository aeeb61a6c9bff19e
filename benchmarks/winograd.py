"""Time and errors of Winograd convolutions in complete CNNs.

    python -m benchmarks.winograd                            # all networks, one thread
    python -m benchmarks.winograd --only U-Net --threads 2

CNNs with random weights are optimized with each preset of `SELECTIONS`: `finite` adds Winograd
convolutions with tiles of 2x2, and `approximate` those with tiles of 4x4. All results run in
onnxruntime with ORT graph optimizations, in rounds of random order. The error is the largest
difference from the original, divided by the largest result.
"""

import argparse
from typing import Final

import xoptim
from benchmarks.families import Graph, drawn
from xoptim.bench import bench

SELECTIONS: Final = ("default", "default+finite", "default+approximate")


def vgg16(g: Graph) -> str:
    """The convolutions and poolings of VGG-16."""
    x, channels = g.input(1, 3, 224, 224), 3
    for count, out in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            x, channels = g.add("Relu", g.conv(x, channels, out)), out
        x = g.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    return x


def resnet34(g: Graph) -> str:
    """The residual blocks of ResNet-34, without BatchNormalization."""
    x = g.add("Relu", g.conv(g.input(1, 3, 224, 224), 3, 64, kernel=7, stride=2))
    x, channels = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 64
    for count, out in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for _ in range(count):
            stride = 1 if channels == out else 2
            y = g.conv(g.add("Relu", g.conv(x, channels, out, stride=stride)), out, out)
            x = x if channels == out else g.conv(x, channels, out, kernel=1, stride=stride)
            x, channels = g.add("Relu", g.add("Add", x, y)), out
    return g.add("GlobalAveragePool", x)


def unet(g: Graph) -> str:
    """A U-Net: an encoder, and a decoder with skip connections."""
    x, channels, skips = g.input(1, 3, 128, 128), 3, []
    for out in (64, 128, 256, 512):
        x = g.add("Relu", g.conv(g.add("Relu", g.conv(x, channels, out)), out, out))
        skips.append((x, out))
        x, channels = g.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), out
    x = g.add("Relu", g.conv(g.add("Relu", g.conv(x, 512, 1024)), 1024, 1024))
    for skip, out in reversed(skips):
        x = g.add("ConvTranspose", x, g.weight(2 * out, out, 2, 2, terms=2 * out), strides=[2, 2])
        x = g.add("Relu", g.conv(g.add("Concat", x, skip, axis=1), 2 * out, out))
        x = g.add("Relu", g.conv(x, out, out))
    return g.conv(x, 64, 2, kernel=1)


def diffusion(g: Graph) -> str:
    """Residual blocks of the denoising network of a diffusion model."""
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
        **{selection: xoptim.optimize(original, patterns=selection) for selection in SELECTIONS},
    }
    report = bench(models, threads=threads, seconds=seconds, loading=False)
    cells = [name, f"{1e3 * report.models[0].median:.0f}"]
    for entry in report.models[1:]:
        error = max(
            output.max_rel
            for run in xoptim.verify(original, models[entry.label]).runs
            for output in run.comparisons
        )
        ratio = entry.ratio
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
        "--seconds", type=float, default=5.0, help="time of measured runs for each model"
    )
    options = parser.parse_args()
    print(f"| network | ms | {' | '.join(SELECTIONS)} |\n|---|---:|{'---:|' * len(SELECTIONS)}")
    for name in options.only.split(",") if options.only else NETWORKS:
        print(measure(name, options.threads, options.seconds), flush=True)


if __name__ == "__main__":
    main()
