"""`plan`'s time line: a golden table, its options, and what it warns of."""

from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.experiment.variants import Speculative
from draftworth.planning.resolved import NeuronVariant
from tests.conftest import ROOT
from tests.support.experiments import (
    DFLASH,
    DFLASH_HEAD,
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


def planned(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> str:
    """The time line and all after it."""
    assert main(["plan", str(path), *options]) == 0
    return "time line" + capsys.readouterr().out.partition("time line")[2]


def edited(
    folder: Path, capsys: pytest.CaptureFixture[str], *edits: Edit, options: tuple[str, ...] = ()
) -> str:
    return planned(capsys, write_experiment(folder, both(*edits)), *options)


@pytest.mark.parametrize("name", ["qwen3-32b", "qwen3-32b-search", "llama-3.1-8b-eagle3"])
def test_the_time_line_of_a_shipped_experiment(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = planned(capsys, EXPERIMENTS / f"{name}.yaml")

    assert_snapshot(text, SNAPSHOTS / f"plan-{name}.txt")


def test_without_a_price_the_plan_tells_minutes_and_how_to_get_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = edited(tmp_path, capsys, drop("aws", "price"))

    assert "python -m draftworth price" in line(text, "cost ")
    assert "billed minutes x 1 node" in line(text, "first run")
    assert "USD" not in line(text, "second run")
    assert "aws.budget_usd" not in text


def test_an_assumption_is_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    text = planned(
        capsys,
        EXPERIMENTS / "qwen3-32b.yaml",
        *("--assume", "node_start_minutes=5", "--assume", "compile_minutes=30..90"),
    )

    assert line(text, "* node start").split()[5:7] == ["5.0", "5.0"]
    assert line(text, "* compile baseline").split()[5:7] == ["30.0", "90.0"]


def test_a_variant_that_is_compiled_is_only_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    text = planned(capsys, EXPERIMENTS / "qwen3-32b.yaml", "--compiled", "baseline")

    assert "compile baseline" not in text
    assert "compile qwen3-1.7b-k7" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--assume", "compile_minuts=5"], "did you mean 'compile_minutes'?"),
        (["--assume", "compile_minutes=x"], "allowed: NAME=NUMBER or NAME=LOW..HIGH"),
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
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(EXPERIMENTS / "rehearsal.yaml")

    assert main(["plan", path]) == 0
    out = capsys.readouterr().out
    assert "time line" not in out
    assert out.splitlines()[-1] == f"next: python -m draftworth rehearse --experiment {path}"
    assert main(["plan", path, "--assume", "compile_minutes=5"]) == 2
    assert "uses no AWS nodes and has no time line" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("least", "most", "said"),
    [
        (8, 8, "x 8 requests at c4 = 128 requests"),
        (8, 9, "x 8 requests at c4 = 128 requests"),
        (8, 12, "x 8 to 12 requests at c4 = 128 to 192 req"),
    ],
)
def test_a_range_that_is_none_is_one_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], least: int, most: int, said: str
) -> None:
    work = {"min_requests": least, "max_requests": most, "requests_per_round": 4}
    edit = both(*(put("workload", key, value=value) for key, value in work.items()))
    assert main(["plan", str(write_experiment(tmp_path, edit))]) == 0
    assert said in capsys.readouterr().out


def test_one_device_is_no_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = both(
        put("serving", "slot_devices", value=1),
        put("serving", "tensor_parallel_size", value=4),
        put("baseline_as_shipped", value=True),
    )
    assert "on a slot of its own: 1 device, 6.2% of a node" in edited(tmp_path, capsys, one)
    shipped = put("baseline_as_shipped", value=True)
    assert "on a slot of its own: 8 devices, 50.0%" in edited(tmp_path, capsys, shipped)


ENOUGH = both(put("aws", "deadline_minutes", value=600), put("aws", "budget_usd", value=1000))


