import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from data_writers import encoded, tiny_members, write, zipped

from swr.bench.data import SOURCES, DataError, check, download, load

TOP = "tiny-imagenet-200/"
ANNOTATIONS = f"{TOP}val/val_annotations.txt"


def test_a_subset_is_read_in_place_with_the_classes_in_their_listed_order(tmp_path):
    write(tmp_path, {"tiny-imagenet-200.zip": zipped(tiny_members())})
    dataset = load("tinyimagenet", tmp_path, download=False)
    assert dataset.classes == 3
    assert dataset.train.images.shape == (9, 3, 64, 64)
    assert dataset.train.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert dataset.train.images[:, 0, 0, 0].tolist() == [0, 1, 2, 40, 41, 42, 80, 81, 82]
    assert dataset.test.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert dataset.test.images[:, :, 5, 6].tolist() == [[v] * 3 for v in (20, 21, 60, 61, 100, 101)]


def test_without_a_list_the_classes_are_sorted(tmp_path):
    write(tmp_path, {"tiny-imagenet-200.zip": zipped(tiny_members(wnids=False))})
    dataset = load("tinyimagenet", tmp_path)
    assert dataset.train.images[::3, 0, 0, 0].tolist() == [40, 0, 80]  # n01, n02, n03


@pytest.mark.parametrize("top", ["", "elsewhere/"])
def test_the_top_folder_may_have_another_name(tmp_path, top):
    write(tmp_path, {"tiny-imagenet-200.zip": zipped(tiny_members(top=top))})
    assert len(load("tinyimagenet", tmp_path).train) == 9


def test_the_subset_is_readable_but_not_official(tmp_path):
    write(tmp_path, {"tiny-imagenet-200.zip": zipped(tiny_members())})
    result = check("tinyimagenet", tmp_path)
    assert result.official is False
    assert result.problem is None


def symlink():
    info = zipfile.ZipInfo(f"{TOP}train/n01/images/link.JPEG")
    info.external_attr = 0o120777 << 16
    return info


def without(name):
    return {key: value for key, value in tiny_members().items() if key != name}


WIDE = encoded(np.zeros((64, 65, 3)), "JPEG")


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (tiny_members() | {"../evil.JPEG": b""}, "holds '../evil.JPEG', a path that leads outside the archive"),
        (tiny_members() | {"/etc/evil": b""}, "holds '/etc/evil', a path that leads outside the archive"),
        (tiny_members() | {"a\\..\\..\\evil": b""}, "a path that leads outside the archive"),
        (tiny_members() | {symlink(): b"/etc/passwd"}, "link.JPEG', a link or device"),
        (without(ANNOTATIONS), "holds no val/val_annotations.txt"),
        ({ANNOTATIONS: b""}, "holds no images in tiny-imagenet-200/train/<class>/images/"),
        (tiny_members() | {ANNOTATIONS: b""}, "has no label for tiny-imagenet-200/val/images/val_0.JPEG"),
        (without(f"{TOP}val/images/val_3.JPEG"), "holds no val/images/val_3.JPEG.*line 4"),
        (tiny_members() | {ANNOTATIONS: b"val_0.JPEG\tn77\n"}, "has class 'n77' in line 1 of val/val_annotations.txt"),
        (tiny_members() | {ANNOTATIONS: b"val_0.JPEG\n"}, "has class '' in line 1"),
        (tiny_members() | {ANNOTATIONS: b"val_0.JPEG\tn01\n" * 2}, "names it twice .line 2."),
        (tiny_members() | {f"{TOP}wnids.txt": b"n01\nn03"}, "training images of class n02, which wnids.txt does not"),
        (tiny_members() | {f"{TOP}train/n01/images/x.JPEG": b"no"}, "x.JPEG in .* is not a readable image"),
        (tiny_members() | {f"{TOP}train/n01/images/x.JPEG": WIDE[:-99]}, "x.JPEG in .*(readable image|65x64)"),
        (tiny_members() | {f"{TOP}train/n01/images/x.JPEG": WIDE}, "has 65x64 pixels instead of 64x64"),
        (tiny_members() | {f"{TOP}train/n01/images/x.JPEG": bytes(9 << 20)}, "of 9437184 bytes, more than the 1048576"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_harmful_or_damaged_archive_is_refused(tmp_path, archive, message):
    data = tmp_path / "data"
    write(data, {"tiny-imagenet-200.zip": zipped(archive)})
    with pytest.raises(DataError, match=message) as caught:
        load("tinyimagenet", data)
    assert str(data / "tiny-imagenet-200.zip") in str(caught.value)
    assert not list(tmp_path.rglob("*evil*"))


def test_more_images_than_published_are_refused(tmp_path, publish):
    publish(replace(SOURCES["tinyimagenet"], train=8))
    write(tmp_path, {"tiny-imagenet-200.zip": zipped(tiny_members())})
    with pytest.raises(DataError, match="holds 9 training images, 8 were published"):
        load("tinyimagenet", tmp_path)


def flip(data):
    """Damage the first member's stored bytes, not the directory."""
    return data[:200] + bytes([data[200] ^ 255]) + data[201:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-30], "is not a whole zip archive"),
        (lambda data: b"", "is not a whole zip archive"),
        (flip, "n02_0.JPEG' in .* cannot be unpacked"),
    ],
)
def test_a_damaged_zip_is_named(tmp_path, change, message):
    write(tmp_path, {"tiny-imagenet-200.zip": change(zipped(tiny_members()))})
    with pytest.raises(DataError, match=message):
        load("tinyimagenet", tmp_path)
    assert "problem=None" not in repr(check("tinyimagenet", tmp_path))


