"""The differences of two models, as ``xopt diff`` lists them."""

from tests.support import parse
from xoptim.diagnose.differences import differences
from xoptim.graph.load import load_model


def test_a_node_whose_name_another_operator_took_is_paired_by_its_result() -> None:
    text = "agraph (float[n] x) => (float[n] y, float[n] z) {{ {} }}"
    first = "[a] y = LeakyRelu <alpha = 0.5> (x) [c] z = Exp(x)"
    second = "[b] y = LeakyRelu <alpha = 0.25> (x) [a] z = Neg(x)"
    models = (load_model(parse(text.format(nodes))) for nodes in (first, second))
    assert list(map(str, differences(*models))) == [
        "~ node 'a': LeakyRelu: alpha 0.5 → 0.25",
        "- node 'c': Exp",
        "+ node 'a': Neg",
    ]
