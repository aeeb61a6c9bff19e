"""``xopt mine``."""

from tests.cli.command import Xopt, write

SWISH = (
    "agraph (float[4] x) => (float[4] y) { s = Sigmoid(x) t = Mul(s, x) u = Sigmoid(t) "
    "y = Mul(t, u) }"
)


def test_table(xopt: Xopt) -> None:
    write(SWISH)
    write("agraph (float[4] x) => (float[4] y) { t = Sigmoid(x) y = Mul(x, t) }", "other.onnx")
    outcome = xopt("mine", "model.onnx", "other.onnx", "--size", "2", "--top", "1")
    assert (outcome.code, outcome.err) == (0, "")
    heading, title, row = outcome.out.splitlines()
    assert heading.split() == ["subgraph", "places", "exclusive", "models", "example"]
    assert title.strip() == "2 nodes"
    assert row.split("  ")[1] == "Mul(Sigmoid(a), a)"
    assert row.split()[2:] == ["3", "3", "2", "model.onnx:", "s,", "t"]


def test_json(xopt: Xopt) -> None:
    write(SWISH)
    found = xopt("mine", "model.onnx", "--json").json
    assert [each["nodes"] for each in found] == [4, 3, 3, 3, 2, 2, 2]
    assert found[0] == {
        "form": "t1 = Mul(Sigmoid(a), a); Mul(Sigmoid(t1), t1)", "nodes": 4, "count": 1,
        "exclusive": 1, "models": 1, "model": "model.onnx", "place": ["s", "t", "u", "y"],
    }  # fmt: skip


def test_nothing_to_find(xopt: Xopt) -> None:
    write("agraph (float[4] x) => (float[4] y) { y = Relu(x) }")
    assert xopt("mine", "model.onnx", "--json").json == []
    assert "MODEL" in xopt("mine").error
    assert "--size" in xopt("mine", "model.onnx", "--size", "6").error
