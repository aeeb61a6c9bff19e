"""Completion of command lines in shells."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.cli.command import RELU, Xopt, write
from xoptim.cli.main import run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(xopt: Xopt, shell: str) -> None:
    outcome = xopt("--completion", shell)
    assert (outcome.code, outcome.err) == (0, "")
    assert "_XOPT_COMPLETE" in outcome.out
    program = shutil.which(shell)
    if program is not None:
        checked = subprocess.run(
            [program, "-n"], input=outcome.out, text=True, capture_output=True, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(
    shutil.which("bash") is None or shutil.which("xopt") is None, reason="bash and the script xopt"
)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sta"], ["stats"]),
        (["mo"], []),  # bash itself offers files then
        (["m"], ["mcp", "model.onnx"]),
        (["model.onnx", "--strategy", "l"], ["largest"]),
    ],
)
def test_bash_offers_commands_and_files(xopt: Xopt, words: list[str], expected: list[str]) -> None:
    write(RELU)
    ask = f"COMP_WORDS=(xopt {' '.join(words)}); COMP_CWORD={len(words)}; _xopt_completion xopt"
    text = "\n".join(
        (
            "compopt() { :; }",
            xopt("--completion", "bash").out,
            ask,
            'printf "%s\\n" "${COMPREPLY[@]}"',
        )
    )
    done = subprocess.run(
        ["bash", "--norc"], input=text, text=True, capture_output=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")


@pytest.mark.skipif(
    shutil.which("fish") is None or shutil.which("xopt") is None, reason="fish and the script xopt"
)
def test_fish_shows_whole_descriptions(xopt: Xopt) -> None:
    text = f"{xopt('--completion', 'fish').out}\ncomplete -C 'xopt model.onnx --strat'\n"
    done = subprocess.run(
        ["fish", "--no-config"], input=text, text=True, capture_output=True, check=False
    )
    assert (
        done.stdout.strip()
        == "--strategy\tChoice between overlapping matches: that of the earlier pattern, or that of"
        " more nodes."
    )


@pytest.mark.parametrize(
    ("words", "number", "expected"),
    [
        ("xopt sta", 1, {"plain,stats"}),
        ("xopt model.onnx --patt", 2, {"plain,--patterns"}),
        ("xopt verify model.onnx --at", 3, {"plain,--atol"}),
        ("xopt verify mod", 2, {"file,mod"}),
        ("xopt --completion f", 2, {"plain,fish"}),
        ("xopt list TransposeT", 2, {"plain,TransposeTranspose"}),
        ("xopt explain model.onnx TransposeT", 3, {"plain,TransposeTranspose"}),
        ("xopt explain model.onnx ein", 3, {"plain,einsum"}),
        ("xopt list --", 2, {"plain,--patterns", "plain,--tags", "plain,--json"}),
        ("xopt list --patterns fast_", 3, {"plain,fast_compile", "plain,fast_run"}),
        ("xopt model.onnx --patterns default+onnxr", 3, {"plain,default+onnxruntime"}),
        (
            "xopt model.onnx --patterns default,-TransposeT",
            3,
            {"plain,default,-TransposeTranspose"},
        ),
        ("xopt explain --after def", 3, {"plain,default"}),
        ("xopt bisect model.onnx --drop TransposeT", 4, {"plain,TransposeTranspose"}),
        ("xopt check model.onnx --exclude ein", 4, {"plain,einsum"}),
        ("xopt model.onnx --rewrite ru", 3, {"file,ru"}),
        ("xopt new-pattern APattern --from mod", 4, {"file,mod"}),
        ("xopt batch mod", 2, {"file,mod"}),
    ],
)
def test_what_is_offered(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    number: int,
    expected: set[str],
) -> None:
    write(RELU)
    for name, value in _asked(words, number).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as end:
        run([])
    captured = capsys.readouterr()
    assert (end.value.code, captured.err) == (0, "")
    assert expected <= set(captured.out.split())


def test_a_shell_asks_a_process() -> None:
    environment = {**os.environ, **_asked("xopt sta", 1)}
    program = "from xoptim.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "plain,stats" in done.stdout.split()


def _asked(words: str, number: int) -> dict[str, str]:
    """The variables with which bash asks how a word can go on."""
    return {"COMP_WORDS": words, "COMP_CWORD": str(number), "_XOPT_COMPLETE": "bash_complete"}
