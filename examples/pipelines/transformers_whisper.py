"""Speech to text of transformers 5 (Whisper), exported by its own exporter, and optimized.

python examples/pipelines/transformers_whisper.py
"""

import onnx
import onnx_ir
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

import xoptim
from xoptim.integrations.torch import verify


def export() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model as transformers writes it, and the optimized one, which equals the network."""
    sizes = {
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 128,
        "max_source_positions": 50,
    }
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = WhisperConfig(**sizes, **special, vocab_size=200, decoder_start_token_id=1)
    network = WhisperForConditionalGeneration(config).eval()
    inputs = {
        "input_features": torch.randn(2, config.num_mel_bins, 100),
        "decoder_input_ids": torch.randint(3, 200, (2, 4)),
        "use_cache": False,
    }
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
