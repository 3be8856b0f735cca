"""A tokenizer for peers that want one: every printable ASCII character is a token.

The ground-truth server's text is one character a token, so a peer that counts by tokenizing comes
to the server's own number, whole text or chunk by chunk; and any sequence of tokens is a text that
gives the same tokens back, which peers that make prompts rely on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

END = "<|end|>"
_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def write_tokenizer(folder: Path) -> None:
    """Write `tokenizer.json`, `tokenizer_config.json` and a `config.json` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    # A byte-level vocabulary writes the space as this letter, the other characters as themselves.
    symbols = ["\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}", *map(chr, range(33, 127))]
    vocabulary = {symbol: number for number, symbol in enumerate(symbols)}
    end = {"id": len(vocabulary), "content": END, "special": True, "normalized": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end | flags],
        "normalizer": None,
        "pre_tokenizer": byte_level | {"use_regex": True},
        "post_processor": None,
        "decoder": byte_level | {"use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "model_max_length": 100_000,
        "chat_template": _TEMPLATE,
    }
    model = {"model_type": "qwen3", "vocab_size": len(vocabulary) + 1}
    for name, value in (
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", settings),
        ("config.json", model),
    ):
        (folder / name).write_text(json.dumps(value))
