"""``xopt verify --against-torch``; skipped where torch is missing."""

import sys
from pathlib import Path

import onnx
import pytest

from tests.cli.command import RELU, Xopt, write
from tests.support import values_in
from xoptim.integrations.torch import factory as torch_factory, to_onnx

FACTORY = """
import torch

def alone():
    torch.manual_seed(0)
    return torch.nn.Linear(8, 4).eval()

def with_arguments():
    return alone(), torch.ones(2, 8), {}

def other():
    return torch.nn.Linear(8, 4).eval()

def failing():
    raise ValueError("no weights")

def number():
    return 3

def without_names():
    return alone(), torch.ones(2, 8), 5
"""


@pytest.fixture
def factory(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script with functions, and the model of one of them, in the current folder."""
    Path("factory_of_tests.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    module = torch.nn.Linear(8, 4).eval()
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    onnx.save(to_onnx(module, torch.rand(2, 8), dynamic_shapes=shapes), "model.onnx")
    monkeypatch.delitem(sys.modules, "factory_of_tests", raising=False)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("factory")
@pytest.mark.parametrize("name", ["alone", "with_arguments"])
def test_the_command_compares_with_what_a_function_makes(xopt: Xopt, name: str) -> None:
    outcome = xopt("verify", "model.onnx", "--against-torch", f"factory_of_tests:{name}")
    assert outcome.code == 0, outcome
    assert outcome.out.startswith("equal ")
    outcome = xopt("verify", "model.onnx", "--against-torch", "factory_of_tests:other", "--json")
    assert outcome.code == 1
    assert outcome.json[0]["status"] == "different"


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("factory")
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("factory_of_tests:failing", "fails: ValueError: no weights"),
        ("factory_of_tests:number", "returns int; a torch module is expected"),
        ("factory_of_tests:without_names", "returns Linear, Tensor, int; a torch module is"),
        ("factory_of_tests:missing", "has no function 'missing'"),
        ("no_such_module:make", "no_such_module cannot be imported"),
        ("factory_of_tests", "is not of the form package.module:function"),
    ],
)
def test_the_command_refuses(xopt: Xopt, address: str, message: str) -> None:
    assert message in xopt("verify", "model.onnx", "--against-torch", address).error


def test_two_models_or_one_and_a_function(xopt: Xopt) -> None:
    write(RELU)
    error = xopt("verify", "model.onnx").error
    assert values_in(error) == ["--against-torch"]
    assert xopt("verify", "model.onnx", "model.onnx", "--against-torch", "a:b").error == error


def test_torch_is_missing(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    write(RELU)
    monkeypatch.setattr(torch_factory, "find_spec", lambda name: None)
    error = xopt("verify", "model.onnx", "--against-torch", "a:b").error
    assert values_in(error) == ["xoptim[torch]"]
