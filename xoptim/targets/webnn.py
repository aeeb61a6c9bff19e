"""NPUs and GPUs in browsers, by WebNN: a table of operators."""

from typing import Final

from xoptim.targets.target import Needs, Target

TARGET: Final = Target(
    name="webnn",
    title="NPUs and GPUs in browsers (WebNN)",
    needs=Needs(static_shapes=True, standard_operators=True, compiles_parts=True),
    table=True,
)
