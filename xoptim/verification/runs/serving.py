"""The process that holds a session for another one; see `xoptim.verification.runs.remote`."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from typing import Any

import onnx

from xoptim.facts.advice import set_reader
from xoptim.facts.errors import UnstoppableError, XoptimError
from xoptim.system.child import questions_and_answers, send
from xoptim.verification.errors import RunError
from xoptim.verification.runs.session import Session


def serve() -> None:
    """Make the session that standard input describes, and run it on the values that follow."""
    questions, answers = questions_and_answers()
    session: Any = None
    while True:
        try:
            question = pickle.load(questions)
        except EOFError:
            return
        try:
            if session is None:
                reader, *task = question
                set_reader(reader)
                session = _session(*task)
                answer: Any = (session.inputs, session.outputs, session.fed)
            else:
                answer = session.run(*question)
        except XoptimError as error:
            answer = error
        except MemoryError:
            answer = RunError("there is not enough memory for a run")
        send(answers, answer)
        if session is None:
            return
        if isinstance(answer, UnstoppableError):
            os._exit(1)  # Python would wait for the thread of the kernel


def _session(source: str | bytes, base_dir: Any, weights: Any, settings: Any) -> Session:
    model = source if isinstance(source, str) else onnx.ModelProto.FromString(source)
    return Session(model, replace(settings, isolated=False), base_dir=base_dir, weights=weights)
