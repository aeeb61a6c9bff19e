"""Random patterns as data: drawn, written down as the source of a class, and expanded into their
variants.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Any


@dataclass(frozen=True)
class Operator:
    """An operator on float matrices of three rows and columns.

    Attributes:
        least, most: numbers of operands.
        attributes: values to draw from; none of them is the default.
        defaults: what an attribute is when it is not written.
        results: how many it has.
        commutative, associative: what may be done with its operands.
        numbers: whether an operand may be a number that is broadcast.
    """

    op_type: str
    domain: str = ""
    least: int = 1
    most: int = 1
    attributes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    results: int = 1
    commutative: bool = False
    associative: bool = False
    numbers: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Domain and name."""
        return self.domain, self.op_type


def _commutative(op_type: str, most: int, associative: bool = True) -> Operator:
    return Operator(op_type, "", 2, most, commutative=True, associative=associative, numbers=True)


UNARY = (
    *(Operator(name) for name in ("Abs", "Neg", "Relu", "Tanh", "Sigmoid")),
    Operator("LeakyRelu", attributes={"alpha": (0.1, 0.25)}, defaults={"alpha": 0.01}),
    Operator(
        "HardSigmoid",
        "",
        1,
        1,
        {"alpha": (0.1, 0.25), "beta": (0.25, 0.75)},
        {"alpha": 0.2, "beta": 0.5},
    ),
    Operator("Softmax", attributes={"axis": (0, 1)}, defaults={"axis": -1}),
    Operator("Transpose", attributes={"perm": ([0, 1],)}, defaults={"perm": [1, 0]}),
    Operator("QuickGelu", "com.microsoft", attributes={"alpha": (0.5, 1.0)}),
    Operator(
        "Knob",
        "acme",
        attributes={"level": (1, 2, 3), "mode": ("up", "down"), "spots": ([1, 2], [2, 1])},
    ),
)
OPERATORS = (
    *UNARY,
    *(_commutative(name, 2) for name in ("Add", "Mul", "Add")),
    *(_commutative(name, 4) for name in ("Max", "Sum")),
    _commutative("Mean", 4, associative=False),
    Operator("Sub", "", 2, 2, numbers=True),
    Operator("Mix", "acme", 2, 2, numbers=True),
    Operator("Bag", "acme", 2, 4, numbers=True),
    Operator("MatMul", "", 2, 2),
    Operator("Gemm", "", 2, 3, {"alpha": (0.5, 2.0)}, {"alpha": 1.0}),
    Operator("Fork", "acme", results=2),
)
SPLIT = Operator("Split", attributes={"axis": (1,)}, defaults={"axis": 0})
CONCAT = Operator("Concat", least=2, most=3, attributes={"axis": (0, 1)})
NUMBERS: tuple[Any, ...] = (0.5, 2, 1.0, 0.1, 1.4142135623730951, (0.5, 1.0, 2.0))


# ------------------------------------------------------------------ operands


@dataclass(frozen=True)
class Outside:
    """A result that the pattern does not make; one that may be left out when ``optional``."""

    name: str
    optional: bool = False


@dataclass(frozen=True)
class Result:
    """A result of a call of the pattern."""

    call: int
    place: int = 0


@dataclass(frozen=True)
class Number:
    """A literal: a number, or a vector."""

    value: Any


@dataclass(frozen=True)
class Fixed:
    """A captured constant; one element when ``scalar``, all above zero when ``positive``."""

    name: str
    scalar: bool
    positive: bool


@dataclass(frozen=True)
class Listed:
    """All operands that are left; constants when ``constant``."""

    name: str
    least: int = 0
    constant: bool = False


@dataclass(frozen=True)
class Parts:
    """All results of a Split."""

    name: str


Operand = Outside | Result | Number | Fixed | Listed | Parts


