"""`compare` measures the user's own servers in turn, and knows of them only what options say."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from draftworth.cli import measure
from draftworth.cli.arguments import base_url, server_at
from draftworth.decision.facts import RunFacts, facts_of
from draftworth.decision.verdict import compare
from draftworth.measuring.unended_runs import read_begun_run
from draftworth.metrics.definitions import ACCEPTANCE_RATE, ACCEPTANCE_RATE_ESTIMATED
from draftworth.records.codec import load_record
from draftworth.records.findings import Verdict
from draftworth.records.run_folder import read_run
from draftworth.records.step_costs import STEP_COSTS_FILE, StepCostCard
from draftworth.report.reason_sentences import reason_words
from tests.conftest import ROOT
from tests.draftworth.conftest import Ran
from tests.support.stream_server import (
    Request,
    Step,
    StreamServer,
    Write,
    completion,
    plain,
    stream_server,
)

PROMPTS = [{"id": f"mail-{n}", "prompt": f"Answer mail {n}."} for n in range(8)]


def answers(*chunk_tokens: int) -> Callable[[Request], Sequence[Step]]:
    """A script for `stream_server`: a server of the model `m` that answers in these chunks.

    chunk_tokens: the number of tokens in each chunk.
    """

    def script(request: Request) -> Sequence[Step]:
        if request.path == "/v1/models":
            return plain("200 OK", json.dumps({"data": [{"id": "m"}, {"id": "lora"}]}).encode())
        if request.method == "GET":
            return plain("200 OK" if request.path == "/health" else "404 Not Found", b"")
        return completion(*chunk_tokens, gap_seconds=0.01)

    return script


def answers_as(model: str, *chunk_tokens: int) -> Callable[[Request], Sequence[Step]]:
    """As `answers`, but each chunk names `model` as the model that answers."""
    script, name = answers(*chunk_tokens), f'{{"model": "{model}", "'.encode()

    def named(request: Request) -> Sequence[Step]:
        return [
            Write(step.data.replace(b'data: {"', b"data: " + name))
            if isinstance(step, Write)
            else step
            for step in script(request)
        ]

    return named


@dataclass
class Compared:
    """Runs `compare` against servers; `{}` in an argument stands for the next server's address."""

    ran: Ran
    folder: Path
    servers: Sequence[StreamServer]

    def __call__(self, *words: str, code: int = 0, model: str = "m") -> str:
        urls = iter([server.base_url for server in self.servers])
        with_urls = [word.format(next(urls)) if "{}" in word else word for word in words]
        prompts = self.folder / "mails" / "inbox.jsonl"
        settings = ("--model", model, "--prompts", prompts, "--out", self.folder / "runs")
        return self.ran("compare", *with_urls, *settings, "--rounds", 3, code=code)

    @property
    def facts(self) -> RunFacts:
        (run,) = (self.folder / "runs").iterdir()
        return facts_of(read_run(run), {})


@pytest.fixture
def compared(ran: Ran, tmp_path: Path, _every_request_counts: None) -> Iterator[Compared]:
    (tmp_path / "mails").mkdir()
    lines = "".join(json.dumps(prompt) + "\n" for prompt in PROMPTS)
    (tmp_path / "mails" / "inbox.jsonl").write_text(lines)
    with ExitStack() as stack:
        chunks = ([1] * 8, [4, 4], [1, 4, 3])
        servers = [stack.enter_context(stream_server(answers(*tokens))) for tokens in chunks]
        yield Compared(ran, tmp_path, servers)


def test_two_addresses_are_enough_for_a_verdict(compared: Compared) -> None:
    output = compared("--baseline", "{}", "--variant", "fast={}", "--verbose")

    verdict = (next((compared.folder / "runs").iterdir()) / "verdict.json").read_bytes()
    recorded = load_record(Verdict, verdict)
    (finding,) = recorded.findings
    assert (finding.traffic, finding.variant, finding.baseline) == ("mails", "fast", "baseline")
    assert finding.cost_ratio is not None
    assert finding.cost_ratio < 1
    assert "mails at one request at a time, fast: " in recorded.headline
    assert any("all servers count as equally expensive" in note for note in recorded.notes)
    assert "No prices were given" in output
    # Each round has a block of both servers, in an order that changes between rounds.
    order = [b.variant for b in compared.facts.run.blocks]
    assert sorted(order[:2]) == sorted(order[2:4]) == ["baseline", "fast"]
    assert [len(b.requests) for b in compared.facts.run.blocks] == [8] * len(order)
    # The user gave no window and no facts of the servers, so these are unknown: they are not
    # replaced by those of an experiment of this project.
    (variant,) = compared.facts.speculative
    assert variant.acceptance.most is None
    assert variant.summary.value(ACCEPTANCE_RATE) is None
    assert variant.summary.value(ACCEPTANCE_RATE_ESTIMATED) is None
    assert compared.facts.run.result.serving is None
    folder = next((compared.folder / "runs").iterdir())
    assert load_record(StepCostCard, (folder / STEP_COSTS_FILE).read_bytes()).serving is None
    assert "endpoints of your own" in output
    assert "compare --baseline URL --variant fast=URL --model NAME --prompts PROMPTS" in output
    assert "rehearse" not in output


