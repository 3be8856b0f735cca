"""Which model answered, by the name in the chunks of an answer.

A name that is not the one asked for is no proof of another model. vLLM answers with the first of
its `--served-model-name`, llama.cpp with its `--alias` or the name of its file, a gateway often
with a dated name; SGLang repeats the name asked for. But two servers of the same model are served
under the same name, or can be, and a run asks all of them for one name. So where baseline and
variant answer under different names, or one server under several, nothing shows that one model was
measured, and there is no decision. A server that names no model says nothing about it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from draftworth.records.results import MAX_ANSWERING_MODELS, BlockResult
from draftworth.untrusted import one_line


def why_not_one_model(by_variant: Mapping[str, Sequence[BlockResult]]) -> str:
    """Say that the answers are not of one model, and what to do; empty if nothing shows it."""
    names = {variant: _names(blocks) for variant, blocks in by_variant.items()}
    if len({name for of_variant in names.values() for name in of_variant}) < 2:
        return ""
    answers = ", ".join(
        f"{variant} answers as {' and '.join(of_variant)}"
        for variant, of_variant in names.items()
        if of_variant
    )
    return (
        f"{answers}: that may be different models; next: serve one model under one name (vLLM: "
        "--served-model-name, llama.cpp: --alias)"
    )


def other_names(blocks: Sequence[BlockResult]) -> Iterator[str]:
    """Yield a sentence if answers name a model that was not asked for."""
    names, requested = _names(blocks), {one_line(block.model) for block in blocks}
    if not requested.issuperset(names):
        answering, wanted = " and ".join(names), " and ".join(requested)
        yield (
            f"Answers name the model {answering}, and {wanted} was asked for. That may be another "
            "name of it: vLLM answers with its first name, llama.cpp with its alias or file, a "
            "gateway with a dated name. Make sure that it is the model you mean."
        )


def _names(blocks: Iterable[BlockResult]) -> list[str]:
    names = (one_line(name) for block in blocks for name in block.answering_models)
    return list(dict.fromkeys(names))[:MAX_ANSWERING_MODELS]
