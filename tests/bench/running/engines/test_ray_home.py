"""The actor on the driver's machine, called directly."""

import asyncio
import os

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'soft-weight-rescaling[ray]'")

from swr.bench.data import load
from swr.bench.running.engines import ray_home
from swr.bench.running.engines.ray_data import fingerprint, unpack
from swr.bench.running.engines.ray_home import Home, environment


@pytest.fixture
def home(folder, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    return Home(environment(), folder, None)


def test_everyone_who_asked_hears_the_stop_and_the_patient_ask_again(home, monkeypatch):
    async def talk():
        waiting = [asyncio.create_task(home.stopping()) for _ in range(3)]
        await asyncio.sleep(0)
        await home.stop()
        return await asyncio.gather(*waiting, home.stopping())

    async def no_answer():
        return await home.stopping()

    monkeypatch.setattr(ray_home, "PATIENCE", 0.01)
    assert asyncio.run(no_answer()) is False
    monkeypatch.setattr(ray_home, "PATIENCE", 60.0)
    assert asyncio.run(talk()) == [True] * 4


def test_data_is_loaded_once_and_sent_with_its_hash(home, monkeypatch):
    loaded = []
    monkeypatch.setattr(ray_home, "load", lambda *names: loaded.append(names) or load(*names))

    async def ask():
        return await asyncio.gather(home.fingerprint("digits"), home.dataset("digits"), home.dataset("digits"))

    wanted, parcel, _ = asyncio.run(ask())
    assert wanted == fingerprint(unpack(parcel)) == fingerprint(load("digits"))
    assert loaded == [("digits", None)]


def test_the_drivers_places_for_data_are_those_of_the_actor(home, monkeypatch):
    monkeypatch.setenv("SWR_DATA", "somewhere")
    assert environment()["SWR_DATA"] == "somewhere"
