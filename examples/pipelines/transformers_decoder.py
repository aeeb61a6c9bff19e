"""A decoder of transformers 5 with a KV cache (LLaMA), exported by its own exporter, and optimized.

python examples/pipelines/transformers_decoder.py
"""

from typing import Any

import onnx
import onnx_ir
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import DynamicCache
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

import xoptim
from xoptim.integrations.torch import verify

LAYERS, BATCH, PAST, NEW = 4, 2, 7, 3


def arguments(config: LlamaConfig) -> dict[str, Any]:
    """Three new tokens after seven in the cache, which the network extends."""
    heads = config.num_key_value_heads
    width = config.hidden_size // config.num_attention_heads
    cache = DynamicCache(config=config)
    for layer in range(LAYERS):
        keys, values = (torch.randn(BATCH, heads, PAST, width) for _ in range(2))
        cache.update(keys, values, layer)
    return {
        "input_ids": torch.randint(0, config.vocab_size, (BATCH, NEW)),
        "attention_mask": torch.ones(BATCH, PAST + NEW, dtype=torch.int64),
        "past_key_values": cache,
    }


def export() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model as transformers writes it, and the optimized one, which equals the network."""
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    config = LlamaConfig(**sizes, vocab_size=200)
    network = LlamaForCausalLM(config).eval()
    dynamic = OnnxConfig(dynamic=True)
    exported = OnnxExporter().export(network, arguments(config), config=dynamic)
    before = onnx_ir.to_proto(exported.program)
    optimized = xoptim.optimize(before, verify=True)
    report = verify(network, optimized, (), arguments(config))
    assert report.ok, report
    return before, optimized


def main() -> None:
    """Say how much smaller the model became."""
    exported, optimized = export()
    print(f"{len(exported.graph.node)} nodes became {len(optimized.graph.node)}")


if __name__ == "__main__":
    main()
