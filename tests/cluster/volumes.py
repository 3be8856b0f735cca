"""A pod's volumes as folders of this machine, with the content of ConfigMaps and S3 buckets."""

import base64
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from tests.cluster.api import Api, Object, path_of

S3_DRIVER = "s3.csi.aws.com"
# A pod's volumes are brought up to date this often; a real kubelet does so each minute.
LOOK_SECONDS = 1.0


class NotThereError(Exception):
    """A volume cannot be mounted yet; the kubelet starts no container and tries again later."""


@dataclass(kw_only=True)
class Volumes:
    """The volumes of all pods.

    accounts: the service accounts that have an IAM role; the S3 driver mounts a bucket only for
        pods with such an account.
    """

    api: Api
    s3: Any
    folder: Path
    accounts: frozenset[str]
    _versions: dict[Path, dict[str, str]] = field(default_factory=dict)
    _next_look: dict[str, float] = field(default_factory=dict)

    def of_pod(self, pod: Object) -> dict[str, Path]:
        """Return the folders of a pod's volumes, {volume's name: folder}.

        The first call makes the folders, and later calls bring them up to date.

        Raises:
            NotThereError: a volume cannot be mounted yet.
        """
        uid = pod["metadata"]["uid"]
        volumes = {v["name"]: v for v in pod["spec"].get("volumes", ())}
        folders = {name: self.folder / uid / name for name in volumes}
        if time.monotonic() >= self._next_look.get(uid, 0.0):
            for name, volume in volumes.items():
                self._make(volume, folders[name], pod)
            self._next_look[uid] = time.monotonic() + LOOK_SECONDS
        return folders

    def _make(self, volume: Object, folder: Path, pod: Object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            self._write_config_map(volume["configMap"], folder)
        elif "persistentVolumeClaim" in volume:
            self._show_bucket(volume["persistentVolumeClaim"]["claimName"], folder, pod)
        elif "projected" in volume:
            for source in volume["projected"]["sources"]:
                self._project(source, folder, pod)
        elif "emptyDir" in volume:
            self._give(folder, pod)
        else:
            raise AssertionError(f"the stand-in knows no volume like {volume}")

    def _project(self, source: Object, folder: Path, pod: Object) -> None:
        """Write the files of a projected volume, with which a pod calls the Kubernetes API.

        source: one of the volume's sources, for the token, the certificate or the namespace.
        """
        if "configMap" in source:
            self._write_config_map(source["configMap"], folder)
        elif "downwardAPI" in source:
            (item,) = source["downwardAPI"]["items"]
            assert item["fieldRef"]["fieldPath"] == "metadata.namespace"
            self._put(folder / item["path"], pod["metadata"]["namespace"].encode())
        elif not (path := folder / source["serviceAccountToken"]["path"]).exists():
            owner = {"apiVersion": "v1", "kind": "Pod"}
            owner |= {key: pod["metadata"][key] for key in ("name", "uid")}
            token = self.api.token_of(pod["spec"]["serviceAccountName"], boundObjectRef=owner)
            self._put(path, token.encode())

    def _give(self, folder: Path, pod: Object) -> None:
        """Give the folder of an `emptyDir` to the pod's `fsGroup`; all users may write to it."""
        if group := pod["spec"].get("securityContext", {}).get("fsGroup"):
            os.chown(folder, 0, group)
        folder.chmod(0o2777)

    def _write_config_map(self, source: Object, folder: Path) -> None:
        config_map = self.api.find(path_of("ConfigMap", source["name"]))
        if config_map is None:
            raise NotThereError(f"ConfigMap {source['name']} is not there")
        data = {key: text.encode() for key, text in config_map.get("data", {}).items()}
        for key, encoded in config_map.get("binaryData", {}).items():
            data[key] = base64.b64decode(encoded)
        items = source.get("items") or [{"key": key, "path": key} for key in data]
        for item in items:
            if item["key"] not in data:
                raise NotThereError(f"ConfigMap {source['name']} has no key {item['key']}")
            path = folder / item["path"]
            if not path.exists() or path.read_bytes() != data[item["key"]]:
                self._put(path, data[item["key"]])

    def _show_bucket(self, claim: str, folder: Path, pod: Object) -> None:
        """Write each S3 object below the volume's prefix to the folder, as Mountpoint shows it.

        Files of deleted objects are removed.
        """
        volume = self._volume(claim)
        account = pod["spec"]["serviceAccountName"]
        if account not in self.accounts:
            raise NotThereError(f"service account {account} has no role to mount {claim} with")
        options = [option.split() for option in volume.get("mountOptions", ())]
        prefix = next((option[1] for option in options if option[0] == "prefix"), "")
        bucket = volume["csi"]["volumeAttributes"]["bucketName"]
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        in_bucket = {e["Key"]: e["ETag"] for page in pages for e in page.get("Contents", ())}
        in_folder = self._versions.setdefault(folder, {})
        for key in in_folder.keys() - in_bucket.keys():
            (folder / key.removeprefix(prefix)).unlink()
        for key, version in in_bucket.items():
            if in_folder.get(key) != version:
                body = self.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
                self._put(folder / key.removeprefix(prefix), body)
        self._versions[folder] = in_bucket

    def _put(self, path: Path, content: bytes) -> None:
        """Write a file in one step, as the kubelet does, because a program may be reading it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=self.folder, delete=False) as new:
            new.write(content)
        Path(new.name).chmod(0o644)
        Path(new.name).replace(path)

    def _volume(self, claim: str) -> Object:
        bound = self.api.one("PersistentVolumeClaim", claim)["spec"]["volumeName"]
        spec: Object = self.api.one("PersistentVolume", bound)["spec"]
        source = spec["csi"]
        if source["driver"] != S3_DRIVER:
            raise NotThereError(f"{bound}: given driver {source['driver']}, allowed: {S3_DRIVER}")
        return spec
