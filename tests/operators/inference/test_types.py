import onnx
import pytest
from onnx import TensorProto, TypeProto, helper

from xoptim.facts.dims import SymbolicDim, fresh, named
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.operators.inference.types import info_to_type_proto, type_proto_to_info

F = TensorProto.FLOAT
n = named("n")


@pytest.mark.parametrize(
    "info",
    [
        Info(F, (n, 3, n * 2 + 1)),
        Info(F, ()),
        Info(F),
        Info(0, (2, n)),
        UNKNOWN,
        Info(container="sequence", element=Info(F, (n, 2))),
        Info(container="sequence", element=UNKNOWN),
        Info(container="optional", element=Info(container="sequence", element=Info(F, (n,)))),
    ],
)
def test_what_a_type_says_survives(info: Info) -> None:
    names = {"2*n + 1": n * 2 + 1}
    assert type_proto_to_info(info_to_type_proto(info), names) == info


def test_reading() -> None:
    proto = helper.make_tensor_type_proto(F, ["batch", 3, None, 0, -1])
    info = type_proto_to_info(proto)
    assert info.shape is not None
    assert info.shape[0] is named("batch")
    assert (info.shape[1], info.shape[3]) == (3, 0)
    blank, negative = info.shape[2], info.shape[4]
    assert isinstance(blank, SymbolicDim)
    assert isinstance(negative, SymbolicDim)
    assert blank.is_anonymous
    assert negative.is_anonymous
    assert blank is not negative
    inner = fresh()
    assert type_proto_to_info(proto, {"batch": inner}).shape[0] is inner  # type: ignore[index]
    assert type_proto_to_info(TypeProto()) == UNKNOWN


def test_types_without_words_of_their_own_are_kept_as_they_are() -> None:
    maps = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(F, None))
    sparse = helper.make_sparse_tensor_type_proto(F, [2, "n"])
    for proto, container in ((maps, "map"), (sparse, "sparse")):
        info = type_proto_to_info(proto)
        assert info.container == container
        assert info_to_type_proto(info) == proto


def test_writing() -> None:
    anonymous = fresh()
    proto = info_to_type_proto(Info(F, (anonymous, n + 1, 3)))
    assert [dim.WhichOneof("value") for dim in proto.tensor_type.shape.dim] == [
        None,
        "dim_param",
        "dim_value",
    ]
    assert proto.tensor_type.shape.dim[1].dim_param == "n + 1"
    names: dict[str, SymbolicDim] = {}
    info = Info(F, (anonymous, n + 1, anonymous, named("n + 1")))
    proto = info_to_type_proto(info, names)
    assert len({dim.dim_param for dim in proto.tensor_type.shape.dim}) == 3
    assert type_proto_to_info(proto, names) == info
    assert isinstance(proto, onnx.TypeProto)
