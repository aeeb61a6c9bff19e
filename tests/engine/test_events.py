"""Events of an optimization, for listeners and on standard output."""

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.rules import AbsNegPattern, NegNegPattern, builder, chain, events, renaming, tuned
from tests.support import load, node_of, values_in
from xoptim.engine.environment import DebugSettings
from xoptim.engine.events import Event, EventStream, show_log


@pytest.fixture(autouse=True)
def _logger() -> Iterator[None]:
    logger = logging.getLogger("xoptim")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:], logger.level = handlers, level


def test_one_stream() -> None:
    text = chain("Exp", "Neg", "Neg", "Abs", "Neg")
    heard = events(text, [NegNegPattern, renaming("Exp", "Log")])
    kinds = [event.kind for event in heard]
    assert kinds[:4] == ["matched", "applied", "matched", "applied"]
    assert kinds.count("round") >= 2
    applied = next(
        event for event in heard if event.kind == "applied" and event.pattern == "NegNeg"
    )
    assert [node.op_type for node in applied.removed] == ["Neg", "Neg"]
    assert [node.op_type for node in applied.added] == ["Identity"]
    assert applied.graph == "agraph"
    assert applied.node is not None
    rounds = [event for event in heard if event.kind == "round"]
    assert [event.iteration for event in rounds] == list(range(1, len(rounds) + 1))
    assert rounds[-1].nodes == 3


def test_silence_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    tuned(chain("Neg", "Neg", "Abs"), NegNegPattern)
    output = capsys.readouterr()
    assert output.out == output.err == ""


def test_verbose_is_one_line_a_round(capsys: pytest.CaptureFixture[str]) -> None:
    text = chain("Neg", "Neg", "Neg", "Neg", "Abs")
    rounds = [event for event in events(text, NegNegPattern) if event.kind == "round"]
    tuned(text, NegNegPattern, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(rounds)
    assert values_in(lines[0]) == ["1", "2", "2", "1"]
    assert all("round " in line for line in lines)


def test_very_verbose_tells_refusals_with_file_and_line(capsys: pytest.CaptureFixture[str]) -> None:
    tuned(chain("Neg", "Neg", "Exp", "Neg"), NegNegPattern, verbose=11)
    output = capsys.readouterr().out
    assert re.search(r"NegNeg refused .*Neg.*Exp.*rules\.py:", output)
    assert re.search("matched NegNeg .*'Neg'", output)
    assert re.search(r"applied NegNeg .*'Neg' -2 \+1 ", output)


@pytest.mark.parametrize(
    "debug",
    [
        DebugSettings(patterns=("NegNeg",)),
        DebugSettings(levels={"NegNeg": 10}),
        DebugSettings(verbose=10),
    ],
)
def test_verbosity_of_one_pattern_or_of_all(
    debug: DebugSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    builder(
        chain("Neg", "Neg", "Exp", "Neg", "Abs"), [NegNegPattern, AbsNegPattern], debug
    ).optimize()
    output = capsys.readouterr().out
    for kind in ("refused", "matched", "applied"):
        assert f"{kind} NegNeg" in output or f"NegNeg {kind}" in output, kind
    assert ("AbsNeg" in output) == (debug.verbose == 10)


def test_warnings_are_seen_whatever_the_verbosity(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("xoptim")
    root = logging.root.handlers[:]
    logging.root.handlers.clear()
    try:
        show_log()
        logger.warning("look out")
        logger.info("by the way")
        logger.debug("never mind")
    finally:
        logging.root.handlers[:] = root
    assert capsys.readouterr().out.splitlines() == ["look out", "by the way"]


def test_the_log_follows_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("xoptim")
    show_log()
    show_log()
    assert len([h for h in logger.handlers if type(h).__name__ == "_StandardOutput"]) == 1
    logger.info("first")
    assert capsys.readouterr().out == "first\n"
    logger.info("second")
    assert capsys.readouterr().out == "second\n"


def test_levels_and_subscribers() -> None:
    heard: list[Event] = []
    stream = EventStream(0, None)
    stream.send("matched", "P")
    stream.subscribe(heard.append)
    stream.send("matched", "P", level=10, text="why")
    assert [(event.kind, event.pattern, event.text) for event in heard] == [("matched", "P", "why")]


@pytest.mark.parametrize(
    ("details", "text"),
    [
        ({"kind": "round", "graph": "g", "iteration": 2, "text": "3 matches", "nodes": 9},
         "[xoptim] g round 2: 3 matches, 9 nodes"),
        ({"kind": "dropped", "pattern": "P", "text": "why"}, "[xoptim] dropped P: why"),
        ({"kind": "failed", "pattern": "P"}, "[xoptim] failed P"),
    ],
)  # fmt: skip
def test_text(details: dict[str, Any], text: str) -> None:
    assert str(Event(**details)) == text


def test_text_with_nodes() -> None:
    neg = node_of(load(chain("Neg")), "Neg")
    assert (
        str(Event("applied", "P", node=neg, added=[neg], removed=[neg, neg]))
        == "[xoptim] applied P at 'Neg' -2 +1 nodes"
    )
    neg.name = "n"
    assert str(Event("matched", "P", node=neg)) == "[xoptim] matched P at 'n'"
