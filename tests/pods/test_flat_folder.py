"""Modules of a folder without folders, run by a real interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from charts.shipped import ROOT
from pods.flat_folder import FlatFolder

OUTER = "import sys\nfrom pods.log import SAID\nprint(SAID, *sys.argv[1:], __name__)\n"


def laid_out(folder: Path, **texts: str) -> Path:
    """Files by their names, some as given, with the program as their `__main__.py`."""
    files = {
        "__main__.py": (ROOT / "pods" / "flat_folder.py").read_text(),
        "pods.__init__.py": "",
        "pods.compiled_graphs.__init__.py": "",
        "pods.compiled_graphs.__main__.py": OUTER,
        "pods.log.py": "SAID = 'ours'\n",
        **texts,
    }
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def run(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(folder), "start", "--x"],
        env=settings,
        cwd=folder.parent,
        capture_output=True,
        text=True,
    )


def test_the_program_runs_as_main_with_its_arguments_and_finds_its_modules(tmp_path: Path) -> None:
    done = run(laid_out(tmp_path / "programs"))
    assert (done.returncode, done.stdout) == (0, "ours start --x __main__\n"), done.stderr


def test_a_package_of_the_image_with_the_same_name_is_not_taken(tmp_path: Path) -> None:
    other = tmp_path / "site" / "pods"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise SystemExit('of the image')\n")
    done = run(laid_out(tmp_path / "programs"), PYTHONPATH=str(other.parent))
    assert done.stdout.startswith("ours"), done.stderr


def test_a_traceback_names_the_file_and_quotes_the_line(tmp_path: Path) -> None:
    done = run(laid_out(tmp_path / "programs", **{"pods.log.py": "SAID = 1 / 0\n"}))
    assert done.returncode == 1
    assert 'pods.log.py", line 1' in done.stderr
    assert "SAID = 1 / 0" in done.stderr


def test_what_no_file_is_called_is_left_to_the_others(tmp_path: Path) -> None:
    found = FlatFolder(str(laid_out(tmp_path / "programs")))
    assert found.find_spec("json") is None
    assert found.find_spec("pods.nothing") is None
    package, module = found.find_spec("pods"), found.find_spec("pods.log")
    assert package is not None
    assert module is not None
    assert package.submodule_search_locations is not None
    assert module.submodule_search_locations is None
