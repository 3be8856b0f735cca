"""`plan`: golden time lines, its options, what it says of a search, and what it warns of."""

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.cli.plan_notes import time_advice
from draftworth.planning.resolved import NeuronVariant, load_neuron
from draftworth.planning.timeline import forecast
from tests.conftest import ROOT
from tests.support.experiments import (
    DFLASH,
    OF_HEADS,
    Edit,
    both,
    drop,
    put,
    resolved,
    write_experiment,
)
from tests.support.snapshot import assert_snapshot

SNAPSHOTS = Path(__file__).parent / "snapshots"
EXPERIMENTS = ROOT / "experiments"
SEARCH = "qwen3-32b-search"

# The plan of a file, or of a shipped experiment (`base`) with edits.
Planned = Callable[..., str]


@pytest.fixture
def planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Planned:
    # A price that was looked up is in the folder where the command runs.
    monkeypatch.chdir(tmp_path)

    def plan(
        *edits: Edit, path: Path | None = None, base: str = "qwen3-32b", with_: Sequence[str] = ()
    ) -> str:
        path = path or write_experiment(tmp_path, both(*edits), base=base)
        assert main(["plan", str(path), *with_]) == 0
        return capsys.readouterr().out

    return plan


def line(text: str, begin: str) -> str:
    return next(row for row in text.splitlines() if row.strip().startswith(begin))


