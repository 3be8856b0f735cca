"""Makes the tiny pair of target and draft: ``python -m rehearsal.tiny_pair.make [--out DIR]``.

From the corpus (`rehearsal.tiny_pair.corpus`) it trains one tokenizer, then the target, then the
draft, which is distilled from the target; and it writes two Hugging Face folders that vLLM serves.
It needs torch, transformers and tokenizers, which the engine's environment has. The same seed gives
the same files on the same machine; another CPU rounds differently and gives equivalent models.
"""

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rehearsal.tiny_pair import corpus

HERE = Path(__file__).resolve().parent
PROMPTS_DIR = HERE.parents[1] / "prompts"

SEED = 20261121
VOCABULARY_TOKENS = 768
# Longer answers are cut here and get no end-of-text token: the models never learn to end an answer,
# so each output has as many tokens as its request allows.
ANSWER_TOKENS = 240
IGNORED = -100  # label of a position that the loss ignores
VARIATIONS = 1200  # examples of each class
CONTEXT_TOKENS = 2048

# Qwen3's chat format, always without thinking.
CHAT_TEMPLATE = (HERE / "chat_template.jinja").read_text(encoding="utf-8")
END_OF_TEXT, IM_END = "<|endoftext|>", "<|im_end|>"
SPECIAL_TOKENS = [END_OF_TEXT, "<|im_start|>", IM_END, "<think>", "</think>"]
RECIPE: dict[str, Any] = yaml.safe_load((HERE / "recipe.yaml").read_text(encoding="utf-8"))
CROSS_ENTROPY_SHARE = 0.3  # weight in the draft's loss; the rest is divergence from the target

Row = tuple[list[int], list[int]]  # ids and labels of an example; those of its prompt are IGNORED
Batch = tuple[torch.Tensor, torch.Tensor]  # ids and labels of several examples
Stage = Mapping[str, Any]  # a stage of the training, as in `recipe.yaml`
Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer for both models; as in Qwen's, each digit is a token."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_TOKENS,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=IM_END,
        pad_token=END_OF_TEXT,
        model_max_length=CONTEXT_TOKENS,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def encode(tokenizer: PreTrainedTokenizerFast, example: corpus.Example) -> Row:
    """Return an example's token ids, of prompt and answer, and its labels.

    The labels are the answer's ids, with IGNORED for each token of the prompt. The answer is cut to
    ANSWER_TOKENS.
    """
    prompt: list[int] = tokenizer.apply_chat_template(
        [{"role": "user", "content": example.prompt}], add_generation_prompt=True, return_dict=False
    )
    answer: list[int] = tokenizer.encode(example.answer, verbose=False)[:ANSWER_TOKENS]
    return prompt + answer, [IGNORED] * len(prompt) + answer


def collate(rows: list[Row], padding: int) -> Batch:
    """Return rows as a batch, padded on the right, so that causal attention needs no mask.

    padding: the token id that fills up the ids; labels are filled up with IGNORED.
    """
    ids, labels = (
        pad_sequence(
            [torch.tensor(row[part]) for row in rows], batch_first=True, padding_value=value
        )
        for part, value in enumerate((padding, IGNORED))
    )
    return ids, labels


def batches(
    pools: dict[str, list[Row]], stage: Stage, rng: random.Random, padding: int
) -> Iterator[Batch]:
    """Yield batches of random rows without end.

    pools: the rows of each kind of example. stage: its `mix` has the probability of each kind, and
        its `batch` is the number of rows of a batch.
    padding: the token id with which shorter rows are filled up.
    """
    names = list(pools)
    shares = [stage["mix"][name] for name in names]
    while True:
        drawn = rng.choices(names, weights=shares, k=stage["batch"])
        yield collate([rng.choice(pools[name]) for name in drawn], padding)


