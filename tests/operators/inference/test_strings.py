"""Operators on strings, and images decoded from bytes."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.operators.inference.context import infer
from tests.operators.inference.oracle import Fed, check, tensor
from xoptim.facts.dims import SymbolicDim, named
from xoptim.facts.shapes import UNKNOWN, Info

TEXT, I64 = TensorProto.STRING, TensorProto.INT64
N, M = named("n"), named("m")


def words(*shape: int) -> Fed:
    return Fed(np.full(shape, "ab cd", dtype=object))


def test_string_normalizer() -> None:
    for shape in ((4,), (1, 4)):
        assert check("StringNormalizer", [words(*shape)], opset=10)[0].shape == shape
        removed = check(
            "StringNormalizer",
            [words(*shape)],
            {"stopwords": ["ab cd"], "is_case_sensitive": 1},
            opset=10,
        )
        assert isinstance((removed[0].shape or (0,))[-1], SymbolicDim)
    assert infer("StringNormalizer", [UNKNOWN], opset=10) == [Info(TEXT)]


def test_string_concat_and_match() -> None:
    a, b = tensor("n", "m", dtype=TEXT), tensor("m", dtype=TEXT)
    assert check("StringConcat", [a, b], opset=20, run=False) == [a]
    assert check("StringConcat", [words(2, 1), words(1, 4)], opset=20)[0].shape == (2, 4)
    assert check("RegexFullMatch", [words(2, 3)], {"pattern": "a.*"}, opset=20)[0] == tensor(
        2, 3, dtype=9
    )


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_string_split(shape: tuple[int, ...]) -> None:
    infos = check("StringSplit", [words(*shape)], outputs=2, opset=20)
    assert infos[0].rank == len(shape) + 1
    assert infos[1] == Info(I64, shape)


def test_tf_idf_vectorizer() -> None:
    attributes: dict[str, Any] = {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 0,
    }
    attributes |= {
        "ngram_counts": [0, 3],
        "ngram_indexes": [0, 1, 2, 5],
        "pool_int64s": [1, 2, 3, 4, 5],
    }
    for shape, expected in (((5,), (6,)), ((2, 5), (2, 6)), (("n", "m"), (N, 6)), (("m",), (6,))):
        x = tensor(*shape, dtype=I64)
        assert check("TfIdfVectorizer", [x], attributes, opset=9)[0].shape == expected


@pytest.mark.parametrize(("pixels", "channels"), [("RGB", 3), ("BGR", 3), ("Grayscale", 1)])
def test_image_decoder(pixels: str, channels: int) -> None:
    stream = tensor("n", dtype=TensorProto.UINT8)
    shape = check("ImageDecoder", [stream], {"pixel_format": pixels}, opset=20, run=False)[0].shape
    assert shape is not None
    assert shape[2] == channels
