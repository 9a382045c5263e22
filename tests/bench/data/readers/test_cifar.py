import gzip
import tarfile

import numpy as np
import pytest
from data_writers import cifar_files, cifar_records, small, tar_gz, write
from hypothesis import given
from hypothesis import strategies as st

from swr.bench.data import SOURCES, DataError, load
from swr.bench.data.archives import Content
from swr.bench.data.readers.cifar import parse

FOLDERS = {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}
ARCHIVES = {"cifar10": "cifar-10-binary.tar.gz", "cifar100": "cifar-100-binary.tar.gz"}
both = pytest.mark.parametrize("name", ["cifar10", "cifar100"])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_records_of_cifar10_are_parsed_back(labels):
    data = cifar_records(np.array(labels)[:, None])
    images, found = parse(SOURCES["cifar10"], Content("file", data))
    assert found.tolist() == labels
    assert images.shape == (len(labels), 3, 32, 32)
    assert images.tobytes() == b"".join(data[i * 3073 + 1 : (i + 1) * 3073] for i in range(len(labels)))


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 99)), min_size=1, max_size=4))
def test_cifar100_uses_the_fine_label(labels):
    images, found = parse(SOURCES["cifar100"], Content("file", cifar_records(labels)))
    assert found.tolist() == [fine for _, fine in labels]
    assert images.shape == (len(labels), 3, 32, 32)


@both
@pytest.mark.parametrize("layout", ["folder", "flat", "archive"])
def test_files_are_found_in_every_layout(tmp_path, publish, name, layout):
    files = cifar_files(name)
    source = publish(small(name, files))
    if layout == "archive":
        members = {f"{FOLDERS[name]}/readme.html": b"read me"} | {f"{FOLDERS[name]}/{n}": d for n, d in files.items()}
        write(tmp_path, {ARCHIVES[name]: tar_gz(members)})
    else:
        write(tmp_path / FOLDERS[name] if layout == "folder" else tmp_path, files)
    dataset = load(name, tmp_path, download=False)
    assert dataset.classes == source.classes
    assert len(dataset.train) == 10 * (len(files) - 1)
    assert len(dataset.test) == 10
    assert dataset.test.labels.tolist() == list(range(10))
    last = list(files.values())[-1]
    assert dataset.test.images[9].numpy().tobytes() == last[-3072:]
    assert sorted(path.name for path in tmp_path.rglob("*.bin")) == ([] if layout == "archive" else sorted(files))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("cifar10", lambda data: data[:-1], "30729 bytes are no whole number of records of 3073"),
        ("cifar10", lambda data: data + b"x", "30731 bytes are no whole number of records of 3073"),
        ("cifar10", lambda data: b"", "its 0 bytes are no whole number"),
        ("cifar10", lambda data: data[:3073] + b"\x0a" + data[3074:], "has label 10 in record 1, the highest is 9"),
        ("cifar100", lambda data: b"\x14" + data[1:], "has label 20 in record 0, the highest is 19"),
        ("cifar100", lambda data: data[:1] + b"\x64" + data[2:], "has label 100 in record 0, the highest is 99"),
    ],
)
def test_a_damaged_file_is_named_with_its_fault(tmp_path, publish, name, change, message):
    files = cifar_files(name)
    last = list(files)[-1]
    files[last] = change(files[last])
    publish(small(name, files))
    write(tmp_path, files)
    with pytest.raises(DataError, match=message) as caught:
        load(name, tmp_path)
    assert str(tmp_path / last) in str(caught.value)


def link(kind):
    info = tarfile.TarInfo("cifar-10-batches-bin/readme.html")
    info.type, info.linkname = kind, "/etc/passwd"
    return info


def packed(**changes):
    return tar_gz({f"cifar-10-batches-bin/{n}": d for n, d in cifar_files("cifar10").items()}, **changes)


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (tar_gz({"../test_batch.bin": b""}), r"holds '../test_batch.bin', a path that leads outside the archive"),
        (tar_gz({"/etc/test_batch.bin": b""}), r"holds '/etc/test_batch.bin', a path that leads outside"),
        (tar_gz({"a/../../test_batch.bin": b""}), "a path that leads outside"),
        (tar_gz({"a\\..\\..\\test_batch.bin": b""}), "a path that leads outside"),
        (tar_gz({"C:\\test_batch.bin": b""}), "a path that leads outside"),
        (packed(extra=[link(tarfile.SYMTYPE)]), "holds 'cifar-10-batches-bin/readme.html', a link or device"),
        (packed(extra=[link(tarfile.LNKTYPE)]), "a link or device"),
        (packed(extra=[link(tarfile.CHRTYPE)]), "a link or device"),
        (packed()[:-300], "is not a whole tar.gz archive"),
        (packed()[:-1], "is not a whole tar.gz archive"),
        (packed()[:-8] + bytes(8), "is not a whole tar.gz archive"),
        (b"no archive", "is not a whole tar.gz archive"),
        (gzip.compress(b"no archive" * 99), "is not a whole tar.gz archive"),
        (tar_gz({"readme.html": b""}), "holds no data_batch_1.bin"),
        (tar_gz({"data_batch_1.bin": bytes(30731)}), "data_batch_1.bin in .* is too long, 30731 instead of 30730"),
        (tar_gz({"readme.html": bytes(1 << 22)}), "unpacks to far more than was published"),
        (tar_gz({f"{i}": b"" for i in range(65)}), "holds more than 64 members"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_harmful_or_damaged_archive_is_refused(tmp_path, publish, archive, message):
    publish(small("cifar10", cifar_files("cifar10")))
    data = tmp_path / "data"
    write(data, {"cifar-10-binary.tar.gz": archive})
    with pytest.raises(DataError, match=message) as caught:
        load("cifar10", data)
    assert str(data / "cifar-10-binary.tar.gz") in str(caught.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"] == [data / ARCHIVES["cifar10"]]


def test_a_huge_extended_header_is_not_unpacked(tmp_path, publish):
    publish(small("cifar10", cifar_files("cifar10")))
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 1 << 32
    bomb = gzip.compress(info.tobuf()) + gzip.compress(bytes(1 << 24)) * 10
    write(tmp_path, {"cifar-10-binary.tar.gz": bomb})
    with pytest.raises(DataError, match="unpacks to far more than was published"):
        load("cifar10", tmp_path)


def test_a_flipped_bit_in_an_archive_member_is_seen(tmp_path, publish):
    files = cifar_files("cifar10")
    publish(small("cifar10", files))
    files["data_batch_2.bin"] = files["data_batch_2.bin"][:-1] + b"\x00"
    write(tmp_path, {"cifar-10-binary.tar.gz": tar_gz(files)})
    with pytest.raises(DataError, match=r"data_batch_2.bin in .* is not the published file, its md5 is"):
        load("cifar10", tmp_path)
