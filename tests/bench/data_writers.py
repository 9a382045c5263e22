"""Small files in the official layouts, and the table of sources cut down to them."""

import gzip
import hashlib
import io
import struct
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from swr.bench.data import SOURCES, Part, Source


def md5(data):
    return "md5:" + hashlib.md5(data).hexdigest()


def idx(array):
    array = np.asarray(array, np.uint8)
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def random_images(count, shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def mnist_files(train=20, test=10):
    """Name -> unpacked bytes of the four files."""
    return {
        "train-images-idx3-ubyte": idx(random_images(train, (28, 28), 1)),
        "train-labels-idx1-ubyte": idx(np.arange(train) % 10),
        "t10k-images-idx3-ubyte": idx(random_images(test, (28, 28), 2)),
        "t10k-labels-idx1-ubyte": idx(np.arange(test) % 10),
    }


def cifar_records(labels, seed=0):
    """labels: [N, 1] for CIFAR-10, [N, 2] for CIFAR-100."""
    labels = np.asarray(labels, np.uint8)
    return np.concatenate([labels, random_images(len(labels), (3072,), seed)], 1).tobytes()


def cifar_files(name, count=10):
    index = np.arange(count)[:, None]
    if name == "cifar10":
        names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
        return {name: cifar_records(index % 10, seed) for seed, name in enumerate(names)}
    labels = np.concatenate([index % 20, index % 100], 1)
    return {name: cifar_records(labels, seed) for seed, name in enumerate(["train.bin", "test.bin"])}


def small(name, files, *, packed=None, base="http://127.0.0.1:9/"):
    """The entry of the table with these files as the published ones.

    packed: archive name -> its bytes.
    """
    source: Source = SOURCES[name]
    archives = source.archives
    if packed is not None:
        archives = tuple(
            replace(archive, size=len(packed[archive.name]), digest=md5(packed[archive.name])) for archive in archives
        )
    parts = tuple(Part(part, len(data), md5(data)) for part, data in files.items())
    return replace(source, parts=parts, archives=archives, bases=(base,))


def tar_gz(members, *, extra=()):
    """members: name -> bytes; extra: further TarInfo (without data)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in extra:
            tar.addfile(info)
    return buffer.getvalue()


def write(folder: Path, files, *, gz=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / f"{name}.gz" if gz else folder / name).write_bytes(gzip.compress(data) if gz else data)


def encoded(array, kind="PNG"):
    """An image file; array: [H, W] or [H, W, 3]."""
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(array, np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def tiny_members(classes=("n02", "n01", "n03"), train=3, test=2, *, top="tiny-imagenet-200/", wnids=True):
    """Name -> bytes of an archive like Tiny ImageNet's; the images of class k are flat with grey level 40 k + i."""
    members, lines = {}, []
    for k, wnid in enumerate(classes):
        for i in range(train):
            colour = np.full((64, 64, 3), 40 * k + i)
            members[f"{top}train/{wnid}/images/{wnid}_{i}.JPEG"] = encoded(colour, "JPEG")
        for i in range(test):
            name = f"val_{len(lines)}.JPEG"
            grey = np.full((64, 64), 40 * k + 20 + i)
            members[f"{top}val/images/{name}"] = encoded(grey, "JPEG")  # some official images are grey too
            lines.append(f"{name}\t{wnid}\t0\t0\t63\t63\n")
    members[f"{top}val/val_annotations.txt"] = "".join(lines).encode()
    if wnids:
        members[f"{top}wnids.txt"] = "\n".join([*classes, "n99"]).encode()
    return members


def zipped(members):
    """members: name or ZipInfo -> bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def image_folder(root: Path, sizes=((5, 4),), classes=("cat", "dog"), count=2, grey=False):
    """``root/train/<class>/i.png`` and ``root/test/<class>/i.png``; sizes are (width, height), used in turn."""
    number = 0
    for split in ("train", "test"):
        for name in classes:
            (root / split / name).mkdir(parents=True)
            for i in range(count):
                width, height = sizes[number % len(sizes)]
                shape = (height, width) if grey else (height, width, 3)
                (root / split / name / f"{i}.png").write_bytes(encoded(random_images(1, shape, number)[0]))
                number += 1
    return root
