"""Options that have no effect next to the others of a command line."""

from pathlib import Path

import pytest

from tests.cli.command import ONLY, TRANSPOSES, Xopt, files, write

MODEL = "model.onnx"
APPLY = ("apply", MODEL, "TransposeTranspose", "--at", "u", "-o", "out.onnx")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((MODEL, "--no-verify", "--atol", "1"), "--atol has no effect with --no-verify"),
        ((MODEL, "--no-verify", "--run-limit", "5"), "--run-limit has no effect with --no-verify"),
        ((MODEL, "--no-verify", "--tf32"), "--tf32 has no effect with --no-verify"),
        ((MODEL, "--no-verify", "--dim", "a=2"), "--dim has no effect with --no-verify"),
        (
            (MODEL, "--no-verify", "--benchmark", "--ulp", "2"),
            "--ulp has no effect with --no-verify",
        ),
        (
            (MODEL, "--test-data", "data", "--feeds", "f.npz"),
            "--feeds has no effect with --test-data",
        ),
        ((MODEL, "--test-data", "data", "--dim", "a=2"), "--dim has no effect with --test-data"),
        ((MODEL, "--no-fold", "--max-growth", "1MB"), "--max-growth has no effect with --no-fold"),
        ((MODEL, "--strip", "--tag"), "--tag has no effect with --strip"),
        ((MODEL, "--tf32"), "--tf32 has no effect without --provider cuda"),
        (
            (MODEL, "--software-device"),
            "--software-device has no effect without --target webgpu or --provider webgpu",
        ),
        (
            ("diff", MODEL, MODEL, "--values", "--tf32"),
            "--tf32 has no effect without --provider cuda",
        ),
        ((MODEL, "-q", "--benchmark"), "--benchmark has no effect with --quiet"),
        (("stats", MODEL, "--layers", "--json"), "--layers has no effect with --json"),
        (("explain", MODEL, "Cast", "-v", "--json"), "--verbose has no effect with --json"),
        (
            ("batch", ".", "-o", "out", "--no-verify", "--rtol", "1"),
            "--rtol has no effect with --no-verify",
        ),
        (
            ("batch", ".", "-o", "out", "--scheduler", "tcp://a:1", "-j", "2"),
            "--jobs has no effect with --scheduler",
        ),
        (("check", MODEL, "--exact"), "--exact has no effect without --against REVISION"),
        (("check", MODEL, "--seed", "1"), "--seed has no effect without --against REVISION"),
        (
            ("check", MODEL, "--against", "main", *ONLY),
            "--patterns has no effect with --against alone",
        ),
        (("diff", MODEL, MODEL, "--atol", "1"), "--atol has no effect without --values"),
        (("diff", MODEL, MODEL, "--provider", "cpu"), "--provider has no effect without --values"),
        (("diff", MODEL, MODEL, "--limit", "1", "--json"), "--limit has no effect with --json"),
        (
            ("diff", MODEL, MODEL, "--html", "a.html", "--no-verify", "--atol", "1"),
            "--atol has no effect with --no-verify",
        ),
        (
            ("diff", MODEL, MODEL, "--html", "a.html", "--no-verify", "--seed", "1"),
            "--seed has no effect with --no-verify",
        ),
        ((*APPLY, "--no-verify", "--strict"), "--strict has no effect with --no-verify"),
        ((*APPLY, "--no-verify", "--seed", "1"), "--seed has no effect with --no-verify"),
        (
            ("explain", MODEL, "Cast", "--at", "u", "--limit", "1"),
            "--limit has no effect with --at",
        ),
        (("explain", MODEL, "Cast", "--at", "u", "--all"), "--all has no effect with --at"),
        (("explain", MODEL, "Cast", "--all", "--limit", "1"), "--limit has no effect with --all"),
        (
            ("new-pattern", "APattern", "--nodes", "u"),
            "--nodes needs --from MODEL",
        ),
        (
            ("new-pattern", "APattern", "--from", MODEL),
            "no node is selected that computes anything",
        ),
        *(
            (
                (*command, "--test-data", "data", "--dim", "a=2"),
                "--dim has no effect with --test-data",
            )
            for command in (
                ("verify", MODEL, MODEL),
                ("bench", MODEL),
                ("tune", MODEL),
                ("bisect", MODEL),
            )
        ),
    ],
)
def test_they_are_refused(xopt: Xopt, words: tuple[str, ...], message: str) -> None:
    write(TRANSPOSES)
    assert message in xopt(*words).error
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
    assert "--atol has no effect" in xopt(MODEL, "--no-verify", "--atol", "1").error
