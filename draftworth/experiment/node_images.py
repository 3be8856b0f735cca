"""Judges whether a node image's Neuron driver works with a serving image's Neuron runtime."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import NeuronExperiment
from draftworth.neuron_versions import why_unfit

# The judgements on a Neuron driver and a Neuron runtime, in words for users.
FITS: Final = "they fit"
DOES_NOT_FIT: Final = "they do not fit"
NOT_KNOWN: Final = "it is not known whether they fit"


@dataclass(frozen=True)
class DriverAndRuntime:
    """The Neuron driver of a release of the node images, and the runtime of a serving image.

    node_release: the release; None: EKS's newest one, which a deploy takes if none is pinned.
    runtime: the version of the Neuron runtime; None: not known.
    """

    node_release: str | None
    runtime: str | None

    @classmethod
    def of(cls, spec: NeuronExperiment, todays: str | None = None) -> Self:
        """Return the node release and the runtime of an experiment.

        todays: EKS's newest release, for an experiment that pins none; None: not known.
        """
        return cls(spec.aws.pins.node_release or todays, spec.release_facts.runtime)

    @property
    def driver_is_known(self) -> bool:
        return self.node_release in catalog().node_images.drivers

    @property
    def least_driver(self) -> str | None:
        """Return the oldest version that the driver of `node_release` can have.

        If the catalogue has the release, this is the driver's version. If not, it is the version in
        the latest earlier release of the catalogue, because a later release never has an older
        driver. EKS's newest release (`node_release` is None) counts as later than all releases of
        the catalogue. None is returned if the catalogue has no release of that day or earlier.
        """
        drivers = [
            driver
            for release, driver in catalog().node_images.drivers.items()
            if self.node_release is None or _day(release) <= _day(self.node_release)
        ]
        return drivers[-1] if drivers else None

    @property
    def why_unfit(self) -> str:
        """Return why no server starts with this driver and runtime; empty if none is known."""
        if self.least_driver is None or self.runtime is None:
            return ""
        return why_unfit(driver=self.least_driver, runtime=self.runtime)

    @property
    def judgement(self) -> str:
        if self.why_unfit:
            return DOES_NOT_FIT
        return FITS if self.driver_is_known and self.runtime else NOT_KNOWN

    @property
    def words(self) -> str:
        release = self.node_release or "none pinned, so a deploy takes EKS's newest"
        later = "" if self.driver_is_known else " or later"
        driver = f"{self.least_driver}{later}" if self.least_driver else "of an unknown version"
        return (
            f"{release}: Neuron driver {driver}; serving image: Neuron runtime "
            f"{self.runtime or 'of an unknown version'}; {self.judgement}"
        )

    def fitting_releases(self, kubernetes_version: str) -> Iterator[str]:
        """Yield the catalogue's node releases whose driver works with the runtime, newest first.

        Only releases for this version of Kubernetes: EKS refuses others.
        """
        for release in reversed(catalog().node_images.drivers):
            is_of_version = release.startswith(f"{kubernetes_version}.")
            if is_of_version and DriverAndRuntime(release, self.runtime).judgement == FITS:
                yield release


def _day(node_release: str) -> str:
    return node_release.rpartition("-")[2]
