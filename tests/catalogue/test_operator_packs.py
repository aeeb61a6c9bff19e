"""Packs that state facts about custom operators."""

from importlib.metadata import EntryPoint

import pytest

from xoptim import PatternError, UnknownPatternError, select, use_operators
from xoptim.catalogue import discovery
from xoptim.operators.registry import operator_of

pytestmark = pytest.mark.usefixtures("own_operators")
HERE = "tests.catalogue.operator_facts"


@pytest.fixture(autouse=True)
def _packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed packs, one of which is installed twice."""
    values = {
        "acme": f"{HERE}:OPERATORS",
        "lost": "tests.catalogue.nothing:OPERATORS",
        "wrong": f"{HERE}:STANDARD",
        "shapeless": f"{HERE}:TEXT",
    }
    packs = [EntryPoint(name, value, "xoptim.operators") for name, value in values.items()]
    packs.append(EntryPoint("acme", f"{HERE}:ZERO", "xoptim.operators"))

    def entry_points(group: str) -> list[EntryPoint]:
        return [pack for pack in packs if pack.group == group]

    monkeypatch.setattr(discovery, "entry_points", entry_points)


def test_a_pack_is_used_on_request() -> None:
    assert [*sorted(discovery.operator_packs())] == ["acme", "lost", "shapeless", "wrong"]
    assert operator_of("acme", "Twice").definition is None
    use_operators("acme")
    assert operator_of("acme", "Twice").definition is not None
    use_operators("acme", "acme")


def test_no_pack() -> None:
    use_operators()
    message = "no installed pack 'acne' describes operators; did you mean 'acme'?"
    with pytest.raises(UnknownPatternError) as caught:
        use_operators("acne")
    assert str(caught.value) == message


def test_a_pack_of_operators_is_no_selection() -> None:
    with pytest.raises(UnknownPatternError, match="'acme' has operators") as caught:
        select("default+acme")
    assert 'use_operators("acme")' in str(caught.value)


@pytest.mark.parametrize(
    ("pack", "reason"),
    [
        ("lost", "No module"),
        ("wrong", "'Relu'"),
        ("shapeless", "'items'"),
    ],
)
def test_a_pack_that_cannot_be_used(pack: str, reason: str) -> None:
    with pytest.raises(PatternError, match=f"pack {pack!r} .*{reason}"):
        use_operators(pack)
