"""The settings files of a command line: the user's own, the folder's, those of a revision; and the
settings in the line of a result.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import RELU, TRANSPOSES, Xopt, types_in, write

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
DOUBLED = "agraph (float[batch,4] x) => (float[batch,4] y) { y = Add(x, x) }"
TRIPLED = "agraph (float[batch,4] x) => (float[batch,4] y) <float f = {-3}> { y = Mul(x, f) }"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the user's own settings file; the current folder is elsewhere."""
    for name in ("XDG_CONFIG_HOME", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "config"))
    path = tmp_path / "config" / "xoptim" / "xoptim.toml"
    path.parent.mkdir(parents=True)
    monkeypatch.setattr("xoptim.cli.layers.click.get_app_dir", lambda name: str(path.parent))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return path


def test_the_user_names_code(xopt: Xopt, own: Path) -> None:
    own.write_text("custom-op-lib = 'ops.so'\n")
    (own.parent / "ops.so").write_text("not a library")
    write(RELU)
    assert str(own.parent / "ops.so") in xopt("model.onnx").error
    assert xopt("model.onnx", "--no-config").code == 0


def test_the_folder_is_above_the_user(xopt: Xopt, own: Path) -> None:
    own.write_text('patterns = "Cast"\nseed = 3\n[list]\npatterns = "Gelu"\n')
    write(TRANSPOSES)
    assert xopt("model.onnx", "-q").code == 0
    assert types_in("model.opt.onnx") == ["Transpose", "Transpose", "Relu"]
    Path("xoptim.toml").write_text('patterns = "default"\n')
    found = xopt("model.onnx", "--json")
    assert types_in("model.opt.onnx") == ["Relu"]
    assert found.json["settings_file"] == f"{Path('xoptim.toml').resolve()}, {own}"
    assert xopt("doctor", "--json").json["settings"] == f"{Path('xoptim.toml').resolve()}, {own}"


def test_a_file_that_is_named_is_the_only_one(xopt: Xopt, own: Path) -> None:
    own.write_text('patterns = "Cast"\n')
    Path("other.toml").write_text("seed = 3\n")
    write(TRANSPOSES)
    found = xopt("model.onnx", "--config", "other.toml", "--json")
    assert found.json["settings_file"] == "other.toml"
    assert types_in("model.opt.onnx") == ["Relu"]


def test_mistakes_of_the_user_name_the_file(xopt: Xopt, own: Path) -> None:
    write(RELU)
    Path("xoptim.toml").write_text("strict = true\n")
    own.write_text("sed = 3\n")
    assert re.match(f"{own}: .* --sed\\b", xopt("model.onnx").error)
    own.write_text("seed = -3\n")
    assert re.match(f"{own}: .*'--seed'", xopt("model.onnx").error)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner")
def test_a_file_of_another_user_is_not_the_users(
    xopt: Xopt, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.write_text("custom-op-lib = 'ops.so'\n")
    uid = own.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    write(RELU)
    ignored = f"{own} is ignored: it is not a regular file of yours"
    assert xopt("model.onnx").warnings == [ignored]
    monkeypatch.undo()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_not_read(xopt: Xopt, own: Path) -> None:
    os.mkfifo(own)
    write(RELU)
    (warning,) = xopt("model.onnx").warnings
    assert warning.startswith(f"{own} is ignored: ")


@pytest.mark.skipif(sys.platform != "linux", reason="the variable is of Linux")
def test_a_relative_folder_is_not_the_users(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    Path("config/xoptim").mkdir(parents=True)
    Path("config/xoptim/xoptim.toml").write_text("custom-op-lib = 'ops.so'\n")
    write(RELU)
    assert xopt("model.onnx").err == ""


# -------------------------------------------------------------------- the change that is judged


def commit(message: str = "change") -> None:
    own = ("-c", "user.name=n", "-c", "user.email=e@x")
    for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-qm", message)):
        subprocess.run(["git", *own, *words], check=True, capture_output=True)


@pytest.fixture
def repository() -> None:
    """A model is committed; the change makes it compute something else."""
    Path("inner").mkdir()
    write(DOUBLED)
    write(DOUBLED, "inner/model.onnx")
    Path("pyproject.toml").write_text("[project]\nname = 'models'\n")
    commit()
    write(TRIPLED)
    write(TRIPLED, "inner/model.onnx")


CHECK = ("check", "model.onnx", "--against", "main")


@needs_git
@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("rtol = 1e30", "."),
        ("rtol = 1e30", "inner"),
        ("atol = 1e30", "."),
        ("ulp = 1000000000", "."),
        ("dim = 'batch=0'", "inner"),
        ("assume = ['batch == 0']", "."),
        ("[check]\nrtol = 1e30", "inner"),
    ],
)
def test_a_change_does_not_bring_the_settings_of_its_judge(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, text: str, place: str
) -> None:
    monkeypatch.chdir(place)
    for name in ("xoptim.toml", "pyproject.toml"):
        settings = text.replace("[check]", "[tool.xoptim.check]")
        head = "" if settings.startswith("[") else "[tool.xoptim]\n"
        Path(name).write_text(text if name == "xoptim.toml" else head + settings)
        outcome = xopt(*CHECK)
        assert (outcome.code, outcome.err) == (1, ""), outcome
        Path(name).unlink()


