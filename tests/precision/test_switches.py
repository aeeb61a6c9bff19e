"""Models with a switch for each MatMul."""

import itertools

import numpy as np
import onnx

from tests.precision.models import network, words
from tests.support import run
from xoptim.catalogue.selection import resolve
from xoptim.facts.protos import inner_graphs
from xoptim.precision.fake_quantization import fake_quantized
from xoptim.precision.subgraphs import ResultSubgraph, replaced_subgraphs
from xoptim.precision.switches import with_switches


def _parts(
    model: onnx.ModelProto, whole: onnx.ModelProto, patterns: dict[str, str]
) -> dict[tuple[str, str], ResultSubgraph]:
    """The parts of all MatMuls, each in one form."""
    return {
        (result, patterns[result]): part
        for result, part in replaced_subgraphs(model, whole, patterns).items()
    }


def test_each_choice_computes_what_a_model_rounded_so_computes() -> None:
    model = network(layers=2)
    whole, patterns = fake_quantized(model, None, resolve("int8"), None, "cpu")
    assert patterns == {
        "h0": "Int8Embedding",
        "p0": "Int8Operands",
        "p1": "Int8Operands",
        "scores": "Int8Operands",
    }
    both, switches = with_switches(model, _parts(model, whole, patterns))
    assert [each.name for each in both.graph.input] == ["words", *switches.values()]
    assert not any(graph.initializer for graph in inner_graphs(both.graph.node)), (
        "a protobuf holds 2 GiB"
    )
    for chosen in itertools.product((False, True), repeat=4):
        forms = dict(form for form, is_on in zip(switches, chosen, strict=True) if is_on)
        expected = run(fake_quantized(model, None, resolve("int8"), forms, "cpu")[0], words())
        switch = {
            name: np.array(is_on) for name, is_on in zip(switches.values(), chosen, strict=True)
        }
        np.testing.assert_array_equal(run(both, words() | switch)[0], expected[0])


def test_names_of_the_model_are_not_taken() -> None:
    model = network(layers=1)
    model.graph.input[0].name = model.graph.node[0].input[1] = "switch_0"
    whole, patterns = fake_quantized(model, None, resolve("int8"), None, "cpu")
    both, switches = with_switches(model, _parts(model, whole, patterns))
    assert [*switches.values()] == ["switch_0_", "switch_1", "switch_2"]
    off = {name: np.array(False) for name in switches.values()}
    values = {"switch_0": words()["words"]}
    np.testing.assert_array_equal(run(both, values | off)[0], run(model, values)[0])
