"""`--resume` continues a run of `compare` or `measure` that was killed, in the run's folder."""

import json
import math
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from draftworth.measuring.http_client import API_KEY_VARIABLE
from draftworth.measuring.journal import UNRECORDED_END
from draftworth.measuring.unended_runs import only_process, read_begun_run
from draftworth.records.results import RUN_FILE, SPECIFICATION_FILE
from draftworth.records.run_folder import read_run
from tests.conftest import ROOT
from tests.draftworth.conftest import Ran
from tests.hostile.fuzzing import at
from tests.support.stream_server import (
    Request,
    Sleep,
    Step,
    StreamServer,
    completion,
    plain,
    stream_server,
)
from tests.support.waiting import HANGS_AFTER_SECONDS

PROMPTS = [{"id": f"mail-{n}", "prompt": f"Answer mail {n}."} for n in range(8)]
KEY = "sk-very-secret-0123456789"
# A block sends eight measured requests and one warm-up request. Besides these, the command sends
# one request to each server when it starts.
REQUESTS_PER_BLOCK = 9


@dataclass
class KilledRuns:
    """Two servers, and runs that measured them and were killed in the middle of a block.

    A run is killed once for all tests of this module that begin with its folder.

    folder: for the prompts and the runs. originals: {command and block: the killed run's folder}.
    most_blocks: once the run has this number of finished blocks, requests get no answer.
    reached: is set when a request has come after that.
    """

    folder: Path
    servers: list[StreamServer] = field(default_factory=list)
    originals: dict[tuple[str, int], Path] = field(default_factory=dict)
    most_blocks: float = math.inf
    reached: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: Request) -> Sequence[Step]:
        """Answer as a server that does not list its models."""
        if request.method == "GET":
            return plain("200 OK" if request.path == "/health" else "404 Not Found", b"")
        if self.most_blocks < math.inf and self._finished_blocks() >= self.most_blocks:
            self.reached.set()
            return [Sleep(HANGS_AFTER_SECONDS)]
        return completion(2, 2, gap_seconds=0.001)

    def _finished_blocks(self) -> int:
        """Return the number of finished blocks of the run that will be killed next."""
        return len([*self._out.glob("*/blocks/*.result.json")])

    @property
    def _out(self) -> Path:
        return self.folder / f"runs-{len(self.originals)}"

    @property
    def options(self) -> list[str]:
        baseline, variant = (server.base_url for server in self.servers)
        return ["--baseline", baseline, "--variant", f"fast={variant}"]

    def original(self, command: str, *, block: int) -> Path:
        """Return the folder of a run that was killed in the middle of a block; leave it as it is.

        block: the number of this block in the run, from 1.
        """
        if (command, block) not in self.originals:
            self.originals[command, block] = self._killed(command, block)
        return self.originals[command, block]

    def _killed(self, command: str, block: int) -> Path:
        """Start `draftworth`, kill it in the middle of a block, and return the run's folder."""
        measured = ["--base-url", self.servers[0].base_url, "--usd-per-hour", "2.1"]
        words = self.options if command == "compare" else measured
        self.most_blocks = block - 1
        self.reached.clear()
        words += settings(self.folder, self._out)
        process = subprocess.Popen(
            [sys.executable, "-m", "draftworth", command, *words],
            cwd=ROOT,
            env=os.environ | {API_KEY_VARIABLE: KEY},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert self.reached.wait(HANGS_AFTER_SECONDS)
        process.kill()
        process.wait(HANGS_AFTER_SECONDS)
        self.most_blocks = math.inf
        (folder,) = self._out.iterdir()
        return folder


def settings(folder: Path, out: Path) -> list[str]:
    prompts = str(folder / "mails" / "inbox.jsonl")
    return ["--model", "m", "--prompts", prompts, "--out", str(out), "--rounds", "3"]


def put_prompts(folder: Path) -> None:
    (folder / "mails").mkdir()
    lines = "".join(json.dumps(prompt) + "\n" for prompt in PROMPTS)
    (folder / "mails" / "inbox.jsonl").write_text(lines)


@dataclass(frozen=True)
class Servers:
    """What a test has of the killed runs: copies of their folders, and the servers.

    folder: the test's, with the same prompts.
    """

    folder: Path
    runs: KilledRuns

    @property
    def requests(self) -> int:
        return sum(r.method == "POST" for server in self.runs.servers for r in [*server.requests])

    @property
    def options(self) -> list[str]:
        return self.runs.options

    @property
    def settings(self) -> list[str]:
        return settings(self.folder, self.folder / "runs")

    def killed(self, command: str, *, block: int) -> Path:
        """Return a copy of the folder of a run that was killed in the middle of a block."""
        original = self.runs.original(command, block=block)
        return Path(shutil.copytree(original, self.folder / "runs" / original.name))

    def killed_comparison(self, *, block: int = 4) -> Path:
        return self.killed("compare", block=block)


@pytest.fixture(scope="module")
def killed_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KilledRuns]:
    runs = KilledRuns(tmp_path_factory.mktemp("killed"))
    put_prompts(runs.folder)
    with stream_server(runs.answer) as baseline, stream_server(runs.answer) as variant:
        runs.servers += [baseline, variant]
        yield runs


