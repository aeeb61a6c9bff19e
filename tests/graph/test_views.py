"""Views equal what numpy computes, whichever parts of them are read, and however they are
composed.
"""

import math
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from onnx import TensorProto

from xoptim.graph import data_file
from xoptim.graph.data_file import Weight, refer, write_weights
from xoptim.graph.parts import SAMPLES
from xoptim.graph.tensors import Tensor
from xoptim.graph.views import (
    Elementwise,
    Joined,
    Reshaped,
    Sliced,
    Transposed,
    reshaped,
    sliced,
    transposed,
)


def stored(array: np.ndarray, folder: Path, name: str = "w") -> Tensor:
    """An external tensor, behind some bytes of another one."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"another" + array.tobytes())
    proto = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape)
    refer(proto, name, 7, array.nbytes)
    return Tensor.from_proto(proto, folder)


def numbers(random: Random, shape: list[int]) -> np.ndarray:
    return np.array([random.uniform(-1, 1) for _ in range(math.prod(shape))], np.float32).reshape(
        shape
    )


def step(random: Random, array: np.ndarray, tensor: Tensor) -> tuple[np.ndarray, Tensor]:
    """One more operation, by numpy and as a view."""
    kind, rank = random.choice(["transpose", "reshape", "slice", "join", "multiply"]), array.ndim
    if kind == "transpose":
        perm = random.sample(range(rank), rank)
        return array.transpose(perm), transposed(tensor, perm)
    if kind == "reshape":
        rest, shape = array.size, []
        for _ in range(random.randint(0, 3)):
            shape.append(random.choice([d for d in range(1, rest + 1) if rest % d == 0]))
            rest //= shape[-1]
        shape = random.sample([*shape, rest], len(shape) + 1)
        return array.reshape(shape), reshaped(tensor, shape)
    if kind == "slice":
        taken = [
            range(d)[random.randrange(d) :: random.choice([1, 1, 2, -1, -2])][
                : random.randint(1, d)
            ]
            for d in array.shape
        ]
        shape = [len(each) for each in taken]
        view = sliced(tensor, [each.start for each in taken], [each.step for each in taken], shape)
        return array[np.ix_(*map(list, taken))], view
    if kind == "join":
        axis, other = random.randrange(rank), numbers(random, list(array.shape))
        return np.concatenate([array, other], axis), Joined(
            [tensor, Tensor.from_array(other)], axis
        )
    other = numbers(random, [random.choice([1, d]) for d in array.shape])
    view = Elementwise(
        np.multiply, "Mul", [tensor, Tensor.from_array(other)], TensorProto.FLOAT, array.shape
    )
    return array * other, view


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False))
def test_compositions_equal_numpy(tmp_path_factory: pytest.TempPathFactory, random: Random) -> None:
    folder = tmp_path_factory.mktemp("views")
    array = numbers(random, [random.randint(1, 8) for _ in range(random.randint(1, 4))])
    tensor = stored(array, folder)
    for _ in range(random.randint(1, 5)):
        array, tensor = step(random, array, tensor)
    array = np.ascontiguousarray(array)
    assert tensor.shape == array.shape
    np.testing.assert_array_equal(tensor.numpy(), array)
    start = random.randrange(array.size)
    stop = random.randint(start + 1, array.size)
    np.testing.assert_array_equal(tensor.read_flat(start, stop), array.reshape(-1)[start:stop])
    whole = Tensor.from_array(array)
    assert [tensor.sample(n) for n in range(SAMPLES)] == [whole.sample(n) for n in range(SAMPLES)]
    assert tensor.digest() == whole.digest()
    np.testing.assert_array_equal(written(tensor, folder / "out", room=256), array)


def written(tensor: Tensor, path: Path, room: int) -> np.ndarray:
    """The tensor as it is read back from the file into which it was written in parts of so many
    bytes.
    """
    proto = TensorProto(name="x", data_type=tensor.dtype, dims=tensor.shape)
    with pytest.MonkeyPatch.context() as patch, path.open("wb", buffering=0) as stream:
        patch.setattr(data_file, "PART", room)
        write_weights([Weight(proto, tensor)], stream, path.parent, path.name)
    return Tensor.from_proto(proto, path.parent).numpy()


def test_movements_that_undo_each_other_are_nothing(tmp_path: Path) -> None:
    tensor = stored(np.arange(24, dtype=np.float32).reshape(2, 3, 4), tmp_path)
    assert transposed(transposed(tensor, [2, 0, 1]), [1, 2, 0]) is tensor
    assert reshaped(reshaped(tensor, [6, 4]), [2, 3, 4]) is tensor
    assert sliced(tensor, [0, 0, 0], [1, 1, 1], [2, 3, 4]) is tensor
    twice = transposed(transposed(tensor, [1, 0, 2]), [0, 2, 1])
    assert isinstance(twice, Transposed)
    assert twice.operands == (tensor,)
    rows = sliced(sliced(tensor, [1, 0, 0], [1, 1, 1], [1, 3, 4]), [0, 2, 0], [1, -1, 1], [1, 3, 4])
    assert isinstance(rows, Sliced)
    assert rows.operands == (tensor,)


def test_views_that_move_no_byte_have_the_place_of_their_bytes(tmp_path: Path) -> None:
    tensor = stored(np.arange(24, dtype=np.float32).reshape(1, 6, 4), tmp_path)
    place = tensor.place()
    assert place is not None
    assert place[1:] == (7, 96)
    assert reshaped(tensor, [4, 6]).place() == place
    assert sliced(tensor, [0, 2, 0], [1, 1, 1], [1, 3, 4]).place() == (place[0], 7 + 2 * 16, 48)
    assert sliced(tensor, [0, 0, 1], [1, 1, 1], [1, 6, 2]).place() is None
    assert transposed(tensor, [1, 0, 2]).place() == place, "an axis of one element has no order"
    assert transposed(tensor, [0, 2, 1]).place() is None


def test_keys_tell_views_apart(tmp_path: Path) -> None:
    tensor, other = (
        stored(np.arange(8, dtype=np.float32).reshape(2, 2, 2) + n, tmp_path, f"w{n}")
        for n in range(2)
    )
    views = [
        *(transposed(each, perm) for each in (tensor, other) for perm in ([1, 0, 2], [0, 2, 1])),
        *(Joined([tensor, other], axis) for axis in range(3)),
        Joined([other, tensor], 0),
        *(sliced(tensor, [0, 0, 0], steps, [1, 2, 2]) for steps in ([1, 1, 1], [2, 1, 1])),
        Elementwise(np.add, "Add", [tensor, other], TensorProto.FLOAT, [2, 2, 2]),
        Elementwise(np.subtract, "Sub", [tensor, other], TensorProto.FLOAT, [2, 2, 2]),
        Reshaped(tensor, [8]),
    ]
    assert len({each.key() for each in views}) == len(views)
    assert transposed(tensor, [1, 0, 2]).key() == transposed(tensor, [1, 0, 2]).key()


def test_nothing_is_read_until_numbers_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = stored(np.arange(24, dtype=np.float32).reshape(4, 6), tmp_path)
    monkeypatch.setattr(Tensor, "numpy", lambda _: pytest.fail("read"))
    view = Joined([transposed(tensor, [1, 0]), reshaped(tensor, [6, 4])], 1)
    info = view.info()
    assert (view.shape, view.nbytes, info.static_shape, view.uniform()) == (
        (6, 8),
        192,
        (6, 8),
        None,
    )
    assert view.key()