@dataclass(frozen=True)
class Spec:
    """A condition on an attribute: ``equal``, ``any_of``, ``any``, ``capture`` or ``positive`` (a
    capture above zero).
    """

    kind: str
    values: tuple[Any, ...] = ()
    name: str = ""

    def source(self) -> str:
        """As Python writes it."""
        shown = {"any": "ANY", "capture": f"g.capture({self.name!r})"}
        shown["positive"] = f"g.capture({self.name!r}, lambda v: v > 0)"
        shown["any_of"] = f"g.any_of({', '.join(map(repr, self.values))})"
        return shown.get(self.kind) or repr(self.values[0])


@dataclass(frozen=True)
class Call:
    """A node of a pattern.

    Attributes:
        others: what attributes that are not mentioned must be: their default when empty, ``ANY``,
            or captured by this name.
        mark: ``keep`` or ``refuse`` readers of the first result; as the pattern says when empty.
        other: operator of an alternative.
        optional: whether the node may be missing, its operand then taking the place of its result.
        parts: captures all results under this name.
    """

    op: Operator
    operands: tuple[Operand, ...]
    attributes: tuple[tuple[str, Spec], ...] = ()
    others: str = ""
    associative: bool = False
    any_order: bool = False
    mark: str = ""
    other: Operator | None = None
    optional: bool = False
    parts: str = ""


@dataclass(frozen=True)
class Variant:
    """One form of a pattern: the answers that lead to it, its calls, and its results."""

    answers: dict[str, Any]
    calls: tuple[Call, ...]
    outputs: tuple[Operand, ...]

    def operands(self) -> list[Operand]:
        """Of all calls, as often as they stand there."""
        return [operand for call in self.calls for operand in call.operands]


@dataclass(frozen=True)
class Condition:
    """``different``: two results are not the same one; ``computed``: a result is that of a node."""

    kind: str
    names: tuple[str, ...]
    late: bool

    def source(self) -> str:
        """As Python writes it."""
        if self.kind == "different":
            return f"m.{self.names[0]} != m.{self.names[1]}"
        return f"g.node_before(m.{self.names[0]}) is not None"


