"""Pods of the charts as processes of this machine.

A container is its manifest's command, arguments and environment, run here; its mounts are folders:
a ConfigMap's files, an empty folder, or a copy of what the bucket holds below a volume's prefix,
taken when the pod starts. Paths of the container that stand in its command line or environment are
those folders' paths instead, and cluster addresses are ports of loopback.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftworth.records.checkpoints import FAILURES_ANNOTATION
from tests.conftest import ROOT
from tests.support.processes import end_family

Object = Mapping[str, Any]


@dataclass(kw_only=True)
class Cluster:
    """The objects of the charts, and the folder with their files on this machine."""

    objects: Sequence[Object]
    folder: Path
    s3: Any
    environment: Mapping[str, str]

    def of_kind(self, kind: str) -> list[Object]:
        return [o for o in self.objects if o["kind"] == kind]

    def named(self, kind: str, name: str) -> Object:
        (named_object,) = (o for o in self.of_kind(kind) if o["metadata"]["name"] == name)
        return named_object

    def pod(self, owner: Object, number: int = 1, replaced: Mapping[str, str] | None = None) -> Pod:
        """Return the pod that a Job or Deployment makes; another number is another pod.

        `replaced`: texts of its manifest and their stand-ins here.
        """
        return Pod(cluster=self, owner=owner, number=number, replaced=replaced or {})


@dataclass(frozen=True, kw_only=True)
class Process:
    """A container's process, and the file with its output."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait(self, *, seconds: float = 60.0) -> int:
        return self.process.wait(timeout=seconds)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        """Kill the process and all that it started, if it runs."""
        end_family(self.process)

    @property
    def output(self) -> str:
        return self.log.read_text()


@dataclass(kw_only=True)
class Pod:
    """One pod; its empty folders outlive its containers' processes, as in Kubernetes."""

    cluster: Cluster
    owner: Object
    number: int
    replaced: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"{self.owner['metadata']['name']}-{self.number}"

    @property
    def spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self.owner["spec"]["template"]["spec"]
        return spec

    @property
    def folder(self) -> Path:
        """The node's folder for this pod."""
        return self.cluster.folder / self.name

    def start(self, container: str, *more: str, **environment: str) -> Process:
        """Start a container's process; its output goes to `log(container)`.

        more: arguments after those of the manifest.
        """
        (spec,) = (c for c in self.spec["containers"] if c["name"] == container)
        paths = {m["mountPath"]: str(self._volume(m)) for m in spec.get("volumeMounts", ())}
        command = (*spec["command"], *spec.get("args", ()), *more)
        argv = [self._text(part, paths) for part in command]
        if argv[0] in ("python", "python3"):
            argv[0] = sys.executable
        self.log(container).parent.mkdir(parents=True, exist_ok=True)
        variables = dict(self._environment(spec, paths))
        with self.log(container).open("a") as log:
            process = subprocess.Popen(
                argv,
                cwd=ROOT,
                env={**os.environ, **variables, **self.cluster.environment, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return Process(process=process, log=self.log(container))

    def run(self, container: str, **environment: str) -> int:
        return self.start(container, **environment).wait()

    def log(self, container: str) -> Path:
        return self.folder / f"{container}.log"

    def _environment(
        self, container: Mapping[str, Any], paths: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        for entry in container.get("env", ()):
            if "value" in entry:
                yield entry["name"], self._text(entry["value"], paths)
            else:
                yield entry["name"], self._field(entry["valueFrom"]["fieldRef"]["fieldPath"])

    def _field(self, path: str) -> str:
        """Return a field of the downward API: labels of the template and of a Job's pods."""
        name: str = self.owner["metadata"]["name"]
        labels = self.owner["spec"]["template"]["metadata"]["labels"]
        field_values: dict[str, str] = {
            **{f"metadata.labels['{label}']": value for label, value in labels.items()},
            "metadata.labels['batch.kubernetes.io/job-name']": name,
            "metadata.labels['batch.kubernetes.io/controller-uid']": str(
                uuid.uuid5(uuid.NAMESPACE_OID, name)
            ),
            # Each earlier pod has failed.
            f"metadata.annotations['{FAILURES_ANNOTATION}']": str(self.number - 1),
            "metadata.name": self.name,
        }
        return field_values[path]

    def _text(self, text: str, paths: Mapping[str, str]) -> str:
        """Replace all names in one pass, so that no replacement is replaced again."""
        replaced = {**self.replaced, **paths}
        if not replaced:
            return text
        pattern = "|".join(re.escape(key) for key in sorted(replaced, key=len, reverse=True))
        return re.sub(pattern, lambda match: replaced[match.group()], text)

    def _volume(self, mount: Mapping[str, Any]) -> Path:
        (volume,) = (v for v in self.spec["volumes"] if v["name"] == mount["name"])
        folder = self.folder / "volumes" / str(volume["name"])
        folder.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            self._write_config_map(volume["configMap"], folder)
        elif "persistentVolumeClaim" in volume:
            self._mount_bucket(volume["persistentVolumeClaim"]["claimName"], folder)
        return folder

    def _write_config_map(self, source: Mapping[str, Any], folder: Path) -> None:
        config_map = self.cluster.named("ConfigMap", source["name"])
        files = {
            key: self._text(text, {}).encode() for key, text in config_map.get("data", {}).items()
        }
        files |= {key: b64decode(text) for key, text in config_map.get("binaryData", {}).items()}
        paths = {item["key"]: item["path"] for item in source.get("items", ())}
        for key, content in files.items():
            path = folder / (paths.get(key, key) if paths else key)
            path.parent.mkdir(parents=True, exist_ok=True)
            # Another container of the pod may be reading it.
            partial = path.with_name(f".{path.name}.partial")
            partial.write_bytes(content)
            partial.replace(path)

    def _mount_bucket(self, claim: str, folder: Path) -> None:
        """Copy the bucket's objects, as Mountpoint shows them now."""
        volume = self.cluster.named("PersistentVolume", claim)["spec"]
        bucket = volume["csi"]["volumeAttributes"]["bucketName"]
        prefixes = (o.split()[1] for o in volume["mountOptions"] if o.startswith("prefix "))
        prefix = next(prefixes, "")
        shutil.rmtree(folder)
        folder.mkdir()
        pages = self.cluster.s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=prefix
        )
        for entry in (entry for page in pages for entry in page.get("Contents", ())):
            path = folder / entry["Key"].removeprefix(prefix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(
                self.cluster.s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
            )
