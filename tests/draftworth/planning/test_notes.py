"""Each rule of the notes, with a setting that gets the note and a similar one that does not."""

from copy import deepcopy
from datetime import date, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from draftworth.planning.notes import notes
from draftworth.planning.notes.note import Code
from draftworth.planning.resolved import ResolvedNeuron, load
from draftworth.planning.timeline import forecast
from tests.support.experiments import DFLASH, Edit, both, drop, put, resolved, write_experiment

PAIR, HEAD, SEARCH, LOCAL = "qwen3-32b", "llama-3.1-8b-eagle3", "qwen3-32b-search", "rehearsal"
TODAY = date(2026, 11, 27)
AS_IT_IS = both()


def aws(**values: Any) -> Edit:
    """An edit that sets keys of the section `aws`; by default no deadline or budget ends a run."""
    room: dict[str, Any] = {"deadline_minutes": 9_000, "accelerator_budget_usd": 2_000.0}
    return both(*(put("aws", key, value=value) for key, value in (room | values).items()))


def without_stop(**values: Any) -> Edit:
    return both(put("search", "stop", value={}), aws(**values))


def block(**values: Any) -> Edit:
    capacity = {"kind": "capacity_block", "reservation_id": "cr-0fedcba9876543210", **values}
    return put("aws", "capacity", value=capacity)


def head(model: str, release: str = "neuron-2.31.1") -> Edit:
    family = {} if model.startswith("RedHatAI/") else {"tokenizer_family": "qwen3"}
    return both(
        put("release", value=release),
        put("variants", 1, "method", value="eagle3"),
        put("variants", 1, "draft", value={"model": model, **family}),
    )


def price_of(day: date) -> Edit:
    return put("aws", "price", "as_of", value=day)


def stop_after(hours: float) -> Edit:
    """An edit that limits a search's hours, and makes it measure one candidate per draft first."""

    def edit(data: dict[str, Any]) -> None:
        data["search"]["stop"] = {"last_start_hours": hours}
        for draft in ("Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B"):
            name = f"{draft.partition('/')[2].lower()}-k8"
            variant = {"name": name, "method": "fused_draft", "draft": {"model": draft}}
            data["variants"].append({**variant, "window": 8})

    return edit


def warmup_requests(count: int) -> Edit:
    return put("workload", "warmup_requests", value=count)


RATE = both(drop("workload", "concurrency"), put("workload", "requests_per_second", value=2))
AS_SHIPPED = put("baseline_as_shipped", value=True)
UNKNOWN_DFLASH = both(
    DFLASH,
    put("variants", 1, "draft", value={"model": "acme/DFlash", "tokenizer_family": "llama3"}),
)
UNPRICED = drop("aws", "price")
USD_STOP = put("search", "stop", value={"last_start_usd": 5.0})
ADMIN = put("aws", "admin_principal_arns", value=["arn:aws:iam::123456789012:role/Admin"])
EXAMPLE_ADMIN = put("aws", "admin_principal_arns", value=["arn:aws:iam::111122223333:role/Admin"])
PINNED = both(
    put("target", "revision", value="a" * 40),
    put("variants", 1, "draft", "revision", value="b" * 40),
)
NEWER_EKS = both(
    put("aws", "kubernetes_version", value="1.36"), drop("aws", "pins", "node_release")
)
ELSEWHERE = aws(region="eu-central-1", availability_zone="eu-central-1c")
# Of each code: a shipped experiment, an edit of it that gets the note, and one that does not.
CASES: dict[Code, tuple[str, Edit, Edit]] = {
    "more-in-flight-than-seats": (
        *(PAIR, put("workload", "concurrency", value=5)),
        put("workload", "concurrency", value=4),
    ),
    "rate-takes-more-warm-up": (LOCAL, RATE, both(RATE, warmup_requests(32))),
    "prompts-longer-than-input-tokens": (
        *(PAIR, put("workload", "input_tokens", value=9)),
        put("workload", "input_tokens", value=256),
    ),
    "output-length-is-fixed": (
        *(PAIR, put("workload", "fixed_output_length", value=True)),
        put("workload", "fixed_output_length", value=False),
    ),
    "outputs-are-sampled": (LOCAL, put("workload", "temperature", value=0.7), AS_IT_IS),
    "sampling-is-doubtful": (LOCAL, put("workload", "temperature", value=0.7), AS_IT_IS),
    "verdict-holds-for-few-starts": (
        PAIR,
        put("repetitions", value=3),
        put("repetitions", value=4),
    ),
    "region-is-new": (PAIR, ELSEWHERE, AS_IT_IS),
    "value-is-an-example": (PAIR, EXAMPLE_ADMIN, ADMIN),
    "driver-does-not-fit": (
        *(PAIR, put("aws", "pins", "node_release", value="1.35.6-20260714")),
        put("aws", "pins", "node_release", value="1.35.6-20260625"),
    ),
    "nodes-are-on-hold": (PAIR, aws(hold=True), aws(hold=False)),
    "no-administrator": (PAIR, AS_IT_IS, ADMIN),
    "api-is-private": (
        *(PAIR, AS_IT_IS),
        put("aws", "public_access_cidrs", value=["52.94.76.1/32"]),
    ),
    "hub-token-is-missing": (HEAD, AS_IT_IS, aws(hub_token_secret="draftworth/hub")),
    "draft-window-is-not-known": (HEAD, UNKNOWN_DFLASH, DFLASH),
    "draft-may-be-refused": (PAIR, head("RedHatAI/Qwen3-32B-speculator.eagle3"), AS_IT_IS),
    "heads-may-be-refused": (
        *(PAIR, head("RedHatAI/Qwen3-32B-speculator.eagle3", "neuron-2.33.0")),
        head("RedHatAI/Qwen3-32B-speculator.eagle3"),
    ),
    "baseline-as-shipped-takes-a-slot": (PAIR, AS_SHIPPED, AS_IT_IS),
    "baseline-as-shipped-is-the-baseline": (
        *(PAIR, both(head("acme/head"), AS_SHIPPED)),
        AS_SHIPPED,
    ),
    "model-is-not-pinned": (PAIR, AS_IT_IS, PINNED),
    "stop-needs-a-price": (SEARCH, both(UNPRICED, USD_STOP), USD_STOP),
    "price-is-doubtful": (PAIR, price_of(TODAY - timedelta(days=15)), price_of(TODAY)),
    "search-ends-with-few-candidates": (
        *(SEARCH, without_stop(deadline_minutes=380)),
        without_stop(deadline_minutes=700),
    ),
    "search-ends-early": (SEARCH, without_stop(deadline_minutes=700), without_stop()),
    "run-ends-unfinished": (PAIR, aws(deadline_minutes=30), aws(deadline_minutes=100)),
    "run-may-end-unfinished": (PAIR, aws(deadline_minutes=100), aws(deadline_minutes=600)),
    "stop-leaves-out-a-candidate": (SEARCH, stop_after(1.0), stop_after(3.0)),
    "block-is-too-short": (PAIR, both(aws(), block(hours=2)), both(aws(), block(hours=24))),
    "budget-is-below-the-block": (
        *(PAIR, both(aws(accelerator_budget_usd=300.0), block(hours=24))),
        both(aws(accelerator_budget_usd=400.0), block(hours=24)),
    ),
}

