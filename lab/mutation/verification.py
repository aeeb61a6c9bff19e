"""The wrong models that the verification of the command notices: ``python -m
lab.mutation.verification
FOLDER``.

One condition of the catalogue at a time is switched off, of all patterns and of the helpers that
they share. Where near misses of examples then compute something else, two of these models and what
they became are kept in the folder. Then the verification of the plain command judges all of them:
those that it does not notice are printed, and counted by the kind of near miss. A later run judges
the same ones, with the verification as it is then.
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


def search(folder: Path, count: int, seed: int, of: str) -> None:
    """Keep wrong models in a folder until there are as many as wanted, or all conditions have been
    switched off.
    """
    switchable(r"xoptim\.patterns\.")
    names = sorted(
        {c.__module__ for c in installed_patterns().values() if re.search(of, c.__module__)}
    )
    random.Random(seed).shuffle(names)
    seen: set[bytes] = set()
    switched: set[str] = set()
    needed: set[str] = set()
    with ProcessPoolExecutor(_PROCESSES, get_context("fork")) as pool:
        for tried in itertools.chain.from_iterable(
            pool.map(partial(wrong_models, seed=seed), names)
        ):
            switched.add(tried.key)
            fresh = [wrong for wrong in tried.wrong if serialized(wrong.after) not in seen]
            needed |= {tried.key} if fresh else set()
            for wrong in fresh[: max(count - len(seen), 0)]:
                _keep(wrong, folder / f"{len(seen):04}")
                seen.add(serialized(wrong.after))
            sys.stdout.write(
                f"\r{len(switched)} conditions switched off, {len(needed)} needed: {len(seen)} "
                "wrong models"
            )
            sys.stdout.flush()
            if len(seen) >= count:
                pool.shutdown(cancel_futures=True)
                break
    sys.stdout.write("\n")


def _keep(wrong: Wrong, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(wrong.before, f"{path}.before.onnx")
    after = onnx.ModelProto()
    after.CopyFrom(wrong.after)
    onnx.helper.set_model_props(after, {"exactness": wrong.exactness, "text": wrong.text})
    onnx.save(after, f"{path}.after.onnx")


def _kept(path: Path) -> Wrong:
    after = onnx.load(str(path).replace(".before.", ".after."))
    words = {entry.key: entry.value for entry in after.metadata_props}
    grade: Exactness = next(each for each in get_args(Exactness) if each == words["exactness"])
    return Wrong(onnx.load(path), after, grade, words["text"])


def judge(folder: Path) -> Iterator[tuple[Wrong, str]]:
    """The wrong models of a folder, each with the verdict of the verification."""
    for path in sorted(folder.glob("*.before.onnx")):
        wrong = _kept(path)
        yield wrong, next(apart(_judge, wrong, seconds=_VERIFICATION_SECONDS), "crash or no end")


def _judge(wrong: Wrong, answer: Connection) -> None:
    logging.disable()
    answer.send(
        verify_models(
            wrong.before, wrong.after, VerificationOptions(exactness=wrong.exactness)
        ).status
    )


def main() -> int:
    """Entry point; the exit status is 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, help="of wrong models; filled first if it does not exist"
    )
    parser.add_argument("--count", type=int, default=275, help="most wrong models to search for")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--of", default="", help="only patterns of modules whose name has this regular expression"
    )
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    if not chosen.folder.exists():
        search(chosen.folder, chosen.count, chosen.seed, chosen.of)
    verdicts: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for wrong, verdict in judge(chosen.folder):
        verdicts[verdict] += 1
        if verdict == "equal":
            sys.stdout.write(f"not noticed: {wrong.text}\n")
            missed[wrong.family] += 1
    sys.stdout.write(
        f"{verdicts.total()} wrong models, {verdicts.total() - verdicts['equal']} noticed: "
        f"{dict(verdicts)}\n"
    )
    sys.stdout.write(f"not noticed, by the near miss: {dict(missed.most_common())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
