"""`plan`: snapshots of its text, its options, what it says of a search, and its notes."""

import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.planning.notes import notes
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron, load_neuron
from draftworth.planning.timeline import forecast
from tests.conftest import ROOT
from tests.support.documents import assert_block
from tests.support.experiments import (
    DFLASH,
    OF_HEADS,
    Edit,
    both,
    changed_aws,
    drop,
    put,
    resolved,
    write_experiment,
)
from tests.support.snapshot import assert_snapshot

SNAPSHOTS = Path(__file__).parent / "snapshots"
EXPERIMENTS = ROOT / "experiments"
SEARCH = "qwen3-32b-search"

# Runs `plan` and returns its text: of the experiment file `path`, or of the shipped experiment
# `base` with edits.
Planned = Callable[..., str]


@pytest.fixture
def planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Planned:
    # `plan` finds a price that was looked up earlier in the current folder, so that must be empty.
    monkeypatch.chdir(tmp_path)

    def plan(
        *edits: Edit,
        path: Path | None = None,
        base: str = "qwen3-32b",
        with_: Sequence[str] = ("--verbose",),
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
        monkeypatch.setenv(variable, value)  # the plan must not depend on the terminal
    text = planned(path=EXPERIMENTS / f"{name}.yaml")
    assert_snapshot(text, SNAPSHOTS / f"plan-{name}.txt")
    short = planned(path=EXPERIMENTS / f"{name}.yaml", with_=())
    assert_snapshot(short, SNAPSHOTS / f"plan-{name}-short.txt")
    left_out = set(short.splitlines()) - set(text.splitlines())
    assert not left_out, "what the short plan says is in the long one too"


def test_the_plan_for_programs(planned: Planned) -> None:
    document = json.loads(planned(path=EXPERIMENTS / "qwen3-32b.yaml", with_=("--json",)))
    page = (ROOT / "docs" / "json.md").read_text()
    assert all(f"`{key}`" in page for key in document)
    assert document["schema"] == "draftworth.plan/1"
    assert (
        0 < document["second"]["usd"]["best"] < document["usd"]["best"] < document["usd"]["worst"]
    )
    assert document["usd"]["worst"] < document["accelerator_budget_usd"] == 80
    local = json.loads(planned(path=EXPERIMENTS / "rehearsal.yaml", with_=("--json",)))
    assert "usd" not in local
    assert len(local["notes"]) == 1


def test_the_first_deploys_plan_fits_one_screen(
    planned: Planned,
) -> None:
    text = planned(path=EXPERIMENTS / "smoke.yaml", with_=())
    rows = text.splitlines()
    assert sum(max(1, -(-len(row) // 100)) for row in rows) <= 24
    assert rows[0] == "traffic     50% structured, 50% open_ended of the output tokens"
    assert re.match(r"first run   [\d.]+ to [\d.]+ USD .* budget 30\.00$", rows[1])
    assert "note: aws.admin_principal_arns is empty: kubectl is refused" in text
    assert "note: aws.public_access_cidrs is empty: the Kubernetes API is private" in text
    assert "may end the run" not in text


def test_the_page_has_the_cost_of_hold(planned: Planned) -> None:
    held = planned(put("aws", "hold", value=True), base="smoke", with_=())
    costs = held.partition("\n\n")[0].splitlines()[1:]
    assert costs[0].startswith("on hold     ")
    lines = "\n".join(costs)
    assert_block(ROOT / "docs" / "operations.md", "hold", f"```\n{lines}\n```\n")
    assert "minutes after `cdk deploy` without aws.hold starts" in held
    assert "on hold" not in planned(base="smoke", with_=())


def minutes(experiment: ResolvedNeuron, *begins: str) -> list[str]:
    """Return how long phases whose names begin so take together, at best and at worst."""
    taken = []
    for schedule in vars(forecast(experiment).unlimited).values():
        spans = [s for name, s in schedule.spans.items() if name.startswith(begins)]
        taken.append(f"{max(s.end for s in spans) - min(s.start for s in spans):.0f}")
    return taken


def test_the_page_has_the_minutes_after_hold() -> None:
    held = changed_aws(resolved("smoke"), hold=True)
    page = (ROOT / "docs" / "operations.md").read_text()
    for begins, happens in {
        ("deploy",): "{} to {} | the deploy;",
        ("scale up", "node start"): "then {} to {} | one node starts",
        ("image pull", "compile", "load"): "then {} to {} | the servers' image is pulled",
        ("measure",): "then {} to {} | the measuring Job",
        ("nodes to zero",): "then {} to {} | the node goes",
    }.items():
        assert f"| {happens.format(*minutes(held, *begins))}" in page


def test_the_hold_for_programs(planned: Planned) -> None:
    held = json.loads(planned(put("aws", "hold", value=True), base="smoke", with_=("--json",)))
    assert held["hold"]["usd"]["best"] > held["hold"]["nat_gateway_usd"]["best"] > 0
    without = json.loads(planned(base="smoke", with_=("--json",)))
    assert without["hold"] is None
    assert without["usd"] == pytest.approx(held["usd"])
    assert without["ready_minutes"]["best"] > held["ready_minutes"]["best"]


def test_assumptions_are_replaced_and_compiled_graphs_only_loaded(planned: Planned) -> None:
    assumed = ("--assume", "node_start_minutes=5", "--assume", "compile_minutes=30..90")
    text = planned(with_=("--verbose", *assumed, "--compiled", "baseline"))
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


def test_a_local_experiment_has_no_time_line(
    planned: Planned, capsys: pytest.CaptureFixture[str]
) -> None:
    path = EXPERIMENTS / "rehearsal.yaml"
    text = planned(path=path)
    assert "time line" not in text
    assert text.splitlines()[-1] == f"next: draftworth rehearse --experiment {path}"
    assert main(["plan", str(path), "--assume", "compile_minutes=5"]) == 2
    assert "uses no AWS nodes and has no time line" in capsys.readouterr().err


NO_STOP = put("search", "stop", value={})
ROOM = both(
    put("aws", "deadline_minutes", value=9_000), put("aws", "accelerator_budget_usd", value=900.0)
)


@pytest.mark.parametrize("base", ["qwen3-32b", SEARCH])
@pytest.mark.parametrize(
    ("key", "value"), [("accelerator_budget_usd", 1), ("deadline_minutes", 15)]
)
def test_a_limit_below_the_best_case_is_refused(
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
    printed = capsys.readouterr()
    assert f"aws.{key}: given {value}, allowed: " in printed.err
    assert "because even the best case needs" in printed.err
    # Only `plan` refuses such a limit. `cdk synth` only warns, because else a deployed stack with
    # this limit could not be destroyed.
    experiment = load_neuron(limited)
    warned = {note.code for note in notes(experiment, run=forecast(experiment), today=date.today())}
    assert ("run-ends-unfinished" in warned) == (base != SEARCH)
    least = int(printed.err.partition("allowed: ")[2].split()[0])
    assert f"aws.{key}" in planned(*edits, put("aws", key, value=least), base=base)


def block_of(**more: object) -> Edit:
    block = {"kind": "capacity_block", "reservation_id": "cr-0123456789abcdef0", **more}
    return put("aws", "capacity", value=block)


def test_a_budget_never_refuses_a_capacity_block(planned: Planned) -> None:
    block = block_of(hours=48)
    assert "which are paid in any case" in planned(
        ROOM, block, put("aws", "accelerator_budget_usd", value=5)
    )


def draft_of(model: str) -> Edit:
    family = {} if model.startswith(("RedHatAI", "AngelSlim")) else {"tokenizer_family": "qwen3"}
    return both(
        put("release", value="neuron-2.31.1"),
        put("variants", 1, "method", value="eagle3"),
        put("variants", 1, "draft", value={"model": model, **family}),
    )


def requests(least: int, most: int) -> Edit:
    work = {"min_requests": least, "max_requests": most, "requests_per_round": 4}
    return both(*(put("workload", key, value=value) for key, value in work.items()))


def limits(**values: float) -> Edit:
    """Set a high deadline and a high budget, and then the values that are given."""
    enough: dict[str, float] = {"deadline_minutes": 600, "accelerator_budget_usd": 1000}
    return both(*(put("aws", key, value=value) for key, value in (enough | values).items()))


def search_limits(**values: float) -> Edit:
    return both(
        put("search", "stop", value={}),
        limits(**{"deadline_minutes": 9_000, "accelerator_budget_usd": 900.0, **values}),
    )


def stop(hours: float) -> Edit:
    return put("search", "stop", value={"last_start_hours": hours})


def of_account(account: str, reservation: str) -> Edit:
    image = f"{account}.dkr.ecr.us-east-2.amazonaws.com/l:1"
    return both(
        put("aws", "admin_principal_arns", value=[f"arn:aws:iam::{account}:role/Admin"]),
        put("aws", "load_generator_image", value=image),
        block_of(reservation_id=reservation),
    )


def two_by_hand(data: dict[str, Any]) -> None:
    """Add a candidate of each draft by hand, so that it is certainly measured.

    Each has the name that the search gives to the same candidate.
    """
    for draft in ("Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B"):
        by_hand = {"name": f"{draft.partition('/')[2].lower()}-k8", "method": "fused_draft"}
        data["variants"].append({**by_hand, "draft": {"model": draft}, "window": 8})


AS_SHIPPED = put("baseline_as_shipped", value=True)
ONE_DEVICE = both(put("serving", "slot_devices", value=1))
SMALL_NODES = both(
    put("aws", "instance_type", value="trn2.3xlarge"), put("aws", "price", "usd_per_hour", value=2)
)
GATED = both(
    put("target", "model", value="meta-llama/Llama-3.1-8B-Instruct"),
    put("variants", 1, "draft", "model", value="meta-llama/Llama-3.2-1B-Instruct"),
)
ELSEWHERE = both(
    put("aws", "region", value="eu-central-1"),
    put("aws", "availability_zone", value="eu-central-1c"),
)
KNOWN_HEAD, OWN_HEAD = "RedHatAI/Qwen3-32B-speculator.eagle3", "acme/Qwen3-32B-eagle3"
LONG_AGO = put("aws", "price", "as_of", value=date(2020, 1, 1))
UNKNOWN_DFLASH = both(
    DFLASH,
    put("variants", 1, "draft", value={"model": "acme/DFlash", "tokenizer_family": "llama3"}),
)
ONE_DRAFT = put("search", "drafts", value=[{"model": "Qwen/Qwen3-1.7B"}])
# Edits of shipped experiments; `plan-edits.txt` has the lines that each edit adds to the plan.
EDITED: dict[str, tuple[str, Edit]] = {
    "without a price": ("qwen3-32b", drop("aws", "price")),
    "no whole round more": ("qwen3-32b", requests(8, 9)),
    "a round more": ("qwen3-32b", requests(8, 12)),
    "the baseline as shipped": ("qwen3-32b", AS_SHIPPED),
    "it on a slot of one device": ("qwen3-32b", both(AS_SHIPPED, ONE_DEVICE)),
    "one class less": ("qwen3-32b", both(AS_SHIPPED, drop("workload", "classes", 1))),
    "two small nodes": ("qwen3-32b", both(ONE_DEVICE, SMALL_NODES)),
    "a block": ("qwen3-32b", both(block_of(), put("aws", "accelerator_budget_usd", value=300))),
    "loaded together": ("qwen3-32b", put("workload", "parallel", value=True)),
    "a control": ("qwen3-32b", put("control", value=True)),
    "windows with gaps": (SEARCH, put("search", "windows", value=[12, 3, 5])),
    "a search without a price": (SEARCH, drop("aws", "price")),
    "a search in which all is certain": (SEARCH, OF_HEADS),
}
# Further edits; `plan-notes.txt` has the notes that each edit adds. Beside an edit that adds a note
# stands a similar one that adds none.
NOTED: dict[str, tuple[str, Edit]] = {
    "room": ("qwen3-32b", limits()),
    "too little money at worst": ("qwen3-32b", limits(accelerator_budget_usd=20.0)),
    "too little time at worst": ("qwen3-32b", limits(deadline_minutes=100)),
    "more in flight than seats": ("qwen3-32b", put("workload", "concurrency", value=5)),
    "prompts longer than input_tokens": ("qwen3-32b", put("workload", "input_tokens", value=9)),
    "a known head": ("qwen3-32b", draft_of(KNOWN_HEAD)),
    "a head that nobody knows": ("qwen3-32b", draft_of(OWN_HEAD)),
    "a baseline that is as shipped": (
        "qwen3-32b",
        both(draft_of("AngelSlim/Qwen3-32B_eagle3"), AS_SHIPPED),
    ),
    "gated models": ("qwen3-32b", GATED),
    "gated models, with a secret": (
        "qwen3-32b",
        both(GATED, put("aws", "hub_token_secret", value="draftworth/hub")),
    ),
    "a region where nobody saw a node": ("qwen3-32b", ELSEWHERE),
    "a node release that does not fit": (
        "qwen3-32b",
        put("aws", "pins", "node_release", value="1.35.6-20260714"),
    ),
    "a price of long ago": ("qwen3-32b", LONG_AGO),
    "a price of long ago, of a block": ("qwen3-32b", both(LONG_AGO, block_of())),
    "values of an example": ("qwen3-32b", of_account("111122223333", "cr-0123456789abcdef0")),
    "values of one's own": ("qwen3-32b", of_account("123456789012", "cr-0fedcba9876543210")),
    "a block of two hours": ("qwen3-32b", block_of(hours=2)),
    "a block of two weeks": ("qwen3-32b", block_of(hours=336)),
    "sampling": ("rehearsal", put("workload", "temperature", value=0.7)),
    "a known DFlash head": ("llama-3.1-8b-eagle3", DFLASH),
    "a DFlash head that nobody knows": ("llama-3.1-8b-eagle3", UNKNOWN_DFLASH),
    "a search with room": (SEARCH, search_limits()),
    "money for the certain ones at best": (SEARCH, search_limits(accelerator_budget_usd=30.0)),
    "money for less than an average search": (SEARCH, search_limits(accelerator_budget_usd=90.0)),
    "money for an average search": (SEARCH, search_limits(accelerator_budget_usd=180.0)),
    "time for the certain ones at best": (SEARCH, search_limits(deadline_minutes=140)),
    "time for less than an average search": (SEARCH, search_limits(deadline_minutes=380)),
    "time for an average search": (SEARCH, search_limits(deadline_minutes=700)),
    "a stop that is too short for both": (SEARCH, both(two_by_hand, stop(1.0))),
    "a stop that is long enough": (SEARCH, both(two_by_hand, stop(3.0))),
    "a stop before the first, which begins": (SEARCH, both(ONE_DRAFT, stop(1.0))),
}


def of_plan(text: str, *, notes: bool) -> list[str]:
    """The plan's notes, or its other lines without servers' keys, environments and commands.

    Several blanks become one, because an edit can change the width of columns.
    """
    left_out = ("artifact key", "environment", "command", "──")
    rows = (" ".join(row.split()) for row in text.splitlines())
    return [r for r in rows if r.startswith("note: ") is notes and not r.startswith(left_out)]


@pytest.mark.parametrize(
    ("edits", "name"), [(EDITED, "plan-edits.txt"), (NOTED, "plan-notes.txt")], ids=["all", "notes"]
)
def test_what_an_edit_adds_to_the_plan(
    planned: Planned, tmp_path: Path, edits: dict[str, tuple[str, Edit]], name: str
) -> None:
    notes = edits is NOTED
    bases = {base for base, _ in edits.values()}
    without_edit = {base: of_plan(planned(both(), base=base), notes=notes) for base in bases}
    lines: list[str] = []
    for edited, (base, edit) in edits.items():
        plan = of_plan(planned(edit, base=base), notes=notes)
        new_rows = [f"  {row}" for row in plan if row not in without_edit[base]]
        lines += [edited, *new_rows, f"  and {len(plan) - len(new_rows)} as without the edit", ""]
    assert_snapshot("\n".join(lines).replace(str(tmp_path), "FOLDER"), SNAPSHOTS / name)


def test_a_limit_as_the_note_says_is_enough(planned: Planned) -> None:
    """With the limit that a note names, no limit ends the run; with less it does.

    The run then costs no more than the note says.
    """
    text = planned(limits(deadline_minutes=100))
    needed = int(text.partition("the worst case needs ")[2].split()[0])
    for minutes, is_cut in ((needed, False), (needed - 1, True)):
        text = planned(limits(deadline_minutes=minutes))
        assert ("unfinished" in text) is is_cut
    text = planned(limits(accelerator_budget_usd=20.0))
    usd = float(text.partition("the worst case costs ")[2].split()[0])
    text = planned(limits(accelerator_budget_usd=usd + 0.01))
    assert "unfinished" not in text
    assert f" to {usd:.2f} USD for " in line(text, "first run")
    assert f"budget {usd + 0.01:.2f}" in line(text, "first run")


def test_candidates_of_searches_differ_in_draft_and_window() -> None:
    """`plan` shows the server of one candidate for all, so their commands must be alike."""
    experiment = resolved(SEARCH)
    first = experiment.first_candidate
    assert isinstance(first, NeuronVariant)
    for variant in experiment.variants[1:]:
        window = f'"num_speculative_tokens":{variant.spec.window}'
        arguments = [
            a.replace(window, '"num_speculative_tokens":8') for a in variant.command.arguments
        ]
        assert arguments == list(first.command.arguments)
        assert variant.command.environment == first.command.environment


def test_a_candidate_of_another_method_has_its_command(planned: Planned) -> None:
    head = {"method": "eagle", "draft": {"model": "acme/eagle", "tokenizer_family": "qwen3"}}
    pair = [{**deepcopy(head), "name": f"head-k{n}", "window": n} for n in (3, 4)]

    def extended(data: dict[str, Any]) -> None:
        data["variants"].extend(pair)

    text = planned(extended, base=SEARCH, with_=("--verbose",))
    # The commands of three servers: of the baseline, of the first EAGLE head, and of the first
    # candidate with the method of the search.
    assert text.count("  command ") == 3
    assert "like head-k3, with another draft or window: 1 variant\n" in text
    assert "like qwen3-1.7b-k3, with another draft or window: 25 variants" in text
    certain = line(text, "certainly measured: ").partition(": ")[2]
    assert certain == "head-k3, head-k4, qwen3-1.7b-k8, qwen3-0.6b-k8"


def test_what_is_all_certain_may_not_be_more(planned: Planned) -> None:
    text = planned(OF_HEADS, base=SEARCH)
    assert not any(n in text for n in ("may be measured", "each further candidate", "search.stop"))


def test_a_local_search_has_candidates_without_time_line(planned: Planned) -> None:
    text = planned(path=EXPERIMENTS / "rehearsal-search.yaml")
    assert line(text, "certainly measured: ").endswith(": draft-k7")
    assert "10 more; simulated searches of the kind took 3.2 in all" in text
    assert "time line" not in text


def test_a_run_that_stops_when_decided_is_wider(planned: Planned) -> None:
    decided = put("workload", "stop", value="decided")
    words = line(planned(decided, requests(16, 64)), "stop when decided")
    assert "the fewest requests only where they decide every verdict" in words
    assert "up to 13 times, so intervals are of 99.1%" in words
    assert "stop when decided" not in planned(requests(16, 64))
