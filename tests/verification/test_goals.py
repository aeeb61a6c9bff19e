"""Inputs and sizes that decide a condition, found backwards from it."""

from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse
from xoptim.verification.inputs.feeding import Feeding
from xoptim.verification.inputs.goal_plans import Evaluator, GoalPlans, mask_plans
from xoptim.verification.inputs.goal_sizes import SizeGoals
from xoptim.verification.inputs.goals import Content, Goal, Goals, Solution
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.inputs.sized import SizedModel
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.session import Session

BRANCHES = (
    "y = If (c) <then_branch = t () => (float[N,4] p) { p = Neg(x) }, "
    "else_branch = e () => (float[N,4] q) { q = Exp(x) }> }"
)
HEAD = "agraph (float[N,4] x, {inputs}) => (float[N,4] y) <{constants}> {{ {nodes} "


def model(nodes: str, inputs: str = "int64 n", constants: str = "int64 k = {7}") -> onnx.ModelProto:
    """A model with branches behind a condition ``c``."""
    return parse(HEAD.format(inputs=inputs, constants=constants, nodes=nodes) + BRANCHES, 21)


def goals_of(proto: onnx.ModelProto, **sizes: int) -> Goals:
    base = {"N": 2, **sizes}
    return Goals(proto, SizeGoals(SizedModel(proto, None), base, {}))


def solutions(proto: onnx.ModelProto, wanted: bool = True, **sizes: int) -> list[Solution]:
    found = goals_of(proto, **sizes).branches()
    return [goal.solution for goal in found if goal.wanted is wanted]


def fills(proto: onnx.ModelProto, wanted: bool = True) -> list[dict[str, Any]]:
    """The numbers of inputs, of each solution."""
    return [
        {name: each.value for name, each in solution.inputs.items()}
        for solution in solutions(proto, wanted)
    ]


@pytest.mark.parametrize(
    ("nodes", "constants", "expected"),
    [
        ("c = Equal(n, k)", "int64 k = {7}", 7),
        ("c = Equal(k, n)", "int64 k = {123456789}", 123456789),
        ("a = Add(n, k) c = Equal(a, k)", "int64 k = {7}", 0),
        ("a = Mul(n, k) b = Sub(a, o) c = Equal(b, k)", "int64 k = {7}, int64 o = {14}", 3),
        ("a = Neg(n) c = Greater(a, k)", "int64 k = {7}", -8),
        ("a = Mod(n, k) c = Equal(a, o)", "int64 k = {7}, int64 o = {5}", 5),
        ("a = Gather(t, n) c = Equal(a, k)", "int64 k = {7}, int64[3] t = {5, 6, 7}", 2),
        ("a = Cast <to = 1> (n) b = Mul(a, h) c = Equal(b, w)",
         "float h = {0.5}, float w = {12.5}", 25),
        ("a = Less(n, k) c = Not(a)", "int64 k = {7}", 8),
    ],
)  # fmt: skip
def test_numbers_are_followed_backwards(nodes: str, constants: str, expected: int) -> None:
    assert fills(model(nodes, constants=constants))[0] == {"n": expected}


def test_bits_are_followed_backwards() -> None:
    text = 'a = BitShift <direction = "RIGHT"> (n, by) b = BitwiseAnd(a, field) c = Equal(b, k)'
    constants = "uint32 by = {8}, uint32 field = {15}, uint32 k = {9}"
    assert fills(model(text, "uint32 n", constants))[0] == {"n": 9 << 8}


def test_all_conditions_at_once() -> None:
    text = "a = Equal(n, k) b = Not(m) c = And(a, b)"
    assert fills(model(text, "int64 n, bool m"))[0] == {"n": 7, "m": False}
    either = fills(model(text, "int64 n, bool m"), False)
    assert {"n": 8} in either
    assert {"m": True} in either


def test_conditions_around_a_branch_hold_too() -> None:
    proto = parse(
        "agraph (float[N,4] x, int64 n, int64 m) => (float[N,4] y) <int64 k = {7}, int64 l = {9}> "
        "{ c = Equal(n, k) d = Equal(m, l) y = If (c) <then_branch = t () => (float[N,4] p) { p = "
        "If (d) <then_branch = u () => (float[N,4] r) { r = Neg(x) }, else_branch = v () => "
        "(float[N,4] s) { s = Exp(x) }> }, else_branch = e () => (float[N,4] q) { q = Abs(x) }> }",
        21,
    )
    inner = [goal for goal in goals_of(proto).branches() if goal.condition == "d"]
    assert inner[0].around == (("c", True),)
    assert {name: each.value for name, each in inner[0].solution.inputs.items()} == {"m": 9, "n": 7}


