"""`draftworth report`: files, exit codes, runs in S3."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from draftworth.analysis.acceptance import profile_of
from draftworth.cli import main
from draftworth.decision.elsewhere import LoadsOfOneRun, elsewhere
from draftworth.decision.run_comparison import NotComparedError
from draftworth.metrics.definitions import COST
from draftworth.records.acceptance_profile import load_profile
from draftworth.records.codec import load_record
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import AS_SHIPPED
from draftworth.records.run_folder import Run, read_run
from draftworth.report.answer import Answer
from draftworth.report.run_differences import not_compared_words, unlike_words
from tests.conftest import ROOT
from tests.draftworth.report.pages import SNAPSHOTS
from tests.draftworth.report.runs import (
    BASELINE,
    VARIANT,
    make_drafted_block,
    make_facts,
    make_plain_block,
    make_run,
    two_rounds,
    write_run,
)
from tests.support.blocks import each_request, make_price
from tests.support.present import present
from tests.support.snapshot import assert_snapshot


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run's folder, of which each test gets a copy."""
    return write_run(make_run(), tmp_path_factory.mktemp("written") / "run")


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "run")


@pytest.fixture
def bucket(folder: Path, s3: Any) -> str:
    """Put the run into an emulated S3, with one key that would be written outside the folder."""
    for file in folder.rglob("*.*"):
        key = f"runs/built-run/{file.relative_to(folder)}"
        s3.put_object(Bucket="results", Key=key, Body=file.read_bytes())
    s3.put_object(Bucket="results", Key="runs/built-run/blocks/../../x.result.json", Body=b"{}")
    return "s3://results/runs/built-run"


@pytest.mark.usefixtures("undrawn")
def test_with_out_the_report_lies_beside_the_run(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    assert main(["report", str(folder)]) == 0
    assert sorted(folder.rglob("*")) == before
    assert main(["report", str(folder), "--out"]) == 0
    names = {path.name for path in (folder / "report").iterdir()}
    pictures = {n for n in names if n.endswith(".png")}
    assert {"cost.png", "tokens-per-step.png"} <= pictures
    assert names - pictures == {"report.md", "report.html", "figures.csv", "requests.csv"}
    text = (folder / "report" / "report.md").read_text()
    assert all(f"]({name})" in text for name in pictures)


def test_a_reader_who_leaves_early_loses_no_file(folder: Path, tmp_path: Path) -> None:
    """As in `report RUN --out DIR | head`, if `head` ends before the first line is printed."""
    argv = [sys.executable, "-m", "draftworth", "report", str(folder), "--handover", "--out"]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run([*argv, str(tmp_path / "out")], cwd=ROOT, check=False, stdout=closed)
    assert done.returncode == 0
    assert (tmp_path / "out" / "handover.md").exists()


def test_the_handover_is_printed_and_written_alone(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder), "--handover", "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr().out
    assert output.startswith("built: handover\n")
    assert "Decision: serve structured with k7, open_ended without speculation." in output
    assert "Verdict\n" not in output
    assert {f.name for f in (tmp_path / "out").iterdir()} == {"handover.md", "handover.html"}
    assert main(["report", str(folder), "--verbose"]) == 0
    page = output[output.index("\nHandover\n") : output.index("handover written to")]
    assert capsys.readouterr().out.endswith(f"{page}files: {folder}\n")


@pytest.mark.parametrize(
    ("variants", "next_arguments"),
    [
        ((BASELINE, AS_SHIPPED), "report OTHER --against {folder}"),
        ((BASELINE,), "report OTHER --against {folder}"),
        ((BASELINE, VARIANT), "report {folder} --out"),
    ],
    ids=["baseline as shipped", "one server", "with a draft"],
)
def test_a_run_without_draft_leads_to_comparison(
    variants: tuple[str, ...],
    next_arguments: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = two_rounds(make_plain_block(1, "structured"))
    shipped = (replace(b, variant=AS_SHIPPED, block=b.block + 100) for b in plain)
    drafted = two_rounds(make_drafted_block(3, "structured"))
    blocks = tuple(b for b in (*plain, *shipped, *drafted) if b.variant in variants)
    run = make_run(blocks=blocks, variants=variants, class_weights={"structured": 1.0})
    folder = write_run(run, tmp_path / "run")
    assert main(["report", str(folder)]) == 0
    (line,) = (x for x in capsys.readouterr().out.splitlines() if x.startswith("Next: "))
    assert next_arguments.format(folder=folder) in line


def test_json_is_alone_on_standard_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder), "--json"]) == 0
    assert load_record(Answer, capsys.readouterr().out).serve == BASELINE
    assert main(["report", str(folder), "--json", "--score", "true"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("options", [["--against", "."], ["--score", "true"]])
def test_a_handover_refuses_what_it_would_not_show(
    options: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder), "--handover", *options]) == 2
    assert f"{options[0]}: given with --handover" in capsys.readouterr().err


