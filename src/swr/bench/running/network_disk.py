"""Whether a folder is on another machine's disk."""

import sys
from pathlib import Path

NETWORK = (
    *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.cephfs", "fuse.glusterfs", "fuse.juicefs", "fuse.sshfs", "gpfs"),
    *("lustre", "nfs", "nfs4", "pvfs2", "smb3", "smbfs", "wekafs"),
)
MOUNTS = Path("/proc/self/mounts")


def network_file_system(folder: Path, mounts: Path = MOUNTS) -> str | None:
    """The kind of network file system that a folder is on; None on a local disk, or where that cannot be told.

    Args:
        folder: It must exist.
        mounts: The system's list of what is mounted where.
    """
    if sys.platform != "linux" or not mounts.exists():
        return None
    place, best, kind = folder.resolve(), Path(), ""
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        _, point, found, *_ = line.split()
        mounted = Path(point.encode().decode("unicode_escape"))  # a space is written \\040
        if (place == mounted or mounted in place.parents) and len(mounted.parts) >= len(best.parts):
            best, kind = mounted, found
    return kind if kind in NETWORK else None