@needs_git
@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    "words", [("model.onnx", "--against=main"), ("--against", "main", "model.onnx")]
)
def test_the_order_of_words_does_not_matter(xopt: Xopt, words: tuple[str, ...]) -> None:
    """The revision is known before the command line is read as a whole."""
    Path("xoptim.toml").write_text("rtol = 1e30")
    assert xopt("check", *words).code == 1


@needs_git
@pytest.mark.usefixtures("repository")
def test_settings_of_the_revision_count(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that a change removes or hides behind a nearer file."""
    Path("pyproject.toml").write_text("[tool.xoptim]\nrtol = 1e30\natol = 1e30\n")
    write(DOUBLED)
    write(DOUBLED, "inner/model.onnx")
    commit()
    write(TRIPLED)
    write(TRIPLED, "inner/model.onnx")
    loose = "with rtol 1e+30 from main:pyproject.toml, atol 1e+30 from main:pyproject.toml"
    outcome = xopt(*CHECK)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.rstrip().endswith(loose)
    Path("pyproject.toml").unlink()
    monkeypatch.chdir("inner")
    Path("xoptim.toml").write_text("")
    outcome = xopt(*CHECK, "--json")
    assert outcome.code == 0
    assert loose in outcome.json[0]["detail"]
    assert xopt(*CHECK, "--no-config").code == 1
    Path("wrong").mkdir()
    monkeypatch.chdir("wrong")
    Path("pyproject.toml").write_text("[tool.xoptim]\nno-option = 3\n")
    assert xopt("check", "../model.onnx", "--against", "main").code == 0


@needs_git
@pytest.mark.usefixtures("repository")
def test_values_of_the_working_tree_do_not_judge_it(xopt: Xopt) -> None:
    Path("xoptim.toml").write_text("feeds = 'x.npz'\n")
    commit()
    write(TRIPLED.replace("-3", "-4"))
    outcome = xopt(*CHECK)
    (warning,) = outcome.warnings
    assert outcome.code == 1
    assert re.match("main:xoptim.toml: feeds is ignored, .* --feeds x.npz ", warning)


@needs_git
@pytest.mark.usefixtures("repository")
def test_the_user_may_choose_the_revision(xopt: Xopt, own: Path, tmp_path: Path) -> None:
    own.write_text("[check]\nagainst = 'main'\n")
    os.chdir(tmp_path)
    Path("xoptim.toml").write_text("rtol = 1e30\n[check]\nagainst = 'HEAD'\n")
    assert xopt("check", "model.onnx").code == 1
    assert "'gone'" in xopt(*CHECK[:3], "gone").error


def test_check_without_git(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("xoptim.toml").write_text("")
    write(RELU)
    monkeypatch.setenv("PATH", "")
    assert xopt(*CHECK).error.startswith("git ")


# -------------------------------------------------------------------- the line of the result


def test_results_name_what_weakens_them(xopt: Xopt) -> None:
    Path("pyproject.toml").write_text("[tool.xoptim]\nrtol = 1e30\n")
    write(RELU)
    write(RELU, "other.onnx")
    weaker = ", with rtol 1e+30 from pyproject.toml"
    (line,) = (each for each in xopt("model.onnx").out.splitlines() if "verification" in each)
    assert line.endswith(weaker)
    assert xopt("verify", "model.onnx", "other.onnx").out.splitlines()[0].endswith(weaker)
    (warning,) = xopt("verify", "model.onnx", "other.onnx", "--json").warnings
    assert warning.endswith(": rtol 1e+30 from pyproject.toml")
    words = ("verify", "model.onnx", "other.onnx", "--no-config")
    assert xopt(*words, "--rtol", "1e30").out.splitlines()[0].endswith(", with rtol 1e+30")
    assert xopt(*words, "--ulp", "3").out.splitlines()[0].endswith(", with ulp 3")
    assert ", with" not in xopt(*words, "--rtol", "1e-9").out
    assert ", with" not in xopt(*words).out


def test_no_verification_names_its_setting(xopt: Xopt) -> None:
    Path("pyproject.toml").write_text("[tool.xoptim]\nverify = false\n")
    write(RELU)
    weaker = "verify false from pyproject.toml"
    assert xopt("model.onnx").summary["verification"] == f"skipped: --no-verify, with {weaker}"
    (warning,) = xopt("model.onnx", "-q").warnings
    assert warning.endswith(f": {weaker}")


def test_limits_of_nodes_name_their_file(xopt: Xopt) -> None:
    Path("pyproject.toml").write_text("[tool.xoptim]\nmax-shrink = 99\n")
    write(TRANSPOSES)
    assert re.search(r" 99 % .* pyproject\.toml", xopt("check", "model.onnx").out)