@pytest.mark.usefixtures("undrawn")
def test_a_folder_that_cannot_be_written_fails(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["report", str(folder), "--out", str(tmp_path / "file" / "below")]) == 1
    assert "the report cannot be written" in capsys.readouterr().err


def endpoint_run(name: str, run: Run, **overrides: Any) -> Run:
    """Return a run as `measure` records it of one endpoint: the baseline's blocks, as `name`."""
    blocks = tuple(replace(b, variant=name) for b in run.blocks if b.variant == BASELINE)
    fields = {"experiment": "measure", "run_id": f"run-of-{name}", "class_weights": {}}
    return make_run(blocks=blocks, variants=(name,), baseline=name, **(fields | overrides))


GPU = make_price(usd_per_node_hour=1.25, node_shares={"gpu": 1.0})
ALONE = tuple(block for block in make_run().blocks if block.variant == BASELINE)
RUNS = {
    "plain": make_run(),
    "other": make_run(run_id="other-run"),
    "third": make_run(run_id="third"),
    "priced": make_run(price=make_price()),
    # `measure` recorded these two runs of one server each; the second server has a price.
    "cpu": endpoint_run("cpu", make_run()),
    "gpu": endpoint_run("gpu", make_run(), price=GPU),
    "alone": make_run(blocks=ALONE, variants=(BASELINE,), temperature=0.7),
    "failed": make_run(blocks=(), status="failed", reason="no server started"),
}
# The arguments of each report; a snapshot has the lines that the plain run's report lacks.
PRINTED = {
    "against another run": ("plain", "--against", "other"),
    "against something else": ("plain", "--against", "gpu"),
    "against something else, with prices": ("priced", "--against", "gpu"),
    "two endpoints that were measured alone": ("cpu", "--against", "gpu"),
    "without a comparison": ("alone",),
    "a run that failed": ("failed",),
    "two put together, against a third": ("plain", "other", "--against", "third"),
}


def test_what_is_printed_of_runs_beside_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def lines(*words: str) -> list[str]:
        assert main(["report", "--verbose", *(str(places.get(word, word)) for word in words)]) == 0
        rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        return [row for row in rows if row and not row.startswith("──")]

    places = {name: write_run(run, tmp_path / name) for name, run in RUNS.items()}
    text, plain_lines = "", lines("plain")
    for name, words in PRINTED.items():
        printed = lines(*words)
        new_lines = [f"  {line}" for line in printed if line not in plain_lines]
        text += "\n".join(
            [name, *new_lines, f"  and {len(printed) - len(new_lines)} of the plain run", "\n"]
        )
    assert_snapshot(text.replace(str(tmp_path), "FOLDER"), SNAPSHOTS / "printed.txt")


def test_costs_stand_beside_intervals_and_sources_of_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    price_source = {"source": "a price list", "as_of": "2026-11-01"}
    price = make_price(usd_per_node_hour=1.25, node_shares={"gpu": 1.0}, **price_source)
    other = write_run(endpoint_run("gpu", make_run(), price=price), tmp_path / "other")
    run = write_run(make_run(price=make_price()), tmp_path / "priced")
    assert main(["report", str(run), "--against", str(other)]) == 0
    output = capsys.readouterr().out
    assert "the other, 1.25 USD per node hour (a price list, 2026-11-01)." in output
    facts, elsewhere_facts = (make_facts(read_run(place)) for place in (run, other))
    comparison = elsewhere(facts, elsewhere_facts)
    assert not comparison.unlike
    seen = 0
    for row in comparison.rows:
        ours, theirs = map(present, row.usd)
        assert present(row.ratio).value == pytest.approx(ours.value / theirs.value)
        assert (ours.low or 0) < ours.value < (ours.high or 0)
        if row.variant == BASELINE and row.traffic.name != "traffic mix":
            (group,) = (g for g in facts.groups if g.group.prompt_class == row.traffic.name)
            assert ours.value == pytest.approx(group.baseline.value(COST))
            seen += 1
    assert seen == 2