@pytest.mark.parametrize("name", ["qwen3-32b", SEARCH, "llama-3.1-8b-eagle3"])
def test_the_plan_of_a_shipped_experiment(
    name: str, planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in {"COLUMNS": "40", "FORCE_COLOR": "1", "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(variable, value)  # the table is plain text of its own width
    details = ("--details",) if name == "qwen3-32b" else ()
    text = planned(path=EXPERIMENTS / f"{name}.yaml", with_=details)
    assert_snapshot(text, SNAPSHOTS / f"plan-{name}.txt")


def test_the_plan_of_the_first_deploy_fits_one_screen_and_begins_with_its_cost(
    planned: Planned,
) -> None:
    text = planned(path=EXPERIMENTS / "smoke.yaml")
    rows = text.splitlines()
    assert sum(max(1, -(-len(row) // 100)) for row in rows) <= 40
    assert re.match(r"first run   [\d.]+ to [\d.]+ USD .* aws\.budget_usd 25\.00$", rows[0])
    assert "note: aws.admin_principal_arns is empty: kubectl is refused" in text
    assert "note: aws.public_access_cidrs is empty: the Kubernetes API is private" in "\n".join(
        rows
    )


def test_without_a_price_the_plan_tells_minutes_and_how_to_get_one(planned: Planned) -> None:
    text = planned(drop("aws", "price"))
    assert "python -m draftworth price" in line(text, "price ")
    assert "billed minutes x 1 node" in line(text, "first run")
    assert "USD" not in line(text, "second run")
    assert "aws.budget_usd" not in text


def test_assumptions_are_replaced_and_what_is_compiled_is_only_loaded(planned: Planned) -> None:
    assumed = ("--assume", "node_start_minutes=5", "--assume", "compile_minutes=30..90")
    text = planned(with_=(*assumed, "--compiled", "baseline"))
    assert line(text, "* node start").split()[5:7] == ["5.0", "5.0"]
    assert line(text, "* compile qwen3-1.7b-k7").split()[5:7] == ["30.0", "90.0"]
    assert "compile baseline" not in text
    assert "compile baseline" in planned()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--assume", "compile_minuts=5"], "did you mean 'compile_minutes'?"),
        (["--compiled", "baselin"], "allowed: baseline, qwen3-1.7b-k7; did you mean 'baseline'?"),
    ],
)
def test_a_wrong_option_is_reported_alone(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(EXPERIMENTS / "qwen3-32b.yaml"), *options]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""


def test_an_experiment_of_this_machine_has_no_time_line(
    planned: Planned, capsys: pytest.CaptureFixture[str]
) -> None:
    path = EXPERIMENTS / "rehearsal.yaml"
    text = planned(path=path)
    assert "time line" not in text
    assert text.splitlines()[-1] == f"next: python -m draftworth rehearse --experiment {path}"
    assert main(["plan", str(path), "--assume", "compile_minutes=5"]) == 2
    assert "uses no AWS nodes and has no time line" in capsys.readouterr().err


AS_SHIPPED = put("baseline_as_shipped", value=True)
ONE_DEVICE = both(
    put("serving", "slot_devices", value=1), put("serving", "tensor_parallel_size", value=4)
)


def test_the_baseline_as_shipped_is_a_variant_with_a_slot_of_its_own(planned: Planned) -> None:
    text = planned(AS_SHIPPED)
    assert "variant     baseline-as-shipped: one token a step, with the engine's own" in text
    assert "node 1: baseline-as-shipped, 8 devices, 50.0% of the node" in text
    assert "note: baseline_as_shipped adds baseline-as-shipped on a slot of its own: 8 dev" in text
    assert "the baseline once more" not in text
    assert "on a slot of its own: 1 device, 6.2% of a node" in planned(AS_SHIPPED, ONE_DEVICE)


ENOUGH = both(put("aws", "deadline_minutes", value=600), put("aws", "budget_usd", value=1000))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("budget_usd", 20.0, "aws.budget_usd 20.00 may end the run unfinished: the worst case"),
        ("deadline_minutes", 100, "aws.deadline_minutes 100 may end the run unfinished: the"),
    ],
)
def test_a_limit_that_cuts_the_run_is_noted(
    planned: Planned, key: str, value: float, message: str
) -> None:
    assert f"note: {message}" in planned(ENOUGH, put("aws", key, value=value))


@pytest.mark.parametrize("base", ["qwen3-32b", SEARCH])
@pytest.mark.parametrize(("key", "value"), [("budget_usd", 1), ("deadline_minutes", 15)])
def test_a_limit_below_the_best_case_is_refused_with_the_best_case(
    planned: Planned,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    base: str,
    key: str,
    value: int,
) -> None:
    edits = (NO_STOP, ROOM) if base == SEARCH else (ROOM,)
    limited = write_experiment(tmp_path, both(*edits, put("aws", key, value=value)), base=base)
    assert main(["plan", str(limited)]) == 2
    told = capsys.readouterr()
    assert f"aws.{key}: given {value}, allowed: " in told.err
    assert "because even the best case needs" in told.err
    # A synthesis refuses no limit, or a stack could not be destroyed.
    warned = next(time_advice(forecast(load_neuron(limited))))
    assert ("ends the run unfinished" in warned) == (base != SEARCH)
    least = int(told.err.partition("allowed: ")[2].split()[0])
    assert f"aws.{key}" in planned(*edits, put("aws", key, value=least), base=base)


def test_a_limit_of_what_the_note_says_is_enough(planned: Planned) -> None:
    """And the run then costs no more than it says."""
    text = planned(ENOUGH, put("aws", "deadline_minutes", value=100))
    needed = int(text.partition("the worst case needs ")[2].split()[0])
    for minutes, told in ((needed, False), (needed - 1, True)):
        text = planned(ENOUGH, put("aws", "deadline_minutes", value=minutes))
        assert ("unfinished" in text) is told
    text = planned(ENOUGH, put("aws", "budget_usd", value=20.0))
    usd = float(text.partition("the worst case costs ")[2].split()[0])
    text = planned(ENOUGH, put("aws", "budget_usd", value=usd + 0.01))
    assert "unfinished" not in text
    assert f" to {usd:.2f} USD for " in line(text, "first run")
    assert f"aws.budget_usd {usd + 0.01:.2f}" in line(text, "first run")


def block_of(**more: object) -> Edit:
    block = {"kind": "capacity_block", "reservation_id": "cr-0123456789abcdef0", **more}
    return put("aws", "capacity", value=block)


def draft_of(model: str) -> Edit:
    known = {} if model.startswith(("RedHatAI", "AngelSlim")) else {"tokenizer_family": "qwen3"}
    return put("variants", 1, "draft", value={"model": model, **known})


EAGLE3_ON_NXDI = both(
    put("release", value="neuron-2.31.1"), put("variants", 1, "method", value="eagle3")
)
GATED = both(
    put("target", "model", value="meta-llama/Llama-3.1-8B-Instruct"),
    put("variants", 1, "draft", "model", value="meta-llama/Llama-3.2-1B-Instruct"),
)
SECRET = put("aws", "hub_token_secret", value="draftworth/hub")
EXAMPLES = both(
    put("aws", "admin_principal_arns", value=["arn:aws:iam::111122223333:role/Admin"]),
    put("aws", "load_generator_image", value="111122223333.dkr.ecr.us-east-2.amazonaws.com/l:1"),
    block_of(),
)
OWN = both(
    put("aws", "admin_principal_arns", value=["arn:aws:iam::123456789012:role/Admin"]),
    put("aws", "load_generator_image", value="123456789012.dkr.ecr.us-east-2.amazonaws.com/l:1"),
    block_of(reservation_id="cr-0fedcba9876543210"),
)
ELSEWHERE = both(
    put("aws", "region", value="eu-central-1"),
    put("aws", "availability_zone", value="eu-central-1c"),
)
LONG_AGO = put("aws", "price", "as_of", value=date(2020, 1, 1))


@pytest.mark.parametrize(
    ("edit", "message", "without"),
    [
        (
            put("workload", "load", value={"kind": "concurrency", "concurrency": 5}),
            "5 requests in flight are more than serving.max_num_seqs 4: requests queue",
            both(),
        ),
        (
            put("workload", "input_tokens", value=9),
            "words, so more tokens than workload.input_",
            both(),
        ),
        (
            both(EAGLE3_ON_NXDI, draft_of("RedHatAI/Qwen3-32B-speculator.eagle3")),
            "note: eagle3 on neuron-2.31.1: the draft must have the target's hidden size",
            both(),
        ),
        (
            both(EAGLE3_ON_NXDI, draft_of("RedHatAI/Qwen3-32B-speculator.eagle3")),
            "RedHatAI/Qwen3-32B-speculator.eagle3 likely does not: read its model card",
            both(EAGLE3_ON_NXDI, draft_of("acme/Qwen3-32B-eagle3")),
        ),
        (
            both(EAGLE3_ON_NXDI, draft_of("acme/Qwen3-32B-eagle3")),
            "acme/Qwen3-32B-eagle3 is not known to: read its model card",
            both(EAGLE3_ON_NXDI, draft_of("RedHatAI/Qwen3-32B-speculator.eagle3")),
        ),
        (
            both(EAGLE3_ON_NXDI, draft_of("AngelSlim/Qwen3-32B_eagle3"), AS_SHIPPED),
            "baseline-as-shipped is the baseline once more",
            AS_SHIPPED,
        ),
        (
            GATED,
            "note: meta-llama/Llama-3.2-1B-Instruct is gated and aws.hub_token_secret names no",
            both(GATED, SECRET),
        ),
        (
            ELSEWHERE,
            "eu-central-1: trn2.48xlarge has been seen in us-east-2 and ap-south-2, ",
            both(),
        ),
        (LONG_AGO, "note: aws.price is of 2020-01-01, which is ", both(LONG_AGO, block_of())),
        (LONG_AGO, "python -m draftworth price EXPERIMENT --again", both(LONG_AGO, block_of())),
        (
            put("aws", "pins", value={}),
            "the serving image has runtime 2.28.23, so no server starts; pin 1.35.6-20260625",
            both(),
        ),
        (EXAMPLES, "note: aws.capacity.reservation_id cr-0123456789abcdef0 is an example", OWN),
        (EXAMPLES, "note: aws.admin_principal_arns arn:aws:iam::111122223333:role/Admin is", OWN),
        (EXAMPLES, "note: aws.load_generator_image 111122223333.dkr.ecr.us-east-2", OWN),
        (
            block_of(hours=2),
            "note: a Capacity Block of 2 hours may end the run unfinished: its nodes may run for",
            block_of(hours=24),
        ),
        (
            block_of(hours=336),
            "is less than the Capacity Block's 5070.24 USD, which are paid in any case",
            both(block_of(), put("aws", "budget_usd", value=400)),
        ),
    ],
)
def test_what_is_probably_not_intended_is_noted_and_nothing_else(
    planned: Planned, edit: Edit, message: str, without: Edit
) -> None:
    assert message in planned(edit)
    assert message not in planned(without)


def test_sampling_is_noted_and_what_is_wrong_with_it(planned: Planned) -> None:
    pair = ROOT / "rehearsal/tiny_pair"
    here = both(
        put("target", "path", value=str(pair / "target")),
        put("variants", 1, "draft", "path", value=str(pair / "draft")),
    )
    for temperature, noted in ((0.0, False), (0.7, True)):
        text = planned(here, put("workload", "temperature", value=temperature), base="rehearsal")
        assert ("note: outputs are sampled at temperature 0.7" in text) == noted
        assert ("vLLM 0.32.0's CPU build samples noise" in text) == noted


def test_the_window_of_an_unknown_dflash_head_is_noted_and_a_known_one_is_not(
    planned: Planned,
) -> None:
    told = "its window must be the block size that it was trained for less 1"
    draft = {"model": "acme/DFlash", "tokenizer_family": "llama3"}
    unknown = put("variants", 1, "draft", value=draft)
    assert told in planned(DFLASH, unknown, base="llama-3.1-8b-eagle3")
    known = planned(DFLASH, base="llama-3.1-8b-eagle3")
    assert told not in known
    assert "the draft must" not in known


@pytest.mark.parametrize(
    ("edit", "count", "most"),
    [
        (
            put("workload", "load", value={"kind": "ladder", "concurrencies": [1, 2, 4]}),
            141,  # 19 of all variants x 2 classes x 3 loads, 3 of a verdict x 3 traffics x 3
            "0.058",
        ),
        (
            both(AS_SHIPPED, drop("workload", "classes", 1)),
            34,  # 28 of all variants, 6 of verdicts, of 1 class at 1 load
            "0.014",
        ),
    ],
)
def test_every_load_class_and_variant_has_metrics_that_cost(
    planned: Planned, edit: Edit, count: int, most: str
) -> None:
    told = f"\nmetrics     {count} in CloudWatch: at most {most} USD an hour"
    assert told in planned(edit, with_=("--details",))


def test_two_small_nodes_are_charged_as_two(planned: Planned) -> None:
    text = planned(
        ONE_DEVICE,
        put("aws", "instance_type", value="trn2.3xlarge"),
        put("aws", "price", "usd_per_hour", value=2.24),
        with_=("--details",),
    )
    assert "placement   2 x trn2.3xlarge in us-east-2c, spot" in text
    assert "node 1: qwen3-1.7b-k7, 1 device, 100.0% of the node" in text
    assert "price       4.48 USD an hour (2 x 2.24" in text


def test_a_capacity_block_is_charged_whole_and_its_idle_part_told(planned: Planned) -> None:
    text = planned(block_of(), put("aws", "budget_usd", value=400))
    assert "362.16 USD for the Capacity Block, whole and in advance: 24 hours x 1 x 15.09" in text
    assert "aws.capacity.hours is not given: one day, the shortest" in text
    assert "stays idle" in line(text, "first run")
    assert "more runs on compiled graphs" in line(text, "would fit")
    assert "\nprice " not in text
    assert "note: a Capacity Block" not in text
    assert "aws.capacity.hours is not given" not in planned(block_of(hours=2))
    assert "Capacity Block" not in planned()


def test_a_control_is_counted(planned: Planned) -> None:
    assert "control: " in planned(put("control", value=True))
    assert "control: " not in planned()


def test_candidates_are_shown_once_and_what_they_share_is_not_repeated(planned: Planned) -> None:
    assert planned(base=SEARCH).count("\nvariant ") == 2
    text = planned(base=SEARCH, with_=("--details",))
    keys = [row.split()[-1] for row in text.splitlines() if row.startswith("  artifact key")]
    assert len(set(keys)) == len(keys) == 27
    assert text.count("  command ") == 2
    assert "like qwen3-1.7b-k8, with another draft or window: 25 variants" in text
    assert line(text, "node 0: ").count("8 devices") == 2


def test_candidates_of_a_search_differ_in_draft_and_window_alone() -> None:
    """Or `plan` would be wrong to show one server for all."""
    experiment = resolved(SEARCH)
    first = experiment.first_candidate
    assert isinstance(first, NeuronVariant)
    for variant in experiment.variants[1:]:
        window = f'"num_speculative_tokens":{variant.spec.window}'
        own = [a.replace(window, '"num_speculative_tokens":8') for a in variant.command.arguments]
        assert own == list(first.command.arguments)
        assert variant.command.environment == first.command.environment


def test_a_candidate_by_hand_of_another_method_has_its_own_command(planned: Planned) -> None:
    head = {"method": "eagle", "draft": {"model": "acme/eagle", "tokenizer_family": "qwen3"}}
    pair = [{**deepcopy(head), "name": f"head-k{n}", "window": n} for n in (3, 4)]

    def extended(data: dict[str, Any]) -> None:
        data["variants"].extend(pair)

    text = planned(extended, base=SEARCH, with_=("--details",))
    # Of the baseline, of the first head, and of the first of the search's own method.
    assert text.count("  command ") == 3
    assert "like head-k3, with another draft or window: 1 variant\n" in text
    assert "like qwen3-1.7b-k3, with another draft or window: 25 variants" in text
    certain = line(text, "certainly measured: ").partition(": ")[2]
    assert certain == "head-k3, head-k4, qwen3-1.7b-k8, qwen3-0.6b-k8"


def test_windows_with_gaps_are_listed(planned: Planned) -> None:
    text = planned(put("search", "windows", value=[12, 3, 5]), base=SEARCH)
    assert "Qwen/Qwen3-0.6B: 3, with window 12, 3, 5" in text


def test_what_is_all_certain_may_not_be_more(planned: Planned) -> None:
    text = planned(OF_HEADS, base=SEARCH)
    assert "search      1 candidate, one at a time" in text
    for none in ("may be measured", "each further candidate", "search.stop"):
        assert none not in text


def test_a_search_on_this_machine_has_candidates_and_no_time_line(planned: Planned) -> None:
    text = planned(path=EXPERIMENTS / "rehearsal-search.yaml")
    assert line(text, "certainly measured: ").endswith(": draft-k7")
    assert "10 more; simulated searches of the kind took 3.4 in all" in text
    assert "time line" not in text


def test_a_search_without_a_price_has_hours_and_no_usd(planned: Planned) -> None:
    text = planned(drop("aws", "price"), base=SEARCH)
    assert line(text, "certainly measured  ").split()[2:7] == ["2", "0.9", "to", "3.9", "-"]
    assert "search.stop: no candidate begins later than 360.0 minutes after" in text
    note = "search.stop.last_start_usd: without aws.price the cost of a candidate is not known"
    assert note in text
    assert note not in planned(base=SEARCH)


NO_STOP = put("search", "stop", value={})
ROOM = both(put("aws", "deadline_minutes", value=9_000), put("aws", "budget_usd", value=900.0))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("budget_usd", 30.0, "may end the search with fewer candidates than are certain:"),
        ("budget_usd", 90.0, "may end the search with fewer candidates than an average search has"),
        ("budget_usd", 180.0, "may end the search before it ends by itself: the worst case costs"),
        ("deadline_minutes", 140, "may end the search with fewer candidates than are certain:"),
        ("deadline_minutes", 380, "may end the search with fewer candidates than an average"),
        ("deadline_minutes", 700, "may end the search before it ends by itself: the worst case ne"),
    ],
)
def test_a_limit_that_cuts_a_search_says_what_it_cuts(
    planned: Planned, key: str, value: float, message: str
) -> None:
    text = planned(NO_STOP, ROOM, put("aws", key, value=value), base=SEARCH)
    assert f"note: aws.{key} {value:{'.2f' if key == 'budget_usd' else 'g'}} {message}" in text


