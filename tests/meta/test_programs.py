"""Every program of the benchmarks, the lab and the tests runs with small arguments, and something
runs every target of make.
"""

import filecmp
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meta.sources import ROOT, in_one_process, sources
from tests.share import is_in_share

PARTS = 20
"""A run starts about one of so many programs; the nightly run starts all."""
PROGRAMS = {
    "benchmarks.folding": ("towers_2 --seconds 0.001", "| towers_2 |"),
    "benchmarks.matching": ("--quick --nodes 100", "deep"),
    "benchmarks.matmul": ("--threads 1 --seconds 0.001 --width 768", "| 768 to 768"),
    "benchmarks.operators": ("--only Gelu --threads 1 --seconds 0.001", "Gelu"),
    "benchmarks.precision": ("MODELS --seconds 0.001", "geometric mean of 1"),
    "benchmarks.provider_facts": ("--only Relu,LSTM", "coreml: as onnxruntime"),
    "benchmarks.quantizers": ("MODELS --only nothing", ""),
    "benchmarks.scaling": ("--sizes 100 --shapes chain --tools xoptim", "xoptim"),
    "benchmarks.targets": ("MODELS --target onnx --seconds 0.01", "Fitted: 1 load"),
    "benchmarks.winograd": ("--only ResNet-34 --seconds 0.001", "| ResNet-34 |"),
    "benchmarks.zoo": ("MODELS --only ^mlp$", "mlp"),
    "lab.discovery": ("--nodes 2 --seconds 0.5", "|---|"),
    "lab.discovery.mine": ("MODELS/tiny_bert.onnx --top 1", "nodes"),
    "lab.fuzzing.run": ("assumptions selection --runs 3", "selection: 3 inputs"),
    "lab.proof_mutants": ("3", "only run"),
    "lab.properties": ("--seconds 0.5 --only mutants", "graphs"),
    "lab.proofs": ("examples --only TransposeTranspose", "rewrites, "),
    "lab.reach.models": ("MODELS", "Geometric means of nodes"),
    "lab.reach.page": ("1.1", "by "),
    "lab.reach.transformers": ("NotWhere", "| NotWhereFusion | Not Where Where | 3 | 2 |"),
    "lab.workarounds": ("", ""),
    "tests.facts.kernels": ("--check", ""),
    "tests.precision.drawing": ("0", "faults"),
    "tests.precision.hunting": ("0 1", "1 networks"),
    "tests.verification.wrong": ("relu_alone", "narrowed"),
}
"""Arguments of a program, and a part of what it prints. ``MODELS`` is a folder with one model."""
WRITERS = ("benchmarks.measured", "lab.json_schemas", "lab.public_names", "xoptim.scaffold.stubs")
"""Programs of ``make docs``, which write files of the repository."""
ELSEWHERE = {
    "benchmarks.decoders": "tests/decoders/test_benchmark.py",
    "benchmarks.large": "tests/bench/test_large_benchmark.py",
    "benchmarks.startup": "tests/bench/test_startup_benchmark.py",
    "benchmarks.performance": "tests/meta/test_performance.py",
    "lab.coverage_of_change": "tests/meta/test_coverage_of_change.py",
    "lab.mutation.verification": "tests/mutation/test_guards.py",
    "lab.pattern_grades": "tests/proof/test_pattern_grades.py",
    "tests.loaded": ".ci/run",
    "xoptim.bench.version_worker": "tests/bench/test_versions.py",
}
"""Programs that a test, or the continuous integration, runs already."""
NOT_RUN = {
    "benchmarks.exporters": "needs the packages of make test-recipes",
    "benchmarks.target_tables": "reads pages of a checkout of onnxruntime",
    "lab.conformance": "takes minutes; the tests of conformance run its parts",
    "lab.four_bits": "needs trained models from packages",
    "lab.mutation.sample": "the nightly run does it",
    "lab.reach.peers": "needs checkouts of other optimizers",
    "lab.real_models": "needs packages with trained models",
}
TARGETS_NOT_RUN = {
    "cuda": "needs a GPU",
    "check-figures": "measures this machine",
    "conformance": "takes minutes; the tests of conformance run its parts",
    "fuzz": "runs until it is stopped; its program is tried here",
    "fuzz-precision": "takes an hour; its program is tried here",
    "gate": "takes hours; its program is tried in tests/mutation",
    "batteries": "the nightly shards run all of it",
    "near-misses": "the nightly shards run all of it",
    "pairs": "the nightly shards run all of it",
    "wrong-rewrites": "the nightly shards run all of it",
    "bench": "takes half an hour; its programs are tried here",
    "performance": "takes hours; its program is tried in tests/meta",
    "pictures": "writes the pictures of the documentation; test-browser runs the same tests",
    "docs": "writes files; its programs are tried here",
    "format": "writes files; lint checks the same",
    "check": "lint, types and quick, which run apart",
    "new-pattern": "tests/scaffold runs the command",
    "provider-facts": "takes minutes; its program is tried here",
    "real-models": "needs packages with trained models",
    "clean": "removes the environment",
    "help": "lists the targets; tried here",
}


