"""`init` writes a valid experiment; a wrong or missing answer is named by its flag, and no file."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.cli import init
from draftworth.cli.init_questions import QUESTIONS, Ask
from draftworth.errors import UserInputError
from draftworth.experiment.loading import load_experiment
from draftworth.experiment.model import NeuronExperiment, loads_of, variants_of
from draftworth.experiment.variants import HubSpeculative
from draftworth.records.codec import dump_record
from draftworth.records.load_shapes import PoissonLoad
from draftworth.records.search_result import SEARCH_FILE
from draftworth.records.servers import Decoding
from tests.conftest import ROOT
from tests.draftworth.conftest import Ran
from tests.draftworth.report import runs, searches
from tests.support.blocks import make_price
from tests.support.serving_facts import make_serving_facts
from tests.support.snapshot import assert_snapshot

PROMPTS = ("--prompts", ROOT / "prompts")
ADMIN = "arn:aws:iam::111122223333:role/Admin"
SNAPSHOTS = Path(__file__).parent / "snapshots"


def loaded(path: Path) -> NeuronExperiment:
    spec = load_experiment(path).spec
    assert isinstance(spec, NeuronExperiment)
    return spec


def test_the_defaults_make_an_experiment_that_plans(tmp_path: Path, ran: Ran) -> None:
    output = ran("init", path := tmp_path / "mine.yaml", "--yes", *PROMPTS)
    for command in ("draftworth plan ", "draftworth preflight ", "make deploy EXPERIMENT="):
        assert f"{command}{path}" in output
    spec, text = loaded(path), path.read_text()
    assert spec.name == "mine"
    assert text.endswith("again\n")
    assert [c.name for c in spec.workload.classes] == ["open_ended", "structured"]
    assert "  # Empty: the API refuses everybody, you too. " in text
    assert (*spec.aws.public_access_cidrs, *spec.aws.admin_principal_arns) == ()
    assert (spec.aws.notify_email, spec.unpinned_models) == (None, ())
    assert "aws.price is left out" in ran("plan", path)


def write_case(folder: Path, case: str, **fields: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    line = {"id": "1", "prompt": "x", **fields}
    (folder / f"{case}.jsonl").write_text(json.dumps(line))


def test_the_default_file_is_its_snapshot(tmp_path: Path, ran: Ran) -> None:
    for name in ("open_ended", "structured"):
        write_case(tmp_path / "prompts" / name, "count")
    ran("init", path := tmp_path / "mine.yaml", "--yes", "--prompts", tmp_path / "prompts")
    loaded(path)
    assert_snapshot(path.read_text(), SNAPSHOTS / "init-default.txt")


def test_a_file_of_a_run_is_its_snapshot(tmp_path: Path, ran: Ran) -> None:
    """The file has what the default leaves out: rates, lengths, weights, the best of a search."""
    shares = {"open_ended": 0.7, "structured": 0.3}
    draft = Decoding(method="fused_draft", window=6, draft="Qwen/Qwen3-1.7B")
    decoding = {"baseline": Decoding(method="none"), "a-k6": draft, "a-k4": draft}
    blocks = (
        runs.make_plain_block(
            number, name, load=PoissonLoad(requests_per_second=rate, input_tokens=500)
        )
        for number, (name, rate) in enumerate([*zip(shares, (2.0, 0.5), strict=True)], start=1)
    )
    run = runs.make_run(
        blocks=tuple(blocks), class_weights=shares, serving=make_serving_facts(decoding=decoding)
    )
    folder = runs.write_run(run, tmp_path / "run")
    search = searches.make_search_result(run_id=run.result.run_id, best="a-k6")
    (folder / SEARCH_FILE).write_bytes(dump_record(search))
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    for name in shares:
        write_case(tmp_path / "prompts" / name, "count", tools=[tool])
    answers = ("--email", "me@example.com", "--admin-arn", ADMIN, "--access-cidr", "8.8.8.8/32")
    options = ("--yes", "--prompts", tmp_path / "prompts", "--from", folder)
    ran("init", path := tmp_path / "mine.yaml", *options, *answers)
    loaded(path)
    assert_snapshot(path.read_text(), SNAPSHOTS / "init-of-a-run.txt")


def test_every_flag_is_in_the_file(tmp_path: Path, ran: Ran) -> None:
    path = tmp_path / "x.yaml"
    options = ("--name", "other", "--region", "eu-north-1", "--zone", "eu-north-1a")
    limits = ("--capacity", "on_demand", "--accelerator-budget-usd", 12.5, "--usd-per-hour", 20)
    access = ("--access-cidr", "8.8.8.8/32", "--admin-arn", ADMIN, "--email", "me@example.com")
    models = ("--target", "Qwen/Qwen3-32B", "--draft", "Qwen/Qwen3-0.6B")
    ran("init", path, *PROMPTS, *options, *limits, *access, *models)
    spec, aws = loaded(path), loaded(path).aws
    assert (spec.name, aws.region, aws.availability_zone) == (*options[1::2],)
    assert (aws.capacity.kind, aws.accelerator_budget_usd) == ("on_demand", 12.5)
    assert getattr(aws.price, "usd_per_hour", None) == 20
    assert (*aws.public_access_cidrs, *aws.admin_principal_arns, aws.notify_email) == access[1::2]


def write(folder: Path, *words: object, ask: Ask) -> NeuronExperiment:
    parser = argparse.ArgumentParser()
    init.add_arguments(parser)
    arguments = parser.parse_args([str(word) for word in (folder / "typed.yaml", *words)])
    return loaded(init.write_experiment(arguments, ask).path)


def test_typed_answers_are_taken_and_flags_ask_nothing(tmp_path: Path) -> None:
    questions: list[str] = []
    typed = {"--accelerator-budget-usd [80]: ": " 30 ", "--admin-arn []: ": ADMIN}

    def ask(question: str) -> str:
        questions.append(question.splitlines()[-1])
        return typed.get(questions[-1], "")

    spec = write(tmp_path, *PROMPTS, ask=ask)
    assert (spec.name, spec.aws.accelerator_budget_usd) == ("typed", 30)
    assert spec.aws.admin_principal_arns == (ADMIN,)
    unanswered = [question.flag for question in QUESTIONS if question.flag != "--prompts"]
    assert [line.split()[0] for line in questions] == unanswered


WRONG = {
    "--target": ("Qwen3", '--target: given "Qwen3", allowed: OWNER/NAME'),
    "--draft": ("HuggingFaceTB/SmolLM2-135M-Instruct x", "--draft: given "),
    "--region": ("Ohio", '--region: given "Ohio", allowed: '),
    "--zone": ("us-east-1a", '--zone: given "us-east-1a", allowed: a zone of us-east-2'),
    "--capacity": ("cheap", '--capacity: given "cheap", allowed: '),
    "--access-cidr": ("10.0.0.0/8", '--access-cidr: given "10.0.0.0/8", allowed:'),
    "--admin-arn": ("me", '--admin-arn: given "me", allowed: an IAM role or user'),
    "--email": ("me", '--email: given "me", allowed: '),
    "--accelerator-budget-usd": (
        "much",
        '--accelerator-budget-usd: given "much", allowed: a number',
    ),
    "--prompts": ("nowhere", "--prompts: nowhere: no .jsonl file there"),
}


def test_each_wrong_answer_is_asked_for_again(tmp_path: Path) -> None:
    """Each question is answered wrongly first, and then by its default; no answer is lost."""
    wrong = {flag: answer for flag, (answer, _) in WRONG.items()} | {"--name": "My Name"}
    prompts: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        flag = prompt.splitlines()[-1].split()[0]
        if flag in wrong:
            return wrong.pop(flag)
        return str(ROOT / "prompts") if flag == "--prompts" else ""

    assert write(tmp_path, ask=ask).name == "typed"
    assert len(prompts) == 2 * len(QUESTIONS)
    for flag, (_, message) in WRONG.items():
        assert any(prompt.startswith(message) for prompt in prompts), flag


def test_target_and_draft_are_in_the_file(tmp_path: Path, ran: Ran) -> None:
    models = ("--target", "meta-llama/Llama-3.3-70B-Instruct", "--draft", "me/tiny-llama")
    ran("init", path := tmp_path / "x.yaml", "--yes", *PROMPTS, *models)
    spec = loaded(path)
    assert spec.target.model == models[1]
    ((_, variant),) = variants_of(spec, HubSpeculative)
    draft = variant.draft
    assert (draft.model, draft.tokenizer_family) == (models[3], "llama3")
    assert "The published pair" not in path.read_text()


def test_models_unknown_to_us_are_of_one_family(tmp_path: Path, ran: Ran) -> None:
    models = ("--target", "me/Big-7B", "--draft", "me/tiny")
    ran("init", path := tmp_path / "x.yaml", "--yes", *PROMPTS, *models)
    assert loaded(path).target.tokenizer_family == "big-7b"


def test_another_target_has_no_default_draft(tmp_path: Path, ran: Ran) -> None:
    path = tmp_path / "x.yaml"
    output = ran("init", path, "--yes", *PROMPTS, "--target", "Qwen/Qwen3-8B", code=2)
    assert '--draft: given "", allowed: OWNER/NAME' in output
    assert not path.exists()


@pytest.mark.parametrize("model", ["HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2"])
def test_a_run_names_the_target(tmp_path: Path, ran: Ran, model: str) -> None:
    """The run of a model was taken for a run of the published target before."""
    block = replace(runs.make_plain_block(1, "structured"), model=model)
    run = runs.write_run(runs.make_run(blocks=(block,), serving=None), tmp_path / "run")
    write_case(tmp_path / "prompts" / "structured", "count")
    options = ("--prompts", tmp_path / "prompts", "--from", run, "--draft", "me/tiny")
    path = tmp_path / "x.yaml"
    if "/" in model:
        ran("init", path, "--yes", *options)
        assert loaded(path).target.model == model
        return
    output = ran("init", path, "--yes", *options, code=2)
    assert f"--target: given nothing, and {run} names smollm2; allowed: model that you" in output
    assert "next: --target OWNER/NAME" in output
    assert not path.exists()


def test_a_run_on_neuron_has_its_models(tmp_path: Path, ran: Ran) -> None:
    run = runs.write_run(runs.make_run(serving=make_serving_facts()), tmp_path / "run")
    options = (*PROMPTS, "--from", run, "--target", "me/other")
    output = ran("init", tmp_path / "x.yaml", "--yes", *options, code=2)
    assert "--target: given beside --from with a run on Neuron, which names its models" in output


def test_an_input_that_ends_leaves_nothing(tmp_path: Path) -> None:
    def ask(question: str) -> str:
        raise EOFError

    with pytest.raises(UserInputError, match="the input ended before the last answer"):
        write(tmp_path, *PROMPTS, ask=ask)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--yes", "--admin-arn", "me"], '--admin-arn: given "me", allowed: an IAM role or user'),
        (["--yes", "--access-cidr", "10.0.0.0/8"], '--access-cidr: given "10.0.0.0/8", allowed:'),
        (["--yes", "--region", "eu-north-1"], '--zone: given "", allowed: a zone of eu-north-1'),
        (
            ["--yes", "--accelerator-budget-usd", "much"],
            '--accelerator-budget-usd: given "much", allowed: a number',
        ),
        (["--yes", "--email", "a\nb"], "--email: given 'a\\nb', allowed: printable"),
        (["--yes", "--prompts", ROOT / "docs"], f"--prompts: {ROOT}/docs: no .jsonl file there"),
        (
            ["--yes", "--from", ROOT / "nowhere"],
            f"--from: given {ROOT}/nowhere, where nothing is; allowed: ",
        ),
        (["--yes", "--from", ROOT / "prompts"], "--prompts: given beside --from with prompts; all"),
        (
            ["--region", "us-east-2"],
            "--target, --draft, --zone, --capacity, --accelerator-budget-usd: given nothing, and ",
        ),
    ],
)
def test_a_wrong_answer_names_its_flag(
    tmp_path: Path, ran: Ran, words: list[object], message: str
) -> None:
    assert f"draftworth: {message}" in ran("init", tmp_path / "x.yaml", *PROMPTS, *words, code=2)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("is_on_aws", [True, False])
def test_a_run_says_what_is_measured_again(tmp_path: Path, ran: Ran, *, is_on_aws: bool) -> None:
    """An experiment that is written from a run repeats its servers, variants and traffic.

    If the run's servers were not on AWS, only its traffic is repeated. Its name and its price never
    are, because they belong to another deploy.
    """
    of = {"slot_devices": 4, "max_num_seqs": 3, "max_model_len": 900}
    shares = {"open_ended": 0.7, "structured": 0.3}
    serving = make_serving_facts(**of) if is_on_aws else None
    run = runs.make_run(class_weights=shares, serving=serving, price=make_price())
    for name in shares:
        for case in ("count", "not-measured"):
            write_case(tmp_path / "prompts" / name, case)
    options = ("--prompts", tmp_path / "prompts", "--from", runs.write_run(run, tmp_path / "run"))
    ran("init", path := tmp_path / "x.yaml", "--yes", *options)
    spec = loaded(path)
    assert (spec.serving.model_dump(include={*of}) == of) is is_on_aws
    assert (spec.variants[1].name == "k7") is is_on_aws
    parts = {c.name: (c.cases, c.weight) for c in spec.workload.classes}
    assert parts == {"open_ended": (("count",), 70), "structured": (("count",), 30)}
    assert {*loads_of(spec)} == {block.load for block in run.blocks}
    assert spec.workload.output_tokens == runs.TOKENS
    assert (spec.name, spec.aws.price) == ("x", None)


REQUEST = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 70}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A log of one request and its answer, in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "My log.jsonl").write_text(json.dumps({"request": REQUEST, "response": "Hi"}))
    return "My log.jsonl"


def test_a_logs_prompts_become_a_class(tmp_path: Path, ran: Ran, log: str) -> None:
    write_case(tmp_path / "prompts" / "other", "count")
    output = ran("init", "a.yaml", "--yes", "--from", log)
    assert "prompts/my_log/my_log.jsonl: 1 prompt, 1 with the answer of the log" in output
    assert "draftworth estimate a.yaml --target DIR" in output
    work = loaded(tmp_path / "a.yaml").workload
    assert [c.name for c in work.classes] == ["my_log"]
    assert (work.prompts_dir, work.output_tokens) == ("prompts", 70)


@pytest.mark.parametrize("place", ["request", "response", "record"])
def test_a_log_names_the_target(tmp_path: Path, ran: Ran, log: str, place: str) -> None:
    answer = {"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}
    record: dict[str, object] = {"request": {**REQUEST}, "response": answer}
    part = record if place == "record" else record[place]
    assert isinstance(part, dict)
    part["model"] = "me/served"
    (tmp_path / log).write_text(json.dumps(record))
    ran("init", "a.yaml", "--yes", "--from", log, "--draft", "me/tiny")
    assert loaded(tmp_path / "a.yaml").target.model == "me/served"


def test_a_log_of_two_models_is_asked(tmp_path: Path, ran: Ran, log: str) -> None:
    lines = ({"request": {**REQUEST, "model": name}} for name in ("me/a", "me/b"))
    (tmp_path / log).write_text("\n".join(map(json.dumps, lines)))
    output = ran("init", "a.yaml", "--yes", "--from", log, code=2)
    assert "--target: given nothing, and My log.jsonl names me/a, me/b; allowed: model" in output
    assert [path.name for path in tmp_path.iterdir()] == [log]


def test_a_refused_answer_imports_nothing(tmp_path: Path, ran: Ran, log: str) -> None:
    output = ran("init", "a.yaml", "--yes", "--zone", "no", "--from", log, code=2)
    assert "next: answer that anew; nothing is written" in output
    assert [path.name for path in tmp_path.iterdir()] == [log]
    ran("init", "a.yaml", "--yes", "--from", log)
    assert [c.name for c in loaded(tmp_path / "a.yaml").workload.classes] == ["my_log"]


def test_an_imported_class_is_taken_again(tmp_path: Path, ran: Ran, log: str) -> None:
    ran("init", "a.yaml", "--yes", "--from", log)
    output = ran("init", "b.yaml", "--yes", "--from", log, code=2)
    assert "prompts/my_log: exists already, and the prompts of My log.jsonl would be" in output
    assert "next: --from prompts/my_log for the prompts in it" in output
    assert not (tmp_path / "b.yaml").exists()
    assert "draftworth estimate" in ran("init", "b.yaml", "--yes", "--from", "prompts/my_log")
    assert loaded(tmp_path / "b.yaml").workload == loaded(tmp_path / "a.yaml").workload


def test_estimate_is_named_only_where_answers_are(tmp_path: Path, ran: Ran, log: str) -> None:
    (tmp_path / log).write_text(json.dumps({"request": REQUEST}))
    write_case(tmp_path / "prompts" / "mine", "count")
    for file, source in (("a.yaml", log), ("b.yaml", "prompts/mine")):
        output = ran("init", file, "--yes", "--from", source)
        assert f"draftworth plan {file}" in output
        assert "estimate" not in output


def test_a_folder_of_runs_is_not_prompts(
    tmp_path: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs.write_run(runs.make_run(), tmp_path / "runs" / "last")
    output = ran("init", "b.yaml", "--yes", "--from", "runs", code=2)
    assert f"the newest in this folder: {Path('runs/last')}" in output


def test_a_file_that_exists_is_kept(tmp_path: Path, ran: Ran) -> None:
    (path := tmp_path / "x.yaml").write_text("mine")
    message = "allowed: a file that ends with .yaml and does not exist yet"
    assert message in ran("init", path, "--yes", *PROMPTS, code=2)
    assert path.read_text() == "mine"


def test_long_prompts_with_tools_get_room_and_parser(tmp_path: Path, ran: Ran) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    folder = tmp_path / "prompts" / "mine"
    write_case(folder, "a", prompt="é" * 2000, max_tokens=900, tools=[tool])
    (tmp_path / "link").symlink_to(folder)
    ran("init", path := tmp_path / "link" / "x.yaml", "--yes", "--prompts", tmp_path / "prompts")
    spec = loaded(path)
    assert 2000 < spec.workload.most_input_tokens < 2200
    assert (spec.workload.output_tokens, spec.serving.max_model_len) == (900, 3072)
    assert (spec.workload.prompts_dir, spec.serving.tool_call_parser) == ("..", "hermes")
