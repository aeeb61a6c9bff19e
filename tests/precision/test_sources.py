"""Samples from folders, loaders, datasets and iterators."""

from collections import UserDict
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.precision.models import network, words
from xoptim import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.sources import read_samples
from xoptim.verification.errors import ChoiceError
from xoptim.workflow.job import Job, JobOptions

INPUTS = [
    helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "seq"]),
    helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 2]),
]
IDS, IMAGE = np.array([[1, 2, 3]]), np.array([[0.5, 1.5]], np.float32)


class Tensor:
    """Behaves as a tensor of torch on a GPU: numpy can read it after ``detach`` and ``cpu``."""

    def __init__(self, numbers: Any, *, is_readable: bool = False) -> None:
        self._numbers, self._is_readable = numbers, is_readable

    def detach(self) -> "Tensor":
        return self

    def cpu(self) -> "Tensor":
        return Tensor(self._numbers, is_readable=True)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if not self._is_readable:
            raise TypeError("can't convert cuda tensor")
        return np.asarray(self._numbers)


class BatchEncoding(UserDict[str, Any]):
    """A mapping that is no dictionary, as tokenizers give it."""


class Loader:
    """Gives samples each time that it is read, and has no length."""

    def __init__(self, *samples: Any) -> None:
        self._samples = samples

    def __iter__(self) -> Iterator[Any]:
        return iter(self._samples)

    def __len__(self) -> int:
        raise TypeError("an iterable dataset has no length")


def one(sample: Any, inputs: list[onnx.ValueInfoProto] | None = None) -> dict[str, Any]:
    (found,) = read_samples(Loader(sample), INPUTS if inputs is None else inputs, 8)
    return found


@pytest.mark.parametrize(
    "sample",
    [
        {"image": IMAGE, "ids": IDS},
        BatchEncoding({"ids": IDS, "image": IMAGE}),
        {"ids": Tensor(IDS), "image": Tensor(IMAGE)},
        {"ids": IDS.tolist(), "image": IMAGE.tolist()},
        {"ids": IDS[0].tolist(), "image": IMAGE[0]},
        (IDS, IMAGE),
        [Tensor(IDS.astype(np.int32)), Tensor(IMAGE.astype(np.float64))],
    ],
    ids=["dict", "mapping", "tensors", "lists", "row", "tuple", "types"],
)
def test_forms_of_samples(sample: Any) -> None:
    found = one(sample)
    assert [*found] == ["ids", "image"]
    np.testing.assert_array_equal(found["ids"], IDS)
    np.testing.assert_array_equal(found["image"], IMAGE)
    assert (found["ids"].dtype, found["image"].dtype) == (np.int64, np.float32)


def test_an_array_is_the_only_input() -> None:
    np.testing.assert_array_equal(one(IDS, INPUTS[:1])["ids"], IDS)
    np.testing.assert_array_equal(one(Tensor(IDS[0]), INPUTS[:1])["ids"], IDS)


def test_integers_that_fit_become_smaller() -> None:
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT32, [1])]
    assert one(np.array([7]), inputs)["x"].dtype == np.int32
    with pytest.raises(ChoiceError, match=r"sample 0: 'x' .*int32, .*int64"):
        one(np.array([2**40]), inputs)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"ids": IDS}, "sample 0 lacks image; the inputs are ids, image"),
        (
            {"ids": IDS, "pixels": IMAGE},
            "sample 0 lacks image and has unknown inputs pixels; the inputs are",
        ),
        ((IDS,), "sample 0 has 1 values, but the model has 2 inputs: ids, image"),
        ((IMAGE, IDS), "sample 0: 'ids' takes int64, not float32"),
        ({"ids": [[1, 2], [3]], "image": IMAGE}, "sample 0: 'ids' is not an array"),
        ({"ids": IDS, "image": None}, "sample 0: 'image' is not an array of numbers or strings"),
    ],
)
def test_samples_that_do_not_fit(sample: Any, message: str) -> None:
    with pytest.raises(ChoiceError) as caught:
        one(sample)
    assert str(caught.value).startswith(message)


def test_nothing_is_read_beyond_the_limit() -> None:
    numbers = count()
    found = read_samples(((np.full((1, 1), n), IMAGE) for n in numbers), INPUTS, 5)
    assert [each["ids"].item() for each in found if isinstance(each["ids"], np.ndarray)] == [
        0, 1, 2, 3, 4
    ]  # fmt: skip
    assert next(numbers) == 5


def test_no_sample() -> None:
    with pytest.raises(ChoiceError, match=r"Loader .*no sample"):
        read_samples(Loader(), INPUTS, 5)


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match="no sample"):
        read_samples(tmp_path, INPUTS, 5)
    for number in range(3):
        np.savez(tmp_path / f"{number}.npz", ids=IDS + number, image=IMAGE)
    found = read_samples(str(tmp_path), INPUTS, 2)
    assert [np.asarray(each["ids"]).min() for each in found] == [1, 2]
    assert len(read_samples(tmp_path / "1.npz", INPUTS, 2)) == 1
    (tmp_path / "0.npz").write_text("nothing")
    with pytest.raises(ChoiceError, match=r"0\.npz.*numpy\.savez"):
        read_samples(tmp_path, INPUTS, 2)


def test_a_job_reads_an_iterator_once() -> None:
    samples = iter([words(seed=seed) for seed in range(3)])
    precision = PrecisionOptions(static=True, tolerance=0.1, feeds=samples, max_samples=2)
    options = JobOptions(optimization=OptimizationOptions(), precision=precision)
    found = Job(Source(network(layers=1)), options).run().quantized
    assert found is not None
    assert (len(found.samples.feeds), found.samples.are_random) == (2, False)
    assert len([*samples]) == 1


@pytest.mark.parametrize("feeds", [{"x": IDS}, 3])
def test_feeds_that_are_no_samples(feeds: Any) -> None:
    with pytest.raises(ValueError, match="feeds"):
        PrecisionOptions(feeds=feeds)
    with pytest.raises(ValueError, match=r"max_samples .*1"):
        PrecisionOptions(max_samples=0)


@pytest.mark.torch
def test_a_data_loader_of_torch() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data
    rows = data.TensorDataset(torch.arange(12).reshape(4, 3), torch.ones(4, 2, dtype=torch.float64))
    found = read_samples(data.DataLoader(rows, batch_size=2), INPUTS, 8)
    assert [np.asarray(each["ids"]).shape for each in found] == [(2, 3), (2, 3)]
    assert np.asarray(found[0]["image"]).dtype == np.float32
    named = [{"ids": torch.arange(3), "image": torch.zeros(2)} for _ in range(4)]
    found = read_samples(data.DataLoader(named, batch_size=4), INPUTS, 8)
    assert [np.asarray(each["image"]).shape for each in found] == [(4, 2)]
