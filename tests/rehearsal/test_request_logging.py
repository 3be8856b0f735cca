"""A real server's log holds nothing of what it is asked, even where it logs all it can."""

import json
import urllib.request
from pathlib import Path

import pytest

from draftworth.planning.resolved import load
from draftworth.serving.command import REQUESTS_NOT_LOGGED
from rehearsal.engine import EngineServer
from tests.conftest import ROOT
from tests.rehearsal.engines import engine_server, serve_together
from tests.support.waiting import HANGS_AFTER_SECONDS

PROMPT = "Do not repeat this to anybody: xyzzy"


def ask(server: EngineServer) -> None:
    body = {"model": "rehearsal", "messages": [{"role": "user", "content": PROMPT}]}
    request = urllib.request.Request(
        f"{server.base_url}/v1/chat/completions",
        data=json.dumps({**body, "max_tokens": 2}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=HANGS_AFTER_SECONDS) as answer:
        assert answer.status == 200


@pytest.mark.engine
def test_the_real_server_logs_no_prompt_and_would_without_our_flag(tmp_path: Path) -> None:
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    servers = {}
    for name in ("ours", "logging"):
        server = engine_server(tmp_path / name, experiment, experiment.variants[0])
        server.environment = {**server.environment, "VLLM_LOGGING_LEVEL": "DEBUG"}
        servers[name] = server
    ours = servers["ours"].arguments
    assert REQUESTS_NOT_LOGGED in ours
    logging = [a.replace(REQUESTS_NOT_LOGGED, "--enable-log-requests") for a in ours]
    servers["logging"].arguments = logging

    with serve_together(list(servers.values())):
        for server in servers.values():
            ask(server)

    assert PROMPT in servers["logging"].log_path.read_text(errors="replace")
    assert "xyzzy" not in servers["ours"].log_path.read_text(errors="replace")
