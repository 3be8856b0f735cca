"""The packages that a deployer, the rehearsal, tests and checks install."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LOCKS = {
    "main": ROOT / "requirements.txt",
    "rehearsal": ROOT / "requirements/rehearsal.txt",
    "dev": ROOT / "requirements/dev.txt",
}


def packages(file: Path) -> set[str]:
    """Return the packages that a file names itself, as PyPI spells them."""
    lines = (line for line in file.read_text().splitlines() if line[:1] not in ("#", "-", ""))
    names = (re.split(r"[\[<>=]", line)[0].strip() for line in lines)
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names}


def test_each_set_has_its_requirements_and_none_twice() -> None:
    held: set[str] = set()
    for kind, lock in LOCKS.items():
        locked = packages(lock)
        assert locked
        assert not held & locked
        held |= locked
        assert packages(ROOT / f"requirements/{kind}.in") <= held


@pytest.mark.parametrize("package", ["moto", "pytest", "mypy", "ruff", "huggingface-hub"])
def test_a_deployer_installs_no_tools_of_developers(package: str) -> None:
    assert package not in packages(LOCKS["main"])


# Installed beside the packages of `make lock`, without its own requirements; and a tool with an
# environment of its own.
SEPARATE = {name: ROOT / f"requirements/{name}.txt" for name in ("kserve", "checkov")}


@pytest.mark.parametrize("lock", [*LOCKS.values(), *SEPARATE.values()], ids=[*LOCKS, *SEPARATE])
def test_every_version_is_pinned(lock: Path) -> None:
    lines = [line for line in lock.read_text().splitlines() if line[:1] not in ("#", "-")]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.+]+", line)] == []
