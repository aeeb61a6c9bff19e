"""Compare xoptim with other optimizers on the models of their own tests.

    # the words after PAIRS are arguments of pytest
    python -m lab.reach.peers record onnxslim PAIRS onnxslim/tests -q
    # scripts that write models
    python -m lab.reach.peers generate PAIRS onnxruntime/test/testdata
    python -m lab.reach.peers count PAIRS

The tests of a peer come with its sources (``pip download --no-binary :all:``, or a checkout). While
they run, each model that the peer optimizes is written before and after,
``PAIRS/PEER/DIGEST.before.onnx`` and ``DIGEST.after.onnx``; of several results of a model, the one
with the fewest nodes is kept. A pair counts if both models have the same inputs and outputs and
compute the same numbers. Standard operators are compared with standard ones: operators of
onnxruntime are allowed where the peer's result has some. Nodes of subgraphs and functions count,
nodes ``Constant`` do not.
"""

import argparse
import contextlib
import importlib
import json
import os
import pathlib
import runpy
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

import onnx

import xoptim
from benchmarks.tools import apart, offline
from xoptim.facts.operators import operator_label
from xoptim.facts.protos import every_node

ENTRIES: Final = {
    "onnxsim": ("onnxsim", "simplify"),
    "onnxslim": ("onnxslim", "slim"),
    "onnxoptimizer": ("onnxoptimizer", "optimize"),
    "onnxscript": ("onnxscript.optimizer", "optimize"),
    "transformers": ("onnxruntime.transformers.optimizer", "optimize_model"),
}
"""The function of each peer that takes a model and returns one: module and name."""
STANDARD: Final = ("", "ai.onnx", "ai.onnx.ml")
LARGEST: Final = 100_000_000
"""Size in bytes above which a model is skipped."""


def record(peer: str, target: pathlib.Path, arguments: list[str]) -> None:
    """Run the tests of a peer and write the models that it optimizes."""
    import pytest

    module, name = ENTRIES[peer]
    owner = importlib.import_module(module)
    optimize = getattr(owner, name)

    def recorded(model: Any, *args: Any, **options: Any) -> Any:
        before = _proto(model)
        if before is not None:  # the peer may change the model in place
            before = onnx.ModelProto.FromString(before.SerializeToString())
        result = optimize(model, *args, **options)
        _keep(target / peer, before, _proto(result), os.environ.get("PYTEST_CURRENT_TEST", ""))
        return result

    setattr(owner, name, recorded)
    words = [
        str(pathlib.Path(word).resolve()) if pathlib.Path(word).exists() else word
        for word in arguments
    ]
    with _scratch():  # tests leave models behind
        pytest.main(["-c", os.devnull, "-p", "no:cacheprovider", *words])


def generate(target: pathlib.Path, folder: pathlib.Path) -> None:
    """Run scripts that save models, and let onnxruntime optimize each."""
    save = onnx.save

    def saved(model: onnx.ModelProto, *args: Any, **options: Any) -> None:
        with contextlib.suppress(Exception):  # onnxruntime does not load every model
            _keep(target / "onnxruntime", model, offline(model), str(script.relative_to(folder)))
        save(model, *args, **options)

    onnx.save = onnx.save_model = saved  # type: ignore[assignment]
    for script in sorted(folder.rglob("*.py")):
        with _scratch(), contextlib.suppress(Exception, SystemExit):
            sys.argv = [script.name]
            runpy.run_path(str(script), run_name="__main__")


@contextlib.contextmanager
def _scratch() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield


def _proto(model: Any) -> onnx.ModelProto | None:
    """The proto of what a peer takes or returns; ``None`` if there is none in it."""
    model = model[0] if isinstance(model, tuple) else getattr(model, "model", model)
    if isinstance(model, (str, os.PathLike)):
        return onnx.load(model)
    return model if isinstance(model, onnx.ModelProto) else None


def _keep(
    folder: pathlib.Path, before: onnx.ModelProto | None, after: onnx.ModelProto | None, test: str
) -> None:
    if (
        before is None
        or after is None
        or not before.graph.node
        or before.ByteSize() > LARGEST
        or after.ByteSize() > LARGEST
    ):
        return
    content = before.SerializeToString(deterministic=True)
    stem = folder / sha256(content).hexdigest()[:12]
    result_path = stem.with_suffix(".after.onnx")
    if (
        result_path.exists()
        and operators(onnx.load(result_path)).total() <= operators(after).total()
    ):
        return
    folder.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".before.onnx").write_bytes(content)
    result_path.write_bytes(after.SerializeToString())
    stem.with_suffix(".txt").write_text(test, encoding="utf-8")


def operators(model: onnx.ModelProto) -> Counter[str]:
    """How often each operator occurs, those of subgraphs and functions included."""
    nodes = every_node(
        [*model.graph.node, *(node for function in model.functions for node in function.node)]
    )
    counts = Counter(
        operator_label(node.op_type, "" if node.domain in STANDARD else node.domain)
        for node in nodes
    )
    del counts["Constant"]
    return counts


def _interface(model: onnx.ModelProto) -> list[str]:
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    return [
        repr([(value.name, value.type.tensor_type.elem_type) for value in values])
        for values in (inputs, model.graph.output)
    ]


