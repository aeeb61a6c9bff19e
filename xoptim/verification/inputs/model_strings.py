"""Strings on which a model may behave in another way: matches of patterns, separators, words."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import onnx
from onnx import AttributeProto, NodeProto

from xoptim.facts.protos import every_node
from xoptim.verification.inputs.matching_strings import probing_strings

_MAX_TEXTS: Final = 320
_MAX_PROBING: Final = 160
"""Strings for one pattern."""
_MAX_PATTERNS: Final = 8
_MAX_VARIED: Final = 16
"""Words that are varied."""
_MAX_READ: Final = 1 << 12
"""Words of one node or constant that are read."""
_MAX_PARTS: Final = 8
_PATTERNS: Final = {"RegexFullMatch": "pattern", "Tokenizer": "tokenexp"}
"""Operators with a regular expression, and its attribute."""
_SEPARATORS: Final = {"StringSplit": "delimiter", "Tokenizer": "separators"}
_STOPPING: Final = {"StringNormalizer": "stopwords"}
_WHITE_SPACE: Final = ("a b", "a  b", " a b ", "a\tb\nc", " ", "")
"""For a split at white space, which is the default."""


class ModelStrings(NamedTuple):
    """The strings for two models.

    Attributes:
        texts: strings to feed; patterns and words of only one model come before common ones.
        stop_words: words that StringNormalizer drops.
    """

    texts: tuple[str, ...] = ()
    stop_words: tuple[str, ...] = ()


def model_strings(models: Sequence[onnx.ModelProto]) -> ModelStrings:
    """The strings for models with string inputs."""
    nodes = [list(_nodes(model)) for model in models]
    patterns = _changed_first([_attributes(part, _PATTERNS) for part in nodes])[:_MAX_PATTERNS]
    words = _changed_first([_words(*pair) for pair in zip(models, nodes, strict=True)])
    probing = [probing_strings(pattern, _MAX_PROBING) for pattern in patterns]
    groups = [
        [text for row in itertools.zip_longest(*probing) for text in row if text is not None],
        [text for part in nodes for node in part for text in _separated(node)],
        [text for word in words[:_MAX_VARIED] for text in _varied(word)],
        words,
    ]
    texts = list(dict.fromkeys(text for group in groups for text in group))[:_MAX_TEXTS]
    stop_words = [word for part in nodes for word in _attributes(part, _STOPPING)]
    return ModelStrings(tuple(texts), tuple(dict.fromkeys(stop_words)))


def _nodes(model: onnx.ModelProto) -> Iterator[NodeProto]:
    yield from every_node(
        [*model.graph.node, *(node for function in model.functions for node in function.node)]
    )


def _changed_first(sets: Sequence[Iterable[str]]) -> list[str]:
    """All strings in order, those that not every model has first."""
    ordered = [dict.fromkeys(texts) for texts in sets]
    together = dict.fromkeys(text for texts in ordered for text in texts)
    return sorted(together, key=lambda text: all(text in texts for texts in ordered))


def _attributes(nodes: Iterable[NodeProto], names: dict[str, str]) -> list[str]:
    """The strings of one attribute of some operators."""
    return [
        text
        for node in nodes
        for attribute in node.attribute
        if attribute.name == names.get(node.op_type)
        for text in _stored(attribute)
    ]


def _stored(attribute: AttributeProto) -> list[str]:
    if attribute.type == AttributeProto.STRING:
        return [attribute.s.decode("utf-8", "replace")]
    if attribute.type == AttributeProto.TENSOR:
        return _elements(attribute.t)
    return [text.decode("utf-8", "replace") for text in attribute.strings[:_MAX_READ]]


def _elements(tensor: onnx.TensorProto) -> list[str]:
    return [text.decode("utf-8", "replace") for text in tensor.string_data[:_MAX_READ]]


def _words(model: onnx.ModelProto, nodes: Iterable[NodeProto]) -> Iterator[str]:
    """Constants, and the elements of attributes that list strings."""
    for tensor in model.graph.initializer:
        yield from _elements(tensor)
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type in (AttributeProto.STRINGS, AttributeProto.TENSOR):
                yield from _stored(attribute)


def _varied(word: str) -> tuple[str, ...]:
    """A word in other cases, longer, shorter, and between other words."""
    return (
        word, word.upper(), word.lower(), word.capitalize(), word + "s", word[:-1], f" {word} ",
        f"a {word} b", f"{word}{word}",
    )  # fmt: skip


def _separated(node: NodeProto) -> Iterator[str]:
    """Strings in several parts for an operator that separates them."""
    if node.op_type not in _SEPARATORS:
        return
    separators = [text for text in _attributes([node], _SEPARATORS) if text]
    if not separators:
        yield from _WHITE_SPACE
    parts = next((a.i for a in node.attribute if a.name == "maxsplit"), 1) + 1
    for separator in separators[:_MAX_PARTS]:
        yield from _joined(separator, max(2, min(parts, _MAX_PARTS)))


def _joined(separator: str, parts: int) -> Iterator[str]:
    """Strings with a separator once, as often as the node splits and more often, twice in a row, at
    the ends, and with pieces of the separator.
    """
    letters = "abcdefghijkl"
    counts = dict.fromkeys((1, 2, parts, parts + 1, parts + 2))
    yield from (separator.join(letters[:count]) for count in counts)
    yield from (separator, f"a{separator}{separator}b", f"{separator}a", f"a{separator}")
    if len(separator) > 1:
        yield from (f"a{piece}b{separator}c" for piece in (separator[:-1], separator[1:]))
