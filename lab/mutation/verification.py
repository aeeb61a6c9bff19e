"""Measure how many wrong models the verification detects: ``python -m lab.mutation.verification
FOLDER``.

The first run fills the folder with wrong models. It switches off one condition at a time, of all
patterns and their helpers, and optimizes near misses of the patterns' examples. Where a result
computes something else, it keeps up to two pairs of original and result for a condition. Then the
verification of ``xopt`` judges all pairs. Those that it does not detect are printed, and counted by
the kind of near miss. A later run judges the pairs in the folder again.
"""

import argparse
import itertools
import logging
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, get_args

import onnx

from lab.mutation.guards import switchable
from lab.mutation.search import Wrong, apart, wrong_models
from xoptim import VerificationOptions
from xoptim.catalogue.discovery import installed_patterns
from xoptim.facts.dtypes import Exactness
from xoptim.testing.variant import serialized
from xoptim.verification import verify_models

_VERIFICATION_SECONDS: Final = 60.0
_PROCESSES: Final = 2


def search(folder: Path, count: int, seed: int, modules: str) -> None:
    """Keep wrong models in a folder.

    Args:
        folder: the folder.
        count: maximum number of wrong models.
        seed: seed of the order of modules and near misses.
        modules: regular expression for names of modules with patterns.
    """
    switchable(r"xoptim\.patterns\.")
    names = sorted(
        {c.__module__ for c in installed_patterns().values() if re.search(modules, c.__module__)}
    )
    random.Random(seed).shuffle(names)
    models: set[bytes] = set()
    conditions: set[str] = set()
    needed_conditions: set[str] = set()
    with ProcessPoolExecutor(_PROCESSES, get_context("fork")) as pool:
        for trial in itertools.chain.from_iterable(
            pool.map(partial(wrong_models, seed=seed), names)
        ):
            conditions.add(trial.key)
            new_pairs = [pair for pair in trial.wrong if serialized(pair.after) not in models]
            needed_conditions |= {trial.key} if new_pairs else set()
            for pair in new_pairs[: max(count - len(models), 0)]:
                _keep(pair, folder / f"{len(models):04}")
                models.add(serialized(pair.after))
            sys.stdout.write(
                f"\r{len(conditions)} conditions switched off, {len(needed_conditions)} needed: "
                f"{len(models)} wrong models"
            )
            sys.stdout.flush()
            if len(models) >= count:
                pool.shutdown(cancel_futures=True)
                break
    sys.stdout.write("\n")


def _keep(pair: Wrong, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(pair.before, f"{path}.before.onnx")
    after = onnx.ModelProto()
    after.CopyFrom(pair.after)
    onnx.helper.set_model_props(after, {"exactness": pair.exactness, "text": pair.text})
    onnx.save(after, f"{path}.after.onnx")


def _read(path: Path) -> Wrong:
    after = onnx.load(str(path).replace(".before.", ".after."))
    properties = {entry.key: entry.value for entry in after.metadata_props}
    exactness: Exactness = next(
        grade for grade in get_args(Exactness) if grade == properties["exactness"]
    )
    return Wrong(onnx.load(path), after, exactness, properties["text"])


def judge(folder: Path) -> Iterator[tuple[Wrong, str]]:
    """The wrong models of a folder, each with the verdict of the verification."""
    for path in sorted(folder.glob("*.before.onnx")):
        pair = _read(path)
        yield pair, next(apart(_judge, pair, seconds=_VERIFICATION_SECONDS), "crash or timeout")


def _judge(pair: Wrong, answer: Connection) -> None:
    logging.disable()
    answer.send(
        verify_models(pair.before, pair.after, VerificationOptions(exactness=pair.exactness)).status
    )


def main() -> int:
    """Search wrong models if there are none, judge them, and print the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, help="folder of wrong models, which is filled if it does not exist"
    )
    parser.add_argument(
        "--count", type=int, default=275, help="maximum number of wrong models to search for"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--of", default="", help="regular expression for names of modules with patterns"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    if not options.folder.exists():
        search(options.folder, options.count, options.seed, options.of)
    verdicts: Counter[str] = Counter()
    undetected: Counter[str] = Counter()
    for pair, verdict in judge(options.folder):
        verdicts[verdict] += 1
        if verdict == "equal":
            sys.stdout.write(f"not noticed: {pair.text}\n")
            undetected[pair.family] += 1
    sys.stdout.write(
        f"{verdicts.total()} wrong models, {verdicts.total() - verdicts['equal']} noticed: "
        f"{dict(verdicts)}\n"
    )
    sys.stdout.write(f"not noticed, by the near miss: {dict(undetected.most_common())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
