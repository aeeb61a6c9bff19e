"""Models with a switch for each product."""

import itertools

import numpy as np

from tests.precision.models import network, words
from tests.support import run
from xoptim.catalogue.selection import resolve
from xoptim.precision.products import round_products
from xoptim.precision.switched import replaced_parts, switched


def test_each_choice_computes_what_a_model_rounded_so_computes() -> None:
    model = network(layers=2)
    whole, patterns = round_products(model, None, resolve("int8"), None, "cpu")
    assert patterns == {"h0": "Int8Table", "p0": "Int8Operands", "p1": "Int8Operands", "scores": "Int8Operands"}
    both, switches = switched(model, replaced_parts(model, whole, patterns))
    assert [each.name for each in both.graph.input] == ["words", *switches.values()]
    for chosen in itertools.product((False, True), repeat=4):
        names = [name for name, is_on in zip(switches, chosen, strict=True) if is_on]
        expected = run(round_products(model, None, resolve("int8"), names, "cpu")[0], words())
        switch = {switches[name]: np.array(is_on) for name, is_on in zip(switches, chosen, strict=True)}
        np.testing.assert_array_equal(run(both, words() | switch)[0], expected[0])


def test_names_of_the_model_are_not_taken() -> None:
    model = network(layers=1)
    model.graph.input[0].name = model.graph.node[0].input[1] = "switch_0"
    whole, patterns = round_products(model, None, resolve("int8"), None, "cpu")
    both, switches = switched(model, replaced_parts(model, whole, patterns))
    assert switches == {"h0": "switch_0_", "p0": "switch_1", "scores": "switch_2"}
    off = {name: np.array(False) for name in switches.values()}
    values = {"switch_0": words()["words"]}
    np.testing.assert_array_equal(run(both, values | off)[0], run(model, values)[0])
