"""An encoder of transformers 5 (BERT), exported by its own exporter, optimized and verified.

python examples/pipelines/transformers_encoder.py
"""

import onnx
import onnx_ir
import torch
from transformers import BertConfig, BertModel
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

import xoptim
from xoptim.integrations.torch import verify


def export() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model as transformers writes it, and the optimized one, which equals the network."""
    sizes = {
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 128,
    }
    network = BertModel(BertConfig(**sizes, vocab_size=200), add_pooling_layer=False).eval()
    words = torch.randint(0, 200, (2, 7))
    mask = torch.ones_like(words)
    mask[1, 4:] = 0
    inputs = {"input_ids": words, "attention_mask": mask}
    exported = OnnxExporter().export(network, inputs, config=OnnxConfig(dynamic=True))
    before = onnx_ir.to_proto(exported.program)
    optimized = xoptim.optimize(before, verify=True)
    report = verify(network, optimized, (), inputs)
    assert report.ok, report
    return before, optimized


def main() -> None:
    """Say how much smaller the model became."""
    exported, optimized = export()
    print(f"{len(exported.graph.node)} nodes became {len(optimized.graph.node)}")


if __name__ == "__main__":
    main()