def test_no_note_where_a_whole_run_or_search_fits(planned: Planned) -> None:
    assert "unfinished" not in planned(ENOUGH)
    assert "the search" not in planned(NO_STOP, ROOM, base=SEARCH).partition("note:")[2]


def two_by_hand(data: dict[str, Any]) -> None:
    """One of each draft is certain, by the names that the search has for them."""
    for draft in ("Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B"):
        by_hand = {"name": f"{draft.partition('/')[2].lower()}-k8", "method": "fused_draft"}
        data["variants"].append({**by_hand, "draft": {"model": draft}, "window": 8})


ONE_DRAFT = put("search", "drafts", value=[{"model": "Qwen/Qwen3-1.7B"}])


@pytest.mark.parametrize(
    ("edit", "hours", "told"),
    [(two_by_hand, 1.0, True), (two_by_hand, 3.0, False), (ONE_DRAFT, 1.0, False)],
    ids=["too short for both", "long enough", "the first always begins"],
)
def test_a_stop_that_may_leave_out_what_is_certain_is_noted(
    planned: Planned, edit: Edit, hours: float, told: bool
) -> None:
    text = planned(edit, put("search", "stop", value={"last_start_hours": hours}), base=SEARCH)
    assert ("note: search.stop may leave out qwen3-0.6b-k8" in text) is told
    assert ("note: search.stop" in text) is told
