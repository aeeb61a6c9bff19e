"""The files for conda, Homebrew and containers agree with ``pyproject.toml``, and are as the tools
read them.
"""

import hashlib
import importlib.util
import re
import shutil
import subprocess
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from distribution.formula import formula
from tests.meta.sources import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
RECIPE = ROOT / "distribution" / "conda" / "recipe.yaml"
IN_CONDA = {"ml-dtypes": "ml_dtypes"}
"""Packages that have another name in conda-forge."""


@pytest.fixture
def recipe() -> Any:
    return yaml.safe_load(RECIPE.read_text(encoding="utf-8"))


def as_conda(requirement: str) -> str:
    """A requirement as conda writes it: ``onnx>=1.19`` as ``onnx >=1.19``."""
    name, bound = requirement.split(">=")
    return f"{IN_CONDA.get(name, name)} >={bound}"


def test_the_recipe_has_the_version_and_the_dependencies(recipe: Any) -> None:
    assert recipe["context"]["version"] == PROJECT["version"]
    assert f">={recipe['context']['python_min']}" == PROJECT["requires-python"]
    python, *run = recipe["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    assert run == [as_conda(requirement) for requirement in PROJECT["dependencies"]]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    assert recipe["requirements"]["host"][2:] == list(map(as_conda, build["requires"]))


def test_the_recipe_has_the_commands_and_the_facts(recipe: Any) -> None:
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    about = recipe["about"]
    assert about["summary"] == PROJECT["description"]
    assert (about["license"], [about["license_file"]]) == (
        PROJECT["license"],
        PROJECT["license-files"],
    )
    assert (RECIPE.parent / recipe["source"]["path"]).resolve() == ROOT


def test_rattler_build_reads_the_recipe() -> None:
    if importlib.util.find_spec("rattler_build") is None:
        pytest.skip("there is no rattler-build: make workflows installs it")
    from rattler_build import RattlerBuildError, Stage0Recipe

    text = RECIPE.read_text(encoding="utf-8")
    (variant,) = Stage0Recipe.from_yaml(text).render()
    package = variant.recipe.package
    assert (package.name, package.version) == ("xoptim", PROJECT["version"])
    assert len(variant.recipe.requirements.run) == len(PROJECT["dependencies"]) + 1
    with pytest.raises(RattlerBuildError, match="unknown field 'noach'"):
        Stage0Recipe.from_yaml(text.replace("noarch:", "noach:"))


@pytest.fixture
def sdist(tmp_path: Path) -> Path:
    path = tmp_path / f"xoptim-{PROJECT['version']}.tar.gz"
    path.write_bytes(b"the sdist")
    return path


def test_the_formula_has_the_checksum_of_the_sdist(sdist: Path) -> None:
    text = formula(sdist)
    assert f'sha256 "{hashlib.sha256(b"the sdist").hexdigest()}"' in text
    assert f"/x/xoptim/{sdist.name}" in text
    assert f'license "{PROJECT["license"]}"' in text
    assert "@" not in text.replace("python@3", ""), "all markers are replaced"
    (python,) = set(re.findall(r"python@([\d.]+)", text))
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]


def test_the_formula_needs_the_sdist_of_this_version(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not the sdist of this version"):
        formula(tmp_path / "xoptim-0.0.1.tar.gz")


def test_the_formula_is_ruby(sdist: Path, tmp_path: Path) -> None:
    ruby = shutil.which("ruby")
    if ruby is None:
        pytest.skip("there is no ruby")
    path = tmp_path / "xoptim.rb"
    path.write_text(formula(sdist), encoding="utf-8")
    subprocess.run([ruby, "-c", str(path)], check=True, capture_output=True)


def test_the_image_has_labels() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    last = text[text.rindex("\nFROM ") :]
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', last))
    assert labels == {
        "title": PROJECT["name"],
        "description": PROJECT["description"],
        "version": PROJECT["version"],
        "licenses": PROJECT["license"],
        "source": "$SOURCE",
        "revision": "$REVISION",
    }
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"--build-arg {name}=" in made for name in re.findall(r"^ARG (\w+)", last, re.M))


def test_hadolint_finds_nothing() -> None:
    program = shutil.which("hadolint", path=sysconfig.get_path("scripts"))
    if program is None:
        pytest.skip("there is no hadolint: make workflows installs it")
    done = subprocess.run(
        [program, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
