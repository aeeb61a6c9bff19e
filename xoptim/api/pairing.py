"""An encoder and its decoder: `pair`."""

from collections.abc import Mapping
from typing import Any

from xoptim.graph.sources import Source
from xoptim.preparation.joining import loaded
from xoptim.preparation.pairing import MovedResult as MovedResult, Pair as Pair, links_of, paired


def pair(encoder: Any, decoder: Any, links: Mapping[str, str] | None = None) -> tuple[Pair, Pair]:
    """Move computations of a decoder that depend on the encoder's results alone into the encoder.

    MatMuls, convolutions and the like move, such as the keys and values of cross attention, with
    the nodes after them.
    Nothing is verified: `Pair.joined` gives models to compare.

    Returns the two models as they are, and the two models after the move.

    Args:
        encoder: a model as for `xoptim.optimize`.
        decoder: a model that reads results of the encoder.
        links: the output or input of the encoder, by the input of the decoder that takes its value.
            Inputs with the name of an output are linked by default, and ``encoder_hidden_states``
            with ``last_hidden_state``.

    Raises:
        ModelError: the models do not fit each other, or the decoder's weights are in another folder
            and too large to be loaded.
    """
    first, second = Source.of(encoder), Source.of(decoder)
    folders = [source.base_dir and source.base_dir.resolve() for source in (first, second)]
    proto = second.proto
    if folders[0] != folders[1]:
        proto = loaded(proto, second.base_dir)
    links = links_of(first.proto, proto, links)
    before = Pair(first.proto, proto, links)
    return before, paired(first.proto, proto, before.links, first.base_dir)
