"""The seams of vLLM's command line in a real vLLM: what the stand-in pretends is there.

A newer vLLM than the one of the image; the engine itself is replaced, so nothing is compiled.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from pods.graph_compiler.compilation import SCRIPT
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.engine

TELL = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("compile_only", sys.argv[1])
compile_only = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compile_only)
from vllm.engine.llm_engine import LLMEngine
def tell(given, usage_context):
    told = [given.model, given.max_num_seqs, given.speculative_config, usage_context.value]
    print("TOLD" + json.dumps(told))
LLMEngine.from_engine_args = staticmethod(tell)
compile_only._serve(sys.argv[2:])
"""
CONFIGURATION = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
SPECULATION = {"model": "/models/draft", "num_speculative_tokens": 7}


def told(target: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    python = os.environ.get("DRAFTWORTH_ENGINE_PYTHON")
    if not python:
        pytest.skip("set DRAFTWORTH_ENGINE_PYTHON to the engine's interpreter (make test-engine)")
    (target / "config.json").write_text(json.dumps(CONFIGURATION))
    return subprocess.run(
        [python, "-P", "-c", TELL, str(SCRIPT), "vllm", "serve", str(target), *flags],
        env={"PATH": os.environ["PATH"], "VLLM_TARGET_DEVICE": "cpu", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_SECONDS,
        check=False,
    )


def test_the_real_parser_hands_the_servers_arguments_to_the_engine(tmp_path: Path) -> None:
    flags = ["--max-num-seqs=4", f"--speculative-config={json.dumps(SPECULATION)}"]
    done = told(tmp_path, *flags)
    (line,) = [x for x in done.stdout.splitlines() if x.startswith("TOLD")] or [done.stderr]
    assert json.loads(line.removeprefix("TOLD")) == [
        str(tmp_path),
        4,
        SPECULATION,
        "OPENAI_API_SERVER",
    ]


def test_the_real_parser_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    done = told(tmp_path, "--no-such-flag")
    assert done.returncode == 2
    assert "TOLD" not in done.stdout
