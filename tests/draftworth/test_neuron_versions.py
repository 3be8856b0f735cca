import pytest

from draftworth.neuron_versions import major_and_minor, why_unfit


@pytest.mark.parametrize(
    ("driver", "runtime"),
    [
        ("2.28.0.0", "2.28.23"),
        ("2.28.9", "2.30.51"),
        ("2.29.0.0", "2.33.10"),
        ("2.29.0.0", "2.34.10"),
        ("2.30.2", "3.0"),
    ],
)
def test_pairs_that_fit(driver: str, runtime: str) -> None:
    assert why_unfit(driver=driver, runtime=runtime) == ""


@pytest.mark.parametrize(
    ("driver", "runtime"),
    [("2.29.0.0", "2.28.23"), ("2.29", "2.32.99"), ("2.30.2", "2.30.51"), ("10.0", "2.9")],
)
def test_pairs_that_do_not_fit(driver: str, runtime: str) -> None:
    reason = why_unfit(driver=driver, runtime=runtime)
    assert all(words in reason for words in (driver, runtime, "2.33 or later"))


@pytest.mark.parametrize("text", ["", "2", "v2.29", "2.29-1", "2.29.0.0\n", "2.x"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: a version"):
        major_and_minor(text)
