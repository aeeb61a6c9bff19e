"""Files of the project that other programs read are valid by the schemas of these programs, which
their packages bring: no network is asked.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from trove_classifiers import classifiers, deprecated_classifiers

from tests.meta.sources import ROOT

PROJECTS = ("pyproject.toml", "examples/pack/pyproject.toml")


def run(*words: str, folder: Path = ROOT) -> None:
    """Run a module of a package, which must find nothing."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def project(path: str) -> Any:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("path", PROJECTS)
def test_a_project_is_valid(path: str) -> None:
    run("validate_pyproject", path)


def test_every_project_is_checked() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("this is no checkout of git")
    assert set(listed.stdout.split()) == set(PROJECTS)


def test_classifiers_exist() -> None:
    named = project("pyproject.toml")["classifiers"]
    assert len(named) == len(set(named)) > 5
    assert set(named) <= classifiers
    assert not set(named) & deprecated_classifiers.keys()


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("validate-manifest", ".pre-commit-hooks.yaml"),
        ("validate-config", ".pre-commit-config.yaml"),
    ],
)
def test_the_hooks_are_as_pre_commit_reads_them(command: str, path: str, tmp_path: Path) -> None:
    run("pre_commit", command, path)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((ROOT / path).read_text(encoding="utf-8").replace("entry:", "entries:"))
    with pytest.raises(AssertionError, match="Missing required key: entry"):
        run("pre_commit", command, str(wrong))


def test_the_json_schemas_are_schemas() -> None:
    """The file as it ships, each schema and each shared definition."""
    stored = json.loads((ROOT / "xoptim" / "schemas.json").read_text(encoding="utf-8"))
    assert stored.keys() == {"documents", "definitions"}
    for schemas in stored.values():
        assert len(schemas) > 10
        for schema in schemas.values():
            Draft202012Validator.check_schema(schema)
