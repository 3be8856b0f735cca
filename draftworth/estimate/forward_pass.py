"""Loads a model and runs its forward pass over given outputs (teacher forcing).

Only the engine's interpreter imports this module, because it alone has torch and transformers.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from draftworth.errors import UserInputError
from draftworth.estimate import model_folders
from draftworth.estimate.process_limits import limited
from draftworth.records.readings import Output, Reading, TokenLimits
from draftworth.untrusted import one_line

# The logits of a batch of several outputs take at most this much memory: tokens x vocabulary x 4
# bytes. An output that alone takes more is a batch by itself.
MAX_LOGITS_BYTES = 2**29
# A token's log-likelihood, in nats, is raised to this value if it is lower, so that sums stay
# finite. In practice models give tokens higher ones.
LEAST = -100.0


def load_tokenizer(target: Path, model: Path) -> PreTrainedTokenizerBase:
    """Return the tokenizer in the folder `target`, after a check that the one in `model` is alike.

    UserInputError: one of the two cannot be read, or their vocabularies differ.
    """
    of_target, of_model = _tokenizer(target), _tokenizer(model)
    ours, theirs = of_target.get_vocab(), of_model.get_vocab()
    if ours != theirs:
        token, number = min(ours.items() ^ theirs.items())
        raise UserInputError(
            f"{model}: its vocabulary is not the target's ({len(theirs)} tokens, the target has "
            f"{len(ours)}; first difference: {one_line(token, characters=40)!r} as {number}); "
            f"allowed: a draft with the tokenizer of {target.name}"
        )
    return of_target


def _tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    with limited(folder, TokenLimits()):
        try:
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError) as error:
            raise UserInputError(
                f"{folder}: no tokenizer can be read there: {one_line(str(error), characters=200)}"
            ) from error
    return tokenizer


def load_model(folder: Path, tokenizer: PreTrainedTokenizerBase, precision: str) -> PreTrainedModel:
    """Return the causal language model in a folder; raise UserInputError if it cannot be used.

    precision: the type of the weights, as PyTorch calls it; "auto": the checkpoint's type.
    """
    _check_fits(folder)
    logging.disable_progress_bar()
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, dtype=precision
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserInputError(
            f"{folder}: no causal language model can be read there: "
            f"{one_line(str(error), characters=200)}; next: copy or download the folder again, "
            "because weights that were cut off give this error too"
        ) from error
    if model.config.vocab_size < len(tokenizer):
        raise UserInputError(
            f"{folder}: it knows {model.config.vocab_size} tokens, its tokenizer {len(tokenizer)}"
        )
    return model.eval()


def _check_fits(folder: Path) -> None:
    if not model_folders.fits(folder):
        weights = model_folders.weights_bytes(folder)
        available = model_folders.available_bytes(model_folders.MEMINFO)
        raise UserInputError(
            f"{folder}: {weights / 2**30:.1f} GiB of weights and "
            f"{model_folders.SPARE_BYTES / 2**30:.0f} GiB to work with do not fit into the "
            f"{available / 2**30:.1f} GiB of memory that are free; "
            "next: a machine with more memory, or a smaller draft"
        )


def ending_ids(model: PreTrainedModel) -> tuple[int, ...]:
    """Return the ids of tokens that end an output, from the generation config, which vLLM uses."""
    ids = model.generation_config.eos_token_id
    if ids is None:
        return ()
    return tuple(ids) if isinstance(ids, list) else (ids,)


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The token ids of an output, and those of its prompt."""

    output: Output
    prompt_ids: list[int]
    output_ids: list[int]

    @property
    def length(self) -> int:
        return len(self.prompt_ids) + len(self.output_ids)


def tokens_of(
    output: Output, tokenizer: PreTrainedTokenizerBase, *, enable_thinking: bool
) -> Tokens:
    """Return the token ids of an output and its prompt, as the target's server makes them.

    enable_thinking: a variable of the chat template.
    """
    content = output.asked
    if "prompt" in content:
        prompt_ids = tokenizer.encode(content["prompt"])
    else:
        prompt_ids = tokenizer.apply_chat_template(
            list(content["messages"]),
            tools=content.get("tools"),
            add_generation_prompt=True,
            enable_thinking=enable_thinking,
            return_dict=False,
        )
    output_ids = output.token_ids
    if output_ids is None:
        output_ids = tokenizer.encode(output.text, add_special_tokens=False)
    return Tokens(output=output, prompt_ids=list(prompt_ids), output_ids=list(output_ids))


def check_ids(outputs: Iterable[Tokens], vocabulary: int) -> None:
    """Raise UserInputError for a prompt without a token, or a token id outside of the vocabulary.

    vocabulary: the number of tokens that the model knows. Ids outside of it are possible, because a
    run's files can have token ids.
    """
    for tokens in outputs:
        where = one_line(tokens.output.id, characters=80)
        if not tokens.prompt_ids:
            raise UserInputError(
                f"{where}: its prompt has no token, allowed: one or more, as a model reads an "
                "output's first token after them; next: leave the prompt out"
            )
        wrong = [n for n in (*tokens.prompt_ids, *tokens.output_ids) if not 0 <= n < vocabulary]
        if wrong:
            raise UserInputError(
                f"{where}: given the token id {wrong[0]}, allowed: 0 to {vocabulary - 1}; next: "
                "outputs of the target whose tokenizer was given"
            )


def read_outputs(
    model: PreTrainedModel,
    outputs: Iterable[Tokens],
    *,
    temperature: float,
    forbidden: Sequence[int] = (),
) -> Iterator[list[Reading]]:
    """Yield, in batches, a `Reading` of each output: how likely its tokens are under the model.

    The shortest outputs come first; empty ones are left out.
    temperature: the temperature by which the model's logits are divided. forbidden: ids of tokens
    that the server could not sample, such as those that end an output if its length is fixed.
    """
    by_length = sorted((o for o in outputs if o.output_ids), key=lambda o: o.length)
    for batch in _batches(by_length, model.config.vocab_size):
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
    longest = max(o.length for o in batch)
    # The padding is on the right, so that causal attention needs no mask.
    rows = [o.prompt_ids + o.output_ids + [0] * (longest - o.length) for o in batch]
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor(rows)).logits
        logits[:, :, list(forbidden)] = -torch.inf
        return [_reading(o, row, temperature) for o, row in zip(batch, logits, strict=True)]


def _reading(tokens: Tokens, logits: torch.Tensor, temperature: float) -> Reading:
    # An output token is sampled from the logits at the position before the token.
    first = len(tokens.prompt_ids) - 1
    output_logits = logits[first : first + len(tokens.output_ids)].float()
    output_ids = torch.tensor(tokens.output_ids)
    hits = (output_logits.argmax(dim=-1) == output_ids)[1:]
    logs = (output_logits / temperature).log_softmax(dim=-1)
    chances = logs.exp()
    # The sums below are of p x log p. For p = 0, log p is minus infinity and the product would be
    # NaN, but it must be 0, so log p is set to 0.
    finite = logs.masked_fill(logs == -torch.inf, 0.0)
    # A token of probability 0 gets the log-likelihood `LEAST`, so that sums stay finite.
    likelihoods = logs.gather(-1, output_ids.unsqueeze(-1)).squeeze(-1).double().clamp(LEAST)
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
