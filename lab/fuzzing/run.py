"""Feed targets with mutated inputs until something breaks: ``python -m lab.fuzzing.run TARGET
--seconds 600``.

With ``atheris`` installed (``pip install .[fuzz]``), what is mutated is guided by the code that it
reaches. Without it, or with ``--runs``, a fixed sequence of mutations is tried. What breaks is
written to ``--save`` and reported.
"""

import argparse
import faulthandler
import importlib.util
import logging
import random
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from time import monotonic
from types import FrameType

SLOWEST = 10
"""Seconds that one input may take."""
LARGEST = 2048
"""Mebibytes that one input may make the process grow by."""
REGRESSIONS = Path(__file__).parents[2] / "tests" / "fuzzing" / "regressions"
"""Inputs that once broke something, in a folder for each target."""


class TooSlowError(BaseException):
    """An input takes too long. Nothing may swallow that."""


def main(arguments: list[str] | None = None) -> int:
    """Run targets; returns how many of them broke."""
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument(
        "--runs", type=int, default=0, help="mutations of each target, the same ones each time"
    )
    parser.add_argument("--seed", type=int, default=0, help="another sequence of mutations")
    parser.add_argument(
        "--save",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="folder for inputs that break something",
    )
    parser.add_argument("--corpus", type=Path, help="folder for inputs that reach something new")
    chosen = parser.parse_args(arguments)
    if not chosen.runs and importlib.util.find_spec("atheris") is not None:
        return _guided(chosen)
    return _repeated(chosen)


def _repeated(chosen: argparse.Namespace) -> int:
    from lab.fuzzing.mutation import mutate
    from lab.fuzzing.targets import TARGETS, feed

    broken = 0
    names = chosen.targets or list(TARGETS)
    for name in names:
        target, rng = TARGETS[name], random.Random(f"{name} {chosen.seed}")
        known = sorted((REGRESSIONS / name).glob("*")) if (REGRESSIONS / name).is_dir() else []
        pool = [*target.seeds(), *(path.read_bytes() for path in known)]
        end = monotonic() + chosen.seconds / len(names)
        number, spoilt = 0, list[bytes]()
        while number < chosen.runs if chosen.runs else monotonic() < end:
            origin = rng.choice(spoilt if spoilt and rng.random() < 0.2 else pool)
            data = pool[number] if number < len(pool) else mutate(origin, rng, target.kind)
            number += 1
            if number > len(pool):
                spoilt = [*spoilt[-20:], data]
            try:
                with Limits():
                    feed(name, data)
            except (Exception, TooSlowError):
                broken += 1
                path = chosen.save / f"crash-{name}-{number}"
                path.write_bytes(data)
                sys.stdout.write(f"{name}: input {number}, {path}\n{traceback.format_exc()}\n")
        sys.stdout.write(f"{name}: {number} inputs\n")
    return broken


class Limits:
    """Stops what takes too long."""

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGALRM, _too_slow)
        signal.setitimer(signal.ITIMER_REAL, SLOWEST)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)


def _too_slow(_: int, __: FrameType | None) -> None:
    raise TooSlowError(f"this takes more than {SLOWEST} s")


def _guided(chosen: argparse.Namespace) -> int:
    """LibFuzzer ends the process when something breaks, so there is one target at a time."""
    import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

    with atheris.instrument_imports(include=["xoptim", "onnx"]):
        from lab.fuzzing.mutation import mutate
        from lab.fuzzing.targets import TARGETS, feed

    (name,) = chosen.targets
    target = TARGETS[name]

    def one_input(data: bytes) -> None:
        feed(name, data)

    def changed(data: bytes, size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.3:
            return bytes(atheris.Mutate(data, size))
        return mutate(data, rng, target.kind)[:size]

    corpus = chosen.corpus or Path(tempfile.mkdtemp(prefix="corpus_"))
    corpus.mkdir(exist_ok=True, parents=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    limits = ["-handle_segv=0", "-max_len=16384", f"-timeout={SLOWEST}", f"-rss_limit_mb={LARGEST}"]
    limits.append(f"-max_total_time={int(chosen.seconds)}")
    places = [f"-artifact_prefix={chosen.save}/{name}-", str(corpus)]
    known = [str(REGRESSIONS / name)] if (REGRESSIONS / name).is_dir() else []
    atheris.Setup([sys.argv[0], *limits, *places, *known], one_input, custom_mutator=changed)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.getLogger("xoptim").addHandler(logging.NullHandler())
    logging.getLogger("xoptim").propagate = False
    sys.exit(main())
