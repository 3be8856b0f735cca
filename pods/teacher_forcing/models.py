"""Loading what reads, from folders: refused where it cannot be the target's draft, or not fit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from draftworth.errors import UserInputError
from draftworth.untrusted import one_line
from pods.teacher_forcing import memory


def model_sha256(folder: Path) -> str:
    """Of a model's configuration and weights; raises UserInputError without them."""
    return _sha256([folder / "config.json", *sorted(folder.glob("*.safetensors"))])


def tokenizer_sha256(folder: Path) -> str:
    """Of what makes tokens of a request: vocabulary, settings and chat template."""
    return _sha256(path for name in _TOKENIZER_FILES if (path := folder / name).is_file())


_TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt"),
    *("added_tokens.json", "special_tokens_map.json", "tokenizer_config.json"),
    *("chat_template.jinja", "chat_template.json"),
)


def _sha256(files: Iterable[Path]) -> str:
    """Names and contents; raises UserInputError where one cannot be read."""
    digest = hashlib.sha256()
    for path in files:
        try:
            with path.open("rb") as file:
                digest.update(f"{path.name} ".encode())
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise UserInputError(
                f"{path}: cannot be read: {error.strerror}; allowed: a folder with config.json and "
                "weights as *.safetensors"
            ) from error
    return digest.hexdigest()


def load_tokenizer(target: Path, model: Path) -> PreTrainedTokenizerBase:
    """The target's tokenizer, which the model that reads must have too.

    Raises:
        UserInputError: a folder has none, or the two differ: drafts would be other tokens.
    """
    own, read = _tokenizer(target), _tokenizer(model)
    ours, theirs = own.get_vocab(), read.get_vocab()
    if ours != theirs:
        differing = sorted(ours.items() ^ theirs.items())
        token, number = differing[0]
        raise UserInputError(
            f"{model}: its vocabulary is not the target's ({len(theirs)} tokens, the target has "
            f"{len(ours)}; first difference: {one_line(token, characters=40)!r} as {number}); "
            f"allowed: a draft with the tokenizer of {target.name}"
        )
    return own


def _tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    try:
        found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise UserInputError(
            f"{folder}: no tokenizer can be read there: {one_line(str(error), characters=200)}"
        ) from error
    return found


def load_model(folder: Path, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """A causal language model in the precision that its checkpoint has.

    Raises:
        UserInputError: there is none that can be read, it does not fit into memory, or it knows
            fewer tokens than the tokenizer.
    """
    if not memory.fits(folder):
        weights, available = memory.weights_bytes(folder), memory.available_bytes(memory.MEMINFO)
        raise UserInputError(
            f"{folder}: {weights / 2**30:.1f} GiB of weights and {memory.SPARE_BYTES / 2**30:.0f} "
            "GiB to work with do not fit into the "
            f"{available / 2**30:.1f} GiB of memory that are free; "
            "next: a machine with more memory, or a smaller draft"
        )
    logging.disable_progress_bar()
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, dtype="auto"
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserInputError(
            f"{folder}: no causal language model can be read there: "
            f"{one_line(str(error), characters=200)}; next: copy or download the folder again, as "
            "weights that were cut off are read so too"
        ) from error
    if model.config.vocab_size < len(tokenizer):
        raise UserInputError(
            f"{folder}: it knows {model.config.vocab_size} tokens, its tokenizer {len(tokenizer)}"
        )
    return model.eval()


def ending_ids(model: PreTrainedModel) -> tuple[int, ...]:
    """The ids that end an output, by the generation configuration, as vLLM has them."""
    found = model.generation_config.eos_token_id
    if found is None:
        return ()
    return tuple(found) if isinstance(found, list) else (found,)
