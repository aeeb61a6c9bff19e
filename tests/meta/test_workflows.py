"""The workflows and forms of `.github`: steps are targets of the Makefile, on all promised systems
and versions; files that other programs read are as these expect them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lab.fuzzing.targets import TARGETS
from tests.meta.sources import ROOT

FOLDER = ROOT / ".github"
WORKFLOWS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((FOLDER / "workflows").glob("*.yml"))
}
LOCK = FOLDER / "constraints.txt"
"""Versions of all that the jobs of one version of Python install."""
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
ELSEWHERE = (
    "bash .github/report-failure.sh",
    "bash .github/propose-lock.sh",
    "sudo apt-get install",
)
"""Commands that need the service that runs the workflows."""


def commands(text: str) -> list[str]:
    """The commands of the steps of a workflow; each is one line."""
    found = re.findall(r"^ +(?:- )?run: (.*?)(?: +#.*)?$", text, re.MULTILINE)
    assert not any(each.startswith(("|", ">")) for each in found)
    return found


def test_there_are_workflows_for_all_that_is_promised() -> None:
    assert {name: commands(text) for name, text in WORKFLOWS.items()}.keys() == {
        "ci",
        "lock",
        "nightly",
        "release",
        "scorecard",
        "site",
    }
    assert {
        "make lint",
        "make types",
        "make test",
        "make oldest",
        "make release",
        "make image",
    } <= set(commands(WORKFLOWS["ci"]))
    assert commands(WORKFLOWS["release"]) == ["make release"]
    assert commands(WORKFLOWS["site"]) == ["make site"]


def test_all_tests_run_in_a_workflow() -> None:
    """Those of torch were not: `make test` skips what is not installed."""
    others = "quick|oldest|workarounds|mutation"
    targets = re.findall(rf"^(test[a-z-]*|{others}):", MAKEFILE, re.MULTILINE)
    run = {command for text in WORKFLOWS.values() for command in commands(text)}
    missing = [
        target for target in targets if not run & {f"make {target}", f"make {target} PYTHON=python"}
    ]
    assert len(targets) >= 9
    assert not missing
    _, jobs = WORKFLOWS["nightly"].split("\njobs:\n")
    names = re.findall(r"^  ([a-z-]+):", jobs, re.MULTILINE)
    (needs,) = re.findall(r"^    needs: \[(.*)\]$", jobs, re.MULTILINE)
    assert [*needs.split(", "), "report"] == names, "a failure of any job is reported"


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize(
    "command", sorted({each for text in WORKFLOWS.values() for each in commands(text)})
)
def test_each_step_is_a_target_of_make(command: str, tmp_path: Path) -> None:
    """Make prints the commands that it would run, as in a checkout where nothing is installed
    yet.
    """
    if command.startswith(ELSEWHERE):
        return
    name, target, *settings = command.split()
    values = dict(setting.split("=") for setting in settings)
    assert name == "make"
    assert values.keys() <= {"PYTHON"}
    words = ["make", "--dry-run", "--no-print-directory", target, *settings, f"VENV={tmp_path}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = "docker build" if target == "image" else values.get("PYTHON", "python3") + " -m venv"
    assert made in done.stdout, "it makes an environment"


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_windows_has_another_folder_of_scripts(tmp_path: Path) -> None:
    words = ["make", "--dry-run", "quick", "OS=Windows_NT", f"VENV={tmp_path}"]
    printed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"{tmp_path}/Scripts/python -m pytest" in printed
    assert "/bin/" not in printed


def test_the_versions_of_python_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [
        found[1]
        for each in project["classifiers"]
        if (found := re.fullmatch(r".* :: Python :: (3\.\d+)", each))
    ]
    (matrix,) = re.findall(r"python: \[(.*)\]", WORKFLOWS["ci"])
    assert re.findall(r"[\d.]+", matrix) == named
    assert project["requires-python"] == f">={named[0]}"
    assert "os: [ubuntu-latest, macos-latest, windows-latest]" in WORKFLOWS["ci"]


def test_rights_are_few() -> None:
    """Each workflow reads only, jobs name what else they need.

    A release is uploaded without a password.
    """
    for text in WORKFLOWS.values():
        assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)
        assert "secrets." not in text
        assert text.count("actions/checkout@") == text.count("persist-credentials: false")
        assert len(re.findall("timeout-minutes", text)) == len(re.findall("runs-on", text))
    writes = {
        name: sorted(set(re.findall(r"([a-z-]+): write", text))) for name, text in WORKFLOWS.items()
    }
    assert writes == {
        "ci": [],
        "lock": ["contents", "pull-requests"],
        "nightly": ["issues"],
        "release": ["attestations", "id-token"],
        "scorecard": ["id-token"],
        "site": ["id-token", "pages"],
    }
    assert WORKFLOWS["release"].count("actions/attest@") == 2, (
        "where the files were built, and what the wheel needs"
    )
    assert "sbom-path: build/xoptim.cdx.json" in WORKFLOWS["release"]
    assert "pypa/gh-action-pypi-publish@" in WORKFLOWS["release"]


def test_actions_are_pinned_and_each_has_one_version() -> None:
    """A tag can be moved, a commit cannot.

    The version next to it is for readers, and for what proposes updates.
    """
    everything = "\n".join([*WORKFLOWS.values(), (ROOT / "action.yml").read_text(encoding="utf-8")])
    named = set(re.findall(r"uses: (\S+)@(.*)", everything))
    assert all(re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", version) for _, version in named)
    assert len(named) == len({name for name, _ in named}) >= 8
    updates = yaml.safe_load((FOLDER / "dependabot.yml").read_text(encoding="utf-8"))["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"github-actions", "pip"}


def test_the_lock_file_is_used_and_holds_what_is_installed() -> None:
    """Each requirement of the tests and of the site that applies to the machine of the jobs."""
    pinned = {
        canonicalize_name(requirement.name): requirement.specifier
        for line in LOCK.read_text(encoding="utf-8").splitlines()
        for requirement in [Requirement(line)]
    }
    assert all(re.fullmatch(r"==[^*,]+", str(version)) for version in pinned.values())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    machine = {
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "python_version": "3.12",
    }
    tools = (ROOT / "tests" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    needed = [*project["dependencies"], *extras["test"], *extras["site"]]
    for word in (*needed, *filter(None, (line.partition("#")[0].strip() for line in tools))):
        requirement = Requirement(word)
        if requirement.marker is None or requirement.marker.evaluate(machine):
            (version,) = pinned[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version.version), word
    locked = {
        (name, job)
        for name, text in WORKFLOWS.items()
        for job, steps in yaml.safe_load(text)["jobs"].items()
        if steps.get("env", {}).get("LOCKED")
    }
    assert locked == {
        ("ci", "lint"),
        ("ci", "whole"),
        ("ci", "browser"),
        ("ci", "coverage"),
        ("nightly", "coverage"),
        ("nightly", "shard"),
        ("site", "build"),
    }
    printed = [
        subprocess.run(
            ["make", "--dry-run", f"VENV={ROOT / 'absent'}", "lint", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for words in ([], ["LOCKED=1"])
    ]
    assert [f"--constraint {LOCK.relative_to(ROOT)} " in text for text in printed] == [False, True]


def test_packages_are_cached_but_for_a_release() -> None:
    """What another run stored must not get into what is published."""
    for name, text in WORKFLOWS.items():
        asked = text.count("actions/setup-python@")
        cached = 0 if name in ("release", "lock") else asked
        assert text.count("cache: pip\n") == cached
        assert text.count("cache-dependency-path: pyproject.toml\n") == cached


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("git")), reason="no bash or git")
@pytest.mark.parametrize("state", ["same", "new", "open"])
def test_a_new_lock_file_is_proposed(state: str, tmp_path: Path) -> None:
    """As one pull request; git pushes to a folder in place of the service."""
    bin_, work, remote = (tmp_path / name for name in ("bin", "work", "remote.git"))
    bin_.mkdir()
    gh = bin_ / "gh"
    gh.write_text(
        '#!/usr/bin/env bash\necho "$*" >>"$NOTES"\n'
        f'if [ "$1 $2" = "pr list" ]; then printf "{7 if state == "open" else ""}"; fi\n'
    )
    gh.chmod(0o755)

    def git(*words: str, folder: Path = work) -> str:
        command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words]
        return subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True
        ).stdout

    lock = work / LOCK.relative_to(ROOT)
    lock.parent.mkdir(parents=True)
    lock.write_text("a==1\n")
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "first")
    git("init", "-q", "--bare", str(remote))
    notes = tmp_path / "notes"
    notes.touch()
    address = "https://x-access-token:secret@github.com/owner/name.git"
    environment = {
        **os.environ,
        "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
        "NOTES": str(notes),
        "GITHUB_REPOSITORY": "owner/name",
        "GH_TOKEN": "secret",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{remote}.insteadOf",
        "GIT_CONFIG_VALUE_0": address,
    }
    if state != "same":
        lock.write_text("a==2\n")
    script = str(FOLDER / "propose-lock.sh")
    subprocess.run(["bash", script], cwd=work, env=environment, check=True, timeout=60)
    words = [line.split()[:2] for line in notes.read_text(encoding="utf-8").splitlines()]
    assert (
        words
        == {
            "same": [],
            "new": [["pr", "list"], ["pr", "create"]],
            "open": [["pr", "list"]],
        }[state]
    )
    branches = git("branch", "--format=%(refname:short)", folder=remote).split()
    assert branches == ([] if state == "same" else ["update-lock"])
    if branches:
        assert git("show", "update-lock:.github/constraints.txt", folder=remote) == "a==2\n"


def test_a_workflow_does_not_run_next_to_itself() -> None:
    """A newer commit ends the run of an older one, but nothing ends an upload."""
    groups = {
        name: re.search(r"^concurrency:\n  group: (.+)\n  cancel-in-progress: (.+)$", text, re.M)
        for name, text in WORKFLOWS.items()
    }
    assert {name: found and found[2] for name, found in groups.items()} == {
        "ci": "true",
        "lock": "false",
        "nightly": "false",
        "release": "false",
        "scorecard": "false",
        "site": "${{ github.event_name == 'pull_request' }}",
    }


def test_the_nightly_run_tries_everything() -> None:
    """Each day: all shards, each target of fuzzing for ten minutes, and a report of all jobs."""
    nightly = yaml.safe_load(WORKFLOWS["nightly"])
    (schedule,) = nightly[True]["schedule"]  # YAML reads "on" as true
    assert re.fullmatch(r"\d+ \d+ \* \* \*", schedule["cron"])
    jobs = nightly["jobs"]
    shards = jobs["shard"]["strategy"]["matrix"]["shard"]
    assert shards == [*range(1, len(shards) + 1)]
    assert jobs["shard"]["env"]["SHARD"] == f"${{{{ matrix.shard }}}}/{len(shards)}"
    assert set(jobs["report"]["needs"]) == jobs.keys() - {"report"}
    assert {
        "make nightly-shard",
        "make fuzz-loaders",
        "make mutation",
        "make oldest",
        "make workarounds",
        "make nightly",
    } <= set(commands(WORKFLOWS["nightly"]))
    (targets,) = re.findall(r"^FUZZED := (.*)$", MAKEFILE, re.M)
    assert targets == " ".join(TARGETS)
    assert "SECONDS ?= 600\nfuzz-loaders:" in MAKEFILE


@pytest.mark.skipif(
    not (shutil.which("bash") and shutil.which("jq")), reason="there is no bash, or no jq"
)
@pytest.mark.parametrize("number", ["", "12"], ids=["opened", "updated"])
def test_a_failing_nightly_run_is_reported(number: str, tmp_path: Path) -> None:
    """In one issue: a comment where it is open. A program in place of gh notes its words."""
    gh = tmp_path / "gh"
    gh.write_text(
        '#!/usr/bin/env bash\nprintf "%s\\n" "$GH_REPO: $*" >>"$NOTES"\n'
        f'if [ "$1 $2" = "issue list" ]; then printf "{number}"; fi\n'
    )
    gh.chmod(0o755)
    jobs = {"shard": "failure", "fuzz": "success", "mutation": "cancelled", "oldest": "skipped"}
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "NOTES": str(tmp_path / "notes"),
        "GITHUB_REPOSITORY": "owner/name",
        "JOBS": json.dumps({job: {"result": result} for job, result in jobs.items()}),
        "RUN": "https://run/1",
    }
    script = FOLDER / "report-failure.sh"
    subprocess.run(["bash", str(script)], env=environment, check=True, timeout=60)
    notes = (tmp_path / "notes").read_text(encoding="utf-8")
    body = notes.partition("--body ")[2]
    assert body.splitlines()[-4:] == [
        "- shard: failure",
        "- mutation: cancelled",
        "",
        "https://run/1",
    ]
    asked = [line for line in notes.splitlines() if line.startswith("owner/name: ")]
    words = ["issue comment 12" if number else "issue create --title The nightly run fails"]
    assert [line.split(": ")[1].partition(" --")[0] for line in asked[:-1]] == [
        "label create nightly",
        "issue list",
    ]
    assert asked[-1].startswith(f"owner/name: {words[0]}")
    assert ("--label nightly" in asked[-1]) == (not number)


def test_forms_ask_for_what_a_defect_needs() -> None:
    forms = {
        path.stem: path.read_text(encoding="utf-8")
        for path in (FOLDER / "ISSUE_TEMPLATE").glob("*.yml")
    }
    assert forms.keys() == {"config", "wrong-result", "crash", "missed"}
    for name, text in forms.items():
        if name != "config":
            assert re.search(r"^name: .+\ndescription: .+\n(labels: .+\n)?body:\n", text)
            ids = re.findall(r"^    id: (\S+)$", text, re.MULTILINE)
            assert len(ids) == len(set(ids)) >= 3
    assert "`xopt bisect" in forms["wrong-result"]
    assert "`xopt doctor`" in forms["crash"]
    assert "`xopt explain" in forms["missed"]


@pytest.mark.parametrize(
    "words",
    [["actionlint"], ["zizmor", "--offline", "--no-progress", ".github", "action.yml"]],
    ids=lambda words: words[0],
)
def test_a_checker_finds_nothing(words: list[str]) -> None:
    """Actionlint reads expressions, types and versions of actions.

    Zizmor rights, pins and what a stranger could inject.
    """
    program = shutil.which(words[0], path=sysconfig.get_path("scripts"))
    if program is None:
        pytest.skip(f"there is no {words[0]}: make workflows installs it")
    done = subprocess.run(
        [program, *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


READ_ELSEWHERE = {
    "citation-file-format": [ROOT / "CITATION.cff"],
    "dependabot": [FOLDER / "dependabot.yml"],
    "github-actions": [ROOT / "action.yml"],
    "github-issue-config": [FOLDER / "ISSUE_TEMPLATE" / "config.yml"],
    "github-issue-forms": [
        path for path in (FOLDER / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"
    ],
    "github-workflows": [
        *sorted((FOLDER / "workflows").glob("*.yml")),
        ROOT / "examples/pipelines/check_models.yml",
    ],
}
"""Files that a service reads, by the name of their schema in check-jsonschema."""


@pytest.mark.parametrize("schema", READ_ELSEWHERE)
def test_files_are_as_their_readers_expect(schema: str) -> None:
    paths = READ_ELSEWHERE[schema]
    assert paths
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run(
        [*command, *map(str, paths)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_form_and_workflow_has_a_schema() -> None:
    checked = {path for paths in READ_ELSEWHERE.values() for path in paths}
    assert set(FOLDER.rglob("*.yml")) <= checked
