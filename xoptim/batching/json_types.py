"""The type of a line of ``results.jsonl``."""

from typing import TypedDict

from xoptim.batching.record import Status


class RecordJson(TypedDict):
    """How a model of a batch ended.

    Attributes:
        model: the file of the model.
        output: the file of the result, relative to the folder of the batch.
        status: how it ended.
        nodes_before: number of nodes, subgraphs included; null where it is not known.
        nodes_after: number of nodes of the result; null where it is not known.
        bytes_before: size of the model and its weights; null where it is not known.
        bytes_after: size of the result; null where it is not known.
        seconds: duration, in seconds.
        verdict: the result of the verification; empty when there was none.
        assumptions: assumptions in force, in addition to the default set.
        remarks: findings and hints that the command prints about the model.
        error: the reason of a failure, in one line.
        key: hash of the model, the options and the versions.
        written: SHA-256 of each file written, by its path relative to the folder of the batch.
    """

    model: str
    output: str
    status: Status
    nodes_before: int | None
    nodes_after: int | None
    bytes_before: int | None
    bytes_after: int | None
    seconds: float
    verdict: str
    assumptions: list[str]
    remarks: list[str]
    error: str
    key: str
    written: dict[str, str]