@pytest.mark.parametrize(
    ("nodes", "constants", "expected"),
    [
        ("s = Shape(x) a = Gather(s, z) c = Equal(a, k)", "int64 k = {77}, int64 z = {0}", 77),
        ("a = Size(x) c = Equal(a, k)", "int64 k = {96}", 24),
        ("s = Shape(x) a = ReduceProd <keepdims = 0> (s) c = Equal(a, k)", "int64 k = {20}", 5),
    ],
)
def test_sizes_are_solved(nodes: str, constants: str, expected: int) -> None:
    found = solutions(model(nodes, constants=constants))
    assert found[0] == Solution({}, {"N": expected})


def test_sizes_that_a_caller_chose_stay() -> None:
    proto = model("a = Size(x) c = Equal(a, k)", constants="int64 k = {96}")
    chosen = SizeGoals(SizedModel(proto, None), {"N": 2}, {"N": 2})
    assert [goal for goal in Goals(proto, chosen).branches() if goal.wanted] == []


def test_one_value_follows_another() -> None:
    proto = parse(
        "agraph (float[N,4] a, float[N,4] b) => (float[N,4] y) { t = Add(a, a) e = Equal(b, t) "
        "y = Where(e, a, b) }",
        21,
    )
    wanted = [goal.solution.inputs for goal in goals_of(proto).choices() if goal.wanted]
    assert wanted[0] == {"b": Content("copy", 0, "t")}


def plans_of(proto: onnx.ModelProto) -> tuple[GoalPlans, Feeding]:
    feeding = Feeding(proto, VerificationOptions())
    return GoalPlans(feeding, Evaluator(proto, Session)), feeding


def made(proto: onnx.ModelProto, solution: Solution, **sizes: int) -> dict[str, Any]:
    plans, _ = plans_of(proto)
    plan = plans.plan(solution, 0)({"N": 2, **sizes}, 0, False)
    assert plan.source == "goal"
    return {name: value for name, value in plan.feeds.items() if value is not None}


def test_the_other_inputs_keep_their_variety() -> None:
    feeds = made(model("c = Equal(n, k)"), Solution({"n": Content("fill", 7)}, {"N": 5}))
    assert feeds["n"].item() == 7
    assert feeds["x"].shape == (5, 4)
    assert len(np.unique(feeds["x"])) == 20
    assert feeds["x"].min() < 0 < feeds["x"].max()


def test_contents_of_each_form() -> None:
    proto = parse(
        "agraph (float[N,4] a, float[N,4] b, int64[N,4] i) => (float[N,4] y) { t = Add(a, a) "
        "y = Sub(t, b) }",
        21,
    )
    copied = made(proto, Solution({"b": Content("copy", 1, "t")}, {}))
    np.testing.assert_array_equal(copied["b"], 2 * copied["a"] + 1)
    less = made(proto, Solution({"b": Content("less", 3, "a")}, {}))
    np.testing.assert_allclose(less["a"] + less["b"], 3, rtol=1e-6)
    quotient = made(proto, Solution({"b": Content("quotient", 1, "a")}, {}))
    np.testing.assert_array_equal(quotient["a"] * quotient["b"], np.ones((2, 4)))
    summed = made(proto, Solution({"b": Content("sum", 100, axes=(-1,))}, {}))
    np.testing.assert_allclose(summed["b"].sum(axis=-1), 100, rtol=1e-6)
    whole = made(proto, Solution({"i": Content("sum", 500)}, {}))
    assert whole["i"].sum() == 500
    steps = made(proto, Solution({"i": Content("steps", 3)}, {}))
    assert (np.diff(steps["i"], axis=-1) == 3).all()
    counted = made(proto, Solution({"i": Content("nonzero", 5)}, {}))
    assert np.count_nonzero(counted["i"]) == 5


