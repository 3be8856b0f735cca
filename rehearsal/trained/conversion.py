"""Converts a GGUF file into a checkpoint folder with float32 weights, tokenizer and chat template.

The engine's interpreter runs this file as a program, because it alone has torch, transformers and
gguf: `python conversion.py FILE.gguf FOLDER`.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

_HEAD, _TABLE = "lm_head.weight", "model.embed_tokens.weight"


def _is_written_twice(head: torch.Tensor | None, table: torch.Tensor) -> bool:
    """Return whether output head and embedding table are one tensor, rounded in two ways.

    This is so in Qwen2.5's 4-bit files. If both were kept, each server would need 0.9 GB more.
    head: None if the file has no separate output head; then the result is False.
    """
    return head is not None and bool(torch.cosine_similarity(head, table, dim=1).min() > 0.99)


def convert(gguf: Path, folder: Path) -> None:
    """Convert a GGUF file to a checkpoint (`from_pretrained` alone would need `accelerate`)."""
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
    with torch.device("meta"):  # no values are allocated: they come from the file
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    tensors = load_gguf_checkpoint(gguf, return_tensors=True, model_to_load=model)["tensors"]
    if _is_written_twice(tensors.get(_HEAD), tensors[_TABLE]):
        model.config.tie_word_embeddings = True
        tensors[_TABLE] = tensors.pop(_HEAD)  # the head has more bits per weight
    model.load_state_dict(tensors, strict=False, assign=True)
    model.tie_weights()
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
