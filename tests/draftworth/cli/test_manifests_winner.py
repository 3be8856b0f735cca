"""`manifests --winner`: the files that it writes for another cluster, or why it writes none."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftworth.cli import main
from draftworth.planning.resolved import load, load_neuron
from tests.charts.winner.runs import (
    HEADS,
    IMAGE,
    LOCAL,
    NEURON,
    built_run,
    experiment_path,
    exported,
    written_run,
)
from tests.draftworth.report.runs import write_run
from tests.support.experiments import put, shipped, write_experiment
from tests.support.snapshot import assert_snapshot

pytestmark = pytest.mark.synth

SNAPSHOTS = Path(__file__).parent / "snapshots"
FORMS = ["common.yaml", "deployment.yaml", "kserve.yaml", "production-stack-values.yaml"]
ALARMS = ["cloudwatch-alarm.yaml", "prometheus-rule.yaml"]
NAMED = ["--checkpoints-bucket=example-checkpoints", "--artifacts-bucket=example-artifacts"]


def manifests(experiment: str | Path, run: Path, out: Path, *options: str) -> int:
    path = experiment if isinstance(experiment, Path) else experiment_path(experiment)
    return main(["manifests", str(path), "--winner", str(run), "--out", str(out), *options])


def test_files_and_next_steps_are_in_the_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = written_run(tmp_path), tmp_path / "out"
    assert manifests(NEURON, run, out, "--namespace=serving") == 0
    output = capsys.readouterr().out.replace(str(out), "OUT")
    assert sorted(path.name for path in out.iterdir()) == sorted([*FORMS, *ALARMS])
    headers = [
        line
        for name in (*FORMS, *ALARMS)
        for line in (out / name).read_text(encoding="utf-8").splitlines()
        if line.startswith("#")
    ]
    assert_snapshot("\n".join([output, *headers, ""]), SNAPSHOTS / "manifests-winner.txt")


def test_files_whose_pods_claim_have_the_template(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert manifests(NEURON, written_run(tmp_path), out) == 0
    kinds = {
        name: [o.get("kind") for o in yaml.safe_load_all((out / name).read_text(encoding="utf-8"))]
        for name in FORMS
    }
    assert [name for name in FORMS if "ResourceClaimTemplate" in kinds[name]] == FORMS[1:3]
    assert {*kinds[FORMS[0]]} == {"ServiceAccount", "PersistentVolume", "PersistentVolumeClaim"}


@pytest.mark.parametrize(
    ("pays", "folders"), [(True, "folders target and draft"), (False, "a folder target")]
)
def test_a_local_winner_names_its_checkpoint_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pays: bool, folders: str
) -> None:
    run = written_run(tmp_path, LOCAL, pays=pays)
    assert manifests(LOCAL, run, tmp_path / "out", f"--image={IMAGE}") == 0
    wanted = f"Make a PersistentVolumeClaim with the checkpoints, in {folders}:"
    assert wanted in capsys.readouterr().out.splitlines()


def test_without_a_cheaper_variant_the_baseline_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = written_run(tmp_path, pays=False), tmp_path / "out"
    assert manifests(NEURON, run, out) == 0
    output = capsys.readouterr().out
    assert "the winner is the baseline, without speculation" in output
    assert "kubectl create namespace" not in output, "the one that is always there"
    assert sorted(path.name for path in out.iterdir()) == FORMS, "a baseline needs no alarm"
    for name in FORMS:
        text = (out / name).read_text(encoding="utf-8")
        assert "# No variant is shown to be cheaper: the winner is the baseline" in text
        assert "--speculative-config" not in text
    annotations = exported(pays=False).annotations
    assert annotations["draftworth/winner"] == "baseline (no speculation)"
    assert annotations["draftworth/others"].startswith(
        "qwen3-1.7b-k7, open_ended at 4 requests at a time: more expensive"
    )
    assert "draftworth/cost-ratio" not in annotations


def test_an_undecided_run_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = load(experiment_path(NEURON))
    run = built_run(experiment)
    blocks = tuple(b for b in run.blocks if b.round == 1)
    result = replace(run.result, blocks=tuple(b.stem for b in blocks))
    folder = write_run(replace(run, result=result, blocks=blocks), tmp_path / "run")
    assert manifests(NEURON, folder, tmp_path / "out") == 1
    error = capsys.readouterr().err
    assert "run built-run has no winner: No answer yet" in error
    assert "next: measure more" in error
    assert not (tmp_path / "out").exists()


def test_a_run_of_another_experiment_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manifests(HEADS, written_run(tmp_path), tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert f"given run built-run of experiment '{NEURON}', allowed: a run of '{HEADS}'" in error


def test_a_changed_experiment_is_refused_with_the_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = written_run(tmp_path)
    path = write_experiment(tmp_path, put("serving", "max_model_len", value=2048))
    assert manifests(path, run, tmp_path / "out") == 2
    assert "max_model_len: measured 1024, in the file 2048" in capsys.readouterr().err
    path = write_experiment(tmp_path, put("target", "revision", value="0" * 40))
    assert manifests(path, run, tmp_path / "out") == 2
    difference = f"target_revision: measured main, in the file {'0' * 40}"
    assert difference in capsys.readouterr().err
    same_name = shipped(NEURON)["variants"][1] | {"name": "qwen3-1.7b-k7", "window": 5}
    path = write_experiment(tmp_path, put("variants", 1, value=same_name))
    assert manifests(path, run, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "    window: measured 7, in the file 5\n" in error
    assert "artifact key" not in error


@pytest.mark.parametrize(
    "change",
    [
        put("serving", "buckets", value="one"),
        put("serving", "neuron_config", value={"is_block_kv_layout": False}),
    ],
)
def test_flags_that_were_not_measured_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any
) -> None:
    path, out = write_experiment(tmp_path, change), tmp_path / "out"
    assert manifests(path, written_run(tmp_path), out) == 2
    error = capsys.readouterr().err
    measured, in_file = (
        load_neuron(p).variants[1].artifact_key for p in (experiment_path(NEURON), path)
    )
    assert f"measured: artifact key {measured}, in the file {in_file}; what differs is" in error
    assert "serving.buckets" in error
    assert not out.exists()


def test_a_winner_missing_in_the_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_experiment(tmp_path, put("variants", 1, "name", value="other-k7"))
    assert manifests(path, written_run(tmp_path), tmp_path / "out") == 2
    assert "allowed: with 'qwen3-1.7b-k7', which won run built-run" in capsys.readouterr().err


def test_a_further_variant_in_the_file_changes_nothing(tmp_path: Path) -> None:
    def add(data: dict[str, Any]) -> None:
        data["variants"].append({**copy.deepcopy(data["variants"][1]), "name": "k5", "window": 5})

    path = write_experiment(tmp_path, add)
    assert manifests(path, written_run(tmp_path), tmp_path / "out") == 0


def test_a_run_without_serving_facts_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manifests(NEURON, written_run(tmp_path, serving=None), tmp_path / "out") == 2
    assert "serving: given nothing in run.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (NEURON, ["--namespace=Serving"], "--namespace: given 'Serving', allowed: lower-case"),
        (NEURON, [f"--image={IMAGE}"], "allowed: not with release neuron-2.26.1"),
        (NEURON, [f"--llmperf-image={IMAGE}"], f"--llmperf-image: given {IMAGE} with --winner"),
        (NEURON, ["--results-bucket=example-r"], "--results-bucket: given example-r with"),
        (NEURON, ["--artifacts-bucket=BAD_B!"], "--artifacts-bucket: given 'BAD_B!', allowed"),
        (LOCAL, [f"--image={IMAGE}", NAMED[0]], "given example-checkpoints with a local"),
        (LOCAL, [], "--image: not given, allowed: an image with vLLM 0.32.0 for CPU"),
        (LOCAL, ["--image=vllm-cpu"], "under a tag that moves another engine is served"),
    ],
)
def test_an_option_without_effect_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, options: list[str], message: str
) -> None:
    assert manifests(name, written_run(tmp_path, name), tmp_path / "out", *options) == 2
    assert message in capsys.readouterr().err


def test_options_of_a_winner_are_refused_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(experiment_path(NEURON))
    assert main(["manifests", path, "--out", str(tmp_path), "--namespace=serving"]) == 2
    assert "--namespace: given serving with no --winner" in capsys.readouterr().err


def test_a_bucket_with_many_runs_is_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(experiment_path(NEURON))
    assert main(["manifests", path, "--out", str(tmp_path), "--winner", path]) == 2
    assert "which names many runs, allowed: the folder of a run" in capsys.readouterr().err


def test_given_buckets_leave_nothing_to_fill_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manifests(NEURON, written_run(tmp_path), tmp_path / "out", *NAMED) == 0
    assert "Values to fill in" not in capsys.readouterr().out
    texts = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "out").iterdir())
    assert "${" not in texts
    assert "bucketName: example-artifacts" in texts


def test_every_file_says_why_there_is_no_alarm(tmp_path: Path) -> None:
    run = built_run(load(experiment_path(NEURON)))
    blocks = tuple(replace(block, speculation=None) for block in run.blocks)
    folder = write_run(replace(run, blocks=blocks), tmp_path / "run")
    out = tmp_path / "out"
    assert manifests(NEURON, folder, out) == 0
    assert sorted(path.name for path in out.iterdir()) == FORMS
    for name in FORMS:
        assert "# No alarm is written: in the run the server" in (out / name).read_text()
