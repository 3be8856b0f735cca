"""The file of readings: only its owner may read it, and nothing is written through a link."""

import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from draftworth import estimate
from draftworth.estimate import teacher_forcing
from draftworth.records.codec import dump_record
from draftworth.records.readings import PassSettings
from tests.conftest import ROOT
from tests.support.readings import make_output, make_reading

OUTPUT = make_output()
# Replaces the module `forward_pass`, which needs torch. The output has one token.
FORWARD_PASS = SimpleNamespace(
    load_tokenizer=lambda *_: None,
    tokens_of=lambda *_, **__: SimpleNamespace(output_ids=[1]),
    load_model=lambda *_: SimpleNamespace(config=SimpleNamespace(vocab_size=9)),
    check_ids=lambda *_: None,
    read_outputs=lambda *_, **__: [[make_reading("1")]],
)


@pytest.fixture
def written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    """The file of readings that a complete pass has written."""
    monkeypatch.setattr(estimate, "forward_pass", FORWARD_PASS, raising=False)
    assert read_in(tmp_path) == 0
    return Path(capsys.readouterr().out.strip())


def read_in(folder: Path) -> int:
    pair = ROOT / "rehearsal/tiny_pair"
    settings = PassSettings(
        model=str(pair / "draft"),
        target=str(pair / "target"),
        folder=str(folder),
        precision="auto",
        temperature=1.0,
        enable_thinking=False,
        fixed_length=False,
    )
    return teacher_forcing.main(dump_record(settings) + dump_record(OUTPUT))


def test_readings_are_their_owners_alone(written: Path) -> None:
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["no file", "empty", "the header"])
def test_readings_replace_a_link_and_spare_its_target(
    written: Path, tmp_path: Path, content: str
) -> None:
    lines, other = written.read_bytes(), tmp_path / "other"
    before = {"the header": lines[: lines.index(b"\n") + 1], "empty": b""}.get(content)
    if before is not None:
        other.write_bytes(before)
    written.unlink()
    written.symlink_to(other)
    assert read_in(written.parent) == 0
    assert not written.is_symlink()
    assert written.read_bytes() == lines
    assert (other.read_bytes() if other.exists() else None) == before
