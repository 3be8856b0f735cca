"""Which model answered, by the name in the chunks of an answer.

A name that is not the one asked for is no proof of another model. vLLM answers with the first of
its `--served-model-name`, llama.cpp with its `--alias` or the name of its file, a gateway often
with a dated name; SGLang repeats the name asked for. But two servers of the same model are served
under the same name, or can be, and a run asks all of them for one name. So where baseline and
variant answer under different names, or one server under several, nothing shows that one model was
measured, and there is no decision. A server that names no model says nothing about it.
"""

from collections.abc import Iterable, Mapping, Sequence

from draftworth.records.results import MAX_ANSWERING_MODELS, BlockResult
from draftworth.untrusted import one_line


def different_models(
    by_variant: Mapping[str, Sequence[BlockResult]],
) -> Mapping[str, tuple[str, ...]]:
    """Return the names by variant under which models answer; empty if nothing shows that they are
    not one model."""
    names = {variant: _names(blocks) for variant, blocks in by_variant.items()}
    different = {name for of_variant in names.values() for name in of_variant}
    return {v: n for v, n in names.items() if n} if len(different) > 1 else {}


def other_names(blocks: Sequence[BlockResult]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return (the names in answers, the requested names); None if answers have no other name."""
    names = _names(blocks)
    requested = tuple(dict.fromkeys(one_line(block.model) for block in blocks))
    return None if set(names) <= set(requested) else (names, requested)


def _names(blocks: Iterable[BlockResult]) -> tuple[str, ...]:
    names = (one_line(name) for block in blocks for name in block.answering_models)
    return tuple(dict.fromkeys(names))[:MAX_ANSWERING_MODELS]
