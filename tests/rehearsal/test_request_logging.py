"""A real server's log holds nothing of what it is asked, even where it logs all it can."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path

import pytest

from draftworth.serving.command import REQUESTS_NOT_LOGGED, ModelPaths
from draftworth.serving.dialects import serving_command
from rehearsal.engine import EngineServer, serve_together
from tests.conftest import ROOT
from tests.support.experiments import load_spec
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
    python = os.environ.get("DRAFTWORTH_ENGINE_PYTHON")
    if python is None:
        pytest.skip("set DRAFTWORTH_ENGINE_PYTHON to the engine's interpreter (make test-engine)")
    experiment = load_spec(ROOT / "experiments/rehearsal.yaml")
    paths = ModelPaths(target=str(ROOT / "rehearsal/tiny_pair/target"))
    ours = serving_command(experiment, experiment.variants[0], paths)
    assert REQUESTS_NOT_LOGGED in ours.arguments
    logging = [a.replace(REQUESTS_NOT_LOGGED, "--enable-log-requests") for a in ours.arguments]
    servers = {
        name: EngineServer(
            python=Path(python),
            name=name,
            arguments=arguments,
            environment={**ours.environment, "VLLM_LOGGING_LEVEL": "DEBUG"},
            log_path=tmp_path / f"{name}.log",
        )
        for name, arguments in {"ours": ours.arguments, "logging": logging}.items()
    }

    with serve_together(list(servers.values())):
        for server in servers.values():
            ask(server)

    assert PROMPT in servers["logging"].log_path.read_text(errors="replace")
    assert "xyzzy" not in servers["ours"].log_path.read_text(errors="replace")
