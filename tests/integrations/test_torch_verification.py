"""Models next to the torch modules that they were exported from; skipped where torch is missing."""

import copy
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest

import xoptim
from xoptim.integrations.torch import to_onnx, verify
from xoptim.integrations.torch.values import array_of, torch_tensor

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

# torch's exporter warns about its own use of torch
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

Module: Any = torch.nn.Module
OPEN = torch.export.Dim.DYNAMIC


class Block(Module):  # type: ignore[misc]
    """A part that an export computes wrongly on request."""

    def __init__(self, *, is_wrong: bool = False) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.act = torch.nn.GELU()
        self.is_wrong = is_wrong

    def forward(self, x: Any) -> Any:
        y = self.act(self.linear(x))
        return y * 1.01 if self.is_wrong and torch.compiler.is_exporting() else y + x


class Network(Module):  # type: ignore[misc]
    """Returns a dict with a tuple; one argument is a number that the export fixes."""

    def __init__(self, *, wrong: int | None = None) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(is_wrong=at == wrong) for at in range(3)])
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x: Any, factor: int = 2, mask: Any = None) -> Any:
        for block in self.blocks:
            x = block(x)
        y = self.norm(x) * factor
        return {"y": y if mask is None else y * mask, "rest": (x, x.argmax(-1))}


def network(**options: Any) -> Any:
    torch.manual_seed(0)
    return Network(**options).eval()


def inputs() -> tuple[Any, ...]:
    torch.manual_seed(1)
    return (torch.rand(2, 3, 8),)


SHAPES = {"x": {0: OPEN, 1: OPEN}, "factor": None}
KWARGS = {"factor": 3}


@pytest.fixture(scope="module")
def exported() -> onnx.ModelProto:
    return to_onnx(
        network(), inputs(), KWARGS, dynamic_shapes=SHAPES, options=xoptim.OptimizationOptions()
    )


def test_an_export_equals_its_module(exported: onnx.ModelProto) -> None:
    report = verify(network(), exported, inputs(), KWARGS)
    assert report.ok, report
    sizes = {tuple(run.dims.values()) for run in report.runs}
    assert {(2, 3), (1, 1), (1, 3), (2, 1), (5, 3), (2, 7)} <= sizes
    assert {c.output for run in report.runs for c in run.comparisons} == {
        value.name for value in exported.graph.output
    }


def test_the_result_of_the_export_is_verified() -> None:
    found = to_onnx(network(), inputs(), KWARGS, dynamic_shapes=SHAPES, verify=True)
    assert "Gelu" in {node.op_type for node in found.graph.node}


def test_a_changed_model_is_told_from_a_wrong_export(exported: onnx.ModelProto) -> None:
    changed = copy.deepcopy(exported)
    tensor = next(each for each in changed.graph.initializer if list(each.dims) == [8, 8])
    array = onnx.numpy_helper.to_array(tensor).copy()
    array[0] += 0.1
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for before in (None, exported):
        report = verify(network(), changed, inputs(), KWARGS, exported=before)
        assert report.status == "different"
        assert "later change" in report.reason


def test_the_first_module_that_the_export_computes_wrongly_is_named() -> None:
    with pytest.raises(xoptim.DifferentModelError) as error:
        to_onnx(network(wrong=1), inputs(), KWARGS, dynamic_shapes=SHAPES, verify=True)
    assert str(error.value).endswith("'blocks.1' (Block)")
    right = to_onnx(network(wrong=1), inputs(), KWARGS, dynamic_shapes=SHAPES)
    report = verify(network(wrong=1), right, inputs(), KWARGS)
    assert report.status == "different"
    assert report.reason.endswith("'blocks.1' (Block)")


class Frozen(Module):  # type: ignore[misc]
    """A size that the export takes for a number."""

    def forward(self, x: Any) -> Any:
        return x / (x.shape[0] if not torch.compiler.is_exporting() else 2)


