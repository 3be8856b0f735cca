"""Checks whether a folder holds a model, and whether the model fits into memory.

The engine's interpreter imports this module, so it imports no third-party library.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from draftworth.errors import UserInputError

# The memory for activations and the logits of a batch, in addition to the weights.
SPARE_BYTES = 2**30
MEMINFO = Path("/proc/meminfo")

_CONFIGURATION = ("config.json",)
_WEIGHTS = ("*.safetensors",)
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")


def check_tokenizer(folder: Path, *, option: str) -> None:
    """Raise UserInputError if a folder has no tokenizer.

    option: the option or the key of the experiment that named the folder, for the message.
    """
    _check_has(folder, _TOKENIZERS, "a tokenizer", option)


def check_model(folder: Path, *, option: str) -> None:
    """Raise UserInputError if a folder lacks a model's tokenizer, configuration or weights.

    option: the option or the key of the experiment that named the folder, for the message.
    """
    check_tokenizer(folder, option=option)
    _check_has(folder, _CONFIGURATION, "a model's configuration", option)
    _check_has(folder, _WEIGHTS, "a model's weights", option)


def _check_has(folder: Path, names: Sequence[str], what: str, option: str) -> None:
    if not folder.is_dir():
        raise UserInputError(
            f"{option}: given {printed_path(folder)}, where no folder is; allowed: a model's "
            "folder; next: check the path, or download the model there"
        )
    if not _has(folder, names):
        raise UserInputError(
            f"{option}: given {printed_path(folder)}, a folder without {what}; allowed: one with "
            f"{' or '.join(names)}; next: copy or download the whole model again"
        )


def _has(folder: Path, names: Sequence[str]) -> bool:
    return any(file.is_file() for name in names for file in folder.glob(name))


def can_read(folder: Path) -> bool:
    """Return whether a folder has a model, not only a tokenizer, that fits into memory."""
    return _has(folder, _CONFIGURATION) and _has(folder, _WEIGHTS) and fits(folder)


def fits(folder: Path) -> bool:
    """Return whether a model's weights and `SPARE_BYTES` fit into the memory that is free now."""
    return weights_bytes(folder) + SPARE_BYTES <= available_bytes(MEMINFO)


def weights_bytes(folder: Path) -> int:
    """Return the size of a model's weights (`*.safetensors`) in bytes."""
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def available_bytes(meminfo: Path) -> int:
    """Return how many bytes of memory are free, including what the page cache can give up.

    meminfo: the file `/proc/meminfo`; if it cannot be read, the page cache does not count.
    """
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 2**10 for line in lines if line.startswith("MemAvail"))
    except (OSError, ValueError, IndexError, StopIteration):  # not on Linux
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def printed_path(folder: Path) -> str:
    """Return the path to print: relative to the current folder if the path is below it."""
    here = Path.cwd()
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)