def test_a_load_of_one_run_is_not_compared() -> None:
    more = tuple(
        replace(
            each_request(block, lambda r: replace(r, request_id=f"c1-{r.request_id}")),
            load=ConcurrencyLoad(concurrency=1),
            block=block.block + 100,
        )
        for block in make_run().blocks
    )
    ladder = make_facts(make_run(blocks=(*make_run().blocks, *more)))
    comparison = elsewhere(ladder, make_facts(endpoint_run("gpu", make_run())))
    assert {row.traffic.load.label for row in comparison.rows} == {"c4"}
    assert comparison.unlike == (LoadsOfOneRun(loads=frozenset({ConcurrencyLoad(concurrency=1)})),)
    assert [*map(unlike_words, comparison.unlike)] == [
        "one request at a time: of one run alone, and not compared"
    ]


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        (
            {"number_output_tokens": 80},
            (
                "structured at 4 requests at a time: outputs have 100 tokens here and 80 there, "
                "in the mean"
            ),
        ),
        (
            {"number_input_tokens": None},
            "structured at 4 requests at a time: tokens of prompts are not counted by both servers",
        ),
    ],
)
def test_work_of_another_size_is_told(tokens: dict[str, Any], reason: str) -> None:
    blocks = tuple(each_request(b, lambda r: replace(r, **tokens)) for b in make_run().blocks)
    other = endpoint_run("gpu", make_run(blocks=blocks))
    unlike = elsewhere(make_facts(), make_facts(other)).unlike
    assert unlike_words(unlike[0]).startswith(reason)


@pytest.mark.usefixtures("undrawn")
def test_runs_of_different_prompts_are_refused_before_writing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = tuple(replace(block, case="others") for block in make_run().blocks)
    other = write_run(
        make_run(run_id="other", experiment="llama", blocks=blocks), tmp_path / "other"
    )
    assert main(["report", str(folder), "--against", str(other), "--out"]) == 2
    streams = capsys.readouterr()
    assert "cannot be compared: classes, cases or loads" in streams.err
    assert streams.out == ""
    assert not (folder / "report").exists()


@pytest.mark.usefixtures("undrawn")
def test_sampled_outputs_are_not_checked_but_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {r.request_id: f"text {r.request_id}" for b in make_run().blocks for r in b.requests}
    outputs_and_pages = []
    for temperature in (0.0, 0.7):
        run = make_run(temperature=temperature)
        folder = write_run(run, tmp_path / str(temperature), texts=texts)
        assert main(["report", str(folder), "--out", "--verbose"]) == 0
        outputs_and_pages.append(
            (capsys.readouterr().out, (folder / "report" / "report.md").read_text())
        )
    (greedy, greedy_page), (sampled, sampled_page) = outputs_and_pages
    assert "Greedy outputs" in greedy
    assert "not checked" not in greedy_page
    assert "Greedy outputs" in greedy_page
    assert "Outputs were sampled at temperature 0.7" in sampled
    assert "temperature 0.7" in sampled_page
    assert sampled_page.count("| k7 | not checked |") == 2
    assert "reedy" not in sampled_page
    for page in (greedy, sampled):
        assert page.count("length 16") == 4


def test_runs_at_two_temperatures_are_not_compared() -> None:
    other = make_facts(make_run(run_id="other", temperature=0.7, experiment="measure"))
    with pytest.raises(NotComparedError) as refused:
        elsewhere(make_facts(), other)
    assert "cannot be compared: temperature 0 and 0.7" in not_compared_words(refused.value)


def test_a_stray_copy_changes_nothing_and_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder), "--verbose"]) == 0
    before = capsys.readouterr().out
    first = next((folder / "blocks").glob("0001*.result.json"))
    shutil.copy(first, folder / "blocks" / "copy.result.json")
    assert main(["report", str(folder), "--verbose"]) == 0
    assert "One result file beside the run's is not in its run.json" in capsys.readouterr().out
    shutil.copy(first, folder / "blocks" / "\x1b[2J.result.json")
    assert main(["report", str(folder), "--verbose"]) == 0
    after = capsys.readouterr().out.splitlines()
    (warning,) = (line for line in after if line.startswith("ATTENTION: "))
    assert "2 result files beside the run's are not in its run.json and not used: " in warning
    assert warning.endswith("\\x1b[2J.result.json, copy.result.json.")
    assert [line for line in after if line != warning] == before.splitlines()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.emulator
