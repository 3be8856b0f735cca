"""Runs in which published figures are planted, so that each answer to a claim is known."""

from collections.abc import Mapping
from typing import Any

from draftworth.records.load_shapes import ConcurrencyLoad, Load
from draftworth.records.run_folder import Run
from draftworth.records.servers import Decoding
from tests.support.blocks import make_block, make_record, make_run
from tests.support.serving_facts import make_serving_facts

# Seconds per token by (prompt class, variant): as was published, answers in the class `phrases` are
# three times as fast with a draft as without.
AS_PUBLISHED: Mapping[tuple[str, str], float] = {
    ("phrases", "baseline"): 0.045,
    ("phrases", "k7"): 0.0145,
    ("sonnets", "baseline"): 0.045,
    ("sonnets", "k7"): 0.0452,
}
SMALL = Decoding(method="fused_draft", window=7, draft="Qwen/Qwen3-0.6B")
SERVING = make_serving_facts(decoding={**make_serving_facts().decoding, "small": SMALL})
WITH_SMALL = {**AS_PUBLISHED, ("phrases", "small"): 0.03}


def make_planted_run(
    seconds: Mapping[tuple[str, str], float] = AS_PUBLISHED,
    *,
    prompts: int = 8,
    apart: float = 0.0,
    small_yields: float = 6.0,
    load: Load = ConcurrencyLoad(concurrency=4),  # noqa: B008 (frozen)
    **overrides: Any,
) -> Run:
    """Return a run of four rounds with drafts of window 7 and outputs of 600 tokens.

    seconds: seconds per token by (prompt class, variant). prompts: number of prompts per class.
    apart: how much the prompts' times per token differ, as a share of their mean.
    small_yields: tokens per step with the small draft.
    """
    yields = {"baseline": 1.0, "k7": 6.0, "small": small_yields}
    blocks = tuple(
        make_block(
            block=100 * turn + place,
            round=turn,
            prompt_class=prompt_class,
            variant=variant,
            load=load,
            speculation=None,
            max_tokens_per_step=1 if variant == "baseline" else 7,
            requests=tuple(
                make_record(
                    index,
                    request_id=f"{turn}-{place}-{index}",
                    inter_token_latency_s=own_s,
                    end_to_end_latency_s=0.25 + 599 * own_s,
                    number_output_tokens=600,
                    chunks=1 + round(599 / yields[variant]),
                )
                for index in range(prompts)
                for own_s in [itl_s * (1 + apart * (index / 3.5 - 1))]
            ),
        )
        for turn in range(1, 5)
        for place, ((prompt_class, variant), itl_s) in enumerate(seconds.items())
    )
    variants = tuple(dict.fromkeys(block.variant for block in blocks))
    fields: dict[str, Any] = {
        "variants": variants,
        "max_tokens_per_step": {name: 1 if name == "baseline" else 7 for name in variants},
        "class_weights": {"phrases": 0.5, "sonnets": 0.5},
        "serving": SERVING,
    }
    return Run(result=make_run(*blocks, **{**fields, **overrides}), blocks=blocks)