def _settings(before: onnx.ModelProto, fused: bool) -> Iterator[dict[str, Any]]:
    for inline in {False, bool(before.functions)}:
        for patterns in ("default", "default+onnxruntime") if fused else ("default",):
            for opset in (None, "newest"):
                yield {"patterns": patterns, "opset": opset, "inline": inline}


def judge(before: pathlib.Path) -> dict[str, Any]:
    """Compare the peer's result of a model with xoptim's.

    Args:
        before: file of the original.

    Returns:
        ``verdict``: why the pair does not count, or whether xoptim's result has more or fewer
        nodes. ``more`` and ``fewer``: operators that xoptim's result has more often, and less
        often, than the peer's.
    """
    original, peer = onnx.load(before), onnx.load(str(before).replace(".before.", ".after."))
    if _interface(original) != _interface(peer):
        return {"verdict": "other inputs or outputs"}
    peer_check = xoptim.verify(original, peer)
    if peer_check.status != "equal":
        return {"verdict": f"peer: {peer_check.status}", "reason": peer_check.reason}
    peer_counts = operators(peer)
    fused = any("::" in label for label in peer_counts)
    results = []
    for setting in _settings(original, fused):
        with contextlib.suppress(xoptim.XoptimError):
            results.append(xoptim.optimize(original, **setting))
        if results and operators(results[-1]).total() <= peer_counts.total():
            break
    if not results:
        return {"verdict": "xoptim: not optimized"}
    best = min(results, key=lambda result: operators(result).total())
    own_counts = operators(best)
    own_check = xoptim.verify(original, best)
    if own_check.status == "different":
        return {"verdict": "xoptim: different", "reason": own_check.reason}
    verdict = (
        "more"
        if own_counts.total() > peer_counts.total()
        else "fewer"
        if own_counts.total() < peer_counts.total()
        else "as many"
    )
    more, fewer = own_counts - peer_counts, peer_counts - own_counts
    return {"verdict": verdict, "more": dict(more), "fewer": dict(fewer)}


def count(folder: pathlib.Path, choose: Callable[[str], bool]) -> None:
    """Judge pairs and print the counts; ``FOLDER/judged.json`` keeps the verdicts."""
    pairs = [before for before in sorted(folder.glob("*/*.before.onnx")) if choose(_name(before))]
    judgments: dict[str, dict[str, Any]] = {}
    for start in range(0, len(pairs), 20):
        judgments |= _judged(pairs[start : start + 20])
        (folder / "judged.json").write_text(json.dumps(judgments, indent=1), encoding="utf-8")
    sys.stdout.write(report(judgments))


def _judged(batch: Sequence[pathlib.Path]) -> dict[str, dict[str, Any]]:
    """The verdicts by name. All pairs are judged in one process, or, if it fails, in a process
    each.
    """
    try:
        verdicts = apart(_judge_all, batch, limit=60.0 * len(batch))
    except RuntimeError as error:
        if len(batch) > 1:
            return {
                name: verdict for before in batch for name, verdict in _judged([before]).items()
            }
        verdicts = [{"verdict": "failed", "reason": str(error)}]
    tests = (
        before.with_name(before.name.replace(".before.onnx", ".txt")).read_text(encoding="utf-8")
        for before in batch
    )
    return {
        _name(before): {**verdict, "test": test}
        for before, verdict, test in zip(batch, verdicts, tests, strict=True)
    }


def _judge_all(batch: Sequence[pathlib.Path]) -> list[dict[str, Any]]:
    return [judge(before) for before in batch]


def _name(before: pathlib.Path) -> str:
    return f"{before.parent.name}/{before.name.partition('.')[0]}"


def report(judgments: dict[str, dict[str, Any]]) -> str:
    """The verdicts by peer, and the models with more nodes, grouped by the differing operators."""
    lines: list[str] = []
    verdicts: dict[str, Counter[str]] = {}
    causes: dict[str, list[str]] = {}
    for name, judgment in judgments.items():
        verdicts.setdefault(name.partition("/")[0], Counter())[judgment["verdict"]] += 1
        if judgment["verdict"] == "more":
            sides = (" ".join(Counter(judgment[side]).elements()) for side in ("fewer", "more"))
            causes.setdefault(" -> ".join(sides), []).append(f"{name} {judgment['test']}")
    for peer, counts in verdicts.items():
        compared = counts["fewer"] + counts["as many"] + counts["more"]
        lines.append(
            f"{peer}: {compared - counts['more']} of {compared} at most as many nodes; "
            f"{dict(counts)}"
        )
    for cause, names in sorted(causes.items(), key=lambda item: -len(item[1])):
        lines.append("\n    ".join((f"\n{len(names)} x  {cause}", *names)))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the subcommand that the arguments name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("peer", choices=ENTRIES)
    generating = commands.add_parser("generate")
    counting = commands.add_parser("count")
    for command in (recording, generating, counting):
        command.add_argument("pairs", type=pathlib.Path)
    generating.add_argument("folder", type=pathlib.Path)
    counting.add_argument("--only", default="", help="pairs whose name contains this")
    options, pytest_arguments = parser.parse_known_args()
    if options.command == "record":
        record(options.peer, options.pairs.resolve(), pytest_arguments)
    elif options.command == "generate":
        generate(options.pairs.resolve(), options.folder.resolve())
    else:
        count(options.pairs, lambda name: options.only in name)


if __name__ == "__main__":
    main()
