"""Assumptions about the sizes and the values of a model's inputs: a caller's own, and the default
set.

An assumption is a text: a range of a size (``past >= 1``, ``64 <= width <= 4096``, ``batch == 1``),
a divisor (``width % 8 == 0``), two equal sizes (``total == past + seq``), ranges of which one holds
(``batch == 1 or seq == 1``), a property of values (``finite``, ``bool(attention_mask)``), a word of
the default set, or ``nothing``, which switches the default set off. A size is the name of a
dimension, or ``input:axis`` for one without a name.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from xoptim.facts.dim_formulas import formula_of
from xoptim.facts.dims import Dim, SymbolicDim, evaluate, named
from xoptim.facts.errors import AssumptionError
from xoptim.facts.words import abridged, suggestion, whole_number

ENTRY: Final = "xoptim.assumptions"
"""Key of the metadata of a model that was optimized under assumptions other than the default
set.
"""
NOTHING: Final = "nothing"
DEFAULTS: Final[Mapping[str, str]] = {
    "addressable": "no tensor has 2^48 elements or more",
    "small_empty": (
        "in a tensor without elements, the dimensions other than 0 multiply to less than 2^31"
    ),
    "open_ends": "a Slice that ends at 2^31 - 1 or beyond ends with the axis",
    "nonempty": "the first two dimensions of inputs are not 0",
}
"""The default set: each word with its meaning."""
PROPERTIES: Final[Mapping[str, str]] = {
    "finite": "no NaN, infinity or -0 in the named input; without a name, in any tensor",
    "bool": "0 and 1 only",
    "ones": "1 only",
    "right_padded": "each row along the last axis is one or more ones, followed by zeros",
    "sorted": "in ascending order along the last axis",
    "unit": "vectors along the last axis have the length 1, to within 1 %",
}
"""The properties of values: each word with its meaning."""
UNIT_ERROR: Final = 0.01
"""Maximal difference between the length of a unit vector and 1."""
_COMPARISON: Final = re.compile(r"\s*(<=|>=|==|!=|<|>|=)\s*")
_PROPERTY: Final = re.compile(r"(\w+)\s*(?:\(\s*(.*?)\s*\))?")
_REMAINDER: Final = re.compile(r"(.+?)\s*%\s*(\d+)")
_OR: Final = re.compile(r"\s+or\s+")
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
_MAX_DIVISOR: Final = 1 << 20
"""Maximal divisor of a size, and maximal least common multiple of its divisors."""
_MAX_LENGTH: Final = 400
"""Maximal length of an assumption: the time of a regular expression may grow with its square."""
_MAX_ASSUMPTIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class SizeFact:
    """The range of a size, both ends included, and its remainder when it is divided by a number."""

    least: int = 0
    most: int | None = None
    divisor: int = 1
    rest: int = 0

    def holds(self, size: int) -> bool:
        """Whether a number is such a size."""
        return (
            self.least <= size
            and (self.most is None or size <= self.most)
            and size % self.divisor == self.rest
        )

    def allowed_size(self, size: int) -> int:
        """``size`` if it is allowed, else another size that is allowed.

        ``least`` is added to sizes below it, so that different sizes stay different.
        """
        size = size if size >= self.least else size + self.least
        size += (self.rest - size) % self.divisor
        return (
            size
            if self.most is None or size <= self.most
            else self.most - (self.most - self.rest) % self.divisor
        )

    def meet(self, other: "SizeFact") -> "SizeFact | None":
        """The sizes that both facts allow; ``None`` when there is none."""
        common, difference = math.gcd(self.divisor, other.divisor), other.rest - self.rest
        if difference % common:
            return None
        steps = difference // common * pow(self.divisor // common, -1, other.divisor // common)
        divisor = math.lcm(self.divisor, other.divisor)
        rest = (self.rest + self.divisor * steps) % divisor
        ends = [end for end in (self.most, other.most) if end is not None]
        fact = SizeFact(max(self.least, other.least), min(ends, default=None), divisor, rest)
        return fact if fact.holds(fact.allowed_size(0)) else None

    def texts(self, name: str) -> Iterator[str]:
        """The assumptions about a size of this name, in their canonical form."""
        if self.least == self.most:
            yield f"{name} == {self.least}"
            return
        if self.most is not None:
            yield (
                f"{self.least} <= {name} <= {self.most}" if self.least else f"{name} <= {self.most}"
            )
        elif self.least:
            yield f"{name} >= {self.least}"
        if self.divisor > 1:
            yield f"{name} % {self.divisor} == {self.rest}"


Alternatives = tuple[tuple[str, SizeFact], ...]
"""Ranges of sizes by name, at least one of which holds."""


def _text_of(alternatives: Alternatives) -> str:
    return " or ".join(text for name, fact in alternatives for text in fact.texts(name))


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Assumptions that do not contradict each other.

    Attributes:
        defaults: the words of the default set that are assumed.
        sizes: the range and the remainder of a size, by name.
        equal: a formula of other sizes, by the name of the size that is equal to it.
        either: alternatives, at least one of which holds, as ranges of sizes by name.
        values: a property, and the name of the input that has it, empty for all tensors.
    """

    defaults: tuple[str, ...] = tuple(DEFAULTS)
    sizes: tuple[tuple[str, SizeFact], ...] = ()
    equal: tuple[tuple[str, str], ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    either: tuple[Alternatives, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Assumptions":
        """Parse assumptions.

        Raises `AssumptionError` when a text is not an assumption, or two contradict each other.
        """
        if isinstance(texts, str):
            raise AssumptionError(f"assumptions must be a sequence of strings: ({texts!r},)")
        return _parsed(tuple(texts))

    @property
    def texts(self) -> tuple[str, ...]:
        """The assumptions in their canonical form and order.

        The default set is not listed while it is complete.
        """
        words = () if len(self.defaults) == len(DEFAULTS) else (NOTHING, *self.defaults)
        sizes = (text for name, fact in self.sizes for text in fact.texts(name))
        equal = (f"{name} == {formula}" for name, formula in self.equal)
        values = (f"{word}({name})" if name else word for word, name in self.values)
        return (*words, *sizes, *equal, *map(_text_of, self.either), *values)

    def __str__(self) -> str:
        return "; ".join(self.texts)

    def has(self, word: str, name: str = "") -> bool:
        """Whether a word of the default set is assumed, or a property of an input or of all
        tensors.
        """
        return word in self.defaults or (word, name) in self.values or (word, "") in self.values

    def about(self, word: str) -> list[str]:
        """The inputs that an assumption of this property names."""
        return [name for prop, name in self.values if prop == word and name]

    def fitted(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes by name, changed where the assumptions exclude them."""
        result, facts = self._settled(sizes), dict(self.sizes)
        result |= {
            name: fact.allowed_size(result[name]) for name, fact in facts.items() if name in result
        }
        for name, formula in self.equal:
            if name in result and (size := _size(formula, result)) is not None:
                result[name] = size
        return result

    def _settled(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes by name, changed where no alternative holds.

        The sizes decide which alternative is made true: different runs usually cover several.
        """
        result, facts = dict(sizes), dict(self.sizes)
        for alternatives in self.either:
            options = [
                (name, common)
                for name, fact in alternatives
                if name in result and (common := fact.meet(facts.get(name, SizeFact()))) is not None
            ]
            if options and not any(fact.holds(result[name]) for name, fact in options):
                name, fact = options[sum(result.values()) % len(options)]
                result[name] = fact.allowed_size(result[name])
        return result

    def broken(self, sizes: Mapping[str, int]) -> str:
        """The first assumption that some sizes, by name, break; empty when they break none."""
        facts = ((name, text) for name, fact in self.sizes for text in fact.texts(name))
        for name, text in facts:
            condition = dict(_parsed((text,)).sizes)[name]
            if name in sizes and not condition.holds(sizes[name]):
                return text
        for name, formula in self.equal:
            if name in sizes and _size(formula, sizes) not in (None, sizes[name]):
                return f"{name} == {formula}"
        for alternatives in self.either:
            has_sizes = all(name in sizes for name, _ in alternatives)
            if has_sizes and not any(fact.holds(sizes[name]) for name, fact in alternatives):
                return _text_of(alternatives)
        return ""

    def names(self) -> dict[str, str]:
        """The names of sizes in the assumptions, each with an assumption about it."""
        texts = {name: next(fact.texts(name), f"{name} >= 0") for name, fact in self.sizes}
        for name, formula in self.equal:
            texts |= dict.fromkeys((name, *symbols_of(formula)), f"{name} == {formula}")
        for alternatives in self.either:
            texts |= dict.fromkeys((name for name, _ in alternatives), _text_of(alternatives))
        return texts


USUAL: Final = Assumptions()
"""The default set alone."""


def dimension(text: str) -> Dim:
    """The dimension that a name, or a formula of names, stands for."""
    size = formula_of(text)
    return named(text) if size is None else size


def symbols_of(formula: str) -> frozenset[str]:
    """The names in a formula."""
    size = dimension(formula)
    return size.symbols if isinstance(size, SymbolicDim) else frozenset()


def _size(formula: str, sizes: Mapping[str, int]) -> int | None:
    return evaluate(dimension(formula), sizes) if symbols_of(formula) <= sizes.keys() else None


@lru_cache(256)
def _parsed(texts: tuple[str, ...]) -> Assumptions:
    words: list[str] = []
    sizes: dict[str, SizeFact] = {}
    equal: dict[str, str] = {}
    values: set[tuple[str, str]] = set()
    either: set[Alternatives] = set()
    for text in _bounded(texts):
        if len(options := _OR.split(text.strip())) > 1:
            either.add(_alternatives(text, options))
            continue
        parts = _COMPARISON.split(text.strip())
        operands, operators = parts[::2], parts[1::2]
        if not operators:
            word, name = _property(text)
            words += [] if word in PROPERTIES else [word]
            values |= {(word, name)} if word in PROPERTIES else set()
        for left, operator, right in _pairs(text, operands, operators):
            name, condition = _compared(text, left, operator, right)
            if isinstance(condition, str):
                if equal.setdefault(name, condition) != condition or name in symbols_of(condition):
                    raise AssumptionError(
                        f"assumption {text!r}: a dimension can equal only one other dimension or "
                        "sum"
                    )
                continue
            fact = sizes.get(name, SizeFact())
            if math.lcm(fact.divisor, condition.divisor) > _MAX_DIVISOR:
                raise AssumptionError(
                    f"assumption {text!r}: the divisors of a dimension may have a common multiple "
                    "of at most "
                    f"{_MAX_DIVISOR}"
                )
            common = fact.meet(condition)
            if common is None:
                limits = (
                    " and ".join(sizes[name].texts(name))
                    if name in sizes
                    else "a dimension is at least 0"
                )
                raise AssumptionError(f"assumption {text!r} cannot hold: {limits}")
            sizes[name] = common
    everywhere = {word for word, name in values if not name}
    values = {(word, name) for word, name in values if not name or word not in everywhere}
    defaults = tuple(word for word in DEFAULTS if NOTHING not in words or word in words)
    _check_alternatives(either, sizes, equal)
    facts, formulas = tuple(sorted(sizes.items())), tuple(sorted(equal.items()))
    ordered = sorted(
        (alternatives for alternatives in either if not _follows(alternatives, sizes)), key=_text_of
    )
    return Assumptions(defaults, facts, formulas, tuple(sorted(values)), tuple(ordered))


def _alternatives(text: str, options: Sequence[str]) -> Alternatives:
    """The ranges of sizes that an assumption lists."""
    ranges: list[tuple[str, SizeFact]] = []
    for option in options:
        sizes = _parsed((option,)).sizes if _COMPARISON.search(option) else ()
        if len(sizes) != 1 or not any(sizes[0][1].texts(option)):
            raise AssumptionError(
                f"assumption {text!r}: write a range of each dimension, such as 'batch == 1 or seq "
                "== 1'"
            )
        ranges += sizes
    if len({name for name, _ in ranges}) < len(ranges):
        raise AssumptionError(f"assumption {text!r}: a dimension occurs twice")
    return tuple(sorted(ranges, key=lambda item: item[0]))


def _follows(alternatives: Alternatives, sizes: Mapping[str, SizeFact]) -> bool:
    """Whether the ranges of sizes imply one of the alternatives."""
    return any(
        name in sizes and fact.meet(sizes[name]) == sizes[name] for name, fact in alternatives
    )


def _check_alternatives(
    either: Iterable[Alternatives], sizes: Mapping[str, SizeFact], equal: Mapping[str, str]
) -> None:
    """Raise `AssumptionError` where no alternative can hold, or one has a size in ``equal``."""
    for alternatives in either:
        text = _text_of(alternatives)
        if name := next((name for name, _ in alternatives if name in equal), ""):
            raise AssumptionError(f"assumption {text!r}: {name} follows from other dimensions")
        if all(fact.meet(sizes.get(name, SizeFact())) is None for name, fact in alternatives):
            raise AssumptionError(f"assumption {text!r} cannot hold with the others")


def _bounded(texts: tuple[str, ...]) -> Iterator[str]:
    """The texts; raises `AssumptionError` for too many or too long ones."""
    if len(texts) > _MAX_ASSUMPTIONS:
        raise AssumptionError(
            f"{len(texts)} assumptions are given; at most {_MAX_ASSUMPTIONS} are supported"
        )
    for text in texts:
        if not isinstance(text, str):
            raise AssumptionError(f"an assumption is a string such as 'past >= 1', not {text!r}")
        if len(text) > _MAX_LENGTH:
            raise AssumptionError(
                f"assumption {abridged(text)} is longer than {_MAX_LENGTH} characters"
            )
        yield text


def _pairs(text: str, operands: list[str], operators: list[str]) -> Iterator[tuple[str, str, str]]:
    """The comparisons of a text, two at most: ``1 <= n <= 8``."""
    if (
        len(operators) > 2
        or not all(operands)
        or not {*operators} <= _MIRRORED.keys()
        or len({*(o[0] for o in operators)}) > 1
    ):
        raise AssumptionError(
            f"assumption {text!r}: compare with ==, <=, >=, < or >, "
            "such as 'past >= 1' or '1 <= n <= 8'"
        )
    yield from zip(operands, operators, operands[1:], strict=False)


def _property(text: str) -> tuple[str, str]:
    match = _PROPERTY.fullmatch(text.strip())
    word, name = (match[1], match[2] or "") if match else (text.strip(), "")
    if word in PROPERTIES and (name or word == "finite") and (name or "(" not in text):
        return word, name
    if word in (NOTHING, *DEFAULTS) and "(" not in text:
        return word, ""
    if word in PROPERTIES:
        raise AssumptionError(
            f"assumption {text!r}: write the name of an input, such as '{word}(attention_mask)'"
        )
    words = (*PROPERTIES, *DEFAULTS, NOTHING)
    likely = suggestion(
        word, words, f"write 'past >= 1', 'n % 8 == 0', or one of {', '.join(words)}"
    )
    raise AssumptionError(f"unknown assumption {text!r}; {likely}")


def _compared(text: str, left: str, operator: str, right: str) -> tuple[str, SizeFact | str]:
    """The name of a size, and its range and remainder or a formula that it is equal to."""
    if left.isdecimal() or (
        operator == "==" and not right.isdecimal() and formula_of(left) is not None
    ):
        left, operator, right = right, _MIRRORED[operator], left
    remainder = _REMAINDER.fullmatch(left)
    name = remainder[1] if remainder else left
    if name.lstrip("-").isdecimal() or formula_of(name) is not None:
        raise AssumptionError(
            f"assumption {text!r}: write one dimension on one side, such as 'past >= 1'"
        )
    if not right.isdecimal():
        if operator != "==" or remainder or right.startswith("-"):
            raise AssumptionError(
                f"assumption {text!r}: compare the dimension with an integer of at least 0"
            )
        return name, right
    number = whole_number(right)
    if number is None:
        raise AssumptionError(f"assumption {abridged(text)}: a dimension is below 2^63")
    if remainder:
        divisor = whole_number(remainder[2]) or 0
        if operator != "==" or not 0 < divisor <= _MAX_DIVISOR or number >= divisor:
            raise AssumptionError(
                f"assumption {text!r}: write it as 'n % 8 == 0', with a divisor of at most "
                f"{_MAX_DIVISOR}"
            )
        return name, SizeFact(divisor=divisor, rest=number)
    if operator in ("<", "<="):
        if not number and operator == "<":
            raise AssumptionError(f"assumption {text!r}: a dimension is at least 0")
        return name, SizeFact(most=number - (operator == "<"))
    return name, SizeFact(number + (operator == ">"), number if operator == "==" else None)