@pytest.fixture
def servers(tmp_path: Path, killed_runs: KilledRuns, _every_request_counts: None) -> Servers:
    put_prompts(tmp_path)
    return Servers(tmp_path, killed_runs)


def test_a_killed_comparison_is_reported_and_goes_on(servers: Servers, ran: Ran) -> None:
    folder = servers.killed_comparison()
    before = {f.name: f.read_bytes() for f in (folder / "blocks").glob("*.result.json")}
    assert len(before) == 3

    output = ran("report", folder)
    assert output.startswith("No decision, the run is not complete: the run did not end, ")
    assert f"next: draftworth compare --resume {folder}" in output
    assert "\n24 requests, 0 failed" in output
    assert ", proven" not in output

    requests_before = servers.requests
    output = ran("compare", "--resume", folder)
    run = read_run(folder)
    assert "continuing after 3 blocks that are measured already" in output
    assert run.result.status == "complete"
    # Finished blocks count as they are, and their requests are not sent again; those of the block
    # that the kill cut are.
    assert {name: (folder / "blocks" / name).read_bytes() for name in before} == before
    assert servers.requests - requests_before == REQUESTS_PER_BLOCK * (len(run.blocks) - 3) + 2
    assert set(Counter((b.variant, b.round) for b in run.blocks).values()) == {1}
    (interruption,) = run.result.interruptions
    assert (interruption.kind, interruption.reason) == ("load generator", UNRECORDED_END)
    assert ", 1 interruption" in ran("report", folder)


def test_a_killed_measurement_is_reported_and_goes_on(servers: Servers, ran: Ran) -> None:
    folder = servers.killed("measure", block=3)
    assert f"next: draftworth measure --resume {folder}" in ran("report", folder)
    ran("measure", "--resume", folder)
    run = read_run(folder)
    assert (run.result.status, len(run.blocks)) == ("complete", 3)
    assert run.result.price is not None
    assert run.result.price.usd_per_node_hour == 2.1


def test_a_run_without_finished_block_can_be_resumed(servers: Servers, ran: Ran) -> None:
    folder = servers.killed_comparison(block=1)
    output = ran("report", folder, code=2)
    assert output == (
        f"draftworth: {folder}: the run did not end, and no block of it is finished; next: "
        f"draftworth compare --resume {folder}\n"
    )
    ran("compare", "--resume", folder)
    assert read_run(folder).result.status == "complete"


def test_the_folder_is_private_and_holds_no_key(
    servers: Servers,
) -> None:
    folder = servers.runs.original("compare", block=4)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert folder / SPECIFICATION_FILE in files
    assert not any(KEY.encode() in path.read_bytes() for path in files)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


# Options added to `compare --resume RUN` that contradict the run, and the message for each.
CONTRADICTIONS: dict[str, tuple[Callable[[Servers], list[str]], str]] = {
    "another model": (
        lambda _: ["--model", "n"],
        "shape.model: given 'n', allowed: 'm', as the run began; next: leave out what the run has",
    ),
    "other rounds": (
        lambda _: ["--rounds", "4"],
        "sampling.max_requests: given 32, allowed: 24",
    ),
    "another load": (
        lambda _: ["--concurrency", "2"],
        "loads[0].concurrency: given 2, allowed: 1",
    ),
    "another server": (
        lambda s: [*s.options[:3], "fast=http://127.0.0.1:9"],
        "endpoints[1].base_url: given 'http://127.0.0.1:9', allowed: 'http",
    ),
    "a part of the servers": (
        lambda s: s.options[:2],
        "--resume: given with a part of the servers, allowed: with all of them, or with none",
    ),
    "other prompts": (
        lambda s: ["--prompts", str(s.folder / "others" / "inbox.jsonl")],
        "cases[0].prompt_class: given 'others', allowed: 'mails'",
    ),
    "another folder": (
        lambda s: ["--out", str(s.folder)],
        "--out: given",
    ),
    "a price": (
        lambda _: ["--price-source", "a bill"],
        "--price-source: given without a price",
    ),
}