def test_a_run_in_s3_equals_its_folder(
    bucket: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder), "--out", str(tmp_path / "local")]) == 0
    assert main(["report", f"{bucket}/", "--out", str(tmp_path / "remote")]) == 0
    for name in ("report.md", "figures.csv", "requests.csv"):
        local, remote = (tmp_path / place / name for place in ("local", "remote"))
        assert local.read_bytes() == remote.read_bytes()
    assert "step-latency" in (tmp_path / "remote" / "report.md").read_text()


@pytest.mark.emulator
def test_problems_of_a_run_in_s3_are_reported(
    bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = "s3://nowhere/runs/built-run"
    for argv, code, message in (
        (["s3://results/runs/nothing"], 2, "s3://results/runs/nothing: no run.json there"),
        ([bucket, "--out"], 2, "next: give DIR"),
        ([nowhere], 1, f"could not read {nowhere}: NoSuchBucket"),
        (["s3://"], 2, "allowed: s3://BUCKET/PREFIX"),
        ([bucket, "s3://results"], 2, "RUN: given s3://results, which names many runs"),
    ):
        assert main(["report", *argv]) == code
        assert message in capsys.readouterr().err


@pytest.mark.emulator
def test_missing_credentials_for_s3_have_a_next_step(
    bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps what it found first
    assert main(["report", f"{bucket}"]) == 1
    message = capsys.readouterr().err
    assert "could not read s3://results/runs/built-run: Unable to locate credentials" in message
    assert "next: log in (`aws sso login`" in message


def test_printing_a_report_loads_no_plotting_library(folder: Path) -> None:
    code = (
        "import sys; from draftworth.cli import main; main(['report', sys.argv[1]]); "
        "sys.exit(any(m.split('.')[0] in ('matplotlib', 'jinja2', 'boto3') for m in sys.modules))"
    )
    argv = [sys.executable, "-c", code, str(folder)]
    assert subprocess.run(argv, cwd=ROOT, check=False, capture_output=True).returncode == 0


@pytest.mark.usefixtures("undrawn")
def test_the_pages_of_several_runs_name_each(folder: Path, tmp_path: Path) -> None:
    other, out = write_run(make_run(run_id="another"), tmp_path / "other"), tmp_path / "out"
    assert main(["report", str(folder), str(other), "--out", str(out)]) == 0
    for name in ("report.md", "report.html"):
        assert "another, 1" in (out / name).read_text()
    assert not list(out.glob("*over-time*"))


@pytest.fixture(scope="module")
def unlike_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return folders of runs by name: of another experiment, of the same, and a sampled run."""
    folder = tmp_path_factory.mktemp("unlike")
    by_name = {
        "other": make_run(run_id="o", experiment="another"),
        "same": make_run(run_id="same"),
        "sampled": make_run(run_id="sampled", temperature=0.7),
    }
    return {name: write_run(run, folder / name) for name, run in by_name.items()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{folder}", "{folder}"], "RUN: given built-run twice"),
        (["{folder}", "{other}"], "cannot be put together: experiment 'built' and 'another'"),
        (["{folder}", "{same}", "--out"], "--out: given without DIR"),
        (["{folder}", "--against", "{folder}"], "--against: given built-run, which is a RUN too"),
        (
            ["{folder}", "{same}", "--against", "{same}"],
            "--against: given same, which is a RUN too",
        ),
        (
            ["{folder}", "--against", "{sampled}"],
            (
                "--against: built-run and sampled cannot be compared: temperature 0 and 0.7. Give "
                "two runs of the same experiment file"
            ),
        ),
    ],
)
def test_runs_that_cannot_be_put_together_are_refused(
    folder: Path,
    unlike_runs: dict[str, Path],
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = [argument.format(folder=folder, **unlike_runs) for argument in arguments]
    assert main(["report", *places]) == 2
    assert message in capsys.readouterr().err


def test_a_run_without_speculation_writes_no_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(make_run(max_tokens_per_step={}), tmp_path / "run")
    path = tmp_path / "profile.json"
    assert main(["report", str(folder), "--profile", str(path)]) == 2
    assert "--profile: given run built-run, allowed: a run with spec" in capsys.readouterr().err
    assert not path.exists()


def test_a_runs_acceptance_is_written_as_a_profile(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    assert main(["report", str(folder), "--profile", str(path)]) == 0
    assert load_profile(path.read_bytes()) == profile_of(read_run(folder))


def test_a_profile_is_of_a_whole_report(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["report", str(folder), "--handover", "--profile", str(tmp_path / "x")]
    assert main(arguments) == 2
    assert "--profile: given with --handover" in capsys.readouterr().err