@dataclass(frozen=True)
class Pattern:
    """A drawn pattern."""

    calls: tuple[Call, ...]
    outputs: tuple[Result, ...]
    interior: str = "refuse"
    condition: Condition | None = None
    anchor: str = ""

    def operands(self) -> list[Operand]:
        """All operands, each once, in order."""
        return list(dict.fromkeys(operand for call in self.calls for operand in call.operands))

    def captures(self) -> list[str]:
        """All names that `apply_pattern` may receive."""
        names = [o.name for o in self.operands() if isinstance(o, (Outside, Fixed, Listed, Parts))]
        for index, call in enumerate(self.calls):
            names += [spec.name for _, spec in call.attributes if spec.name]
            names += [call.others] if call.others not in ("", "ANY") else []
            names += [f"either{index}"] if call.other is not None else []
            names += [f"option{index}"] if call.optional else []
        return list(dict.fromkeys(names))

    def variants(self) -> list[Variant]:
        """All forms of the pattern."""
        questions: list[list[tuple[str, Any]]] = []
        for index, call in enumerate(self.calls):
            if call.other is not None:
                questions.append([(f"either{index}", 0), (f"either{index}", 1)])
            if call.optional:
                questions.append([(f"option{index}", True), (f"option{index}", False)])
        return [self.variant(dict(answers)) for answers in product(*questions)]

    def variant(self, answers: dict[str, Any]) -> Variant:
        """The form that belongs to some answers."""
        places: dict[int, int | Operand] = {}
        calls: list[Call] = []

        def moved(operand: Operand) -> Operand:
            if not isinstance(operand, Result):
                return operand
            place = places[operand.call]
            return Result(place, operand.place) if isinstance(place, int) else place

        for index, call in enumerate(self.calls):
            operands = tuple(moved(operand) for operand in call.operands)
            if call.optional and not answers[f"option{index}"]:
                places[index] = operands[0]
                continue
            places[index] = len(calls)
            op = call.other if call.other is not None and answers[f"either{index}"] else call.op
            calls.append(replace(call, op=op, operands=operands))
        return Variant(answers, tuple(calls), tuple(moved(output) for output in self.outputs))

    # ---------------------------------------------------------------- as source

    def source(self) -> str:
        """The pattern as a class."""
        formal, lines = [], []
        for operand in self.operands():
            if isinstance(operand, Outside):
                formal.append(f"{operand.name}: Optional" if operand.optional else operand.name)
            elif isinstance(operand, Fixed) and not operand.positive:
                formal.append(f"{operand.name}: {'Scalar' if operand.scalar else 'Constant'}")
            elif isinstance(operand, Fixed):
                check = "lambda v: v > 0" if operand.scalar else "lambda v: bool((v > 0).all())"
                lines.append(
                    f"{operand.name} = g.constant({operand.name!r}, {check}, "
                    f"scalar={operand.scalar})"
                )
            elif isinstance(operand, Listed) and not operand.least and not operand.constant:
                formal.append(f"{operand.name}: Variadic")
            elif isinstance(operand, Listed):
                wanted = f"least={operand.least}, constant={operand.constant}"
                lines.append(f"{operand.name} = g.variadic({operand.name!r}, {wanted})")
        lines += [line for index, call in enumerate(self.calls) for line in _lines(index, call)]
        condition = self.condition.source() if self.condition is not None else "True"
        if self.condition is not None and not self.condition.late:
            lines.append(f"g.require(lambda g, m: {condition}, 'the condition')")
            condition = "True"
        names = self.captures()
        given = ", ".join(f"{name!r}: {name}" for name in [*names, "found"])
        body = [
            "class DrawnPattern(EasyPatternOptimization):",
            f"    anchors = {(self.anchor,) if self.anchor else ()!r}",
            f"    interior = {self.interior!r}",
            "    derives = ('found',)",
            f"    def match_pattern(self, g, {', '.join(formal)}):",
            *(f"        {line}" for line in lines),
            f"        return {', '.join(_shown(output) for output in self.outputs)}",
            "    def validate_mapping(self, g, m):",
            f"        return {condition} and m.derive(found=m.nodes)",
            f"    def apply_pattern(self, g, {', '.join([*names, 'found'])}):",
            f"        return rebuilt(g, PATTERN, {{{given}}})",
        ]
        return "\n".join(body)


def _shown(operand: Operand) -> str:
    if isinstance(operand, Result):
        return f"v{operand.call}" + (f"_{operand.place}" if operand.place else "")
    if isinstance(operand, Number):
        return (
            f"np.array({list(operand.value)})"
            if isinstance(operand.value, tuple)
            else repr(operand.value)
        )
    return operand.name


def _lines(index: int, call: Call) -> Iterator[str]:
    """A call in `match_pattern`."""
    words = [f"{name}={spec.source()}" for name, spec in call.attributes]
    words += [f"outputs={call.op.results}"] if call.op.results > 1 else []
    words += [f"outputs=g.variadic({call.parts!r})"] if call.parts else []
    if call.others:
        words.append(
            "attributes=ANY" if call.others == "ANY" else f"attributes=g.capture({call.others!r})"
        )
    words += [f"{flag}=True" for flag in ("associative", "any_order") if getattr(call, flag)]
    operands = [_shown(operand) for operand in call.operands]

    def written(op: Operator, words: Sequence[str]) -> str:
        domain = [f"domain={op.domain!r}"] if op.domain else []
        return f"g.op.{op.op_type}({', '.join([*operands, *domain, *words])})"

    shown = written(call.op, words)
    if call.other is not None:
        shown = (
            f"g.either(lambda: {shown}, lambda: {written(call.other, ())}, name='either{index}')"
        )
    if call.optional:
        shown = f"{shown} if g.option('option{index}') else {operands[0]}"
    results = [_shown(Result(index, place)) for place in range(call.op.results)]
    yield f"{call.parts or ', '.join(results)} = {shown}"
    if call.mark:
        yield f"g.{'keep' if call.mark == 'keep' else 'exclusive'}({results[0]})"


