"""The tests mirror the tree: ``xoptim/room/file.py`` is tested in ``tests/room/test_file.py``, or ``test_file_topic.py``."""

from pathlib import Path

from tests.meta.sources import ROOT

TESTS = ROOT / "tests"
ACROSS = {
    *("browser", "conformance", "decoders", "discovery", "fuzzing", "hostile", "meta", "mutation", "properties", "reach"),
    *("real_models", "seeds"),
}
"""Folders of tests that concern several rooms."""
TOPICS = {
    "cli": {"custom_operators", "interrupts", "run_limit", "signals", "whole"},
    "dialects": {"rewriters_page", "rules_page"},
    "evaluate": {"overflow"},
    "facts": {"dim_sizes"},
    "graph": {"what_models_say"},
    "inference": {
        *("elementwise", "microsoft", "models", "movement", "odd_models", "onnx_node_cases", "robustness", "sampling"),
        "symbolic_node_cases",
    },
    "match": {"language", "matching_benchmark", "planting", "writing_page"},
    "engine": {"faults", "global", "misuse", "sizes"},
    "patterns": {"catalogue", "growth", "pairs", "providers", "ranges", "results", "shape_proofs"},
    "patterns/quantization": {"quantizer"},
    "testing": {"pairs"},
    "validate": {"cuda", "wrong"},
}
"""Tests that concern several files of their room: families of operators, whole runs, pages of the documentation."""


def sources_of(folder: Path) -> Path:
    """The folder of the sources that a folder of tests is about."""
    inside = folder.relative_to(TESTS)
    return ROOT / inside if inside.parts[:1] in (("cli",), ("patterns",)) else ROOT / "xoptim" / inside


def folders() -> list[Path]:
    """The folders of tests that are about one room, and ``tests`` itself."""
    found = {path.parent for path in TESTS.rglob("test_*.py")}
    return sorted(folder for folder in found if not ACROSS & set(folder.relative_to(TESTS).parts))


def test_each_folder_is_about_a_room() -> None:
    assert [folder for folder in folders() if not sources_of(folder).is_dir()] == []
    assert {name for name in ACROSS if not list((TESTS / name).glob("*.py"))} == set()


def test_each_file_is_about_a_file() -> None:
    topics: dict[str, set[str]] = {}
    for folder in folders():
        names = {path.stem.lstrip("_") for path in sources_of(folder).glob("*.py")}
        for path in folder.glob("test_*.py"):
            topic = path.stem.removeprefix("test_")
            if not any(topic == name or topic.startswith(f"{name}_") for name in names):
                topics.setdefault(folder.relative_to(TESTS).as_posix(), set()).add(topic)
    assert topics == TOPICS
