"""Makes run specifications and their parts: each test states only the values that it needs."""

from typing import Any

from draftworth.measuring.run_specification import Endpoint, RequestShape, RunSpec, Sampling
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.prompt_files import Case, Prompt
from draftworth.records.results import Price


def endpoint(variant: str, slot: int, **overrides: Any) -> Endpoint:
    """Return the endpoint of a variant's server on the devices number `slot`.

    The baseline yields one token per step, any other variant up to 8.
    """
    fields: dict[str, Any] = {
        "variant": variant,
        "base_url": f"http://{variant}-{slot}",
        "max_tokens_per_step": 1 if variant == "baseline" else 8,
        "is_baseline": variant == "baseline",
        "slot": slot,
        "server": f"{variant}-{slot}",
    }
    return Endpoint(**{**fields, **overrides})


def case(prompt_class: str, *, prompts: int = 8) -> Case:
    """Return a case of a prompt class, whose prompts have the class's name as text."""
    message = {"role": "user", "content": prompt_class}
    made = (Prompt(id=f"{prompt_class}-{i}", messages=(message,)) for i in range(prompts))
    return Case(prompt_class=prompt_class, name="case", prompts=tuple(made))


def sampling(**overrides: Any) -> Sampling:
    """Return settings for two to four rounds of four requests each, without warm-up."""
    fields: dict[str, Any] = {
        "requests_per_round": 4,
        "min_requests": 8,
        "max_requests": 16,
        "target_interval_width": 0.1,
        "warmup_requests": 0,
    }
    return Sampling(**{**fields, **overrides})


def shape(**overrides: Any) -> RequestShape:
    """Return the shape of requests for greedy outputs of exactly four tokens."""
    fields: dict[str, Any] = {
        "model": "tiny",
        "output_tokens": 4,
        "fixed_output_length": True,
        "temperature": 0.0,
        "seed": 0,
        "enable_thinking": False,
        "timeout_seconds": 60.0,
    }
    return RequestShape(**{**fields, **overrides})


def specification(endpoints: tuple[Endpoint, ...], **overrides: Any) -> RunSpec:
    """Return a run specification for these endpoints, with one prompt class at one load."""
    fields: dict[str, Any] = {
        "experiment": "x",
        "endpoints": endpoints,
        "shape": shape(),
        "cases": (case("structured"),),
        "loads": (ConcurrencyLoad(concurrency=1),),
        "load_generator": "asyncio",
        "sampling": sampling(),
        "parallel": False,
        "class_weights": {"structured": 1.0},
        "price": None,
        "ready_deadline_seconds": None,
    }
    return RunSpec(**{**fields, **overrides})


# A node costs 36 USD per hour, and the baseline has half of it: 0.005 USD per second.
PRICE = Price(
    usd_per_node_hour=36.0,
    as_of="2026-11-01",
    source="a test",
    node_shares={"baseline": 0.5},
    nodes=1,
)
