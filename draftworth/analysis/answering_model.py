"""Checks which model answered, by the model name that a server puts into its answers.

A name that is not the requested one is no proof of another model. vLLM answers with the first of
its `--served-model-name`, llama.cpp with its `--alias` or the name of its file, a gateway often
with a dated name; SGLang repeats the requested name. But a run requests one name from all servers,
and two servers of one model have, or could be given, the same name. So if baseline and variant
answer under different names, or one server under several, nothing shows that one model was
measured, and there is no decision. Answers without a model name are ignored.
"""

from collections.abc import Iterable, Mapping, Sequence

from draftworth.records.results import MAX_ANSWERING_MODELS, BlockResult
from draftworth.untrusted import one_line


def different_models(
    by_variant: Mapping[str, Sequence[BlockResult]],
) -> Mapping[str, tuple[str, ...]]:
    """Return by variant the model names in answers; empty if all answers have the same name."""
    names = {variant: _names(blocks) for variant, blocks in by_variant.items()}
    different = {name for of_variant in names.values() for name in of_variant}
    return {v: n for v, n in names.items() if n} if len(different) > 1 else {}


def other_names(blocks: Sequence[BlockResult]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return (model names in answers, requested model names).

    None if every model name in an answer is one of the requested names.
    """
    names = _names(blocks)
    requested = tuple(dict.fromkeys(one_line(block.model) for block in blocks))
    return None if set(names) <= set(requested) else (names, requested)


def _names(blocks: Iterable[BlockResult]) -> tuple[str, ...]:
    names = (one_line(name) for block in blocks for name in block.answering_models)
    return tuple(dict.fromkeys(names))[:MAX_ANSWERING_MODELS]
