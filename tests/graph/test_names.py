from hypothesis import given, strategies as st

from xoptim.graph.names import Names


def test_a_free_hint_is_taken_as_it_is() -> None:
    names = Names()
    assert [names.fresh("y"), names.fresh("y"), names.fresh("y")] == ["y", "y_1", "y_2"]
    assert names.fresh("") == "r"
    assert names.fresh("") == "r_1"


def test_names_of_the_model_are_avoided() -> None:
    names = Names()
    names.used.update(("t", "t_1", "t_3"))
    assert [names.fresh("t") for _ in range(3)] == ["t_2", "t_4", "t_5"]
    names.used.add("t_6")
    assert names.fresh("t") == "t_7"


@given(st.lists(st.sampled_from(["a", "a_1", "a_1_1", "b", ""])))
def test_no_name_is_given_twice_and_the_same_requests_give_the_same_names(hints: list[str]) -> None:
    first, second = Names(), Names()
    given_names = [first.fresh(hint) for hint in hints]
    assert len(set(given_names)) == len(hints)
    assert given_names == [second.fresh(hint) for hint in hints]


def test_names_are_reserved_in_the_base_when_they_are_committed() -> None:
    base = Names()
    assert base.fresh("t") == "t"
    dropped, kept = Names(base), Names(base)
    assert [dropped.fresh("t"), dropped.fresh("t")] == ["t_1", "t_2"]
    assert [kept.fresh("t"), kept.fresh("u")] == [
        "t_1",
        "u",
    ], "the names of the other one are free again"
    kept.commit()
    assert [base.fresh("t"), base.fresh("u")] == ["t_2", "u_1"]
    assert base.next_count("t") == 3