def test_whether_a_goal_is_met_is_asked_of_the_original() -> None:
    proto = model("c = Equal(n, k)")
    plans, _ = plans_of(proto)
    goal = Goal("c", True, (), Solution({}, {}))
    x = np.zeros((2, 4), np.float32)
    assert plans.is_met(goal, {"x": x, "n": np.array(7)}) is True
    assert plans.is_met(goal, {"x": x, "n": np.array(8)}) is False


def test_masks_keep_nothing_one_or_all_but_one() -> None:
    proto = parse(
        "agraph (float[N,6] x, int64[N,6] attention_mask) => (float[N,6] y) <float z = {0}> { "
        "c = Cast <to = 9> (attention_mask) y = Where(c, x, z) }",
        21,
    )
    _, feeding = plans_of(proto)
    runs = [plan({"N": 3}, 0, False) for plan in mask_plans(feeding, ["attention_mask"])]
    kept = [np.asarray(run.feeds["attention_mask"]).sum(axis=1).tolist() for run in runs]
    assert kept == [[0, 0, 0], [1, 1, 1], [5, 5, 5]]
    assert all(len(np.unique(np.asarray(run.feeds["x"]))) == 18 for run in runs)


def test_each_branch_runs_on_several_values() -> None:
    proto = model("c = Equal(n, k)")
    runs = [r for r in run_reference(proto, VerificationOptions()).runs if r.source == "goal"]
    then = [run for run in runs if np.asarray(run.feeds["n"]).item() == 7]
    assert len(then) >= 3
    assert any((np.asarray(run.feeds["x"]) < 0).any() for run in then)


def test_residual_sums_end_the_search() -> None:
    """The number of paths through sums doubles with each: all would take more than a lifetime."""
    sums = "s0 = MatMul(n, n) " + "".join(
        f"a{i} = Relu(s{i}) b{i} = Neg(s{i}) s{i + 1} = Add(a{i}, b{i}) " for i in range(20)
    )
    proto = model(f"{sums} c = Greater(s20, k)", "float n", "float k = {5}")
    assert solutions(proto) == []


def test_nested_branches_that_contradict_each_other() -> None:
    """Combinations of all conditions around a branch are not tried."""
    inner = "y{i} = If (c{i}) <then_branch = t{i} () => (float p{i}) {{ {body} }}, "
    inner += "else_branch = e{i} () => (float q{i}) {{ q{i} = Identity(n) }}>"
    body, conditions = "p12 = Identity(n)", ""
    for i in range(12, 0, -1):
        conditions += f"a{i} = Mul(n, m) c{i} = Equal(a{i}, k) "
        body = inner.format(i=i, body=body) + f" p{i - 1} = Identity(y{i})"
    text = f"agraph (int64 n, int64 m) => (int64 p0) <int64 k = {{5040}}> {{ {conditions} {body} }}"
    proto = parse(text.replace("float p", "int64 p").replace("float q", "int64 q"), 21)
    assert {goal.condition for goal in goals_of(proto).branches()} == {
        f"c{i}" for i in range(1, 13)
    }


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        # a product of two computed numbers that is a prime
        ("m = Abs(n) o = Neg(n) a = Mul(m, o) c = Equal(a, k)", "int64 k = {1000000000039}"),
        ("s = SequenceConstruct(n) l = SequenceLength(s) c = Equal(l, k)",
         "int64 k = {1000000000000}"),
        ("z = NonZero(n) s = Shape <start = 1> (z) c = Equal(s, k)", "int64 k = {1000000000000}"),
        ("u = Cast <to = 13> (n) a = BitShift <direction = 'RIGHT'> (u, v) b = Cast <to = 7> (a) "
         "c = Equal(b, k)", "int64 k = {3}, uint64 v = {9223372036854775807}"),
        ("a = Identity(k) " + "".join(f"a{i} = Identity(a{i - 1 or ''}) " for i in range(1, 3000))
         + "c = Equal(n, a2999)", "int64 k = {7}"),
    ],
)  # fmt: skip
def test_extreme_numbers_end_the_search(nodes: str, constants: str) -> None:
    proto = model(nodes.replace("a0 ", "a ").replace("'RIGHT'", '"RIGHT"'), constants=constants)
    assert all(
        abs(wanted.value) < 1 << 64 and max(solution.sizes.values(), default=0) <= 4096
        for solution in solutions(proto)
        for wanted in solution.inputs.values()
    )
