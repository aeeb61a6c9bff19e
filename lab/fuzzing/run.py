"""Feed mutated inputs to targets: ``python -m lab.fuzzing.run TARGET --seconds 600``.

With ``atheris`` installed (``pip install .[fuzz]``), coverage guides the mutations (libFuzzer).
Without it, or with ``--runs``, a fixed sequence of mutations is tried. An input fails if it raises
an error that is not meant for users, or takes too long. Failing inputs are reported and written to
``--save``.
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

MAX_SECONDS = 10
"""Seconds that one input may take."""
MAX_MEMORY_MIB = 2048
"""Mebibytes of memory that the process may use, a limit of libFuzzer."""
REGRESSIONS = Path(__file__).parents[2] / "tests" / "fuzzing" / "regressions"
"""Inputs that failed in the past, in a folder for each target."""


class TooSlowError(BaseException):
    """An input takes too long. As a ``BaseException``, it passes every ``except Exception``."""


def main(arguments: list[str] | None = None) -> int:
    """Run targets; the exit status is 1 if an input failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=float, default=60, help="time for all targets together")
    parser.add_argument(
        "--runs", type=int, default=0, help="number of inputs for each target, the same in each run"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the mutations")
    parser.add_argument(
        "--save",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="folder for inputs that fail",
    )
    parser.add_argument(
        "--corpus", type=Path, help="folder for inputs that reach new code, with atheris"
    )
    options = parser.parse_args(arguments)
    if not options.runs and importlib.util.find_spec("atheris") is not None:
        return _guided(options)
    return min(_repeated(options), 1)  # a status of 256 failing inputs would be 0


def _repeated(options: argparse.Namespace) -> int:
    """Try seeds, regressions, then mutations, of which some start from recent mutations.

    Returns the number of inputs that failed.
    """
    from lab.fuzzing.mutation import mutate
    from lab.fuzzing.targets import TARGETS, feed

    failure_count = 0
    names = options.targets or list(TARGETS)
    for name in names:
        target, rng = TARGETS[name], random.Random(f"{name} {options.seed}")
        paths = sorted((REGRESSIONS / name).glob("*")) if (REGRESSIONS / name).is_dir() else []
        pool = [*target.seeds(), *(path.read_bytes() for path in paths)]
        end = monotonic() + options.seconds / len(names)
        number, mutations = 0, list[bytes]()
        while number < options.runs if options.runs else monotonic() < end:
            origin = rng.choice(mutations if mutations and rng.random() < 0.2 else pool)
            data = pool[number] if number < len(pool) else mutate(origin, rng, target.kind)
            number += 1
            if number > len(pool):
                mutations = [*mutations[-20:], data]
            try:
                with Limits():
                    feed(name, data)
            except (Exception, TooSlowError):
                failure_count += 1
                path = options.save / f"crash-{name}-{number}"
                path.write_bytes(data)
                sys.stdout.write(f"{name}: input {number}, {path}\n{traceback.format_exc()}\n")
        sys.stdout.write(f"{name}: {number} inputs\n")
    return failure_count


class Limits:
    """Raises `TooSlowError` in a block that takes more than `MAX_SECONDS` seconds."""

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGALRM, _too_slow)
        signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)


def _too_slow(_: int, __: FrameType | None) -> None:
    raise TooSlowError(f"this takes more than {MAX_SECONDS} s")


def _guided(options: argparse.Namespace) -> int:
    """Fuzz one target: libFuzzer ends the process at the first input that fails."""
    import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

    with atheris.instrument_imports(include=["xoptim", "onnx"]):
        from lab.fuzzing.mutation import mutate
        from lab.fuzzing.targets import TARGETS, feed

    (name,) = options.targets
    target = TARGETS[name]

    def one_input(data: bytes) -> None:
        feed(name, data)

    def mutation(data: bytes, size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.3:
            return bytes(atheris.Mutate(data, size))
        return mutate(data, rng, target.kind)[:size]

    corpus = options.corpus or Path(tempfile.mkdtemp(prefix="corpus_"))
    corpus.mkdir(exist_ok=True, parents=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    flags = ["-handle_segv=0", "-max_len=16384"]
    flags += [f"-timeout={MAX_SECONDS}", f"-rss_limit_mb={MAX_MEMORY_MIB}"]
    flags.append(f"-max_total_time={int(options.seconds)}")
    flags.append(f"-artifact_prefix={options.save}/{name}-")
    folders = [str(corpus)]
    if (REGRESSIONS / name).is_dir():
        folders.append(str(REGRESSIONS / name))
    atheris.Setup([sys.argv[0], *flags, *folders], one_input, custom_mutator=mutation)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.getLogger("xoptim").addHandler(logging.NullHandler())
    logging.getLogger("xoptim").propagate = False
    sys.exit(main())
