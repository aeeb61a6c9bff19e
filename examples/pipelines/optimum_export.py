"""A model of transformers, exported by optimum, then optimized.

Onnxruntime's wrapper of optimum runs the result.

python examples/pipelines/optimum_export.py
"""

import tempfile
from pathlib import Path

import onnx
import torch
from optimum.exporters.onnx import export
from optimum.exporters.onnx.model_configs import BertOnnxConfig
from optimum.onnxruntime import ORTModelForFeatureExtraction
from transformers import BertConfig, BertModel

import xoptim


def main() -> None:
    """The folder that optimum needs holds the configuration and ``model.onnx``.

    Xoptim writes the latter.
    """
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "vocab_size": 120,
    }
    config = BertConfig(**sizes, max_position_embeddings=64)
    network = BertModel(config, add_pooling_layer=False).eval()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exported = folder / "exported.onnx"
        export(network, BertOnnxConfig(config, task="feature-extraction"), exported, opset=17)
        smaller = xoptim.optimize(exported, verify=True)
        onnx.save(smaller, folder / "model.onnx")
        config.save_pretrained(folder)
        words = {
            "input_ids": torch.tensor([[5, 6, 7]]),
            "attention_mask": torch.ones(1, 3, dtype=torch.int64),
        }
        words["token_type_ids"] = torch.zeros_like(words["input_ids"])
        result = ORTModelForFeatureExtraction.from_pretrained(folder)(**words).last_hidden_state
        expected = network(**words).last_hidden_state
        assert torch.allclose(torch.as_tensor(result), expected, atol=1e-4)
        print(f"{len(onnx.load(exported).graph.node)} nodes became {len(smaller.graph.node)}")


if __name__ == "__main__":
    main()