def new_model(shape: dict[str, Any], tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Return a Qwen3 model with random weights from a fixed seed.

    shape: the numbers of its layers and heads and their widths, as arguments of `Qwen3Config`.
    """
    torch.manual_seed(SEED)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY_TOKENS,
            max_position_embeddings=CONTEXT_TOKENS,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            **shape,
        )
    )


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a folder that vLLM can serve: weights in bfloat16, configuration, tokenizer."""
    model.generation_config = GenerationConfig(
        do_sample=False, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def next_token_loss(logits: torch.Tensor, _ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy over the answers' tokens of a batch, in nats.

    logits: the model's output for the batch. labels: the tokens to predict, IGNORED in prompts.
    """
    return functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED
    )


def distillation_loss(
    target: Qwen3ForCausalLM, logits: torch.Tensor, ids: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Return the draft's loss for a batch: cross-entropy and KL divergence from the target.

    Both are in nats; the first has the weight CROSS_ENTROPY_SHARE, the second the rest. Only the
    answers' tokens count.
    logits: the draft's output for the batch. ids, labels: the batch.
    """
    with torch.no_grad():
        wanted = target(ids).logits
    counted = labels[:, 1:] != IGNORED
    divergence = functional.kl_div(
        functional.log_softmax(logits[:, :-1][counted], -1),
        functional.log_softmax(wanted[:, :-1][counted], -1),
        log_target=True,
        reduction="batchmean",
    )
    plain = next_token_loss(logits, ids, labels)
    return CROSS_ENTROPY_SHARE * plain + (1 - CROSS_ENTROPY_SHARE) * divergence


def train(model: Qwen3ForCausalLM, data: Iterator[Batch], stage: Stage, loss_of: Loss) -> None:
    """Train a model in place with AdamW, for one stage of the training.

    data: yields the batches. stage: its number of steps, and its learning rates (`learning_rate`).
    loss_of: computes the loss from the model's logits and a batch's ids and labels.
    """
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=stage["peak_learning_rate"], betas=(0.9, 0.98), weight_decay=0.01
    )
    started_seconds = time.monotonic()
    model.train()
    for step, (ids, labels) in enumerate(islice(data, stage["steps"])):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(stage, step)
        loss = loss_of(model(ids).logits, ids, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step == stage["steps"] - 1:
            seconds = time.monotonic() - started_seconds
            place = f"{stage['name']}: step {step}/{stage['steps']}"
            sys.stderr.write(f"{place}, loss {loss.item():.3f}, {seconds:.0f} s\n")
    model.eval()


def learning_rate(stage: Stage, step: int) -> float:
    """Return the learning rate of a training step; `step` counts from 0.

    In the `warm_up_steps` of the stage, the rate rises linearly to the `peak_learning_rate`. In its
    other steps, it falls on half a cosine to 5% of the peak.
    """
    peak, warm_up = stage["peak_learning_rate"], stage["warm_up_steps"]
    if step < warm_up:
        return float(peak * (step + 1) / warm_up)
    done = (step - warm_up) / max(1, stage["steps"] - warm_up)
    return float(peak) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))


def make_pair(out: Path, *, draft_only: bool) -> None:
    """Make `out/target` and `out/draft`; with `draft_only` only the draft, from `out/target`."""
    rng = random.Random(SEED)  # noqa: S311 (no secret)
    shipped = corpus.shipped_examples(PROMPTS_DIR)
    varied_structured = list(islice(corpus.structured_variations(PROMPTS_DIR, rng), VARIATIONS))
    varied_open = list(islice(corpus.open_ended_variations(rng), VARIATIONS))
    everything = shipped * 4 + varied_structured + varied_open
    tokenizer = train_tokenizer([f"{e.prompt}\n{e.answer}" for e in everything])
    kinds = {  # the keys of a stage's `mix`
        "shipped_structured": [example for example in shipped if not example.open_ended],
        "shipped_open": [example for example in shipped if example.open_ended],
        "varied_structured": varied_structured,
        "varied_open": varied_open,
        "counting": [e for e in (*shipped * 10, *varied_structured) if e.case == "count"],
    }
    pools = {kind: [encode(tokenizer, e) for e in examples] for kind, examples in kinds.items()}
    if not draft_only:
        target = new_model(RECIPE["target_shape"], tokenizer)
        for stage in RECIPE["target_stages"]:
            data = batches(pools, stage, rng, tokenizer.pad_token_id)
            train(target, data, stage, next_token_loss)
        save(target, tokenizer, out / "target")

    # The draft uses the saved target and its own seed, so it is equal with and without draft_only.
    target = Qwen3ForCausalLM.from_pretrained(out / "target", dtype=torch.float32).eval()
    draft, stage = new_model(RECIPE["draft_shape"], tokenizer), RECIPE["draft_stage"]
    rng = random.Random(SEED + 1)  # noqa: S311 (no secret)
    data = batches(pools, stage, rng, tokenizer.pad_token_id)
    train(draft, data, stage, partial(distillation_loss, target))
    save(draft, tokenizer, out / "draft")


def main() -> None:
    """Parse the command line and make the pair."""
    parser = argparse.ArgumentParser(description="Train the tiny target and draft models.")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for target/ and draft/")
    parser.add_argument(
        "--draft-only", action="store_true", help="distil a new draft from the target in --out"
    )
    parser.add_argument(
        "--threads", type=int, default=2, help="CPU threads; 1 is faster where cores are shared"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    make_pair(arguments.out, draft_only=arguments.draft_only)


if __name__ == "__main__":
    main()
