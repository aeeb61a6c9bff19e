"""Random graphs in which copies of a pattern are planted, and copies in which one condition is
broken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.match.faults import Fault, allows, faults, interior
from tests.match.planting import (
    CONCAT,
    OPERATORS,
    SPLIT,
    Call,
    Fixed,
    Listed,
    Number,
    Operand,
    Operator,
    Outside,
    Parts,
    Pattern,
    Result,
    Variant,
    chance,
    draw_pattern,
)

SHAPE = (3, 3)
DOMAINS = {"": 18, "com.microsoft": 1, "acme": 1, "elsewhere": 1}
Found = tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]
"""Names of the nodes in the order of the calls, and what was captured."""


@dataclass
class Copy:
    """A planted copy: the nodes that play the parts, what they are called with, and what is wrong
    with it.
    """

    roles: list[str]
    bindings: dict[str, Any]
    fault: Fault | None

    @property
    def found(self) -> Found:
        """The match in the form that a matcher should return."""
        return tuple(self.roles), frozen(self.bindings)


def frozen(bindings: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Captured values in a comparable form: floats as a model stores them, lists as tuples."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return frozen(value)
        if isinstance(value, (list, tuple)):
            return tuple(map(plain, value))
        return float(np.float32(value)) if isinstance(value, float) else value

    return tuple(sorted((name, plain(value)) for name, value in bindings.items()))


class Planted(NamedTuple):
    """A pattern, a model, and the copies in it."""

    pattern: Pattern
    model: onnx.ModelProto
    copies: list[Copy]


def value_of(op: Operator, name: str, written: dict[str, Any]) -> Any:
    """An attribute as written, or its default."""
    return written.get(name, op.defaults.get(name))


class Garden:
    """A graph that grows.

    Every result but the parts of a Split is a matrix of three rows and columns.
    """

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.inputs = [f"in{number}" for number in range(3)]
        self.overridable: list[onnx.ValueInfoProto] = []
        self.pool = list(self.inputs)
        self.outputs: list[str] = []
        self.silent: set[str] = set()
        """Results that nothing may read."""

    # ---------------------------------------------------------------- pieces

    def node(
        self, op: Operator, inputs: Sequence[str], attributes: dict[str, Any], outputs: int = 0
    ) -> onnx.NodeProto:
        """Add a node."""
        number = len(self.nodes)
        names = [
            f"r{number}" + (f"_{place}" if place else "") for place in range(outputs or op.results)
        ]
        found = helper.make_node(
            op.op_type, inputs, names, f"n{number}", domain=op.domain, **attributes
        )
        self.nodes.append(found)
        return found

    def constant(self, array: np.ndarray[Any, Any], overridable: bool = False) -> str:
        """Add a constant in one of the forms that a model has for it."""
        name = f"k{len(self.initializers) + len(self.nodes)}"
        form = 0 if overridable else self.rng.randrange(3)
        if form == 0:
            self.initializers.append(numpy_helper.from_array(array, name))
            if overridable:
                self.overridable.append(
                    helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
                )
        elif form == 1 and array.ndim < 2:
            written: dict[str, Any] = (
                {"value_floats": array.tolist()} if array.ndim else {"value_float": float(array)}
            )
            self.nodes.append(
                helper.make_node("Constant", [], [name], f"n{len(self.nodes)}", **written)
            )
        else:
            tensor = numpy_helper.from_array(array)
            self.nodes.append(
                helper.make_node("Constant", [], [name], f"n{len(self.nodes)}", value=tensor)
            )
        return name

    def number(self, value: Any, overridable: bool = False) -> str:
        """Add a literal; one number in any shape that does not change that of the result."""
        if isinstance(value, tuple):
            return self.constant(np.array(value, np.float32), overridable)
        shape: tuple[int, ...] = self.rng.choice(((), (1,), (1, 1), (3,), SHAPE))
        return self.constant(np.full(shape, value, np.float32), overridable)

    def fixed(self, scalar: bool, positive: bool, full: bool) -> str:
        """Add some constant."""
        shape: tuple[int, ...] = (
            SHAPE if full else self.rng.choice(((), (1,)) if scalar else ((), (1, 1), (3,), SHAPE))
        )
        values = np.array(
            [self.rng.randrange(1, 9) / 4 for _ in range(int(np.prod(shape)))], np.float32
        ).reshape(shape)
        if not positive and chance(self.rng, 50):
            values = -values
        return self.constant(values.astype(np.float32))

    def pick(self) -> str:
        """Any matrix."""
        return self.rng.choice(self.pool)

    def attributes(self, op: Operator) -> dict[str, Any]:
        """Attributes for noise."""
        return {
            name: self.rng.choice(values)
            for name, values in op.attributes.items()
            if chance(self.rng, 50)
        }

    def noise(self, operators: Sequence[Operator]) -> None:
        """Add a node, often of an operator of the pattern."""
        rng = self.rng
        op = rng.choice(operators if chance(rng, 70) else OPERATORS)
        if op in (SPLIT, CONCAT):
            parts = self.split(self.pick(), {"axis": rng.randrange(2)})
            order = (
                rng.sample(list(parts.output), len(parts.output))
                if chance(rng, 50)
                else list(parts.output)
            )
            self.pool += self.node(CONCAT, order, {"axis": parts.attribute[0].i}).output
            return
        inputs = [self.pick() for _ in range(op.least + rng.randrange(op.most - op.least + 1))]
        if op.numbers and chance(rng, 30):
            inputs[-1] = (
                self.number(rng.choice((0.5, 2.0, 0.1)))
                if chance(rng, 50)
                else self.fixed(False, False, False)
            )
            rng.shuffle(inputs)
        self.pool += self.node(op, inputs, self.attributes(op)).output

    def split(self, source: str, attributes: dict[str, Any]) -> onnx.NodeProto:
        """Add a Split into equal parts or into those that an operand tells."""
        if chance(self.rng, 50):
            return self.node(SPLIT, [source], {**attributes, "num_outputs": 3}, 3)
        sizes = self.constant_ints([1, 2])
        return self.node(SPLIT, [source, sizes], attributes, 2)

    def constant_ints(self, values: Sequence[int]) -> str:
        """Add a vector of integers."""
        self.initializers.append(
            numpy_helper.from_array(np.array(values, np.int64), f"i{len(self.initializers)}")
        )
        return self.initializers[-1].name

    def capture(self, name: str) -> str:
        """Add an If, one branch of which reads a result."""
        number = len(self.nodes)
        made = [
            helper.make_tensor_value_info(f"{b}{number}", TensorProto.FLOAT, SHAPE) for b in "te"
        ]
        bodies = [
            helper.make_graph([helper.make_node(op, [read], [value.name])], op, [], [value])
            for op, read, value in zip(("Ceil", "Floor"), (name, self.inputs[0]), made, strict=True)
        ]
        found = self.node(
            Operator("If"), ["flag"], {"then_branch": bodies[0], "else_branch": bodies[1]}
        )
        self.outputs += found.output
        return found.output[0]

    # ---------------------------------------------------------------- the model

    def model(self) -> onnx.ModelProto:
        """The nodes in some order in which they can run; what nothing reads is an output."""
        read = {name for node in self.nodes for name in node.input}
        read |= {
            n
            for node in self.nodes
            for a in node.attribute
            if a.HasField("g")
            for m in a.g.node
            for n in m.input
        }
        unread = [
            n
            for node in self.nodes
            for n in node.output
            if n and n not in read and n not in self.silent
        ]
        names = dict.fromkeys(n for n in [*unread, *self.outputs] if n[0] == "r")
        matrix = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE)
            for name in (*self.inputs, *names)
        ]
        flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
        inputs = [*matrix[: len(self.inputs)], flag, *self.overridable]
        outputs = matrix[len(self.inputs) :]
        # nothing else tells shapes
        hidden = [n for node in self.nodes if node.domain for n in node.output if n not in names]
        known = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in hidden]
        graph = helper.make_graph(
            self.shuffled(), "garden", inputs, outputs, self.initializers, value_info=known
        )
        imports = [helper.make_opsetid(domain, version) for domain, version in DOMAINS.items()]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def shuffled(self) -> list[onnx.NodeProto]:
        """The nodes in a random order that respects what they read."""
        made = {name for node in self.nodes for name in node.output if name}
        pending, order, ready = list(self.nodes), [], set(self.inputs)
        rng = Random(self.rng.randrange(1 << 16))
        while pending:
            able = [
                n for n in pending if all(name in ready or name not in made for name in _reads(n))
            ]
            node = rng.choice(able)
            pending.remove(node)
            order.append(node)
            ready.update(node.output)
        return order


def _reads(node: onnx.NodeProto) -> set[str]:
    return {
        *node.input,
        *(n for a in node.attribute if a.HasField("g") for m in a.g.node for n in m.input),
    }


# ------------------------------------------------------------------ copies


class Planter:
    """Plants one copy of a variant of a pattern."""

    def __init__(
        self, garden: Garden, pattern: Pattern, variant: Variant, fault: Fault | None
    ) -> None:
        self.garden, self.rng = garden, garden.rng
        self.pattern, self.variant, self.fault = pattern, variant, fault
        self.env: dict[Any, Any] = {}
        self.bindings: dict[str, Any] = dict(variant.answers)
        self.roles: list[str] = []
        self._captured: dict[str, Any] = {}

    def plant(self) -> Copy:
        """Add the nodes."""
        self._choose()
        for index, call in enumerate(self.variant.calls):
            self._call(index, call)
        outputs = [self.env[output] for output in self.variant.outputs]
        self.garden.pool += outputs
        self._readers(outputs)
        return Copy(self.roles, self.bindings, self.fault)

    def _choose(self) -> None:
        """Choose what comes from outside."""
        garden, rng = self.garden, self.rng
        condition = self.pattern.condition
        computed = [name for name in garden.pool if name not in garden.inputs]
        for operand in dict.fromkeys(self.variant.operands()):
            if isinstance(operand, Outside):
                self.env[operand] = "" if operand.optional and chance(rng, 50) else garden.pick()
                if (
                    condition is not None
                    and condition.kind == "computed"
                    and operand.name in condition.names
                ):
                    self.env[operand] = rng.choice(
                        garden.inputs if self._is("condition") else computed
                    )
            elif isinstance(operand, Fixed):
                users = [c for c in self.variant.calls if operand in c.operands]
                full = any(not c.op.numbers for c in users)
                self.env[operand] = self._fixed(operand, full)
            elif isinstance(operand, Listed):
                count = operand.least + rng.randrange(3)
                constant = operand.constant
                self.env[operand] = tuple(
                    garden.fixed(False, False, False) if constant else garden.pick()
                    for _ in range(count)
                )
        if condition is not None and condition.kind == "different":
            first, second = (Outside(name) for name in condition.names)
            if first in self.env and second in self.env:
                others = [name for name in garden.pool if name != self.env[first]]
                self.env[second] = self.env[first] if self._is("condition") else rng.choice(others)
        self.bindings |= {operand.name: names for operand, names in self.env.items()}

    def _fixed(self, operand: Fixed, full: bool) -> str:
        garden = self.garden
        if not self._is("constant", detail=operand):
            return garden.fixed(operand.scalar, operand.positive, full)
        way = self.rng.randrange(3)
        if way == 0 and operand.positive:
            return garden.constant(np.full(SHAPE if full else (), -0.5, np.float32))
        if way == 1 and operand.scalar:
            return garden.constant(np.full(SHAPE if full else (3,), 0.5, np.float32))
        return (
            garden.pick()
            if way == 2
            else garden.constant(np.full(SHAPE, 0.5, np.float32), overridable=True)
        )

    def _is(self, kind: str, call: int = -1, detail: Any = None) -> bool:
        """Whether this is what is to be broken."""
        fault = self.fault
        return (
            fault is not None
            and fault.kind == kind
            and fault.call in (-1, call)
            and fault.detail in (None, detail)
        )

    def _call(self, index: int, call: Call) -> None:
        attributes = self._attributes(index, call)
        operands = [
            self._operand(index, place, operand) for place, operand in enumerate(call.operands)
        ]
        if self._is("missing", index):
            operands.pop()
        if self._is("surplus", index):
            operands.append((self.garden.pick(),))
        if self.fault is not None and self.fault.kind == "swap" and self.fault.call == index:
            a, b = self.fault.detail
            operands[a], operands[b] = operands[b], operands[a]
        op = call.op
        if self._is("operator", index):
            op = Operator("Other", "acme", results=op.results)
        if self._is("domain", index):
            op = Operator(op.op_type, "elsewhere", results=op.results)
        if call.associative:
            leaves = [name for names in operands for name in names]
            node = self._tree(
                op, leaves + ([self.garden.pick()] if self._is("terms", index) else [])
            )
        else:
            node = self._plain(index, call, op, operands, attributes)
        self.roles.append(node.name)
        if call.parts:
            self.env[Parts(call.parts)] = self.bindings[call.parts] = tuple(node.output)
        else:
            self.env |= {Result(index, place): name for place, name in enumerate(node.output)}

    def _plain(
        self,
        index: int,
        call: Call,
        op: Operator,
        operands: list[tuple[str, ...]],
        attributes: dict[str, Any],
    ) -> onnx.NodeProto:
        rng, garden = self.rng, self.garden
        if call.op is SPLIT:
            return garden.split(operands[0][0], attributes)
        if call.op.commutative or call.any_order:
            listed = next((i for i, o in enumerate(call.operands) if isinstance(o, Listed)), -1)
            rest = list(operands.pop(listed)) if listed >= 0 else []
            rng.shuffle(operands)
            for place in sorted(rng.sample(range(len(operands) + len(rest)), len(rest))):
                # the order among them is part of what is captured
                operands.insert(place, (rest.pop(0),))
        inputs = [name for names in operands for name in names]
        while inputs and not inputs[-1] and chance(rng, 50):
            inputs.pop()
        node = garden.node(
            op, inputs, attributes, 3 if op.op_type == "Fork" and chance(rng, 30) else 0
        )
        for place in range(1, len(node.output)):
            used = Result(index, place) in (*self.variant.operands(), *self.variant.outputs)
            garden.silent |= set() if used else {node.output[place]}
        return node

    def _operand(self, index: int, place: int, operand: Operand) -> tuple[str, ...]:
        garden = self.garden
        if isinstance(operand, Number):
            if not self._is("literal", index, place):
                return (garden.number(operand.value),)
            way = self.rng.randrange(3)
            if way == 0:
                wrong = (
                    tuple(v + 1 for v in operand.value)
                    if isinstance(operand.value, tuple)
                    else operand.value * 1.01
                )
                return (garden.number(wrong),)
            return (garden.number(operand.value, overridable=True) if way == 1 else garden.pick(),)
        names = self.env[operand]
        fault = self.fault
        if (
            fault is not None
            and isinstance(operand, Outside)
            and fault[:2] == ("inward", index)
            and fault.detail[0] == place
        ):
            self.bindings[operand.name] = self.env[operand] = self.env[fault.detail[1]]
            return (self.env[operand],)
        if self._is("repeat", index, place):
            if isinstance(operand, Fixed):
                return (
                    garden.fixed(
                        operand.scalar, operand.positive, not self.variant.calls[index].op.numbers
                    ),
                )
            return (self.rng.choice([name for name in garden.pool if name != names]),)
        return names if isinstance(names, tuple) else (names,)

    def _tree(self, op: Operator, leaves: list[str]) -> onnx.NodeProto:
        """A random tree of the operator; of two operands a node where it has no more."""
        rng = self.rng
        rng.shuffle(leaves)
        known = next((o for o in OPERATORS if o.key == op.key), op)
        while True:
            count = 2 + rng.randrange(max(2, min(known.most, len(leaves))) - 1)
            taken = rng.sample(range(len(leaves)), count)
            if all(leaves[place][0] == "k" for place in taken):
                continue  # a constant that is computed
            node = self.garden.node(op, [leaves[place] for place in taken], {})
            leaves = [name for place, name in enumerate(leaves) if place not in taken]
            if not leaves:
                return node
            leaves.append(node.output[0])

    def _attributes(self, index: int, call: Call) -> dict[str, Any]:
        """Attributes that fit, and what is captured of them."""
        rng, op = self.rng, call.op
        written: dict[str, Any] = {}
        specs = dict(call.attributes)
        for name, values in op.attributes.items():
            spec = specs.get(name)
            default = op.defaults.get(name)
            choices = [*values, *([] if default is None else [default])]
            if spec is None:
                choices = choices if call.others else [] if default is None else [default]
            elif spec.kind in ("equal", "any_of"):
                choices = list(spec.values)
            elif spec.name in self._captured:
                choices = [self._captured[spec.name]]
            if self._is("attribute", index, name):
                choices = [
                    v for v in (*values, default) if v is not None and not allows(call, name, v)
                ]
            if not choices:
                continue
            value = rng.choice(choices)
            if value != default or chance(rng, 50):
                written[name] = value
            if spec is not None and spec.name:
                self._captured[spec.name] = self.bindings[spec.name] = value
        if call.others not in ("", "ANY"):
            self.bindings[call.others] = {k: v for k, v in written.items() if k not in specs}
        return written

    def _readers(self, outputs: Sequence[str]) -> None:
        """Let something read results in between where the pattern allows it, or does not, if that
        is to be broken.
        """
        for index, place, keep in interior(self.pattern, self.variant):
            name = self.env.get(Result(index, place))
            if name is None or name in outputs:
                continue
            if self._is("reader", index, place):
                way = self.rng.randrange(3)
                if way == 0:
                    self.garden.pool += self.garden.node(Operator("Ceil"), [name], {}).output
                elif way == 1:
                    self.garden.outputs.append(name)
                else:
                    self.garden.capture(name)
            elif keep and chance(self.rng, 40):
                self.garden.pool.append(name)


def plant(rng: Random) -> Planted:
    """A random pattern, planted up to three times in a random graph, with decoys and noise."""
    pattern = draw_pattern(rng)
    variants = pattern.variants()
    operators = [call.op for variant in variants for call in variant.calls]
    garden = Garden(rng)
    copies: list[Copy] = []
    for _ in range(2 + rng.randrange(4)):
        garden.noise(operators)
    for _ in range(rng.randrange(4)):
        copies.append(Planter(garden, pattern, rng.choice(variants), None).plant())
        for _ in range(rng.randrange(3)):
            garden.noise(operators)
    for _ in range(rng.randrange(3)):
        variant = rng.choice(variants)
        breakable = faults(pattern, variant)
        if breakable:
            kind = rng.choice(sorted({fault.kind for fault in breakable}))
            fault = rng.choice([fault for fault in breakable if fault.kind == kind])
            copies.append(Planter(garden, pattern, variant, fault).plant())
    for _ in range(rng.randrange(6)):
        garden.noise(operators)
    if chance(rng, 30):
        garden.capture(garden.pick())
    return Planted(pattern, garden.model(), copies)
