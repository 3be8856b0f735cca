"""How the process that makes token ids can end, and that `limited` ends its limits afterwards."""

import resource
import signal
import subprocess
from pathlib import Path

import pytest

from draftworth.errors import DraftworthError, UserInputError
from draftworth.estimate import run_tokenizing
from draftworth.estimate.process_limits import limited
from draftworth.estimate.run_tokenizing import TargetTokenizer
from draftworth.records.readings import TokenLimits
from tests.support.readings import make_output


@pytest.mark.parametrize(
    ("code", "printed", "exit_code", "words"),
    [
        (0, b"nonsense", 1, "no token ids: not JSON"),
        (0, b"", 1, "token ids of 0 outputs, allowed: of 1"),
        (0, b'{"prompt_ids": [1], "output_ids": [2]}\n' * 2, 1, "ids of 2 outputs, allowed: of 1"),
        (1, b"Traceback\nKeyError: 'x'\n", 1, "ended with exit code 1: Traceback KeyError: 'x';"),
        (-9, b"", 1, "was ended by signal 9 (Killed): no words; allowed: 600 s, 4 GiB"),
        (-14, b"", 1, "took too long; allowed: 600 s"),
        (2, b"note\nfolder: what is wrong", 2, "folder: what is wrong"),
    ],
)
def test_each_end_of_the_process_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, code: int, printed: bytes, exit_code: int, words: str
) -> None:
    done = subprocess.CompletedProcess((), code, stdout=printed, stderr=printed)
    monkeypatch.setattr(run_tokenizing, "run_module", lambda *_, **__: done)
    with pytest.raises(DraftworthError) as raised:
        TargetTokenizer(Path("folder")).token_ids([make_output()], enable_thinking=False)
    assert words in str(raised.value)
    assert str(raised.value).startswith("folder: ")
    assert raised.value.exit_code == exit_code


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), UserInputError),
        (KeyError("x"), UserInputError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_limits_end_with_the_block(error: BaseException, kind: type[BaseException]) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(kind), limited(Path("folder"), TokenLimits(memory_bytes=2**40)):
        raise error
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
