"""LayerNormalization between Transposes, for targets that lack it."""

from tests.support import parse, types
from xoptim import optimize, verify
from xoptim.targets import PlacedNode, Placement
from xoptim.targets.fitting import fit

_TEXT = (
    "agraph (float[n,4,h,w] x, float[4] k, float[4] c) => (float[n,4,h,w] y{more}) "
    "{{ t = Transpose <perm = [0, 2, 3, 1]> (x) {results} = LayerNormalization (t, k, c) "
    "y = Transpose <perm = [0, 3, 1, 2]> (l) }}"
)


def test_no_transpose_is_left() -> None:
    model = parse(_TEXT.format(more="", results="l"))
    lowered = optimize(model, patterns="lower", strict=True)
    assert "Transpose" not in types(lowered)
    assert verify(model, lowered).ok


def test_statistics_that_are_read() -> None:
    model = parse(_TEXT.format(more=", float[n,h,w,1] m", results="l, m"))
    assert "LayerNormalization" in types(optimize(model, patterns="lower", strict=True))


def test_a_target_without_the_operator() -> None:
    def ask(model: object) -> Placement:
        nodes = [
            PlacedNode(
                node.name,
                node.op_type,
                provider="X",
                partition=-1 if node.op_type == "LayerNormalization" else 0,
            )
            for node in model.graph.node  # type: ignore[attr-defined]
        ]
        return Placement("x", tuple(nodes))

    fitted = fit(parse(_TEXT.format(more="", results="l")), ask)
    assert [step.pattern for step in fitted.steps] == ["LowerChannelLayerNormalization"]
    assert "Transpose" not in types(fitted.model)
