"""Reading whole experiment files: what they give, and files that cannot be read."""

from pathlib import Path

import pytest

from draftworth.errors import ExperimentError, UserInputError
from draftworth.experiment.aws import ADD_ONS
from draftworth.experiment.catalog import catalog
from draftworth.experiment.loading import load_experiment
from draftworth.experiment.rules.aws_rules import is_pinned_image
from tests.support.experiments import ON_AWS, both, put, resolved, write_experiment


@pytest.mark.parametrize("path", ["a" * 300, "/".join(["a"] * 400), "loop"])
def test_an_impossible_path_is_a_problem(tmp_path: Path, path: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    edits = {"qwen3-32b": ("workload", "prompts_dir"), "rehearsal": ("target", "path")}
    for base, key in edits.items():
        with pytest.raises(ExperimentError) as refused:
            load_experiment(write_experiment(tmp_path, put(*key, value=path), base=base))
        assert key in [problem.key for problem in refused.value.problems]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for folder in (tmp_path / "target", tmp_path / "draft"):
        folder.mkdir()
        (folder / "config.json").touch()
        (folder / "tokenizer.json").symlink_to("/proc/self/mem")
    models = both(
        put("target", "path", value="target"), put("variants", 1, "draft", "path", value="draft")
    )
    path = write_experiment(tmp_path, models, base="rehearsal")
    with pytest.raises(UserInputError, match=r"experiment\.yaml: a file that it names: .*Errno"):
        load_experiment(path)


def test_every_release_that_is_rented_refuses_to_sample() -> None:
    """No source says yet that a release samples the same with a draft as without one."""
    releases = catalog().releases.items()
    assert {name for name, r in releases if not r.refuses_sampling} == {"cpu-vllm-0.32.0"}


def test_all_problems_come_in_the_files_order(tmp_path: Path) -> None:
    path = write_experiment(
        tmp_path,
        both(
            put("serving", "slot_devices", value=3),
            put("workload", "temperature", value=1.0),
            put("aws", "availability_zone", value="us-east-1a"),
        ),
    )

    with pytest.raises(ExperimentError) as refused:
        load_experiment(path)

    problems = refused.value.problems
    assert {"serving.slot_devices", "workload.temperature", "aws.availability_zone"} <= {
        problem.dotted_key for problem in problems
    }
    lines = [problem.line or 0 for problem in problems]
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("text", "words"), [("- a\n- list\n", "a value that is not a mapping"), ("", "nothing")]
)
def test_a_file_without_a_mapping_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(text)
    with pytest.raises(ExperimentError) as refused:
        load_experiment(path)
    assert [problem.actual for problem in refused.value.problems] == [words]


def test_a_missing_file_is_answered_with_existing_ones(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("")

    with pytest.raises(UserInputError, match=r"no such file.*mine\.yaml"):
        load_experiment(tmp_path / "other.yaml")


def test_the_first_deploy_pins_everything() -> None:
    smoke, published = resolved("smoke"), resolved("qwen3-32b")
    commands = [[variant.command for variant in e.variants] for e in (smoke, published)]
    assert commands[0] == commands[1]
    assert smoke.spec.aws.pins.node_release
    assert [*smoke.spec.unpinned_models] == []
    assert [*published.spec.unpinned_models] != []


@pytest.mark.parametrize(
    ("name", "unpinned"),
    [
        ("qwen3-32b-newest", ()),
        ("llama-3.3-70b-eagle3", ("RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3@main",)),
    ],
)
def test_targets_of_the_newest_stack_are_commits(name: str, unpinned: tuple[str, ...]) -> None:
    assert resolved(name).spec.unpinned_models == unpinned


@pytest.mark.parametrize("name", ON_AWS)
def test_shipped_experiments_pin_the_first_ones_add_ons(name: str) -> None:
    pins = resolved("smoke").spec.aws.pins.add_ons
    assert pins.keys() == {*ADD_ONS}
    assert resolved(name).spec.aws.pins.add_ons == pins


@pytest.mark.parametrize(
    ("image", "pinned"),
    [
        ("llmperf", False),
        ("llmperf:latest", False),
        ("registry.example.com:5000/llmperf", False),
        ("example.com/llmperf:", False),
        ("registry.example.com:5000/llmperf:1.2", True),
        (f"llmperf@sha256:{'0' * 64}", True),
        (f"example.com/a/b_c--d:1.2@sha256:{'0' * 64}", True),
        (f"llmperf:latest@sha256:{'0' * 64}", True),
        (f"llmperf@sha256:{'0' * 63}", False),
        ("LLMPerf:1", False),
        ("example.com//llmperf:1", False),
        ("example.com/llmperf:1 --privileged", False),
        ("-x:1", False),
        ("a" * 600 + ":1", False),
        ("a-" * 250 + "!", False),
    ],
)
def test_an_image_is_pinned_by_tag_or_digest(image: str, pinned: bool) -> None:
    assert is_pinned_image(image) is pinned
