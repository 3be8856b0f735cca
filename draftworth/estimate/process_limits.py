"""Limits time and memory of this process while it reads a model's tokenizer and chat template.

A model's folder can come from anybody. Its chat template is a program, and its tokenizer can need
any time and memory, or make the library `tokenizers` abort the process. So only separate processes
read these files: `tokenizing.py` and, in the engine's interpreter, `teacher_forcing.py`. Because
the engine's interpreter imports this module, it imports no third-party library.
"""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.readings import TokenLimits
from draftworth.untrusted import one_line

# The return code that `subprocess` gives a process that the timer of `limited` has ended.
TOO_LATE = -signal.SIGALRM
NEXT = "next: copy or download the files of the tokenizer again from where the model was published"
_STATM = Path("/proc/self/statm")


@contextmanager
def limited(folder: Path, limits: TokenLimits) -> Iterator[None]:
    """In the `with` block, limit this process's time and memory while it reads `folder`.

    UserInputError: the block failed with any other error than DraftworthError, for example because
    memory was not enough. After `limits.seconds`, the signal SIGALRM ends the process, so that its
    parent gets the return code `TOO_LATE`.
    """
    # Not RLIMIT_AS, because it also counts address space that threads reserve and never use.
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = (soft, hard, _data_bytes() + limits.memory_bytes)
    lowest = min(value for value in allowed if value != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (lowest, hard))
    # The signal's default action, by which the kernel ends the process. A handler in Python would
    # run only when the library's call returns, which may be never.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limits.seconds)
    try:
        yield
    except (DraftworthError, KeyboardInterrupt):
        raise
    except MemoryError as error:
        raise UserInputError(
            f"{folder}: its tokenizer or chat template takes more memory than allowed: {limits}; "
            f"{NEXT}"
        ) from error
    except BaseException as error:  # a panic of the library `tokenizers` is no Exception
        reason = f"{type(error).__name__}: {error}"
        raise UserInputError(
            f"{folder}: its tokenizer or chat template does not work: "
            f"{one_line(reason, characters=200)}; {NEXT}"
        ) from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def too_late(folder: Path, limits: TokenLimits) -> DraftworthError:
    """Return the error for a process that was ended at its time limit (return code `TOO_LATE`)."""
    return DraftworthError(
        f"{folder}: its tokenizer and chat template took too long; allowed: {limits}; {NEXT}"
    )


def _data_bytes() -> int:
    """Return how many bytes of this process count towards RLIMIT_DATA; 0: this is not Linux."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    except OSError:
        return 0
