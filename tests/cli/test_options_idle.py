"""Options that have no effect next to the others of a command line."""

import shlex
from pathlib import Path

import pytest

from tests.cli.command import ONLY, TRANSPOSES, Xopt, files, write
from tests.support import values_in

MODEL = "model.onnx"
DATA = "--test-data data --dim a=2"
IDLE = {
    "--no-verify --atol 1": "--atol --no-verify",
    "--no-verify --run-limit 5": "--run-limit --no-verify",
    "--no-verify --tf32": "--tf32 --no-verify",
    "--no-verify --dim a=2": "--dim --no-verify",
    "--no-verify --verify-budget 9": "--verify-budget --no-verify",
    "--no-verify --benchmark --ulp 2": "--ulp --no-verify",
    "--test-data data --feeds f.npz": "--feeds --test-data",
    DATA: "--dim --test-data",
    "--no-fold --max-growth 1MB": "--max-growth --no-fold",
    "--strip --tag": "--tag --strip",
    "--tf32": "--tf32 --provider",
    "--software-device": "--software-device --target --provider",
    "-q --benchmark": "--benchmark --quiet",
    "--assume-fitting": "--assume-fitting --assume",
    "--tolerance 1%": "--tolerance --precision",
    "--metric rms": "--metric --precision",
    "--calibration entropy": "--calibration --precision",
    "--exact-routing": "--exact-routing --precision",
    "--for size": "--for --precision",
    "--for startup --genai .": "--for --genai",
    "--precision int8 --bits 3": "--bits --precision",
    "--precision int8 --block-size 64": "--block-size --precision",
    "--precision int4 --static": "--static --precision",
    "--precision int8 --io-types float16": "--io-types --compute",
    "--precision int8 --only-if-faster": "--only-if-faster --precision",
    "--precision int8 --strict-proof": "--strict-proof --precision",
    "--precision int8 --certificate c.json": "--certificate --precision",
    "--dry-run --certificate c.json": "--certificate --dry-run",
    "apply --no-verify --strict": "--strict --no-verify",
    "apply --no-verify --seed 1": "--seed --no-verify",
    "bench --profile --rtol 0.1": "--rtol --profile",
    "bench --metric rms": "--metric --tolerance",
    "bench --onnxruntime 1.30,1.32 --profile": "--profile --onnxruntime",
    f"bench {DATA}": "--dim --test-data",
    f"bisect {DATA}": "--dim --test-data",
    "check --exact": "--exact --against",
    "check --seed 1": "--seed --against",
    "check --max-larger 5%": "--max-larger --against",
    "check --against main --patterns Cast": "--patterns --against --max-shrink",
    "check --against main --seconds 1s": "--seconds --max-slower",
    "check --max-left 1": "--max-left --target",
    "check --fix batch=1": "--fix --target",
    "check --target webgpu --patterns all": "--patterns --target --max-shrink",
    "check --target webgpu --seed 1": "--seed --against",
    "check --json --sarif": "--sarif --json",
    "check --json --github": "--github --json",
    "check --sarif --github": "--github --sarif",
    f"diff {MODEL} --atol 1": "--atol --values --html",
    f"diff {MODEL} --provider cpu": "--provider --values --html",
    f"diff {MODEL} --values --tf32": "--tf32 --provider",
    f"diff {MODEL} --limit 1 --json": "--limit --json",
    f"diff {MODEL} --benchmark": "--benchmark --html",
    f"diff {MODEL} --html a.html --no-verify --atol 1": "--atol --no-verify",
    f"diff {MODEL} --html a.html --no-verify --seed 1": "--seed --no-verify",
    "explain Cast -v --json": "--verbose --json",
    "explain Cast --at u --limit 1": "--limit --at",
    "explain Cast --at u --all": "--all --at",
    "explain Cast --all --limit 1": "--limit --all",
    "explain Cast --matches --all": "--all --matches",
    "extract -o a --to y --assume-from-model": "--assume-from-model --from --to",
    "extract -o a --json": "--json --into",
    "extract -o a --rtol 0.1": "--rtol --into",
    "extract -o a --link h=y": "--link --into",
    "stats --layers --json": "--layers --json",
    "tune --metric rms": "--metric --tolerance",
    "tune --calibration entropy": "--calibration --tolerance",
    f"tune {DATA}": "--dim --test-data",
    f"verify {MODEL} {DATA}": "--dim --test-data",
    f"verify {MODEL} --target webgpu --rtol 1": "--rtol --target",
    f"verify {MODEL} --target webgpu --exact": "--exact --target",
    f"verify {MODEL} --target webgpu --fewer-inputs": "--fewer-inputs --target",
    f"verify {MODEL} --target qnn --software-device": "--software-device --target --provider",
    "verify --against-torch a:b --target webgpu": "--target --against-torch",
}
"""Options next to a model, after a command or not, and the options that the message names."""
IDLE_WITHOUT_A_MODEL = {
    "batch . -o out --no-verify --rtol 1": "--rtol --no-verify",
    "batch . -o out --scheduler tcp://a:1 -j 2": "--jobs --scheduler",
    "list Gelu --tags": "--tags",
    "list Gelu --proved": "--proved",
}


@pytest.mark.parametrize("line", [*IDLE, *IDLE_WITHOUT_A_MODEL])
def test_they_are_refused(xopt: Xopt, line: str) -> None:
    write(TRANSPOSES)
    words = shlex.split(line)
    if line in IDLE:
        words.insert(not line.startswith("-"), MODEL)
    if words[0] == "apply":
        words += ["TransposeTranspose", "--at", "u", "-o", "out.onnx"]
    names = [value for value in values_in(xopt(*words).error) if value.startswith("--")]
    assert names == {**IDLE, **IDLE_WITHOUT_A_MODEL}[line].split()
    assert files() == {MODEL}


@pytest.mark.parametrize(
    "words",
    [
        ("--no-verify", "--benchmark", "--dim", "a=2"),  # the sizes that are measured
        ("--no-verify", "--check", "each", "--atol", "1"),  # how each rewrite is compared
        ("--no-verify", "--strict"),  # a pattern that fails is an error
        ("--strip", "--no-tag"),
        ("--dry-run", "--in-place"),
    ],
)
def test_those_that_have_one_are_not(xopt: Xopt, brief: None, words: tuple[str, ...]) -> None:
    write(TRANSPOSES)
    assert xopt(MODEL, *ONLY, *words).code == 0


def test_settings_are_not(xopt: Xopt) -> None:
    """They are defaults for many command lines."""
    write(TRANSPOSES)
    Path(".git").mkdir()
    Path("xoptim.toml").write_text(
        'atol = 1e-3\nexact = true\nmax-growth = "1MB"\nlimit = 3\nseed = 3\n'
    )
    assert xopt(MODEL, *ONLY, "--no-verify", "--no-fold").code == 0
    assert xopt("check", MODEL, "--patterns", "").code == 0
    assert xopt("diff", MODEL, MODEL, "--json").code == 0