def extracted(folder, members):
    for name, data in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def test_an_extracted_folder_is_read_as_the_zip_is(tmp_path):
    write(tmp_path / "packed", {"tiny-imagenet-200.zip": zipped(tiny_members())})
    extracted(tmp_path / "plain", tiny_members())
    (tmp_path / "plain" / TOP / "test/images").mkdir(parents=True)
    (tmp_path / "plain" / TOP / "test/images/test_0.JPEG").write_bytes(b"not read")
    packed, plain = (load("tinyimagenet", tmp_path / place, download=False) for place in ("packed", "plain"))
    for split in ("train", "test"):
        for part in ("images", "labels"):
            assert torch.equal(getattr(getattr(plain, split), part), getattr(getattr(packed, split), part))
    assert (plain.classes, plain.mean, plain.std) == (packed.classes, packed.mean, packed.std)
    found = check("tinyimagenet", tmp_path / "plain")
    assert (found.problem, found.official) == (None, None), "what was extracted has no published hash"
    assert download("tinyimagenet", tmp_path / "plain").files == ((tmp_path / "plain" / TOP).resolve(),)


def test_an_extracted_folder_that_changes_is_read_again(tmp_path):
    extracted(tmp_path, tiny_members())
    assert len(load("tinyimagenet", tmp_path, download=False).train) == 9
    (tmp_path / TOP / "train/n01/images/n01_0.JPEG").unlink()
    assert len(load("tinyimagenet", tmp_path, download=False).train) == 8


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (without(ANNOTATIONS), "holds no val/val_annotations.txt"),
        (without(f"{TOP}val/images/val_3.JPEG"), r"holds no val/images/val_3.JPEG.*line 4"),
        (tiny_members() | {f"{TOP}train/n01/images/x.JPEG": b"no"}, r"x.JPEG in .* is not a readable image"),
        (tiny_members() | {f"{TOP}train/n01/images/x.JPEG": bytes(9 << 20)}, "has 9437184 bytes, more than the 1048576"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, members, message):
    extracted(tmp_path, members)
    with pytest.raises(DataError, match=message):
        load("tinyimagenet", tmp_path, download=False)


def test_the_zip_comes_before_the_folder_since_it_can_be_checked(tmp_path):
    extracted(tmp_path, tiny_members())
    write(tmp_path, {"tiny-imagenet-200.zip": zipped(tiny_members())})
    assert check("tinyimagenet", tmp_path).files[0].name == "tiny-imagenet-200.zip"
