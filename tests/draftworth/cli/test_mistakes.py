"""Mistakes that a stranger makes: each message says where, what was given, what is allowed, next.

Each row was a message without one of the four; those of other mistakes are beside their commands.
"""

import shlex
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.draftworth.conftest import Ran

QWEN = ROOT / "experiments" / "qwen3-32b.yaml"
SERVERS = "--baseline http://127.0.0.1:1 --variant fast=http://127.0.0.1:2"

# Files in the folder in which the commands run.
FILES = {
    "text.txt": "hello\n",
    "table.csv": "id,prompt\n1,x\n",
    "typo.jsonl": '{"id": "1", "promt": "x"}\n',
    "array.json": "[1, 2]",
    "rel.yaml": "name: x\n",
}

# Command lines, and what their messages have, in this order.
MISTAKES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("compare", ("--baseline, --variant: given nothing", "next: for example draftworth compare -")),
    (
        "compare --baseline http://127.0.0.1:1",
        ("--variant: given nothing, allowed: a value; or --resume RUN", "next: for example"),
    ),
    ("measure", ("--base-url: given nothing", "next: for example draftworth measure --base-url")),
    (
        "compare http://127.0.0.1:1",
        (
            "compare: given 'http://127.0.0.1:1', allowed: options alone",
            "next: leave it out, or pu",
        ),
    ),
    (
        "compare --baseline localhost:8000 --variant fast=http://127.0.0.1:2",
        ("--baseline: given 'localhost:8000'", "next: http://localhost:8000; allowed: http://HOST"),
    ),
    *(
        (
            f"compare {SERVERS},{setting}",
            (f"--variant fast: {where}", "for example fast=http://localhost:8001,window=5"),
        )
        for setting, where in (
            ("window", "window: given ''"),
            ("window=0", "window: given '0'"),
            ("window=5.5", "window: given '5.5'"),
            ("usd_per_hour=1,20", "given '20', allowed after the address"),
        )
    ),
    (
        f"compare {SERVERS} --concurrency 1,",
        (
            "--concurrency: given '1,', allowed: a whole number",
            "several with commas",
            "such as 1,8",
        ),
    ),
    (f"compare {SERVERS} --concurrency 1-8", ("given '1-8'", "several with commas", "next: ")),
    (
        f"compare {SERVERS} --concurrency 1 8",
        ("compare: given '8', allowed: options alone", "next: leave it out, or put the option"),
    ),
    *(
        (
            f"compare {SERVERS} --prompts {name}",
            (f"{name}:1: ", words, 'a line is {"id"', "next: `draftworth prompts import` writes"),
        )
        for name, words in (("text.txt", "not JSON"), ("table.csv", "not JSON"), ("array.json", ""))
    ),
    (f"compare {SERVERS} --prompts typo.jsonl", ("typo.jsonl:1: ", "did you mean 'prompt'?")),
    (
        "compare --resume nowhere",
        ("--resume: given 'nowhere', allowed: the folder of a run that did not end", "next: "),
    ),
    (
        "compare --baseline http://nohost.invalid --variant fast=http://127.0.0.1:2",
        ("--baseline: given http://nohost.invalid/v1/models: ", "next: start it, or correct"),
    ),
    (
        f"compare {SERVERS} --window 5",
        (
            "--window: draftworth compare has no such option, the setting stands behind the addr",
            "as in --variant NAME=URL[,window=K",
            "next: ",
        ),
    ),
    ("compare --usd-per-hour 5", ("the setting stands behind the address", "next: ")),
    ("measure --url x", ("--url: draftworth measure has no such option; did you mean '--base-u",)),
    ("report s3://", ("RUN: given 's3://', allowed: s3://BUCKET/PREFIX", "next: draftworth repo")),
    (f"plan {QWEN} --assume x", ("--assume: given 'x', allowed: NAME=NUMBER", "next: give a nam")),
    (f"plan {QWEN} --assume x=1", ("--assume: given 'x', allowed: deploy_m", "next: `draftworth")),
    (f"plan {QWEN} --compiled x", ("--compiled: given 'x', allowed: baseline", "next: give names")),
    (
        f"manifests {QWEN} --out o --image x",
        ("--image: given x with no --winner, allowed: with it", "next: add --winner RUN, or leav"),
    ),
    (
        f"manifests {QWEN} --out o --results-bucket s3://x",
        ("--results-bucket: given 's3://x', allowed: ", "next: give the name alone, without s3://"),
    ),
    (
        f"manifests {QWEN} --out o --llmperf-image x:latest",
        ("--llmperf-image: given x:latest; allowed: ", "next: give a tag that"),
    ),
    (
        f"rehearse --experiment {QWEN}",
        ("--experiment: given ", "allowed: an experiment with a local release", "next: `draftwor"),
    ),
    ("report", ("RUN: given nothing, allowed: the folder of a run", "next: draftworth report -")),
    ("report nowhere", ("RUN: given 'nowhere', allowed: the folder of a run", "next: draftwor")),
    ("report s3:/bucket/x", ("RUN: given 's3:/bucket/x'", "or s3://BUCKET/PREFIX of one", "next")),
    ("report . --html x", ("--html: draftworth report has no such option; next: draftworth repo",)),
    ("report . --out text.txt", ("--out: given text.txt, which is a file, allowed: a folder", "n")),
    ("report . --traffic nowhere", ("--traffic: given 'nowhere', allowed: a file or folder", "ne")),
    ("plan", ("experiment: given nothing, allowed: experiment file, YAML; next: ",)),
    ("plan nowhere.yaml", ("nowhere.yaml: no such file; . has rel.yaml; next: give the path of",)),
    ("plan rell.yaml", ("rell.yaml: no such file; did you mean 'rel.yaml'?; next: give the path",)),
    ("plan .", (".: cannot be read: a folder; next: give the path of a YAML file",)),
    (
        "report . --claims text.txt",
        ("text.txt: given a file", "such as experiments/claims/published.yaml; next: for an exp"),
    ),
    (
        "init",
        ("FILE.yaml: given nothing, allowed: the file to write; next: draftworth init --hel",),
    ),
    ("init mine.txt", ("mine.txt: given a name that does not end with .yaml, allowed: ", "next: ")),
    ("init rel.yaml", ("rel.yaml: given a file that exists, allowed: ", "next: give another name")),
    ("init no/x.yaml", ("no/x.yaml: given a file in no, which is no folder, allowed: ", "next: ")),
    (
        "init x.yaml --yes --from text.tx",
        ("--from: given text.tx, where nothing is; did you mean 'text.txt'?; allowed: ", "next: "),
    ),
    ("prompts", ("ACTION: given nothing, allowed: ", "next: draftworth prompts --help")),
    (
        "prompts import",
        ("SOURCE, --out, --class: given nothing, allowed: a file of JSON Lines, JSON or", "next"),
    ),
    ("prompts import no --format sharegpt --out o --class c", ("SOURCE: given 'no'", "next: ")),
    ("estimate", ("EXPERIMENT: given nothing, allowed: an experiment file; next: ",)),
    ("profile", ("FILE: given nothing, allowed: an acceptance profile", "next: ")),
    (
        "profile text.txt",
        ("text.txt: not JSON", "allowed: an acceptance profile, InferenceX'", "next: `draft"),
    ),
    ("profile .", (".: cannot be read: ", "allowed: an acceptance profile, InferenceX' YAML")),
    ("truth-server", ("--log: given nothing, allowed: new file, one line per request; next: ",)),
    ("truth-server --log no/x.log", ("--log: given no/x.log, which", "allowed: a new file", "nex")),
    ("truth-server --log text.txt", ("--log: given text.txt, which", "allowed: a new file", "nex")),
    (
        "truth-server --log x.log --timeline {output_tokens:8}",
        ("--timeline: given {output_tokens:8}: not JSON", "next: a JSON object in quotes"),
    ),
    (
        """truth-server --log x.log --timeline '{"output_token":8}'""",
        ("no field output_token; did you mean 'output_tokens'?; allowed: some of ", "next: a JSO"),
    ),
    ("completion", ("shell: given nothing, allowed: ", "next: draftworth completion --help")),
    ("schema x", ("schema: given 'x', allowed: options alone; next: leave it out",)),
    (
        f"manifests {QWEN} --out o --winner nowhere",
        ("--winner: given 'nowhere', allowed: the folder of a run", "next: draftworth manifests"),
    ),
)


@pytest.mark.parametrize(("line", "parts"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_message_has_all_four_parts(
    line: str,
    parts: tuple[str, ...],
    tmp_path: Path,
    ran: Ran,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    output = ran(*shlex.split(line), code=2)
    *_, message = (text for text in output.splitlines() if text.startswith("draftworth: "))
    place = 0
    for part in parts:
        assert part in message[place:], message
        place = message.index(part, place)
