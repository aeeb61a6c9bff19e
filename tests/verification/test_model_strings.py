import onnx

from tests.support import parse
from xoptim.verification.inputs.model_strings import model_strings

HEAD = "agraph (string[n] x) =>"


def pattern_model(pattern: str) -> onnx.ModelProto:
    return parse(f'{HEAD} (bool[n] y) {{ y = RegexFullMatch <pattern = "{pattern}"> (x) }}', 20)


def split_model(attributes: str) -> onnx.ModelProto:
    return parse(f"{HEAD} (string[n,m] y, int64[n] k) {{ y, k = StringSplit{attributes} (x) }}", 20)


def test_strings_of_both_patterns() -> None:
    texts = model_strings([pattern_model("yes|no"), pattern_model("yes|maybe")]).texts
    assert {"yes", "no", "maybe", "yesx"} <= {*texts}


def test_a_pattern_that_changed_comes_first() -> None:
    both = [pattern_model("a|bc"), pattern_model("a|bc")]
    both[1].graph.node.extend(pattern_model("0|1").graph.node)
    texts = model_strings(both).texts
    assert texts.index("0") < texts.index("a")


def test_separators_occur_often_enough() -> None:
    texts = model_strings([split_model(' <delimiter = ", ", maxsplit = 2>')]).texts
    assert {"a, b", "a, b, c, d, e", "a, , b", ", a", "a,b, c"} <= {*texts}
    assert "a  b" in model_strings([split_model("")]).texts


def test_words_in_other_cases_and_stop_words() -> None:
    text = f"""{HEAD} (string[m] y) {{ y = StringNormalizer <stopwords = ["um", "Oh"],
    locale = "C"> (x) }}"""
    strings = model_strings([parse(text)])
    assert strings.stop_words == ("um", "Oh")
    assert {"um", "UM", "Um", "ums", "OH", "oh"} <= {*strings.texts}


def test_the_number_of_strings_is_bounded() -> None:
    values = ", ".join(f'"word{number}"' for number in range(2000))
    model = parse(f"{HEAD} (bool[n] y) <string[2000] words = {{{values}}}> {{ y = Equal(x, x) }}")
    assert len(model_strings([model]).texts) == 320
    assert model_strings([]).texts == ()
