"""Which node release works with which serving image, and what the shipped experiments pin."""

import re

import pytest

from draftworth.experiment.catalog import catalog
from draftworth.experiment.node_images import DOES_NOT_FIT, FITS, NOT_KNOWN, DriverAndRuntime
from draftworth.experiment.strict_model import PATTERNS
from draftworth.neuron_versions import why_unfit
from tests.support.experiments import ON_AWS, resolved

OLD, NEW = "1.35.6-20260625", "1.35.6-20260714"
EARLIER, LATER = "1.35.2-20260304", "1.35.6-20261112"


@pytest.mark.parametrize(
    ("node_release", "judgements"),
    [
        # Judgements for runtimes 2.28.23 and 2.30.51, for 2.33.10 to 2.35.30, and for an image
        # whose runtime is not known.
        ("1.35.5-20260610", (FITS, FITS, NOT_KNOWN)),
        ("1.35.6-20260618", (FITS, FITS, NOT_KNOWN)),
        (OLD, (FITS, FITS, NOT_KNOWN)),
        (NEW, (DOES_NOT_FIT, FITS, NOT_KNOWN)),
        # The catalogue does not know the drivers of these releases. A later release than it knows
        # has no older driver; an earlier one may have any.
        (LATER, (DOES_NOT_FIT, NOT_KNOWN, NOT_KNOWN)),
        (None, (DOES_NOT_FIT, NOT_KNOWN, NOT_KNOWN)),
        (EARLIER, (NOT_KNOWN, NOT_KNOWN, NOT_KNOWN)),
    ],
)
def test_the_fitting_table(node_release: str | None, judgements: tuple[str, ...]) -> None:
    old, new, unknown = judgements
    table = {
        **dict.fromkeys(("neuron-2.26.1", "neuron-2.28.0"), old),
        **dict.fromkeys(("neuron-2.31.1", "neuron-2.31.1-vllm-0.21.0"), new),
        **dict.fromkeys(("neuron-2.32.0", "neuron-2.33.0"), new),
        "cpu-vllm-0.32.0": unknown,  # it has no Neuron runtime
    }
    releases = catalog().releases.items()
    judged = {name: DriverAndRuntime(node_release, r.runtime).judgement for name, r in releases}
    assert judged == table


def test_the_newest_release_that_fits_comes_first() -> None:
    fitting = {
        runtime: [*DriverAndRuntime(None, runtime).fitting_releases("1.35")]
        for runtime in ("2.30.51", "2.33.10", None)
    }
    assert fitting == {
        "2.30.51": [OLD, "1.35.6-20260618", "1.35.5-20260610"],
        "2.33.10": [NEW, OLD, "1.35.6-20260618", "1.35.5-20260610"],
        None: [],
    }


def test_no_release_of_another_kubernetes_fits() -> None:
    assert [*DriverAndRuntime(None, "2.30.51").fitting_releases("1.36")] == []


def test_listed_node_releases_are_ordered_and_pinnable() -> None:
    driver_by_release = catalog().node_images.drivers
    days = [release.rpartition("-")[2] for release in driver_by_release]
    assert days == sorted(set(days))
    drivers = [tuple(map(int, driver.split("."))) for driver in driver_by_release.values()]
    assert drivers == sorted(drivers)  # a later release has no older driver
    assert all(re.fullmatch(PATTERNS["node_release"], release) for release in driver_by_release)
    assert catalog().node_images.sources


@pytest.mark.parametrize("name", ON_AWS)
def test_shipped_experiments_pin_fitting_releases_or_need_none(name: str) -> None:
    pair = DriverAndRuntime.of(resolved(name).spec)
    assert pair.runtime
    needs_no_pin = not why_unfit(driver="9999.0", runtime=pair.runtime)
    assert pair.judgement == FITS or (pair.node_release is None and needs_no_pin)


def test_the_words_say_what_is_not_known() -> None:
    words = DriverAndRuntime(LATER, "2.28.23").words
    assert words.startswith(f"{LATER}: Neuron driver 2.29.0.0 or later; serving image: Neuron")
    assert DriverAndRuntime(EARLIER, None).words.count("of an unknown version") == 2
