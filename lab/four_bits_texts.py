"""Trained models for texts in Khmer and Arabic script, and samples for them.

Models and texts are read from published wheels; no code of a package is run.
"""

import json
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from lab.four_bits_wheels import CACHE, SAMPLES, Feeds, wheel
from lab.real_models.fetching import models_of
from lab.real_models.table import PACKAGES
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import SessionSettings

_TRANSLATIONS: Final = "Django", "5.2"
_KHMER: Final = re.compile("[\u1780-\u17ff]+")
_LETTERS: Final = 48
"""Number of Khmer letters in a sample."""
_NAMES: Final = 32
"""Number of names in a sample, which are decoded as a batch."""
_FEWEST_LETTERS: Final = 6
"""Minimum number of Latin letters of a name; each sample starts after fewer decoded letters."""
_BEGIN: Final = 1
_END: Final = 2
_UNKNOWN: Final = 3
"""Ids of special tokens, with `_BEGIN` and `_END`, in all vocabularies of arabic-name-romanizer."""


def khmer_words() -> tuple[onnx.ModelProto, list[Feeds]]:
    """A tagger of Khmer letters, and Khmer translations of Django's messages as samples."""
    package = next(package for package in PACKAGES if package.name == "khmersm")
    with wheel(package.name, package.version) as files:
        numbers: dict[str, int] = json.loads(files.read("khmersm/config.json"))["char2id"]
    samples = []
    for letters in _windows("".join(_khmer_messages())):
        ids = np.array([[numbers.get(letter, numbers["<unk>"]) for letter in letters]], np.int64)
        samples.append({"x": ids, "mask": np.ones_like(ids, dtype=bool)})
    return onnx.load(models_of(package, CACHE)[0]), samples


def _khmer_messages() -> Iterator[str]:
    """The Khmer words of the translations, each once."""
    words = set[str]()
    with wheel(*_TRANSLATIONS) as files:
        names = sorted(name for name in files.namelist() if "/locale/km/" in name)
        for name in names:
            if name.endswith(".po"):
                for word in _KHMER.findall(files.read(name).decode("utf-8")):
                    if word not in words:
                        words.add(word)
                        yield word


def _windows(text: str) -> Iterator[str]:
    """Parts of a text that start at equal distances, one for each sample."""
    stride = max((len(text) - _LETTERS) // SAMPLES, 1)
    for start in range(0, stride * SAMPLES, stride):
        yield text[start : start + _LETTERS]


def spellings(folder: str, countries: Sequence[str]) -> tuple[onnx.ModelProto, list[Feeds]]:
    """A decoder that spells Arabic names in Latin letters, and the inputs of some of its steps.

    A step is one of the first six: 0 to 5 Latin letters are already decoded.

    Args:
        folder: folder of the model in the package.
        countries: codes of the countries of the names.
    """
    package = next(package for package in PACKAGES if package.name == "arabic-name-romanizer")
    resources = f"{package.folder}{folder}"
    with wheel(package.name, package.version) as files, tempfile.TemporaryDirectory() as temporary:
        tokens: list[str] = json.loads(files.read(f"{resources}vocab.json"))["tokens"]
        names = _names(Path(files.extract(f"{package.folder}names.sqlite3", temporary)), countries)
        encoder, model = (
            onnx.load_from_string(files.read(f"{resources}{part}.onnx"))
            for part in ("encoder", "decoder")
        )
    spelling = _Spelling(encoder, model, tokens)
    samples = [
        spelling.step(names[index * _NAMES : (index + 1) * _NAMES], index % _FEWEST_LETTERS)
        for index in range(SAMPLES)
    ]
    return model, samples


def _names(path: Path, countries: Sequence[str]) -> list[tuple[str, str]]:
    """Names in Arabic and in Latin letters, of six Latin letters or more."""
    placeholders = ", ".join("?" * len(countries))
    query = (
        f"select distinct arabic_key, latin from units where length(latin) >= {_FEWEST_LETTERS} "
        f"and country in ({placeholders}) order by arabic_key, latin"
    )
    connection = sqlite3.connect(path)
    try:
        rows: list[tuple[str, str]] = connection.execute(query, countries).fetchall()
    finally:
        connection.close()
    order = np.random.default_rng(0).permutation(len(rows))
    return [rows[index] for index in order[: SAMPLES * _NAMES]]


class _Spelling:
    """Runs the steps of a decoder with a hidden state.

    Args:
        encoder: model that encodes the letters of Arabic names.
        decoder: model that predicts the next Latin letter.
        tokens: the letters and special tokens; the index of a token is its id.
    """

    def __init__(
        self, encoder: onnx.ModelProto, decoder: onnx.ModelProto, tokens: Sequence[str]
    ) -> None:
        settings = SessionSettings(level="off")
        self._encoder, self._decoder = (Session(model, settings) for model in (encoder, decoder))
        self._numbers = {token: number for number, token in enumerate(tokens)}

    def step(self, names: Sequence[tuple[str, str]], position: int) -> Feeds:
        """The inputs of the decoder after some letters of each name."""
        prefix = [self._numbers["<UNK_COUNTRY>"], self._numbers["<ROLE_UNKNOWN>"]]
        sources = [[*prefix, *self._ids(arabic), _END] for arabic, _ in names]
        length = max(map(len, sources))
        ids = np.array([source + [0] * (length - len(source)) for source in sources], np.int64)
        memory, mask, hidden = self._encoder.run({"src": ids, "src_mask": ids == 0})
        state: dict[str, Any] = {"memory": memory, "src_mask": mask, "hidden": hidden}
        letters = np.array([[_BEGIN, *self._ids(latin)[:position]] for _, latin in names], np.int64)
        for end in range(1, position + 1):
            _, state["hidden"] = self._decoder.run({"prefix": letters[:, :end], **state})
        return {"prefix": letters, **state}

    def _ids(self, text: str) -> list[int]:
        return [self._numbers.get(letter, _UNKNOWN) for letter in text]