def test_a_size_that_is_frozen_shows_at_other_sizes() -> None:
    report = verify(
        Frozen(), to_onnx(Frozen(), inputs(), dynamic_shapes=({0: OPEN, 1: OPEN},)), inputs()
    )
    assert report.status == "different"
    assert " with " in report.reason


class Reshaped(Module):  # type: ignore[misc]
    """A size that the model takes for a number, so that it does not run with another one."""

    def forward(self, x: Any) -> Any:
        return x.reshape(x.shape[0], -1) + 1


def test_a_model_that_does_not_run_where_the_module_does() -> None:
    model = to_onnx(Reshaped(), inputs(), dynamic_shapes=({0: OPEN, 1: OPEN},))
    fixed = xoptim.prepare(model)
    for node in fixed.graph.node:
        node.input[:] = ["fixed" if name == "x" else name for name in node.input]
    fixed.graph.node.insert(0, onnx.helper.make_node("Reshape", ["x", "sizes"], ["fixed"]))
    sizes = np.array([2, 3, 8], np.int64)
    fixed.graph.initializer.append(onnx.numpy_helper.from_array(sizes, "sizes"))
    report = verify(Reshaped(), fixed, inputs())
    assert report.status == "different"
    assert re.search("model does not run with .*module", report.reason)


def test_a_module_in_training_mode() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.1))
    with pytest.raises(xoptim.NotVerifiedError, match=r"Dropout '1' .*training"):
        to_onnx(module, inputs(), verify=True)
    norm = torch.nn.BatchNorm1d(3)
    model = to_onnx(norm.eval(), inputs())
    assert verify(norm, model, inputs()).ok
    assert verify(norm.train(), model, inputs()).reason.startswith("BatchNorm1d ")
    without_effect = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.0)).train()
    assert verify(without_effect, to_onnx(without_effect, inputs()), inputs()).ok


class Noise(Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x + torch.rand_like(x)


def test_a_module_that_draws_random_numbers() -> None:
    report = verify(Noise(), to_onnx(Noise(), inputs()), inputs())
    assert (report.status, report.cause) == ("not verified", "evidence")


@dataclass
class Pair:
    """What torch takes for one object."""

    first: Any
    second: Any


class Paired(Module):  # type: ignore[misc]
    def __init__(self, kind: Any = Pair) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Any) -> Any:
        y = x + 1
        return (y, x * 2) if torch.compiler.is_exporting() else self.kind(y, x * 2)


def test_results_in_a_dataclass() -> None:
    model = to_onnx(Paired(), inputs())
    assert verify(Paired(), model, inputs()).ok
    report = verify(Paired(lambda y, z: (y, z, y)), model, inputs())
    assert report.status == "different"
    assert re.search(r" 3 tensors \(\[0\], \[1\], \[2\]\), .* 2 outputs", report.reason)


def test_a_model_without_some_results() -> None:
    """As an exporter leaves out the cache of a decoder."""
    model = to_onnx(network(), inputs(), KWARGS, output_names=["y", "rest", "place"])
    del model.graph.output[1:]
    assert verify(network(), model, inputs(), KWARGS).ok
    model.graph.output[0].name = "z"
    assert verify(network(), model, inputs(), KWARGS).status != "equal"


class Cached(Module):  # type: ignore[misc]
    """Changes its cache in place, as static caches do."""

    def forward(self, x: Any, caches: Any) -> Any:
        for cache in caches:
            cache += x
        return [cache * 2 for cache in caches]


def test_nested_arguments_are_given_anew_to_each_run() -> None:
    args = (torch.rand(2, 8), [torch.rand(2, 8), torch.zeros(2, 8)])
    model = to_onnx(
        Cached(), args, dynamic_shapes={"x": {0: OPEN}, "caches": [{0: OPEN}, {0: OPEN}]}
    )
    assert verify(Cached(), model, args).ok
    before = [each.clone() for each in args[1]]
    assert verify(Cached(), model, args).ok
    assert all(torch.equal(each, old) for each, old in zip(args[1], before, strict=True))