def test_contradictions_to_the_recorded_run_are_refused(servers: Servers, ran: Ran) -> None:
    folder = servers.killed_comparison()
    (servers.folder / "others").mkdir()
    (servers.folder / "others" / "inbox.jsonl").write_text(json.dumps(PROMPTS[0]) + "\n")
    requests_before = servers.requests
    for name, (options, message) in CONTRADICTIONS.items():
        output = ran("compare", "--resume", folder, *options(servers), code=2)
        assert message in output, name
        assert "Traceback" not in output
    assert servers.requests == requests_before
    # The options with which the run began do not contradict it.
    ran("compare", *servers.options, *servers.settings, "--resume", folder)
    assert read_run(folder).result.status == "complete"


# Wrong values in the specification that a run's folder has recorded: where each value is put, the
# value, and the message.
OF_ANYBODY: dict[str, tuple[tuple[str | int, ...], Any, str]] = {
    "no load": (("loads",), [], "not a run specification: loads: given none, allowed: one or more"),
    "no requests": (("sampling", "requests_per_round"), 0, "not one that this command has written"),
    "endless rounds": (("sampling", "max_requests"), 2**62, "allowed: a whole number, 1 to"),
    "endless warm-up": (("sampling", "warmup_requests"), 2**62, "allowed: a whole number, 0 to"),
    "one load twice": (("loads", 1), {"kind": "concurrency", "concurrency": 1}, "loads: given"),
    "load beyond the requests": (("loads", 0, "concurrency"), 2**62, "--concurrency: given"),
    "no baseline": (("endpoints", 0, "is_baseline"), False, "one of them the baseline's"),
    "two baselines": (("endpoints", 1, "is_baseline"), True, "one of them the baseline's"),
    "a name of two": (
        ("endpoints", 1, "variant"),
        "baseline",
        "given the name 'baseline', allowed",
    ),
    "the name of a second baseline": (("endpoints", 1, "variant"), "control", "the name 'control'"),
    "the name of a draft": (
        ("endpoints", 1, "variant"),
        "baseline-as-shipped",
        "the name 'baseline-as-shipped'",
    ),
    "one server twice": (
        ("endpoints",),
        [
            {"variant": name, "base_url": url, "max_tokens_per_step": None, "is_baseline": is_first}
            for name, url, is_first in (
                ("baseline", "http://127.0.0.1:9", True),
                ("fast", "http://localhost:9", False),
            )
        ],
        "which is the address of baseline (http://127.0.0.1:9), allowed: a server of its own",
    ),
    "less than no token": (("endpoints", 1, "max_tokens_per_step"), -5, "max_tokens_per_step: giv"),
    "a command of a shell": (
        ("experiment",),
        "x; rm -rf /;",
        "experiment: given 'x; rm -rf /;', allowed: compare or measure",
    ),
    "a class that leaves": (("cases", 0, "prompt_class"), "../../x", "the name '../../x'"),
    "an address with a password": (("endpoints", 0, "base_url"), "http://u:p@h", "(not shown)"),
    "another schema": (("schema",), "draftworth.runspec/9", "not a run specification: schema"),
}


def test_a_foreign_specification_is_refused_before_any_request(servers: Servers, ran: Ran) -> None:
    folder = servers.killed_comparison()
    recorded = (folder / SPECIFICATION_FILE).read_text()
    requests_before = servers.requests
    for name, (path, value, message) in OF_ANYBODY.items():
        spec = json.loads(recorded)
        inner = at(spec, path[:-1])
        if isinstance(inner, list) and path[-1] == len(inner):
            inner.append(value)
        else:
            inner[path[-1]] = value
        (folder / SPECIFICATION_FILE).write_text(json.dumps(spec))
        output = ran("compare", "--resume", folder, code=2)
        assert message in output, name
        assert output.count("\n") == 1, name
    assert servers.requests == requests_before


def test_a_linked_folder_is_refused_and_loses_nothing(servers: Servers, ran: Ran) -> None:
    folder = servers.killed_comparison()
    requests_before = servers.requests
    for name in ("blocks", "journal", "interrupted"):
        link, elsewhere = folder / name, servers.folder / f"elsewhere-{name}"
        if link.exists():
            link.rename(elsewhere)
        link.symlink_to(elsewhere)
        for words in (["compare", "--resume", folder], ["report", folder]):
            output = ran(*words, code=2)
            assert f"{link} is a link, allowed: a folder of the run's own; next: " in output
            assert output.count("\n") == 1
        link.unlink()
        if elsewhere.exists():
            elsewhere.rename(link)
    assert servers.requests == requests_before
    ran("compare", "--resume", folder)
    assert read_run(folder).result.status == "complete"