def test_no_note_where_the_worst_case_fits_the_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "unfinished" not in edited(tmp_path, capsys, ENOUGH)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("budget_usd", 20.0, "aws.budget_usd 20.00 may end the run unfinished: the worst case"),
        ("budget_usd", 5.0, "aws.budget_usd 5.00 ends the run unfinished: even the best case"),
        ("deadline_minutes", 100, "aws.deadline_minutes 100 may end the run unfinished: the"),
        ("deadline_minutes", 20, "aws.deadline_minutes 20 ends the run unfinished: even the best"),
    ],
)
def test_a_limit_that_cuts_the_run_is_noted(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    key: str,
    value: float,
    message: str,
) -> None:
    text = edited(tmp_path, capsys, ENOUGH, put("aws", key, value=value))

    assert f"note: {message}" in text


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            put("workload", "load", value={"kind": "concurrency", "concurrency": 5}),
            "5 requests in flight are more than serving.max_num_seqs 4: requests queue",
        ),
        (put("workload", "input_tokens", value=9), "words, so more tokens than workload.input_"),
    ],
)
def test_requests_that_wait_or_do_not_fit_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: Edit, message: str
) -> None:
    assert message in edited(tmp_path, capsys, edit)
    assert message not in edited(tmp_path, capsys)


def test_sampling_is_noted_and_what_is_wrong_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = ROOT / "rehearsal/tiny_pair"
    here = both(
        put("target", "path", value=str(pair / "target")),
        put("variants", 1, "draft", "path", value=str(pair / "draft")),
    )
    for temperature, noted in ((0.0, False), (0.7, True)):
        edit = both(here, put("workload", "temperature", value=temperature))
        assert main(["plan", str(write_experiment(tmp_path, edit, base="rehearsal"))]) == 0
        text = capsys.readouterr().out
        assert ("note: outputs are sampled at temperature 0.7" in text) == noted
        assert ("vLLM 0.32.0's CPU build samples noise" in text) == noted


def test_a_deadline_of_what_the_note_says_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = edited(tmp_path, capsys, ENOUGH, put("aws", "deadline_minutes", value=100))
    needed = int(text.partition("the worst case needs ")[2].split()[0])

    for minutes, told in ((needed, False), (needed - 1, True)):
        text = edited(tmp_path, capsys, ENOUGH, put("aws", "deadline_minutes", value=minutes))
        assert ("unfinished" in text) is told