def test_windows_names_and_prices_are_the_users(compared: Compared) -> None:
    output = compared(
        *("--baseline", "{},usd_per_hour=1", "--variant", "k 4={},window=4,usd_per_hour=100"),
        *("--variant", "other={},usd_per_hour=1", "--price-source", "our bill", "--verbose"),
    )

    facts = compared.facts
    assert facts.run.result.price is not None
    for c in facts.comparisons:
        unpriced = compare(facts.run.blocks, c.traffic, variant=c.variant, baseline="baseline")
        assert c.cost_ratio is not None
        assert unpriced.cost_ratio is not None
        times = 100 if c.variant == "k 4" else 1
        assert c.cost_ratio.value == pytest.approx(times * unpriced.cost_ratio.value)
    estimated = {v.name: v.acceptance.estimated for v in facts.speculative}
    assert estimated == {"k 4": pytest.approx(3 / 4), "other": None}
    assert "price: baseline 1.00, k 4 100.00, other 1.00 USD per hour (our bill, " in output
    assert "--variant 'k 4'=URL,window=4,usd_per_hour=X --variant other=URL" in output
    assert " min on its servers at 102.00 USD per hour: " in output
    assert "No prices were given" not in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{}", "{}"], "--variant: given 'http://127.0.0.1:"),
        (
            ["{}", "a={},windw=4"],
            "--variant a: given 'windw=4', allowed after the address: window=",
        ),
        (["{}", "a={},window=4,window=5"], "--variant a: given 'window=5', allowed after the addr"),
        (["{}", "a={},window=many"], "--variant a: window: given 'many', allowed: a whole number"),
        (["{}", "a={},ngram=2-4"], "--variant a: ngram: given without window, allowed: with win"),
        (["{}", "a={},window=5,ngram=4-2"], "--variant a: ngram: given 4-2, allowed: MIN-MAX wi"),
        (["{}", "a={},window=5,ngram=2-x"], "--variant a: ngram: given 'x', allowed: a whole nu"),
        (["{}", "a={},usd_per_hour=0"], "--variant a: usd_per_hour: given '0', allowed: a number"),
        (["{},usd_per_hour=1", "a={}"], "given for baseline and not for a, allowed: for every"),
        (["{}", "baseline={}"], "--variant: given the name 'baseline', allowed: a name that no"),
        (["{}", "a={}", "a={}"], "--variant: given the name 'a', allowed: a name that no other"),
        (
            ["{}", "control={}"],
            "--variant: given 'control', allowed: another name than baseline-as-",
        ),
        (["{}", "a/b={}"], "allowed: NAME=URL"),
        (["{}", "ä={}"], "--variant: given 'ä', allowed: 1 to 64 letters"),
        (["h:1", "a={}"], "--baseline: given 'h:1'"),
        (["http://u:secret@h", "a={}"], "--baseline: given an address with a user name or passw"),
        (["{}", "http://u:secret@h"], "--variant: given an address with a password"),
        (["http://h:1", "a=http://h:1/"], "--variant a: given http://h:1, which is the address of"),
        (["http://localhost:7", "a=http://127.0.0.1:7"], "which is the address of baseline"),
        (["{}", "a=http://127.0.0.1:1"], "--variant a: given http://127.0.0.1:1/v1/models: "),
    ],
)
def test_a_mistake_is_told_before_anything_is_measured(
    compared: Compared, words: list[str], message: str
) -> None:
    variants = [part for word in words[1:] for part in ("--variant", word)]
    output = compared("--baseline", words[0], *variants, code=2)

    assert message in output
    assert "secret" not in output
    assert not any(r.method == "POST" for server in compared.servers for r in server.requests)


