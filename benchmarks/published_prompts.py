"""Writes the prompts in `prompts/published`, which are built as llmperf builds its prompts.

    python -m benchmarks.published_prompts

`prompts/published/description.toml` has the texts and the lengths, and says which published
benchmark they are taken from.
"""

import json
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

PUBLISHED = Path(__file__).parents[1] / "prompts" / "published"


def prompt_files(description: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each prompt file's path below `prompts/published`, and its text.

    description: the content of `description.toml` (`read_description`).
    """
    for case, phrase in description["phrases"].items():
        yield f"phrases/{case}.jsonl", _line(f"{case}-01", _prompt(description, [phrase]))
    draw = random.Random(description["seed"])  # noqa: S311 (the same files each time)
    sonnets = ""
    for number in range(1, description["sonnet_prompts"] + 1):
        lines = description["sonnets"]["lines"]
        shuffled = draw.sample(lines, len(lines))
        sonnets += _line(f"sonnet-{number:02}", _prompt(description, shuffled))
    yield "sonnets/sonnet.jsonl", sonnets


def _prompt(description: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> str:
    """Return a prompt: the instruction, followed by lines until it has `prompt_tokens` tokens.

    description: the content of `description.toml`, with the instruction and the numbers of tokens.
    lines: each has a `text` and its number of `tokens`. If there are too few lines, they are
        repeated. If N tokens are left for the last line, it is cut to N characters, as llmperf
        cuts it.
    """
    prompt: str = description["instruction"]
    left = description["prompt_tokens"] - description["instruction_tokens"]
    for line in cycle(lines):
        text = f"{line['text']}\n"
        if line["tokens"] > left:
            return prompt + text[:left]
        prompt += text
        left -= line["tokens"]
    raise ValueError("lines: given none, allowed: one or more")


def _line(prompt_id: str, prompt: str) -> str:
    return json.dumps({"id": prompt_id, "prompt": prompt}) + "\n"


def read_description() -> Mapping[str, Any]:
    """Return the content of `prompts/published/description.toml`."""
    return tomllib.loads((PUBLISHED / "description.toml").read_text(encoding="utf-8"))


def main() -> None:
    """Write all files of prompts below `prompts/published`."""
    for name, text in prompt_files(read_description()):
        file = PUBLISHED / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