def test_16_bit_floats() -> None:
    """The tolerance is what the module itself loses by its type."""
    module = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)
    )
    module = module.eval().half()
    args = (torch.rand(4, 64).half(),)
    model = to_onnx(module, args, dynamic_shapes=({0: OPEN},))
    report = verify(module, model, args)
    assert report.ok, report
    wrong = copy.deepcopy(module)
    with torch.no_grad():
        wrong[2].bias += 0.05
    assert verify(wrong, model, args).status == "different"


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_types_that_numpy_lacks(name: str) -> None:
    array = np.array([0.5, -2, 448], name)
    tensor = torch_tensor(array)
    assert tensor.dtype == getattr(torch, name)
    assert tensor.to(torch.float32).tolist() == array.astype(np.float32).tolist()
    np.testing.assert_array_equal(array_of(tensor), array)


@pytest.mark.parametrize("scopes", ["5", "{}", "['', [1], 2]"])
def test_other_metadata_names_no_module(scopes: str) -> None:
    broken = to_onnx(network(wrong=1), inputs(), KWARGS, dynamic_shapes=SHAPES)
    for node in broken.graph.node:
        del node.metadata_props[:]
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    report = verify(network(), broken, inputs(), KWARGS, exported=broken)
    assert report.reason.endswith("difference"), "and no module is named"


class Added(Module):  # type: ignore[misc]
    def forward(self, left: Any, right: Any) -> Any:
        return left + right


def test_arguments_that_do_not_fit(exported: onnx.ModelProto) -> None:
    with pytest.raises(xoptim.XoptimError, match=r" 2 tensors \(left, right\), .* 1 input \(x\)"):
        verify(Added(), exported, inputs() * 2)
    with pytest.raises(xoptim.XoptimError, match="have shape"):
        verify(network(), exported, (torch.rand(2, 8),), KWARGS)


def test_arguments_by_name() -> None:
    args = {"right": torch.rand(2, 3), "left": torch.rand(2, 3)}
    model = to_onnx(Added(), (), args, dynamic_shapes={"left": {0: OPEN}, "right": {0: OPEN}})
    assert verify(Added(), model, (), args).ok
    assert verify(Added(), model, (args["left"],), {"right": args["right"]}).ok


def test_the_module_may_refuse_sizes() -> None:
    class Limited(Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            if not torch.compiler.is_exporting() and x.shape[0] == 1:
                raise ValueError("a batch of one")
            return x + 1

    model = to_onnx(Limited(), inputs(), dynamic_shapes=({0: OPEN, 1: OPEN},))
    report = verify(Limited(), model, inputs())
    assert report.ok
    assert any("ValueError: a batch of one" in note for note in report.notes)


def test_bounds_of_the_export_are_kept() -> None:
    batch = torch.export.Dim("batch", min=2, max=4)
    model = to_onnx(network(), inputs(), dynamic_shapes=({0: batch},))
    report = verify(network(), model, inputs(), assume_from_model=True)
    assert report.ok
    assert {*(run.dims.popitem()[1] for run in report.runs)} <= {2, 3, 4}  # type: ignore[attr-defined]


class Doubled(Module):  # type: ignore[misc]
    """Exported for two sequences, and wrong for others."""

    def forward(self, x: Any) -> Any:
        return x * (2 if torch.compiler.is_exporting() else x.shape[0])


def test_assumptions_in_metadata_are_no_evidence() -> None:
    model = to_onnx(Doubled(), inputs(), dynamic_shapes=({0: OPEN, 1: OPEN},))
    name = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    model.metadata_props.add(key="xoptim.assumptions", value=f"{name} == 2")
    report = verify(Doubled(), model, inputs())
    assert (report.status, report.cause) == ("not verified", "assumptions")
    assert verify(Doubled(), model, inputs(), assume_from_model=True).ok
