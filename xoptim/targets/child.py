"""The process that loads an execution provider and asks it; see `xoptim.targets.process`."""

from __future__ import annotations

import os
import pickle
from typing import Final

import onnx

from xoptim.facts.advice import set_reader
from xoptim.system.child import questions_and_answers, send
from xoptim.targets.process import Answer, Question
from xoptim.verification.errors import LoadError, ProviderUnavailable
from xoptim.verification.runs.plugins import devices_of, kind_of, load, plugin_named
from xoptim.verification.runs.session import Session, ort, resolve_providers
from xoptim.verification.runs.session_settings import SessionSettings

_INFO: Final = 1  # log severity with which providers say why they refuse a node
_ENTRIES: Final = (("session.record_ep_graph_assignment_info", "1"),)


def main() -> None:
    """Read a question from standard input, and write the answer to standard output."""
    questions, answers = questions_and_answers()
    question: Question = pickle.load(questions)
    set_reader(question.reader)
    try:
        answer: Answer | ProviderUnavailable = answer_to(question)
    except ProviderUnavailable as error:
        answer = error
    send(answers, answer)
    os._exit(0)  # libraries of providers may crash while they are unloaded


def answer_to(question: Question) -> Answer:
    """The answer to a question.

    Raises `ProviderUnavailable` when the provider is missing or has no device.
    """
    resolve_providers((question.provider,))
    plugin = plugin_named(question.provider)
    if plugin is not None:
        load(plugin, software_device=question.software_device)
    if question.kind == "devices":
        return Answer(
            devices=tuple(kind_of(device) for device in devices_of(plugin)) if plugin else ()
        )
    ort.set_default_logger_severity(_INFO)
    settings = SessionSettings(
        (question.provider,),
        "basic" if question.level == "basic" else "off",
        software_device=question.software_device,
        entries=_ENTRIES,
        custom_op_libs=question.custom_op_libs,
        log_severity=_INFO,
    )
    try:
        model = onnx.ModelProto.FromString(question.model)
        session = Session(model, settings, base_dir=question.base_dir)
        return Answer(parts=session.assigned())
    except LoadError as error:
        return Answer(error=str(error))
