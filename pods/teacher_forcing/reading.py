"""The pass itself: a model's logits at every position of outputs that exist (teacher forcing)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from draftworth.records.readings import Output, Reading

# Of the logits of one batch: a padded batch has tokens x vocabulary x 4 bytes.
MAX_LOGITS_BYTES = 2**29
# Of a token's log-likelihood, nats: less than any that a model gives.
LEAST = -100.0


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """An output as ids, behind the ids of what it answers."""

    output: Output
    prompt_ids: list[int]
    output_ids: list[int]

    @property
    def length(self) -> int:
        """Prompt and output together."""
        return len(self.prompt_ids) + len(self.output_ids)


def tokens_of(
    output: Output, tokenizer: PreTrainedTokenizerBase, *, enable_thinking: bool
) -> Tokens:
    """An output in the target's tokens, as its server saw them."""
    asked = output.asked
    if "prompt" in asked:
        prompt_ids = tokenizer.encode(asked["prompt"])
    else:
        prompt_ids = tokenizer.apply_chat_template(
            list(asked["messages"]),
            tools=asked.get("tools"),
            add_generation_prompt=True,
            enable_thinking=enable_thinking,
            return_dict=False,
        )
    output_ids = output.token_ids
    if output_ids is None:
        output_ids = tokenizer.encode(output.text, add_special_tokens=False)
    return Tokens(output=output, prompt_ids=list(prompt_ids), output_ids=list(output_ids))


def read_outputs(
    model: PreTrainedModel,
    outputs: Iterable[Tokens],
    *,
    temperature: float,
    forbidden: Sequence[int] = (),
) -> Iterator[list[Reading]]:
    """Readings batch by batch, the shortest outputs first; those without tokens are left out.

    temperature: of the distribution. forbidden: ids that the server could not say, as those that
    end an output where its length is fixed.
    """
    known = sorted((o for o in outputs if o.output_ids), key=lambda o: o.length)
    for batch in _batches(known, model.config.vocab_size):
        yield _read(model, batch, temperature, forbidden)


def _batches(outputs: Sequence[Tokens], vocabulary: int) -> Iterator[list[Tokens]]:
    most_tokens = max(1, MAX_LOGITS_BYTES // (4 * vocabulary))
    batch: list[Tokens] = []
    for output in outputs:
        if batch and (len(batch) + 1) * output.length > most_tokens:
            yield batch
            batch = []
        batch.append(output)
    if batch:
        yield batch


def _read(
    model: PreTrainedModel, batch: Sequence[Tokens], temperature: float, forbidden: Sequence[int]
) -> list[Reading]:
    """Padded on the right: causal attention needs no mask then."""
    longest = max(o.length for o in batch)
    rows = [o.prompt_ids + o.output_ids + [0] * (longest - o.length) for o in batch]
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor(rows)).logits
        logits[:, :, list(forbidden)] = -torch.inf
        return [_reading(o, row, temperature) for o, row in zip(batch, logits, strict=True)]


def _reading(tokens: Tokens, logits: torch.Tensor, temperature: float) -> Reading:
    """The logits before each output token are those that the token was drawn from."""
    first = len(tokens.prompt_ids) - 1
    own = logits[first : first + len(tokens.output_ids)].float()
    said = torch.tensor(tokens.output_ids)
    hits = (own.argmax(dim=-1) == said)[1:]
    logs = (own / temperature).log_softmax(dim=-1)
    chances = logs.exp()
    # A chance of 0 has a logarithm of minus infinity, and its part in the sums is 0.
    finite = logs.masked_fill(logs == -torch.inf, 0.0)
    # What could not be said counts as hardly ever said, so that sums stay numbers.
    likelihoods = logs.gather(-1, said.unsqueeze(-1)).squeeze(-1).double().clamp(LEAST)
    mean = (chances * finite).sum(dim=-1)
    square = (chances * finite.square()).sum(dim=-1)
    output = tokens.output
    return Reading(
        id=output.id,
        prompt_class=output.prompt_class,
        case=output.case,
        prompt_id=output.prompt_id,
        hits="".join("1" if hit else "0" for hit in hits.tolist()),
        log_likelihood=float(likelihoods.sum()),
        entropy=float(-mean.double().sum()),
        variance=float((square - mean.square()).clamp(min=0).double().sum()),
        farthest=float((logs.amax(dim=-1).double() - likelihoods).max()),
    )
