"""An object that cannot be changed in place gets another name if, and only if, its content changes.

Such objects are Jobs, volumes with their claims, claim templates, and the ConfigMap of programs.
"""

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from charts import graph_scripts
from charts.bindings import Bindings
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from tests.charts import rendering
from tests.conftest import ROOT
from tests.support.experiments import changed, changed_in, resolved

pytestmark = pytest.mark.synth


def names(
    experiment: ResolvedNeuron | None = None, bindings: Bindings = rendering.BINDINGS
) -> dict[str, str]:
    """Return {kind: name} of an experiment's objects, without the ConfigMap of programs.

    Of the Jobs it has the measuring Job; of each other kind it has the first object.
    """
    charts = rendering.charts_of(experiment, bindings)
    measuring = charts["load-generator"]
    objects = [*measuring, *(item for items in charts.values() for item in items)]
    named = [i for i in objects if not i["metadata"]["name"].startswith("graph-scripts-")]
    return {item["kind"]: item["metadata"]["name"] for item in reversed(named)}


def with_bindings(**values: str) -> Bindings:
    return dataclasses.replace(rendering.BINDINGS, **values)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Copy qwen3-32b.yaml and its prompts into a temporary folder; return the file's path."""
    shutil.copytree(ROOT / "prompts", tmp_path / "prompts")
    (tmp_path / "experiments").mkdir()
    source = ROOT / "experiments" / "qwen3-32b.yaml"
    return Path(shutil.copy(source, tmp_path / "experiments"))


def test_the_same_experiment_gives_the_same_names(copied: Path) -> None:
    assert names(resolved()) == names()
    assert names(load_neuron(copied)) == names()


@pytest.mark.parametrize(
    "experiment",
    [
        changed_in(resolved(), "workload", output_tokens=500),
        changed_in(resolved(), "serving", neuron_config={"fused_qkv": True}),
    ],
    ids=["the run specification", "the servers it measures"],
)
def test_another_experiment_is_another_job(experiment: ResolvedNeuron) -> None:
    assert names(experiment)["Job"] != names()["Job"]


def test_rerun_changes_the_job_and_nothing_else() -> None:
    before, after = names(), names(changed(resolved(), rerun=2))
    assert before.pop("Job") != after.pop("Job")
    assert before == after


def test_the_end_of_hold_is_another_job() -> None:
    """The deadline counts from there, and canaries try again."""
    held, after = names(changed_in(resolved(), "aws", hold=True)), names()
    assert held.pop("Job") != after.pop("Job")
    assert held == after


def test_a_deadline_that_is_moved_changes_no_name() -> None:
    """A Job of another name would measure anew; a ConfigMap of another name would not be read."""
    after = changed_in(resolved(), "aws", deadline_minutes=100)
    assert all_names(rendering.render(after)) == all_names(rendering.rendered())


def test_another_prompt_is_another_job_and_nothing_else(copied: Path) -> None:
    case = copied.parent.parent / "prompts" / "structured" / "fixed_json.jsonl"
    case.write_text('{"id": "count-01", "prompt": "Count to 300."}\n', encoding="utf-8")
    before, after = names(), names(load_neuron(copied))
    assert before.pop("Job") != after.pop("Job")
    assert before == after


@pytest.mark.parametrize(
    "bindings",
    [with_bindings(llmperf_image="example.com/llmperf:2"), with_bindings(results_bucket="another")],
)
def test_another_image_or_results_bucket_is_another_job(bindings: Bindings) -> None:
    assert names(bindings=bindings)["Job"] != names()["Job"]


def test_a_claim_template_or_volume_follows_its_content() -> None:
    other_slot = names(changed_in(resolved(), "serving", lnc=1))
    assert other_slot["ResourceClaimTemplate"] != names()["ResourceClaimTemplate"]
    other_revision = names(changed_in(resolved(), "target", revision="v2"))
    assert other_revision["PersistentVolume"] != names()["PersistentVolume"]
    assert other_revision["PersistentVolumeClaim"] == other_revision["PersistentVolume"]


def test_tokens_change_no_name_but_images_do() -> None:
    first, renumbered, other = (
        set(all_names(rendering.render(resolved(), rendering.tokens(number, image))))
        for number, image in ((10, "one"), (900, "one"), (10, "two"))
    )
    assert first == renumbered
    jobs = {item for item in first if item[0] == "Job"}
    assert first - other == jobs
    assert len(jobs) == 7


def test_an_image_behind_a_token_needs_a_fingerprint() -> None:
    with pytest.raises(ValueError, match="llmperf_image_fingerprint"):
        names(bindings=rendering.tokens(10, ""))


def test_every_image_of_every_pod_stays() -> None:
    pods: list[rendering.Object] = []
    for items in rendering.rendered().values():
        pods += [i["spec"]["template"]["spec"] for i in items if "template" in i.get("spec", {})]
    images = [container["image"] for pod in pods for container in pod["containers"]]
    assert len(images) == 15
    assert [i for i in images if i.endswith(":latest") or ":" not in i.rpartition("/")[2]] == []


def test_other_programs_are_another_config_map(monkeypatch: pytest.MonkeyPatch) -> None:
    (before,) = rendering.rendered()["graph-scripts"]
    changed = {**graph_scripts._sources(), "__main__.py": "other"}
    graph_scripts.programs_name.cache_clear()
    monkeypatch.setattr(graph_scripts, "_sources", lambda: changed)
    (after,) = rendering.render(resolved())["graph-scripts"]
    graph_scripts.programs_name.cache_clear()
    assert before["metadata"]["name"] != after["metadata"]["name"]


def test_another_zlib_replaces_no_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = rendering.rendered()
    monkeypatch.setattr(graph_scripts, "zipped", lambda _: b"other bytes")
    after = rendering.render(resolved())
    assert before["serving"] == after["serving"]
    (changed,) = after["graph-scripts"]
    assert not changed.get("immutable"), "Kubernetes would refuse the other bytes"


NETWORK_POLICIES = {"default-deny", "stager", "canary", "serving", "load-generator"}


def all_names(charts: Mapping[str, list[rendering.Object]]) -> list[tuple[str, str]]:
    items = [item for objects in charts.values() for item in objects]
    return [(item["kind"], item["metadata"]["name"]) for item in items]


def names_of_kind(kind: str, charts: Mapping[str, list[rendering.Object]]) -> set[str]:
    return {name for of, name in all_names(charts) if of == kind}


@pytest.mark.parametrize(
    "experiment",
    [resolved(), resolved("llama-3.1-8b-eagle3"), changed_in(resolved(), "serving", lnc=1)],
    ids=["shipped", "the other one", "another slot"],
)
def test_network_policies_keep_their_names(
    experiment: ResolvedNeuron,
) -> None:
    """If a changed policy got a new name, the old one could stay and still allow its traffic."""
    assert names_of_kind("NetworkPolicy", rendering.render(experiment)) == NETWORK_POLICIES
