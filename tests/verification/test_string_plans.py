import numpy as np

from tests.support import parse
from tests.verification.reasons import named_source
from xoptim.verification import VerificationOptions, verify_models
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.inputs.reference import run_reference

SPLIT = 'y = RegexFullMatch <pattern = "a(b|cd)?"> (x)'


def string_runs(text: str, **options: object) -> list[ReferenceRun]:
    model = parse(text, 20)
    runs = run_reference(model, VerificationOptions(**options)).runs  # type: ignore[arg-type]
    return [run for run in runs if run.source == "strings"]


def texts_of(run: ReferenceRun, name: str = "x") -> set[str]:
    return {*np.asarray(run.feeds[name]).reshape(-1)}


def test_one_run_holds_many_strings() -> None:
    runs = string_runs(f"agraph (string[n] x) => (bool[n] y) {{ {SPLIT} }}")
    assert {run.sizes["n"] for run in runs} == {64}
    assert {"a", "ab", "acd", "b", "xb"} <= set[str]().union(*map(texts_of, runs))


def test_chosen_sizes_are_kept() -> None:
    text = f"agraph (string[n] x) => (bool[n] y) {{ {SPLIT} }}"
    runs = string_runs(text, dims={"n": 3})
    assert 1 < len(runs) <= 12
    assert {run.sizes["n"] for run in runs} == {3}


def test_a_row_of_stop_words_only() -> None:
    runs = string_runs(
        """agraph (string[n] x) => (string[m] y) { y = StringNormalizer <stopwords = ["um", "oh"],
        is_case_sensitive = 1> (x) }"""
    )
    assert texts_of(runs[-1]) <= {"um", "oh"}


def test_models_without_strings_get_no_such_runs() -> None:
    assert not string_runs("agraph (float[n] x) => (float[n] y) { y = Relu(x) }")
    assert not string_runs("agraph (string[n] x) => (string[n] y) { y = Identity(x) }")


def test_the_message_names_the_strings() -> None:
    head = "agraph (string[n] x) => (bool[n] y)"
    before, after = (
        parse(f'{head} {{ y = RegexFullMatch <pattern = "{pattern}"> (x) }}', 20)
        for pattern in ("[a-z]+[.]com", "[a-z]+.com")
    )
    report = verify_models(before, after)
    assert (report.status, named_source(report)) == ("different", "strings")