# ------------------------------------------------------------------ drawing


def chance(rng: Random, percent: int) -> bool:
    """Whether something happens; a source of random numbers that is shrunk towards zero says no."""
    return rng.randrange(100) >= 100 - percent


class _Drawing:
    """Draws a pattern call by call; each call reads something that is already there."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.calls: list[Call] = []
        self.outside: list[Outside] = []
        self.free: list[Result] = []
        """Results that nothing reads yet."""
        self.results: list[Result] = []
        self.names = 0

    def name(self, prefix: str) -> str:
        """A new name to capture something under."""
        self.names += 1
        return f"{prefix}{self.names}"

    def known(self) -> Operand:
        """Something that is already there."""
        if self.free and not chance(self.rng, 30):
            return self.free[-1 - self.rng.randrange(len(self.free))]
        read = {operand for call in self.calls for operand in call.operands}
        there: list[Operand] = [
            *self.results,
            *(operand for operand in self.outside if operand in read),
        ]
        return self.rng.choice(there) if there else self.given()

    def given(self) -> Operand:
        """A result from outside, mostly a new one."""
        if self.outside and (len(self.outside) > 4 or chance(self.rng, 25)):
            return self.rng.choice(self.outside)
        found = Outside(self.name("x"))
        self.outside.append(found)
        return found

    def operand(self, op: Operator) -> Operand:
        """Any operand."""
        kind = self.rng.randrange(10)
        if kind < 4:
            return self.given()
        if kind < 6:
            return self.known()
        again = [
            o
            for c in self.calls
            for o in c.operands
            if isinstance(o, Fixed) and (op.numbers or not o.scalar)
        ]
        if again and kind == 9 and chance(self.rng, 60):
            return self.rng.choice(again)
        if not op.numbers:
            return Fixed(self.name("k"), False, False) if kind == 9 else self.given()
        if kind < 8:
            return Number(self.rng.choice(NUMBERS))
        scalar = chance(self.rng, 50)
        return Fixed(self.name("k"), scalar, chance(self.rng, 40))

    def attributes(self, op: Operator) -> tuple[tuple[str, Spec], ...]:
        """Conditions on some of the attributes."""
        found = []
        for name, values in op.attributes.items():
            kinds = ["", "equal", "capture", "any_of", "any"] + (
                ["positive"] if name == "alpha" else []
            )
            kind = self.rng.choice(kinds)
            if kind == "":
                continue
            several = tuple(dict.fromkeys(map(repr, values)))
            chosen = values if kind == "any_of" and len(several) > 1 else (self.rng.choice(values),)
            again = [
                s.name
                for c in self.calls
                for n, s in c.attributes
                if n == name and s.kind == "capture" == kind
            ]
            reused = bool(again) and chance(self.rng, 30)
            captured = (
                (again[0] if reused else self.name("c")) if kind in ("capture", "positive") else ""
            )
            found.append(
                (name, Spec(kind, chosen if kind in ("equal", "any_of") else (), captured))
            )
        return tuple(found)

    def call(self, optional: bool) -> None:
        """One more call."""
        rng = self.rng
        op = rng.choice(UNARY if optional else OPERATORS)
        associative = op.associative and chance(rng, 35)
        most = max(op.most, 4) if associative else op.most
        count = op.least + rng.randrange(most - op.least + 1)
        first = self.known()
        optional = optional and isinstance(first, Result)
        operands = [first, *(self.operand(op) for _ in range(count - 1))]
        if op.op_type == "Gemm" and count == 3:
            operands[2] = (
                Outside(self.name("x"), optional=True) if chance(rng, 40) else self.given()
            )
        elif op.most > 2 and op.op_type != "Gemm" and not associative and chance(rng, 35):
            operands[-1] = Listed(self.name("l"), rng.randrange(2), chance(rng, 20))
        if op.op_type != "Gemm":
            rng.shuffle(operands)
        attributes = self.attributes(op)
        others = (
            ("", "ANY", self.name("a"))[rng.choice((0, 0, 0, 1, 2))]
            if op.attributes and not op.domain
            else ""
        )
        straight = op.op_type in ("Sub", "Mix", "Bag", "MatMul")
        any_order = straight and count > 1 and chance(rng, 20)
        plain = (
            not attributes and not others and not associative and not any_order and op.results == 1
        )
        plain = plain and op.op_type != "Gemm"
        other = (
            self.alternative(op, operands) if plain and not optional and chance(rng, 20) else None
        )
        mark = "" if optional else rng.choice(("", "", "", "keep", "refuse"))
        self.add(
            Call(
                op,
                tuple(operands),
                attributes,
                others,
                associative,
                any_order,
                mark,
                other,
                optional,
            )
        )

    def alternative(self, op: Operator, operands: Sequence[Operand]) -> Operator | None:
        """Another operator for the same operands."""
        listed = any(isinstance(operand, Listed) for operand in operands)
        fits = [
            o
            for o in OPERATORS
            if o.least <= len(operands) <= o.most
            and o.key != op.key
            and o.results == 1
            and o.numbers >= op.numbers
        ]
        fits = [o for o in fits if o.op_type != "Gemm" and (o.most > 2 or not listed)]
        return self.rng.choice(fits) if fits else None

    def add(self, call: Call) -> None:
        """Put a call at the end."""
        self.free = [result for result in self.free if result not in call.operands]
        results = [Result(len(self.calls), place) for place in range(call.op.results)]
        self.calls.append(call)
        self.free += results
        self.results += results

    def split_and_join(self) -> None:
        """A Split, and a Concat of all its results."""
        parts = self.name("p")
        source = self.known()
        captured = Spec("capture", (), self.name("c"))
        axis = captured if chance(self.rng, 50) else Spec("equal", (self.rng.choice((0, 1)),))
        self.free = [result for result in self.free if result != source]
        self.calls.append(Call(SPLIT, (source,), (("axis", axis),), "ANY", parts=parts))
        self.add(Call(CONCAT, (Parts(parts),), (("axis", axis),)))


def draw_pattern(rng: Random) -> Pattern:
    """A connected pattern of 2 to 6 nodes."""
    drawing = _Drawing(rng)
    size = 2 + rng.randrange(5)
    while len(drawing.calls) < size:
        optional = len(drawing.calls) >= 2 and chance(rng, 20)
        if len(drawing.calls) + 2 <= size and chance(rng, 8):
            drawing.split_and_join()
        else:
            drawing.call(optional)
    calls = drawing.calls
    optional_operands = {o for call in calls if call.optional for o in call.operands}
    inner = [
        r
        for r in drawing.results
        if r not in drawing.free and r not in optional_operands and not calls[r.call].optional
    ]
    outputs = [r for r in drawing.free if not (r.place and chance(rng, 30))]
    outputs += [result for result in inner if chance(rng, 10)]
    solid = [call.op for call in calls if call.other is None and not call.optional]
    anchor = rng.choice(solid) if chance(rng, 20) and solid else None
    name = (
        ""
        if anchor is None
        else f"{anchor.domain}::{anchor.op_type}"
        if anchor.domain
        else anchor.op_type
    )
    interior = "keep" if chance(rng, 30) else "refuse"
    read = {operand for call in calls for operand in call.operands}
    condition = _condition(rng, [operand for operand in drawing.outside if operand in read])
    return Pattern(tuple(calls), tuple(outputs), interior, condition, name)


def _condition(rng: Random, outside: Sequence[Outside]) -> Condition | None:
    kind = rng.choice(("", "", "", "different", "computed"))
    count = {"different": 2, "computed": 1}.get(kind, 0)
    if not count or len(outside) < count:
        return None
    return Condition(kind, tuple(o.name for o in rng.sample(list(outside), count)), chance(rng, 50))
