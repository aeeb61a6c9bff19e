"""Random valid graphs: as a strategy of hypothesis, so that what fails can shrink, and from a
seed.
"""

import onnx
from hypothesis import strategies as st

from tests.properties import contractions, elementwise, families, movement, seeds, subgraphs
from tests.properties.growing import Draw, Drawn, Even, Growing

_LENGTH = 24
"""Moves in a graph, on average, if hypothesis drew evenly."""
_PLAIN = (
    *elementwise.MOVES,
    *movement.MOVES,
    *contractions.MOVES,
    *seeds.MOVES,
    subgraphs.repeat,
    *(families.relatives,) * 12,
)
_MOST_LEAVES = 6
_NESTED = (subgraphs.branch, subgraphs.loop, subgraphs.scan)


def step(g: Growing) -> None:
    """One random move."""
    place = g.below(len(_PLAIN) + len(_NESTED))
    if place < len(_PLAIN):
        _PLAIN[place](g)
    else:
        _NESTED[place - len(_PLAIN)](g, step)


def _grown(g: Growing) -> Drawn:
    """A graph of up to a few dozen nodes with what to feed it."""
    n, m = (tuple(pair[i] for pair in g.sizes) for i in (0, 1))
    four = g.fixed(4)
    shapes = ((n, m, *four), (n, *four), g.fixed(2, 3), (n,), g.fixed(1), ())
    main = g.choose(("float32", "float32", "float64", "float16"))
    g.input(main, shapes[g.below(3)])
    for _ in range(g.below(4)):
        dtype = g.choose((main, "int64", "bool", "int32", "uint8", "string"))
        g.input(dtype, g.choose(shapes))
    g.repeat(step, one_of=_LENGTH)
    results = [v for v in g.values if v not in g.inputs]
    if not results:
        results = [g.emit("Identity", [g.inputs[0]], g.inputs[0]) or g.inputs[0]]
    chosen = {results[-1].name: results[-1]}
    if not g.flag(4):  # else most of the graph is of no use
        chosen |= {v.name: v for v in g.leaves()[-_MOST_LEAVES:]}
    for _ in range(g.below(3)):
        value = g.choose(results)
        chosen[value.name] = value
    outputs = list(chosen.values())
    model = g.model(outputs, typed=g.flag(3))
    return Drawn(model, g.feeds(g.below(5)), {v.name: v.error for v in outputs})


@st.composite
def graphs(draw: Draw) -> Drawn:
    """Graphs that hypothesis draws, and can make smaller."""
    return _grown(Growing(draw))


def random_model(seed: int) -> onnx.ModelProto:
    """A model that is drawn evenly; the same seed gives the same one."""
    return _grown(Even(seed)).model