def test_runs_that_cannot_resume_are_refused_with_reason(servers: Servers, ran: Ran) -> None:
    folder = servers.killed_comparison()
    assert "a run of compare, allowed: a run of measure" in ran(
        "measure", "--resume", folder, code=2
    )
    with only_process(folder):
        output = ran("compare", "--resume", folder, code=2)
        assert "the run is still measured, by another process; next: wait until it ends" in output
        # While another process measures the run, its finished blocks can be reported.
        assert ran("report", folder).startswith("No decision, the run is not complete")
    renamed = folder.rename(folder.with_name("other"))
    output = ran("compare", "--resume", renamed, code=2)
    assert f"allowed: a folder with the run's own name; next: rename it to {folder.name}" in output
    assert f"compare --resume {renamed}" in ran("report", renamed)
    renamed.rename(folder)
    ran("compare", "--resume", folder)
    output = ran("compare", "--resume", folder, code=2)
    assert (
        "a run that has ended (complete), allowed: one that did not; next: draftworth report"
        in (output)
    )
    output = ran("compare", "--resume", folder.parent, code=2)
    assert "allowed: the folder of a run of compare or measure" in output


SENT = "which sends your OPENAI_API_KEY to"


@pytest.mark.parametrize(
    ("command", "key", "is_elsewhere", "is_named", "message"),
    [
        ("compare", KEY, True, False, f"{SENT} http://elsewhere.invalid:1, allowed: with --bas"),
        ("measure", KEY, True, False, f"{SENT} http://elsewhere.invalid:1, allowed: with --bas"),
        ("compare", KEY, True, True, "given http://elsewhere.invalid:1/v1/models: "),
        ("measure", KEY, True, True, "given http://elsewhere.invalid:1/v1/models: "),
        ("compare", "", True, False, "given http://elsewhere.invalid:1/v1/models: "),
        ("compare", KEY, False, False, ""),
        ("measure", KEY, False, False, ""),
    ],
)
def test_the_key_goes_only_to_named_addresses(
    servers: Servers,
    ran: Ran,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    key: str,
    is_elsewhere: bool,
    is_named: bool,
    message: str,
) -> None:
    """A resumed run sends the API key to a remote server only if the command line names the server.

    is_elsewhere: a server is on another machine. is_named: the command line names all servers.
    message: a part of the error message; empty: the run is resumed.
    """
    words = servers.options if command == "compare" else ["--base-url", servers.options[1]]
    folder = servers.killed(command, block=4 if command == "compare" else 3)
    if is_elsewhere:
        spec = json.loads((folder / SPECIFICATION_FILE).read_text())
        spec["endpoints"][-1]["base_url"] = "http://elsewhere.invalid:1"
        (folder / SPECIFICATION_FILE).write_text(json.dumps(spec))
        words[-1] = words[-1].rpartition("http://")[0] + "http://elsewhere.invalid:1"
    monkeypatch.setenv(API_KEY_VARIABLE, key)
    monkeypatch.setattr(socket, "getaddrinfo", without_look_up(socket.getaddrinfo))
    requests_before = servers.requests
    output = ran(command, "--resume", folder, *words * is_named, code=2 if message else 0)
    assert message in output
    assert KEY not in output
    assert (servers.requests > requests_before) == (not is_elsewhere)


def without_look_up(resolve: Callable[..., Any]) -> Callable[..., Any]:
    def resolved(host: Any, *arguments: Any, **named: Any) -> Any:
        if "elsewhere.invalid" in str(host):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return resolve(host, *arguments, **named)

    return resolved


def test_missing_options_are_named_beside_resume(ran: Ran) -> None:
    output = ran("measure", "--model", "x", code=2)
    assert "--base-url: given nothing, allowed: a value; or --resume RUN alone" in output
    output = ran("compare", code=2)
    assert "--baseline, --variant: given nothing, allowed: a value" in output


def test_a_begun_run_is_read_back_as_begun(servers: Servers) -> None:
    folder = servers.killed_comparison()
    begun = read_begun_run(folder)
    assert [e.variant for e in begun.spec.endpoints] == ["baseline", "fast"]
    assert len(begun.spec.cases[0].prompts) == len(PROMPTS)
    assert not (folder / RUN_FILE).exists()


def test_a_run_of_two_loads_goes_on(servers: Servers, ran: Ran) -> None:
    folder = servers.killed_comparison()
    spec = json.loads((folder / SPECIFICATION_FILE).read_text())
    spec["loads"].append({"kind": "concurrency", "concurrency": 2})
    spec["sampling"]["max_requests"] *= 2
    (folder / SPECIFICATION_FILE).write_text(json.dumps(spec))
    ran("compare", "--resume", folder)
    assert {block.load.label for block in read_run(folder).blocks} == {"c1", "c2"}