def test_a_budget_of_what_the_note_says_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the run then costs no more than it says."""
    text = edited(tmp_path, capsys, ENOUGH, put("aws", "budget_usd", value=20.0))
    needed = float(text.partition("the worst case costs ")[2].split()[0])

    text = edited(tmp_path, capsys, ENOUGH, put("aws", "budget_usd", value=needed + 0.01))
    assert "unfinished" not in text
    assert f" to {needed:.2f} USD for " in line(text, "first run")
    assert f"aws.budget_usd {needed + 0.01:.2f}" in line(text, "first run")


def test_what_the_baseline_as_shipped_costs_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_experiment(tmp_path, put("baseline_as_shipped", value=True))
    assert main(["plan", str(path)]) == 0

    text = capsys.readouterr().out
    assert "variant     baseline-as-shipped: one token a step, with the engine's own" in text
    assert "node 1: baseline-as-shipped, 8 devices, 50.0% of the node" in text
    assert "note: baseline_as_shipped adds baseline-as-shipped on a slot of its own: 8 dev" in text
    assert "the baseline once more" not in text


EAGLE3_ON_NXDI = both(
    put("release", value="neuron-2.31.1"),
    put("variants", 1, "method", value="eagle3"),
)


@pytest.mark.parametrize(
    ("draft", "told"),
    [
        ("RedHatAI/Qwen3-32B-speculator.eagle3", "likely does not: read its model card"),
        ("acme/Qwen3-32B-eagle3", "is not known to: read its model card"),
    ],
)
def test_a_head_that_may_not_fit_the_release_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], draft: str, told: str
) -> None:
    family = {"model": draft} | ({"tokenizer_family": "qwen3"} if "acme" in draft else {})
    edit = put("variants", 1, "draft", value=family)
    text = edited(tmp_path, capsys, EAGLE3_ON_NXDI, edit)
    assert "note: eagle3 on neuron-2.31.1: the draft must have the target's hidden size" in text
    assert f"{draft} {told}" in text


def test_a_head_that_is_published_to_fit_is_not_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_experiment(tmp_path, DFLASH, base="llama-3.1-8b-eagle3")
    assert "the draft must" not in planned(capsys, path)


def test_the_window_of_an_unknown_dflash_head_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = {"model": "acme/DFlash", "tokenizer_family": "llama3"}
    edit = both(DFLASH, put("variants", 1, "draft", value=draft))
    path = write_experiment(tmp_path, edit, base="llama-3.1-8b-eagle3")
    assert "its window must be the block size that it was trained for less 1" in planned(
        capsys, path
    )


def test_a_release_whose_defaults_do_not_depend_on_speculation_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = edited(
        tmp_path,
        capsys,
        EAGLE3_ON_NXDI,
        put("variants", 1, "draft", "model", value="AngelSlim/Qwen3-32B_eagle3"),
        put("baseline_as_shipped", value=True),
    )
    assert "baseline-as-shipped is the baseline once more" in text


def test_a_gated_model_without_a_secret_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gated = put("target", "model", value="meta-llama/Llama-3.1-8B-Instruct")
    draft = put("variants", 1, "draft", "model", value="meta-llama/Llama-3.2-1B-Instruct")
    secret = put("aws", "hub_token_secret", value="draftworth/hub")
    note = "note: meta-llama/Llama-3.2-1B-Instruct is gated and aws.hub_token_secret names no"

    assert note in edited(tmp_path, capsys, gated, draft)
    assert "gated" not in edited(tmp_path, capsys, gated, draft, secret)


def test_a_price_that_is_not_of_these_days_is_noted_unless_it_is_a_blocks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long_ago = put("aws", "price", "as_of", value=date(2020, 1, 1))
    note = line(edited(tmp_path, capsys, long_ago), "note: aws.price is of 2020-01-01, which is ")
    assert "python -m draftworth price EXPERIMENT --again" in note
    assert "aws.price is of" not in edited(tmp_path, capsys, block_of(), long_ago)


EXAMPLES = both(
    put("aws", "admin_principal_arns", value=["arn:aws:iam::111122223333:role/Admin"]),
    put("aws", "load_generator_image", value="111122223333.dkr.ecr.us-east-2.amazonaws.com/l:1"),
)
OWN = both(
    put("aws", "admin_principal_arns", value=["arn:aws:iam::123456789012:role/Admin"]),
    put("aws", "load_generator_image", value="123456789012.dkr.ecr.us-east-2.amazonaws.com/l:1"),
)


def test_what_was_copied_of_an_example_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = edited(tmp_path, capsys, EXAMPLES, block_of())
    for key in ("capacity.reservation_id", "admin_principal_arns", "load_generator_image"):
        assert "is an example, which no account has" in line(text, f"note: aws.{key}")
    other = block_of(reservation_id="cr-0fedcba9876543210")
    assert "example" not in edited(tmp_path, capsys, OWN, other)


@pytest.mark.parametrize(
    ("edit", "count", "most"),
    [
        (
            put("workload", "load", value={"kind": "ladder", "concurrencies": [1, 2, 4]}),
            141,  # 19 of all variants x 2 classes x 3 loads, 3 of a verdict x 3 traffics x 3
            "0.058",
        ),
        (
            both(put("baseline_as_shipped", value=True), drop("workload", "classes", 1)),
            34,  # 28 of all variants, 6 of verdicts, of 1 class at 1 load
            "0.014",
        ),
    ],
)
def test_every_load_class_and_variant_has_metrics_that_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: Edit, count: int, most: str
) -> None:
    assert main(["plan", str(write_experiment(tmp_path, edit))]) == 0
    assert (
        f"  metrics     {count} in CloudWatch: at most {most} USD an hour"
        in capsys.readouterr().out
    )


def test_two_small_nodes_are_charged_as_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = both(
        put("aws", "instance_type", value="trn2.3xlarge"),
        put("serving", "slot_devices", value=1),
        put("serving", "tensor_parallel_size", value=4),
        put("aws", "price", "usd_per_hour", value=2.24),
    )
    assert main(["plan", str(write_experiment(tmp_path, small))]) == 0

    text = capsys.readouterr().out
    assert "placement   2 x trn2.3xlarge in us-east-2c, spot" in text
    assert "node 1: qwen3-1.7b-k7, 1 device, 100.0% of the node" in text
    assert "cost        4.48 USD an hour while the accelerator nodes are up (2 x 2.24" in text
    assert text.count("NEURON_SKIP_EFA_AFFINITY=1") == 2


def block_of(**more: object) -> Edit:
    block = {"kind": "capacity_block", "reservation_id": "cr-0123456789abcdef0", **more}
    return put("aws", "capacity", value=block)


def test_a_capacity_block_is_charged_whole_and_its_idle_part_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = edited(tmp_path, capsys, block_of(), put("aws", "budget_usd", value=300))

    assert "206.40 USD for the Capacity Block, whole and in advance: 24 hours x 1 x 8.60" in text
    assert "aws.capacity.hours is not given: one day, the shortest" in text
    assert "stays idle" in line(text, "first run")
    assert "more runs on compiled graphs" in line(text, "would fit")
    assert "an hour while the accelerator nodes are up" not in text
    assert "note: a Capacity Block" not in text
    assert "which are paid in any case" not in text
    assert "Capacity Block" not in edited(tmp_path, capsys)


def test_a_block_that_is_too_short_or_dearer_than_the_budget_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = edited(tmp_path, capsys, block_of(hours=2))

    assert (
        "note: a Capacity Block of 2 hours may end the run unfinished: its nodes may run for"
        in text
    )
    assert "aws.capacity.hours is not given" not in text
    dear = edited(tmp_path, capsys, block_of(hours=336))
    assert "is less than the Capacity Block's 2889.60 USD, which are paid in any case" in dear


def test_variants_that_are_loaded_together_are_as_slow_as_the_slower_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = edited(tmp_path, capsys, put("workload", "parallel", value=True))

    assert line(text, "* measure c4").split()[5] == "21.8"  # 2 rounds x 8 cases x 81.8 s / 60


def test_a_limit_that_cuts_the_time_line_is_named_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = EXPERIMENTS / "qwen3-32b.yaml"
    text = planned(capsys, path, "--assume", "compile_minutes=10..400")

    assert "  aws.deadline_minutes ends the run in the worst case\n" in text
    assert "in the best case" not in text.partition("ends the run")[0].partition("\n")[2]
    assert line(text, "* load baseline").split()[3:7] == ["48.6", "-", "1.8", "-"]


def test_the_table_is_plain_text_of_its_own_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = EXPERIMENTS / "qwen3-32b.yaml"
    text = planned(capsys, path)
    for name, value in {"COLUMNS": "40", "FORCE_COLOR": "1", "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, value)

    assert planned(capsys, path) == text


def line(text: str, begin: str) -> str:
    return next(row for row in text.splitlines() if row.strip().startswith(begin))


def test_a_control_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_experiment(tmp_path, put("control", value=True))

    assert main(["plan", str(path)]) == 0

    assert "control: " in capsys.readouterr().out


SEARCH = "qwen3-32b-search"
HEADS = both(
    put("release", value="neuron-2.33.0"),
    put("target", "model", value="meta-llama/Llama-3.1-8B-Instruct"),
    put("search", value={"method": "dflash", "drafts": [{"model": DFLASH_HEAD}]}),
)


def searched(folder: Path, capsys: pytest.CaptureFixture[str], *edits: Edit) -> str:
    assert main(["plan", str(write_experiment(folder, both(*edits), base=SEARCH))]) == 0
    return capsys.readouterr().out


def test_candidates_are_shown_once_and_what_they_share_is_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = searched(tmp_path, capsys)

    keys = [row.split()[-1] for row in text.splitlines() if row.startswith("  artifact key")]
    assert len(set(keys)) == len(keys) == 27
    assert text.count("  command ") == 2
    assert "environment and command of qwen3-1.7b-k8, with another draft or window: 25" in text
    assert (
        "4 cases x 2 variants x 8 to 16 requests at c4 = 64 to 128 requests of 600 output " in text
    )
    assert "each candidate" in line(text, "workload")
    assert "Qwen/Qwen3-0.6B: 13, with window 3 to 15" in text
    assert line(text, "certainly measured: ").endswith(": qwen3-1.7b-k8, qwen3-0.6b-k8")
    assert text.count("  node 0: ") == 2


def test_candidates_of_a_search_differ_in_draft_and_window_alone() -> None:
    """Or `plan` would be wrong to show one server for all."""
    experiment = resolved(SEARCH)
    first = experiment.first_candidate
    assert isinstance(first, NeuronVariant)
    for variant in experiment.variants[1:]:
        assert isinstance(variant.spec, Speculative)
        window = f'"num_speculative_tokens":{variant.spec.window}'
        own = [a.replace(window, '"num_speculative_tokens":8') for a in variant.command.arguments]
        assert own == list(first.command.arguments)
        assert variant.command.environment == first.command.environment


def test_a_candidate_by_hand_of_another_method_has_its_own_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = {"method": "eagle", "draft": {"model": "acme/eagle", "tokenizer_family": "qwen3"}}
    pair = [{**deepcopy(head), "name": f"head-k{n}", "window": n} for n in (3, 4)]
    text = searched(tmp_path, capsys, lambda data: data["variants"].extend(pair))
    # Of the baseline, of the first head, and of the first of the search's own method.
    assert text.count("  command ") == 3
    assert "of head-k3, with another draft or window: 1 variant\n" in text
    assert "of qwen3-1.7b-k3, with another draft or window: 25 variants" in text
    certain = line(text, "certainly measured: ").partition(": ")[2]
    assert certain == "head-k3, head-k4, qwen3-1.7b-k8, qwen3-0.6b-k8"


def test_windows_with_gaps_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = searched(tmp_path, capsys, put("search", "windows", value=[12, 3, 5]))
    assert "Qwen/Qwen3-0.6B: 3, with window 12, 3, 5" in text


def test_what_is_all_certain_may_not_be_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = searched(tmp_path, capsys, HEADS)
    assert "search      1 candidate, one at a time" in text
    assert "may be measured" not in text
    assert "each further candidate" not in text
    assert "search.stop" not in text


def test_a_search_on_this_machine_has_candidates_and_no_time_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", str(EXPERIMENTS / "rehearsal-search.yaml")]) == 0
    text = capsys.readouterr().out
    assert line(text, "certainly measured: ").endswith(": draft-k7")
    assert "10 more; simulated searches of the kind took 2.1 in all" in text
    assert "time line" not in text


def test_a_search_without_a_price_has_hours_and_no_usd(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = searched(tmp_path, capsys, drop("aws", "price"))
    assert line(text, "certainly measured  ").split()[2:7] == ["2", "0.9", "to", "3.8", "-"]
    assert "search.stop: no candidate begins later than 360.0 minutes after" in text
    note = "search.stop.usd: without aws.price the cost of a candidate is not known"
    assert note in text
    assert note not in searched(tmp_path, capsys)


NO_STOP = put("search", "stop", value={})
ROOM = both(put("aws", "deadline_minutes", value=9_000), put("aws", "budget_usd", value=900.0))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("budget_usd", 2.5, "ends the search before the certain candidates are measured: even"),
        ("budget_usd", 17.0, "may end the search with fewer candidates than are certain:"),
        ("budget_usd", 50.0, "may end the search with fewer candidates than an average search has"),
        ("budget_usd", 80.0, "may end the search before it ends by itself: the worst case costs"),
        ("deadline_minutes", 30, "ends the search before the certain candidates are measured"),
        ("deadline_minutes", 140, "may end the search with fewer candidates than are certain:"),
        ("deadline_minutes", 380, "may end the search with fewer candidates than an average"),
        (
            "deadline_minutes",
            600,
            "may end the search before it ends by itself: the worst case needs",
        ),
    ],
)
def test_a_limit_that_cuts_a_search_says_what_it_cuts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: float, message: str
) -> None:
    text = searched(tmp_path, capsys, NO_STOP, ROOM, put("aws", key, value=value))
    assert f"note: aws.{key} {value:{'.2f' if key == 'budget_usd' else 'g'}} {message}" in text


def test_no_note_where_a_whole_search_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "the search" not in searched(tmp_path, capsys, NO_STOP, ROOM).partition("note:")[2]


def two_by_hand(data: dict[str, Any]) -> None:
    """One of each draft is certain, by the names that the search has for them."""
    for draft in ("Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B"):
        data["variants"].append(
            {
                "name": f"{draft.partition('/')[2].lower()}-k8",
                "method": "fused_draft",
                "draft": {"model": draft},
                "window": 8,
            }
        )


one_draft = put("search", "drafts", value=[{"model": "Qwen/Qwen3-1.7B"}])


@pytest.mark.parametrize(
    ("edit", "hours", "told"),
    [(two_by_hand, 1.0, True), (two_by_hand, 3.0, False), (one_draft, 1.0, False)],
    ids=["too short for both", "long enough", "the first always begins"],
)
def test_a_stop_that_may_leave_out_what_is_certain_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: Edit, hours: float, told: bool
) -> None:
    text = searched(tmp_path, capsys, edit, put("search", "stop", value={"hours": hours}))
    assert ("note: search.stop may leave out qwen3-0.6b-k8" in text) is told
    assert ("note: search.stop" in text) is told
