"""Rewrites that differ in names are proved once; all others each on its own."""

import onnx
import pytest

from tests.support import parse
from xoptim import OptimizationOptions, optimize
from xoptim.proof import repeated
from xoptim.proof.observer import ProofObserver
from xoptim.proof.renaming import digest_without_names

SIGNATURE = "(float[N,4] x, float[N,4] z) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}>"
BODIES = "a = Add(x, z) y = Mul(a, w)", "a = Mul(x, w) b = Mul(z, w) y = Add(a, b)"


def _sides(signature: str = SIGNATURE, bodies: tuple[str, str] = BODIES) -> list[onnx.ModelProto]:
    return [parse(f"g {signature} {{ {body} }}") for body in bodies]


def _digest(*arguments: tuple[str, tuple[str, str]]) -> list[bytes]:
    return [digest_without_names(_sides(*sides), ()) for sides in arguments]


def test_names_of_values_and_nodes_do_not_count() -> None:
    other = SIGNATURE.replace("] x", "] p").replace("] z", "] q").replace("] w", "] v")
    bodies = "c = Add(p, q) y = Mul(c, v)", "d = Mul(p, v) e = Mul(q, v) y = Add(d, e)"
    first, second = _digest((SIGNATURE, BODIES), (other, bodies))
    assert first == second
    named = _sides()
    for model in named:
        for node in model.graph.node:
            node.name = "layer"
    assert digest_without_names(named, ()) == first


@pytest.mark.parametrize(
    ("signature", "bodies"),
    [
        (SIGNATURE.replace("4}", "5}"), BODIES),
        (SIGNATURE.replace("float[N,4] z", "float[N,1] z"), BODIES),
        (SIGNATURE.replace("N", "M"), BODIES),
        (SIGNATURE, (BODIES[0].replace("x, z", "z, x"), BODIES[1])),
        (SIGNATURE, (BODIES[0], BODIES[1].replace("z, w", "x, w"))),
        (SIGNATURE, (BODIES[0], BODIES[1].replace("Add", "Sub"))),
        (SIGNATURE, BODIES[::-1]),
    ],
)
def test_all_else_counts(signature: str, bodies: tuple[str, str]) -> None:
    first, second = _digest((SIGNATURE, BODIES), (signature, bodies))
    assert first != second


def test_assumptions_count() -> None:
    assert digest_without_names(_sides(), ()) != digest_without_names(_sides(), ("N >= 2",))


def test_inputs_and_outputs_are_those_of_the_other_side() -> None:
    signature = "(float[N] x, float[N] a) => (float[N] y, float[N] c)"
    before, after = "y = Exp(a) c = Neg(x)", "c = Neg(x) y = Exp(a)"
    swapped = "(float[N] x, float[N] a) => (float[N] c, float[N] y)"
    models = [parse(f"g {text} {{ {after} }}") for text in (signature, swapped)]
    first = parse(f"g {signature} {{ {before} }}")
    digests = {digest_without_names([first, model], ()) for model in models}
    assert len(digests) == 2


def test_names_within_subgraphs_count() -> None:
    signature = "(float[N] x, float[N] z, bool c) => (float[N] y)"
    body = """y = If (c) <then_branch = t () => (float[N] p) { p = Neg(NAME) },
        else_branch = e () => (float[N] q) { q = Exp(x) }>"""
    pairs = [(signature, (body.replace("NAME", name),) * 2) for name in "xz"]
    first, second = _digest(*pairs)
    assert first != second


def test_layers_are_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    prove = getattr(repeated, "prove")  # noqa: B009

    def counted(*arguments: object) -> object:
        calls.append(arguments)
        return prove(*arguments)

    monkeypatch.setattr(repeated, "prove", counted)
    layer = "a{0} = Transpose <perm = [1, 0]> ({1}) b{0} = Transpose <perm = [1, 0]> (a{0}) "
    layer += "c{0} = Exp(b{0}) "
    names = ["x", "c0", "c1", "c2"]
    nodes = "".join(layer.format(number, name) for number, name in enumerate(names))
    observer = ProofObserver()
    model = parse(f"g (float[N,4] x) => (float[N,4] y) {{ {nodes} y = Neg(c3) }}")
    optimize(model, OptimizationOptions(patterns=["TransposeTranspose"], on_application=observer))
    assert [step.proof.grade for step in observer.steps] == ["same bits"] * 4
    assert len(calls) == 1
