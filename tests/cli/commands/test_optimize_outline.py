"""``xopt --outline`` and, to undo it, ``--inline``."""

import onnx

from tests.cli.command import RELU, Xopt, types_in, write
from tests.passes.blocks.canonical import canonical
from tests.passes.blocks.test_outlining import LAYER, chain
from xoptim import optimize

ONLY = ("--patterns", "Cast")
"""A pattern that does not apply: the layers stay as they are."""


def test_outline_and_inline(xopt: Xopt) -> None:
    layer = (
        "u{n} = Identity(x{n}) m{n} = MatMul(u{n}, w{n}) a{n} = Add(m{n}, "
        "b{n}) s{n} = Sin(a{n}) x{o} = Tanh(s{n})"
    )
    model = write(chain(layer))
    plain = optimize(onnx.load(model))
    outcome = xopt(model, "--outline", "-o", "blocks.onnx", "--json").json
    (block,) = outcome["repetitions"]
    assert (block["times"], block["form"]) == (3, "function")
    assert types_in("blocks.onnx") == [block["name"]] * 3
    assert outcome["verification"][0]["status"] == "equal"
    assert (outcome["nodes_before"], outcome["nodes_after"]) == (15, 3 + block["nodes"])
    assert xopt("blocks.onnx", "--inline", "-o", "again.onnx").code == 0
    assert canonical(onnx.load("again.onnx")) == canonical(plain)


def test_blocks_in_the_summary(xopt: Xopt) -> None:
    outcome = xopt(write(chain(LAYER)), *ONLY, "--outline", "--dry-run")
    assert outcome.summary["repeated"].startswith("3 times MatMul_Add_Tanh_3, 3 nodes, ")


def test_a_model_in_which_nothing_repeats(xopt: Xopt) -> None:
    outcome = xopt(write(RELU), "--outline", "-o", "same.onnx")
    assert (outcome.code, types_in("same.onnx")) == (0, ["Relu"])
    assert "repeated" not in outcome.out
