"""Data on the nodes of a cluster: the same bytes everywhere, prepared once per node."""

import dataclasses
import logging
import sys

import numpy
import pytest
import torch
from job_tasks import config
from PIL import Image
from toy import pictures

pytest.importorskip("ray", reason="Ray is not installed: pip install 'soft-weight-rescaling[ray]'")

from ray_clusters import machines

from swr.bench import training
from swr.bench.data import DataError, load
from swr.bench.running.engines import ray_data
from swr.bench.running.engines.ray_data import fingerprint, obtain, pack, unpack
from swr.bench.running.jobs import execute
from swr.bench.store import Store


@pytest.fixture(autouse=True)
def _new_process(monkeypatch):
    monkeypatch.setattr(ray_data, "_ours", {})
    monkeypatch.setattr(ray_data, "_received", set())


def test_the_fingerprint_is_that_of_the_content():
    one = pictures()
    assert fingerprint(dataclasses.replace(one, name="other")) == fingerprint(one)
    assert fingerprint(unpack(pack(one))) == fingerprint(one)
    changed = pictures()
    changed.test.labels[3] += 1
    assert fingerprint(changed) != fingerprint(one)
    assert fingerprint(dataclasses.replace(one, classes=5)) != fingerprint(one)


def read_only(parcel):
    for array in parcel.arrays:
        array.flags.writeable = False
    return parcel


def test_a_node_without_the_files_gets_them_once(monkeypatch, tmp_path):
    monkeypatch.setenv("SWR_CACHE", str(tmp_path))
    monkeypatch.delenv("SWR_DATA", raising=False)
    sent, asked = pictures(), []

    def fetch():
        asked.append(1)
        return read_only(pack(pictures()))

    for _ in range(3):
        found = obtain("mnist", None, fingerprint(sent), fetch)
        assert torch.equal(found.train.images, sent.train.images)
        assert (found.name, found.classes, found.mean, found.std) == ("mnist", 4, sent.mean, sent.std)
        ray_data._ours.clear()  # as in another process of the node
        ray_data._received.clear()
    assert len(asked) == 1


def test_what_arrives_with_another_hash_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setenv("SWR_CACHE", str(tmp_path))
    monkeypatch.delenv("SWR_DATA", raising=False)
    with pytest.raises(DataError, match=r"mnist arrived on .* with another hash"):
        obtain("mnist", None, "0" * 64, lambda: pack(pictures()))
    assert not list(tmp_path.rglob("*.swrdata"))


def test_the_nodes_own_files_are_used_if_they_are_the_same_and_a_difference_is_said(caplog):
    own = load("digits")
    assert torch.equal(obtain("digits", None, fingerprint(own), pytest.fail).train.images, own.train.images)
    other = pictures(shape=(1, 8, 8))
    with caplog.at_level(logging.WARNING, "swr"):
        found = obtain("digits", None, fingerprint(other), lambda: pack(other))
    assert torch.equal(found.train.images, other.train.images)
    assert "the files of digits on" in caplog.text
    assert "differ from the driver's: the driver's are used" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_nodes_get_a_folder_of_images_that_only_the_driver_has(folder, tmp_path_factory):
    from swr.bench.running.engines.ray_engine import RayEngine

    generator = numpy.random.default_rng(0)
    for split, count in (("train", 12), ("test", 4)):
        for name in ("cat", "dog"):
            place = folder / "own" / split / name
            place.mkdir(parents=True)
            for number in range(count):
                Image.fromarray(generator.integers(256, size=(8, 8, 3), dtype=numpy.uint8)).save(place / f"{number}.png")
    runs = [dataclasses.replace(config(seed, epochs=2), column="folder:own-mlp") for seed in range(4)]
    with machines(tmp_path_factory.mktemp("cluster"), cpus=0) as cluster:
        for name in ("second", "third"):
            cluster.add(name)
        with Store(folder / "s.sqlite") as store:
            outcome = execute(runs, store, engine=RayEngine(cluster.address))
            assert (len(outcome.done), outcome.failed) == (4, [])
            for one in runs:
                expected = training.run(one, folder / f"{one.identity}.pt")
                found = store.epochs(one.identity)
                assert [dataclasses.replace(e, seconds=0) for e in found] == [
                    dataclasses.replace(e, seconds=0) for e in expected
                ]
        received = {name: list(cluster.cache(name).rglob("received/*.swrdata")) for name in ("head", "second", "third")}
        left = [path for name in ("second", "third") for path in (cluster.cache(name) / "running").glob("*")]
    assert [len(received[name]) for name in ("head", "second", "third")] == [0, 1, 1]
    assert left == []