# Other addresses of the server at http://127.0.0.1:8000; `ELSEWHERE` has those of other servers.
SAME = (
    "http://127.1:8000",
    "http://127.0.1:8000",
    "http://2130706433:8000",
    "http://0x7f.1:8000",
    "http://0.0.0.0:8000",
    "http://localhost:8000",
    "http://LocalHost:8000",
    "http://localhost.:8000",
    "http://ｌｏｃａｌｈｏｓｔ:8000",  # noqa: RUF001 (letters of full width)
    "http://127.0.0.1:08000",
    "http://127.0.0.1:8000//",
    "http://127.0.0.1:8000//v1/",
    "HTTP://127.0.0.1:8000/",
    "http://[::1]:8000",
    "http://[0:0:0:0:0:0:0:1]:8000",
    "http://[::]:8000",
    "http://[::ffff:127.0.0.1]:8000",
    "http://[::FFFF:7F00:1]:8000",
    "https://127.0.0.1:8000",
)
ELSEWHERE = (
    "http://127.0.0.1:8001",
    "http://127.0.0.1",
    "http://127.0.0.2:8000",
    "http://10.0.0.1:8000",
    "http://host:8000",
    "http://a.localhost:8000",
    "http://127.0.0.1:8000/a",
    "http://[::2]:8000",
    "http://[fe80::1]:8000",
)


@pytest.mark.parametrize("url", SAME)
def test_one_server_by_two_addresses_is_refused(compared: Compared, url: str) -> None:
    output = compared("--baseline", "http://127.0.0.1:8000", "--variant", f"a={url}", code=2)
    assert (
        "which is the address of baseline (http://127.0.0.1:8000), allowed: a server of" in output
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("http://Host.example", "http://host.example.:80"),
        ("https://h:443/v1", "https://H/"),
        ("https://größe.example", "https://GRÖSSE.example:0443"),
        ("http://[FE80::1]:7", "http://[fe80:0:0::1]:7"),
        ("http://10.1:7", "http://10.0.0.1:7"),
    ],
)
def test_two_spellings_of_another_machine_are_one_server(first: str, second: str) -> None:
    assert server_at(base_url(first)) == server_at(base_url(second))


def test_other_hosts_ports_and_paths_are_other_servers() -> None:
    servers = [server_at(url) for url in ("http://127.0.0.1:8000", *ELSEWHERE)]
    assert len({*servers}) == len(servers)


def test_what_can_have_no_interval_is_told_first(compared: Compared) -> None:
    (compared.folder / "mails" / "inbox.jsonl").write_text(json.dumps(PROMPTS[0]) + "\n")
    output = compared("--baseline", "{}", "--variant", "fast={}")
    assert "an interval takes 6 prompts in two rounds, given 1 prompt in 3 rounds" in output
    assert "No decision: too few prompts or rounds: it takes 6 prompts in two rounds." in output


@pytest.mark.parametrize(("plain", "drafted"), [("m", "n"), ("n", "m-2026-11-01")])
def test_servers_that_answer_as_different_models_are_undecided(
    compared: Compared, plain: str, drafted: str
) -> None:
    with ExitStack() as stack:
        scripts = answers_as(plain, *[1] * 8), answers_as(drafted, 4, 4)
        compared.servers = [stack.enter_context(stream_server(script)) for script in scripts]
        output = compared("--baseline", "{}", "--variant", "fast={}")

    (comparison,) = compared.facts.comparisons
    assert comparison.judgement == "inconclusive"
    assert (
        f"No decision: in mails at one request at a time, baseline answers as {plain}, fast answ"
        in output
    )
    models = {block.variant: block.answering_models for block in compared.facts.run.blocks}
    assert models == {"baseline": (plain,), "fast": (drafted,)}


def test_servers_that_share_another_name_get_a_note(compared: Compared) -> None:
    with ExitStack() as stack:
        scripts = answers_as("m.gguf", *[1] * 8), answers_as("m.gguf", 4, 4)
        compared.servers = [stack.enter_context(stream_server(script)) for script in scripts]
        output = compared("--baseline", "{}", "--variant", "fast={}", "--verbose")

    (comparison,) = compared.facts.comparisons
    assert "answers as" not in reason_words(comparison)
    assert "Answers name the model m.gguf, and m was asked for." in " ".join(output.split())


def test_an_interrupted_comparison_tells_where_its_files_are(compared: Compared) -> None:
    def interrupting(request: Request) -> Sequence[Step]:
        if request.method == "POST" and len(compared.servers[0].requests) > 20:
            os.kill(os.getpid(), signal.SIGINT)
        return answers(4, 4)(request)

    with stream_server(interrupting) as server:
        output = compared("--baseline", "{}", "--variant", f"fast={server.base_url}", code=1)
    (folder,) = (compared.folder / "runs").iterdir()
    assert (
        "No decision, the run is not complete: the run did not end, or lasts still; next: "
        f"draftworth compare --resume {folder}.\n" in output
    )
    assert f"\nFiles: {folder}\n" in output


def test_an_unserved_model_is_refused_with_those_served(
    compared: Compared,
) -> None:
    output = compared("--baseline", "{}", "--variant", "a={}", model="n", code=2)
    assert "--model: given 'n', which --baseline (http://127.0.0.1:" in output
    assert "does not serve, allowed there: m, lora" in output


