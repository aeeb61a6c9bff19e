"""The options of a batch."""

from dataclasses import dataclass
from pathlib import Path

from xoptim.facts.words import byte_amount
from xoptim.system.machine import cores


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """Options of `xoptim.batch`.

    Attributes:
        arguments: options of ``xopt MODEL`` for each model, such as ``("--patterns",
            "default+onnxruntime")``. Paths in them must be absolute when another machine runs the
            command.
        files: the files and folders that these arguments name. A model is optimized again when
            their content changes.
        jobs: number of models at a time on this machine; 0 for the number of its cores.
        timeout: seconds after which the process of a model is ended, ``None`` for no limit.
        memory: private memory that the process of a model may reserve, in bytes or as ``"4GB"``;
            ``None`` for no limit.
        resume: whether models that are done and unchanged are skipped.
        scheduler: address of a Dask scheduler, such as ``tcp://host:8786``, whose workers optimize
            the models; empty for this machine. The workers need the same package versions, and see
            models and results under the same paths.
    """

    arguments: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    jobs: int = 0
    timeout: float | None = None
    memory: int | str | None = None
    resume: bool = True
    scheduler: str = ""

    def __post_init__(self) -> None:
        if self.jobs < 0:
            raise ValueError("the number of jobs must not be negative")
        if self.timeout is not None and self.timeout <= 0:
            raise ValueError("the timeout must be positive")
        if self.memory_limit is not None and self.memory_limit <= 0:
            raise ValueError("the memory limit must be positive")

    @property
    def memory_limit(self) -> int | None:
        """The memory in bytes."""
        return byte_amount(self.memory) if isinstance(self.memory, str) else self.memory

    @property
    def processes(self) -> int:
        """Number of models at a time on this machine."""
        if self.jobs:
            return self.jobs
        return cores()
