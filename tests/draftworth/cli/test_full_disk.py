"""A full disk ends a measurement at once, with what was measured; the disk is a real, small one."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from draftworth.records.run_folder import read_run
from tests.conftest import ROOT
from tests.support.stream_server import Request, Step, completion, plain, stream_server
from tests.support.waiting import HANGS_AFTER_SECONDS

ROUNDS, PROMPTS = 20, 8
# In a user namespace of its own (`unshare`), a process may mount a file system without being root,
# if the kernel allows users to make such namespaces.
MOUNT = 'mount -t tmpfs -o size=160k none "$0"'
SCRIPT = f"""
{MOUNT}
"$@" --out "$0"; echo "exit code $?" >&2
echo "=== room is made" >&2
mount -o remount,size=8m "$0"
"$1" -m draftworth measure --resume "$0"/measure-*; echo "exit code $?" >&2
cp -r "$0"/measure-* "$KEPT"
"""


def in_namespace(script: str, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, *map(str, words)],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_SECONDS,
        check=False,
    )


def answer(request: Request) -> Sequence[Step]:
    if request.method == "GET":
        return plain("200 OK" if request.path == "/health" else "404 Not Found", b"")
    return completion(2, 2, gap_seconds=0.001)


def test_a_measurement_resumes_after_a_full_disk(tmp_path: Path) -> None:
    disk, kept, prompts = (tmp_path / name for name in ("disk", "kept", "inbox.jsonl"))
    disk.mkdir()
    kept.mkdir()
    if in_namespace(MOUNT, disk).returncode:
        pytest.skip("no file system can be mounted here")
    line = '{"id": "mail-%d", "prompt": "Answer mail %d."}\n'
    prompts.write_text("".join(line % (n, n) for n in range(PROMPTS)))
    with stream_server(answer) as server:
        words = ["--base-url", server.base_url, "--model", "m", "--prompts", prompts]
        few = ["--rounds", ROUNDS, "--warmup-requests", 0]
        program = [sys.executable, "-m", "draftworth", "measure"]
        done = in_namespace(SCRIPT, disk, *program, *words, *few, KEPT=str(kept))
        posted = sum(request.method == "POST" for request in server.requests)
    full, _, resumed = done.stderr.partition("=== room is made\n")
    # The last message is one sentence: which file, what happened, the next step. Above it stands
    # what was measured until then.
    *_, sentence, code = full.splitlines()
    assert code == "exit code 1"
    assert sentence.startswith(f"draftworth: {disk}/measure-")
    assert ": cannot be written: No space left on device; next: make room there, then " in sentence
    assert f"draftworth measure --resume {disk}/measure-" in sentence
    assert "Traceback" not in done.stderr
    assert "tried again" not in done.stderr
    assert done.stdout.startswith("No decision, the run is not complete: the run did not end, ")
    assert resumed.endswith("exit code 0\n"), resumed
    run = read_run(next(kept.iterdir()))
    assert (run.result.status, len(run.blocks)) == ("complete", ROUNDS)
    # One block more than the rounds, because the block that the full disk cut is measured again,
    # and one request each time the command starts.
    assert posted <= (ROUNDS + 1) * PROMPTS + 2