def programs() -> Iterator[str]:
    """The modules that run as programs."""
    for source in sources("benchmarks", "lab", "tests", "xoptim"):
        if re.search(r'^if __name__ == "__main__":', source.text, re.MULTILINE):
            yield source.path.removesuffix(".py").removesuffix("/__main__").replace("/", ".")


@in_one_process
def test_every_program_runs_somewhere() -> None:
    named = [*PROGRAMS, *WRITERS, *ELSEWHERE, *NOT_RUN]
    assert sorted(named) == sorted(programs())
    for name, path in ELSEWHERE.items():
        words = (ROOT / path).read_text(encoding="utf-8")
        forms = (name, name.replace(".", " import "), "test-loaded")
        assert any(form in words for form in forms), name
    assert all(NOT_RUN.values())


@in_one_process
def test_every_program_that_is_named_exists() -> None:
    """In pages, in the Makefile and in docstrings."""
    paths = [
        ROOT / "Makefile",
        *(path for folder in (".", "docs", "lab") for path in (ROOT / folder).glob("*.md")),
        *(ROOT / source.path for source in sources("benchmarks", "lab")),
    ]
    named = {
        name.rstrip(".")
        for path in paths
        for name in re.findall(
            r"python -m ((?:benchmarks|lab|tests)\.[\w.]+)", path.read_text(encoding="utf-8")
        )
    }
    assert len(named) > 20
    assert named <= {*PROGRAMS, *WRITERS, *ELSEWHERE, *NOT_RUN}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model that ships."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copy(ROOT / "examples" / "models" / "tiny_bert.onnx", folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, models: Path, request: pytest.FixtureRequest) -> None:
    """It ends without an error."""
    path = name.replace(".", "/")
    source = f"{path}.py" if (ROOT / f"{path}.py").exists() else path
    if not (request.config.option.keyword or is_in_share(name, PARTS, source)):
        pytest.skip("not in the share; make nightly-shard runs all")
    words, expected = PROGRAMS[name]
    arguments = words.replace("MODELS", str(models)).split()
    done = subprocess.run(
        [sys.executable, "-m", name, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert expected in done.stdout


@pytest.mark.slow
def test_the_programs_of_make_docs_change_nothing(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """In a copy: what is committed is what they write."""
    if not (request.config.option.keyword or is_in_share("docs", PARTS, "docs")):
        pytest.skip("not in the share; make nightly-shard runs all")
    hidden = shutil.ignore_patterns("__pycache__", "*.pyc")
    folders = ("benchmarks", "cli", "docs", "lab", "patterns", "tests", "xoptim")
    for folder in folders:
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=hidden)
    shutil.copy(ROOT / "README.md", tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in WRITERS:
        subprocess.run([sys.executable, "-m", name], cwd=tmp_path, env=environment, check=True)
    changed = [
        path.relative_to(tmp_path).as_posix()
        for path in tmp_path.rglob("*")
        if path.is_file()
        and not filecmp.cmp(path, ROOT / path.relative_to(tmp_path), shallow=False)
    ]
    assert changed == []


def targets() -> list[str]:
    """The targets of the Makefile that it lists."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE)


def test_every_target_is_run() -> None:
    """A workflow or ``.ci/run`` runs it, or there is a reason."""
    paths = [*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / ".ci" / "run"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    lines = re.findall(r"^.*\bmake (.*)$", text, re.MULTILINE)
    run = {word for line in lines for word in re.findall(r"(?<![\w./-])[a-z][a-z-]*", line)}
    missing = [target for target in targets() if target not in run]
    assert sorted(missing) == sorted(TARGETS_NOT_RUN)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_help_lists_the_targets() -> None:
    said = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[0] for line in said.stdout.splitlines()] == targets()
