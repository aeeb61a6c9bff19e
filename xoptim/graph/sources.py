"""The kinds of objects that a model may be given as, and the conversion back to each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from xoptim.facts.lazy import lazy_module
from xoptim.graph.data_file import check_external_data, external_bytes, settle_locations
from xoptim.graph.hub import local_file
from xoptim.graph.load import parse_proto, read_proto

if TYPE_CHECKING:
    import onnx_ir as ir
else:
    ir = lazy_module("onnx_ir")


class Source:
    """A model as it was given (``original``): a ``proto``, ``path``, ``bytes``, a model of onnx_ir
    (``ir``), or a ``program``.

    An address of the Hugging Face Hub (`xoptim.graph.hub`) is a path: that of the downloaded file.
    ``base_dir`` is the folder of the external data, when known. Without ``needs_weights``, the
    external data of a path may be missing.
    """

    __slots__ = ("base_dir", "kind", "original", "proto")

    def __init__(
        self, original: Any, base_dir: Path | None = None, *, needs_weights: bool = True
    ) -> None:
        if isinstance(original, str):
            original = local_file(original)
        self.original = original
        self.base_dir = base_dir
        if isinstance(original, onnx.ModelProto):
            self.kind, self.proto = "proto", original
        elif isinstance(original, (str, Path)):
            self.kind, self.proto = "path", read_proto(Path(original))
            self.base_dir = Path(original).parent if base_dir is None else base_dir
            settle_locations(self.proto, self.base_dir)
            check_external_data(self.proto, self.base_dir, may_be_missing=not needs_weights)
        elif isinstance(original, (bytes, bytearray, memoryview)):
            self.kind, self.proto = "bytes", parse_proto(bytes(original), "these bytes are")
        elif is_a(original, "onnx_ir", "Model"):
            self.kind, self.proto = "ir", ir.to_proto(original)
            self.base_dir = base_dir or _folder(original)
        elif is_a(original, "torch.onnx", "ONNXProgram"):
            self.kind, self.proto = "program", ir.to_proto(original.model)
            self.base_dir = base_dir or _folder(original.model)
        else:
            raise TypeError(
                "a model is expected (a path, bytes, ModelProto, onnx_ir.Model, ONNXProgram), not "
                f"{type(original).__name__}"
            )

    @classmethod
    def of(cls, model: Any) -> Source:
        """The source of a model; ``model`` itself when it is one already."""
        return model if isinstance(model, Source) else cls(model)

    def give_back(self, proto: onnx.ModelProto) -> Any:
        """A model of the kind that was given; a path gives a ``ModelProto``.

        An ``ONNXProgram`` gets the new model.
        """
        if self.kind == "bytes":
            return proto.SerializeToString()
        if self.kind not in ("ir", "program"):
            return proto
        model = ir.from_proto(proto)
        if self.base_dir is not None:
            ir.external_data.set_base_dir(model.graph, self.base_dir)
        if self.kind == "ir":
            return model
        self.original.model = model
        return self.original


def is_model(value: object) -> bool:
    """Whether a value is of a kind that `Source` takes."""
    is_plain = isinstance(value, (onnx.ModelProto, str, Path, bytes, bytearray, memoryview))
    return is_plain or is_a(value, "onnx_ir", "Model") or is_a(value, "torch.onnx", "ONNXProgram")


def title_of(source: Source, default: str = "model") -> str:
    """The name of the file of a model, ``default`` when it has none."""
    return Path(source.original).name if source.kind == "path" else default


def size_of(model: Source | onnx.ModelProto) -> int:
    """Bytes of a model with its external weights; the size of its file when it comes from one."""
    proto = model if isinstance(model, onnx.ModelProto) else model.proto
    is_file = isinstance(model, Source) and model.kind == "path"
    size = (
        Path(model.original).stat().st_size
        if isinstance(model, Source) and is_file
        else proto.ByteSize()
    )
    return size + external_bytes(proto.graph)


def _folder(model: ir.Model) -> Path | None:
    tensors = (
        value.const_value for graph in model.graphs() for value in graph.initializers.values()
    )
    return next(
        (Path(tensor.base_dir) for tensor in tensors if isinstance(tensor, ir.ExternalTensor)), None
    )


def is_a(value: object, package: str, name: str) -> bool:
    """Whether a value is an instance of a class of this name from a package, which is not
    imported.
    """
    return any(
        cls.__name__ == name and cls.__module__.startswith(package) for cls in type(value).__mro__
    )
