"""An encoder and its decoder: `pair`."""

from collections.abc import Mapping
from typing import Any

from xoptim.graph.sources import Source
from xoptim.preparation.joining import loaded
from xoptim.preparation.pairing import MovedResult as MovedResult, Pair as Pair, links_of, paired


def pair(encoder: Any, decoder: Any, links: Mapping[str, str] | None = None) -> tuple[Pair, Pair]:
    """Move computations of a decoder that depend on the encoder's results alone into the encoder.

    A moved computation begins with a MatMul, a convolution or another operator that sums products,
    and includes the nodes after it. The keys and values of cross attention are an example.
    Nothing is verified: `Pair.joined` gives models to compare.

    Returns the two models as they are, and the two models after the move.

    Args:
        encoder: a model as for `xoptim.optimize`.
        decoder: a model that reads results of the encoder.
        links: keys are inputs of the decoder; each value is the output or input of the encoder
            whose value the decoder's input takes. Inputs with the name of an output are linked by
            default, and ``encoder_hidden_states`` with ``last_hidden_state``.

    Raises:
        ModelError: the models do not fit each other, or the decoder's weights are in another folder
            and too large to be loaded.
    """
    sources = Source.of(encoder), Source.of(decoder)
    folders = [source.base_dir and source.base_dir.resolve() for source in sources]
    encoder_proto, decoder_proto = (source.proto for source in sources)
    if folders[0] != folders[1]:
        decoder_proto = loaded(decoder_proto, sources[1].base_dir)
    links = links_of(encoder_proto, decoder_proto, links)
    original = Pair(encoder_proto, decoder_proto, links)
    return original, paired(encoder_proto, decoder_proto, links, sources[0].base_dir)
