"""Folders on other machines' disks."""

import sys

import pytest

from swr.bench.running.network_disk import network_file_system

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_the_deepest_mount_decides(tmp_path):
    (tmp_path / "home" / "local disk").mkdir(parents=True)
    (tmp_path / "homes").mkdir()
    mounts = tmp_path / "mounts"
    spaced = str(tmp_path / "home" / "local disk").replace(" ", "\\040")
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/home {tmp_path / 'home'} nfs4 rw 0 0\n/dev/sdb {spaced} xfs rw 0 0\n")
    assert network_file_system(tmp_path / "home", mounts) == "nfs4"
    assert network_file_system(tmp_path / "home" / "local disk", mounts) is None
    assert network_file_system(tmp_path / "homes", mounts) is None
    assert network_file_system(tmp_path, tmp_path / "nothing") is None


def test_this_machine_can_be_asked(tmp_path):
    assert network_file_system(tmp_path) in (None, "9p", "nfs", "nfs4", "lustre", "gpfs", "ceph")
