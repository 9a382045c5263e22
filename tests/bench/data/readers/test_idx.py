import gzip
from contextlib import suppress

import numpy as np
import pytest
from data_writers import idx, mnist_files, small, write
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from swr.bench.data import DataError, load
from swr.bench.data.archives import Content
from swr.bench.data.readers.idx import parse


@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)))
def test_what_is_written_is_parsed_back(array):
    assert np.array_equal(parse(Content("file", idx(array)), array.ndim), array)


@given(st.binary(max_size=40), st.sampled_from([1, 3]))
def test_any_bytes_parse_or_give_a_data_error(data, dimensions):
    with suppress(DataError):  # and no other error
        assert parse(Content("file", data), dimensions).ndim == dimensions


@pytest.mark.parametrize("place", ["MNIST/raw", "mnist", "."])
@pytest.mark.parametrize("gz", [True, False])
def test_the_four_files_are_found_in_every_layout(tmp_path, publish, place, gz):
    files = mnist_files()
    publish(small("mnist", files))
    write(tmp_path / "data" / place, files, gz=gz)
    dataset = load("mnist", tmp_path / "data", download=False)
    assert dataset.classes == 10
    assert dataset.train.images.shape == (20, 1, 28, 28)
    assert dataset.test.labels.tolist() == list(range(10))
    pixels = np.frombuffer(files["train-images-idx3-ubyte"], np.uint8, offset=16)
    assert np.array_equal(dataset.train.images.numpy().reshape(-1), pixels)


def broken(name, change, *, files=None):
    """The four files with one changed; the table's sizes follow, so that the reader itself must see it."""
    files = files or mnist_files()
    return files | {name: change(files[name])}


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (IMAGES, lambda data: data[:-1], "is truncated, its header promises 15680 bytes of data and 15679 follow"),
        (IMAGES, lambda data: data[:9], "is truncated within its header of 16 bytes"),
        (IMAGES, lambda data: data + b"x", "is too long, its header promises 15680 bytes of data and 15681 follow"),
        (IMAGES, lambda data: b"\x00\x00\x08\x01" + data[4:], "it starts with 00 00 08 01 instead of 00 00 08 03"),
        (LABELS, lambda data: b"\x1f\x8b\x08\x00" + data[4:], "it starts with 1f 8b 08 00 instead of 00 00 08 01"),
        (LABELS, lambda data: data[:-1] + b"\x0a", "has label 10 at index 19, the highest is 9"),
        (LABELS, lambda data: idx(np.arange(19) % 10), "holds 20 images but"),
        (IMAGES, lambda data: idx(np.zeros((20, 28, 27))), "holds images of 28x27 pixels, expected 28x28"),
    ],
)
def test_a_damaged_file_is_named_with_its_fault(tmp_path, publish, name, change, message):
    files = broken(name, change)
    publish(small("mnist", files))
    write(tmp_path, files)
    with pytest.raises(DataError, match=message) as caught:
        load("mnist", tmp_path)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("gz", [True, False])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-5], "is truncated, it holds 15691 of 15696 bytes"),
        (lambda data: data + b"12345", "is too long, it holds more than 15696 bytes"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "is not the published file, its md5 is"),
    ],
)
def test_a_file_that_is_not_the_published_one_is_refused(tmp_path, publish, change, message, gz):
    publish(small("mnist", mnist_files()))
    write(tmp_path, broken(IMAGES, change), gz=gz)
    with pytest.raises(DataError, match=message) as caught:
        load("mnist", tmp_path)
    assert str(tmp_path / IMAGES) in str(caught.value)
    assert "delete it and run `swr data download mnist`" in str(caught.value)


@pytest.mark.parametrize(
    "packed",
    [b"not gzip at all", gzip.compress(b"x" * 20)[:-6], gzip.compress(b"\x00" * 999)[:10] + b"\xff" * 40, b""],
    ids=["no gzip", "cut short", "bad stream", "empty"],
)
def test_a_bad_gzip_file_is_named(tmp_path, publish, packed):
    files = mnist_files()
    publish(small("mnist", files))
    write(tmp_path, files, gz=True)
    (tmp_path / f"{LABELS}.gz").write_bytes(packed)
    with pytest.raises(DataError, match=r"is not a whole gzip file|is truncated, it holds 0 of") as caught:
        load("mnist", tmp_path)
    assert str(tmp_path / f"{LABELS}.gz") in str(caught.value)


def test_a_gzip_bomb_is_not_unpacked(tmp_path, publish):
    files = mnist_files()
    publish(small("mnist", files))
    write(tmp_path, files, gz=True)
    piece = gzip.compress(bytes(1 << 24), 9)
    (tmp_path / f"{LABELS}.gz").write_bytes(piece * 400)  # 6.4 GB unpacked
    with pytest.raises(DataError, match="is too long, it holds more than 28 bytes"):
        load("mnist", tmp_path)
