"""A model of sentence-transformers: words to one vector, exported by torch and optimized.

python examples/pipelines/sentence_transformers_model.py
"""

import tempfile

import onnx
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

from xoptim.integrations.torch import to_onnx

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "model", "that", "runs"]


class Embedding(torch.nn.Module):  # type: ignore[misc]  # where torch is not installed
    """The tensors of a `SentenceTransformer` instead of its dicts."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Shapes: twice (batch, words) to (batch, features)."""
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        found: torch.Tensor = self.model(features)["sentence_embedding"]
        return found


def sentence_model(folder: str) -> SentenceTransformer:
    """A small BERT with random weights, the mean of its results, and a division by the length."""
    sizes = {
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 128,
    }
    BertModel(BertConfig(**sizes, vocab_size=len(WORDS))).save_pretrained(folder)
    vocabulary = {word: at for at, word in enumerate(WORDS)}
    BertTokenizerFast(vocab=vocabulary).save_pretrained(folder)
    words = Transformer(folder)
    return SentenceTransformer(modules=[words, Pooling(64, "mean"), Normalize()], device="cpu")


def export() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model as torch writes it, and the optimized one, which equals the network."""
    with tempfile.TemporaryDirectory() as folder:
        network = Embedding(sentence_model(folder)).eval()
    words = torch.randint(5, len(WORDS), (2, 7))
    mask = torch.ones_like(words)
    mask[1, 4:] = 0
    inputs = {"input_ids": words, "attention_mask": mask}
    dynamic = torch.export.Dim.DYNAMIC
    shapes = {name: {0: dynamic, 1: dynamic} for name in inputs}
    program = torch.onnx.export(
        network, kwargs=inputs, dynamic_shapes=shapes, dynamo=True, verbose=False
    )
    assert program is not None
    return program.model_proto, to_onnx(network, (), inputs, dynamic_shapes=shapes, verify=True)


def main() -> None:
    """Say how much smaller the model became."""
    exported, optimized = export()
    print(f"{len(exported.graph.node)} nodes became {len(optimized.graph.node)}")


if __name__ == "__main__":
    main()
