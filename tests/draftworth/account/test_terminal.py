"""How durations and sizes look in the terminal."""

from draftworth.account.printing import duration_text, size_text


def test_a_duration_is_told_in_the_largest_unit_of_which_there_are_two() -> None:
    seconds = (0, 119, 2460, 3 * 3600, 47 * 3600, 12 * 86_400)
    texts = ["0 s", "119 s", "41 min", "3 h", "47 h", "12 days"]
    assert [duration_text(given) for given in seconds] == texts


def test_a_size_is_told_in_bytes_or_gib() -> None:
    assert (size_text(2000), size_text(3 * 1024**3 // 2)) == ("2,000 bytes", "1.50 GiB")
