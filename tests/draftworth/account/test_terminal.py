"""How durations and sizes look in the terminal."""

import pytest

from draftworth.account.printing import duration_text, size_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (2460, "41 min"),
        (3 * 3600, "3 h"),
        (47 * 3600, "47 h"),
        (12 * 86_400, "12 days"),
    ],
)
def test_a_duration_is_told_in_the_largest_unit_of_which_there_are_two(
    seconds: float, text: str
) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(2000, "2,000 bytes"), (3 * 1024**3 // 2, "1.50 GiB")]
)
def test_a_size_is_told_in_bytes_or_gib(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text