def test_servers_of_one_host_are_noted(compared: Compared) -> None:
    output = compared("--baseline", "{}", "--variant", "fast={}")
    assert "note: baseline and fast are on one host" in output
    assert "what lasts longer than 1 request; next: with --warmup-requests 8 the" in output
    warmed_up = compared("--baseline", "{}", "--variant", "fast={}", "--warmup-requests", "8")
    assert "what lasts longer than 8 requests\n" in warmed_up


def test_servers_of_two_hosts_are_not(compared: Compared) -> None:
    """127.0.0.2 counts as another host; no server listens there, so nothing is measured."""
    output = compared("--baseline", "{}", "--variant", "fast=http://127.0.0.2:9", code=2)
    assert "on one host" not in output


def test_several_loads_are_measured_in_one_run(compared: Compared) -> None:
    servers = ("--baseline", "{}", "--variant", "fast={}")
    output = compared(*servers, "--concurrency", "4,1", "--concurrency", "4", "--verbose")
    assert [c.traffic.load.label for c in compared.facts.comparisons] == ["c1", "c4"]
    assert "mails at 4 requests at a time, fast: " in output
    assert "--prompts PROMPTS --concurrency 1 --concurrency 4 --requests-per-case 8" in output


def test_each_of_several_loads_has_all_rounds(compared: Compared) -> None:
    servers = ("--baseline", "{}", "--variant", "fast={}")
    output = compared(*servers, "--concurrency", "4,1", "--requests-per-case", "4")
    assert "[block 1 of 8 to 12, round 1]" in output
    run = next((compared.folder / "runs").iterdir())
    rounds = {(block.load.label, block.round) for block in read_run(run).blocks}
    assert rounds >= {("c1", 1), ("c1", 2), ("c4", 1), ("c4", 2)}


def test_one_wrong_load_of_several_is_named(compared: Compared) -> None:
    servers = ("--baseline", "{}", "--variant", "fast={}")
    assert "--concurrency: given '1,x', allowed: a whole number, 1 to" in compared(
        *servers, "--concurrency", "1,x", code=2
    )
    assert "--concurrency: given 16 with --requests-per-case 8, allowed: at most 8" in compared(
        *servers, "--concurrency", "1,16", code=2
    )


@dataclass
class LeftOut:
    """Runs `compare` with neither `--model` nor `--prompts`, on servers of these models."""

    ran: Ran
    out: Path

    def __call__(self, *models: Sequence[str], code: int = 0) -> str:
        with ExitStack() as stack:
            urls = [stack.enter_context(stream_server(serving(each))).base_url for each in models]
            servers = ("--baseline", urls[0], "--variant", f"fast={urls[1]}")
            return self.ran("compare", *servers, "--out", self.out, "--rounds", 1, code=code)


def serving(models: Sequence[str]) -> Callable[[Request], Sequence[Step]]:
    """A script for `stream_server`: as `answers`, with these models in the list."""
    body = json.dumps({"data": [{"id": name} for name in models]}).encode()
    script = answers(2, 2)
    return lambda r: plain("200 OK", body) if r.path == "/v1/models" else script(r)


@pytest.fixture
def left_out(ran: Ran, tmp_path: Path) -> LeftOut:
    return LeftOut(ran, tmp_path / "runs")


def test_model_and_prompts_may_be_left_out(left_out: LeftOut) -> None:
    output = left_out(["m"], ["m"])
    assert "note: without --prompts, the package's own prompts are measured" in output
    (folder,) = left_out.out.iterdir()
    begun = read_begun_run(folder).spec
    assert begun.shape.model == "m"
    assert [(c.prompt_class, c.name, len(c.prompts)) for c in begun.cases] == [
        ("open_ended", "letter", 8),
        ("structured", "code_template", 8),
    ]


@pytest.mark.parametrize(
    ("models", "lists"),
    [
        ((["m"], ["n"]), "baseline serves m; fast serves n"),
        ((["m", "n"], ["m"]), "baseline serves m, n; fast serves m"),
        ((["m"], []), "baseline serves m; fast serves no list of models"),
    ],
)
def test_a_model_that_is_not_clear_is_asked(
    left_out: LeftOut, models: Sequence[Sequence[str]], lists: str
) -> None:
    output = left_out(*models, code=2)
    assert f"--model: given nothing, and {lists}; allowed: nothing only where each" in output
    assert not left_out.out.exists() or not [*left_out.out.iterdir()]


def test_built_in_prompts_are_files_of_the_repository() -> None:
    files = [*measure.BUILT_IN_PROMPTS.glob("*/*.jsonl")]
    assert len(files) == 2
    for file in files:
        same = ROOT / "prompts" / file.relative_to(measure.BUILT_IN_PROMPTS)
        assert file.read_bytes() == same.read_bytes()