# Of each code that depends on the day: a shipped experiment, a day with the note and one without.
DATED: dict[Code, tuple[str, date, date]] = {
    "standard-support-ends": (PAIR, date(2027, 1, 1), date(2026, 12, 31)),
}


def codes(folder: Path, base: str, edit: Edit, *, today: date = TODAY) -> list[Code]:
    experiment = load(write_experiment(folder, edit, base=base))
    run = forecast(experiment) if isinstance(experiment, ResolvedNeuron) else None
    return [note.code for note in notes(experiment, run=run, today=today)]


@pytest.mark.parametrize("code", CASES)
def test_a_rule_warns_of_one_setting_only(tmp_path: Path, code: Code) -> None:
    base, noted, not_noted = CASES[code]
    assert code in codes(tmp_path, base, noted)
    assert code not in codes(tmp_path, base, not_noted)


@pytest.mark.parametrize("code", DATED)
def test_a_rule_warns_on_one_day_only(tmp_path: Path, code: Code) -> None:
    base, noted, not_noted = DATED[code]
    assert code in codes(tmp_path, base, AS_IT_IS, today=noted)
    assert code not in codes(tmp_path, base, AS_IT_IS, today=not_noted)


@pytest.mark.parametrize(("day", "tense"), [(26, "ends on"), (27, "ended on")])
def test_the_end_of_support_names_a_later_version(day: int, tense: str) -> None:
    every = notes(resolved(PAIR), today=date(2027, 3, day))
    (note,) = (n.sentence for n in every if n.code == "standard-support-ends")
    assert f"1.35: standard support {tense} 2027-03-27" in note
    assert note.endswith("or set 1.36")


def test_an_unknown_end_of_support_gets_no_note(tmp_path: Path) -> None:
    assert "standard-support-ends" not in codes(tmp_path, PAIR, NEWER_EKS, today=date(2030, 1, 1))


def test_no_node_release_of_another_kubernetes_is_advised(tmp_path: Path) -> None:
    experiment = load(write_experiment(tmp_path, NEWER_EKS, base=PAIR))
    (note,) = (n for n in notes(experiment, today=TODAY) if n.code == "driver-does-not-fit")
    assert "none of Kubernetes 1.36 is known" in note.sentence


def test_every_code_has_a_case() -> None:
    assert {*CASES, *DATED} == set(get_args(Code))


def test_a_note_is_given_once(tmp_path: Path) -> None:
    """Two variants share a head: the note on the head is given once, that on windows for each."""

    def with_two_windows(data: dict[str, Any]) -> None:
        UNKNOWN_DFLASH(data)
        data["variants"].append(deepcopy(data["variants"][1]) | {"name": "dflash-k7", "window": 7})

    noted = codes(tmp_path, HEAD, with_two_windows)
    assert noted.count("draft-may-be-refused") == 1
    assert noted.count("draft-window-is-not-known") == 2


@pytest.mark.parametrize("requests", [31, 32])
def test_more_requests_are_advised_beside_long_warm_ups(tmp_path: Path, requests: int) -> None:
    """The advice is left out if a block has as many measured requests as warm-up requests."""
    counts = {
        "requests_per_round": requests,
        "min_requests": requests,
        "max_requests": 2 * requests,
    }
    sizes = (put("workload", key, value=value) for key, value in counts.items())
    experiment = load(write_experiment(tmp_path, both(RATE, *sizes), base=LOCAL))
    (note,) = (n for n in notes(experiment, today=TODAY) if n.code == "rate-takes-more-warm-up")
    assert ("most of a block" in note.sentence) is (requests < 32)
