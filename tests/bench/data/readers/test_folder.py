import os

import numpy as np
import pytest
import torch
from data_writers import encoded, image_folder, random_images
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from swr.bench.data import DataError, check, load, status


def test_classes_are_the_sorted_sub_folders_of_train(tmp_path):
    root = image_folder(tmp_path / "pets", classes=("dog", "ant", "cat"))
    dataset = load(f"folder:{root}")
    assert dataset.name == f"folder:{root}"
    assert dataset.classes == 3
    assert dataset.train.images.shape == (6, 3, 4, 5)
    assert dataset.train.labels.tolist() == [0, 0, 1, 1, 2, 2]
    first = random_images(1, (4, 5, 3), 2)[0]  # ant/0.png was written third
    assert np.array_equal(dataset.train.images[0].permute(1, 2, 0).numpy(), first)


def test_a_relative_path_and_a_home_are_understood(tmp_path, monkeypatch):
    image_folder(tmp_path / "pets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load("folder:pets").name == "folder:pets"
    assert load("folder:~/pets").name == "folder:~/pets"
    assert len(list((tmp_path / "cache" / "decoded").glob("*.swrdata"))) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_every_size_survives(tmp_path_factory, width, height, grey):
    root = image_folder(tmp_path_factory.mktemp("folder") / "pets", [(width, height)], grey=grey)
    dataset = load(f"folder:{root}")
    assert dataset.test.images.shape == (4, 1 if grey else 3, height, width)
    shape = (height, width) if grey else (height, width, 3)
    expected = np.moveaxis(random_images(1, shape, 4)[0].reshape(height, width, -1), 2, 0)
    assert np.array_equal(dataset.test.images[0].numpy(), expected)


@pytest.mark.parametrize("suffix", ["bmp", "ppm", "tiff", "webp", "gif", "PNG", "Jpeg"])
def test_many_formats_are_read(tmp_path, suffix):
    root = image_folder(tmp_path / "pets")
    colour = np.full((4, 5, 3), 128, np.uint8)
    Image.fromarray(colour).save(root / "train" / "cat" / f"x.{suffix}")
    image = load(f"folder:{root}").train.images[2]
    assert (image.int() - 128).abs().max() <= 2


def test_files_that_are_no_images_are_passed_over(tmp_path):
    root = image_folder(tmp_path / "pets")
    (root / "train" / "cat" / "notes.txt").write_text("no image")
    (root / "train" / "cat" / "._0.png").write_text("no image")
    (root / "train" / ".hidden").mkdir()
    (root / "train" / "cat" / "more").mkdir()
    (root / "train" / "cat" / "more" / "9.png").write_bytes(encoded(np.zeros((4, 5, 3))))
    dataset = load(f"folder:{root}")
    assert (dataset.classes, len(dataset.train)) == (2, 5)


def test_one_coloured_image_makes_all_three_channels(tmp_path):
    root = image_folder(tmp_path / "pets", grey=True)
    assert load(f"folder:{root}").train.images.shape[1] == 1
    (root / "test" / "dog" / "colour.png").write_bytes(encoded(np.zeros((4, 5, 3))))
    images = load(f"folder:{root}").train.images
    assert images.shape[1] == 3
    assert torch.equal(images[:, 0], images[:, 2])


def test_sixteen_bits_are_scaled_and_transparency_is_dropped(tmp_path):
    root = image_folder(tmp_path / "pets", grey=True)
    Image.fromarray(np.full((4, 5), 0x8040, np.uint16)).save(root / "train" / "cat" / "x.png")
    assert load(f"folder:{root}").train.images[2].unique().tolist() == [0x80]
    palette = Image.new("P", (5, 4), 1)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    palette.save(root / "train" / "cat" / "y.png", transparency=b"\x80\x40")
    Image.new("RGBA", (5, 4), (1, 2, 3, 0)).save(root / "train" / "cat" / "z.png")
    images = load(f"folder:{root}").train.images
    assert images[3, :, 0, 0].tolist() == [10, 20, 30]
    assert images[4, :, 0, 0].tolist() == [1, 2, 3]


def test_a_changed_image_is_read_anew_and_the_old_cache_file_goes(tmp_path):
    root = image_folder(tmp_path / "pets")
    before = load(f"folder:{root}").train.images[0].clone()
    path = root / "train" / "cat" / "0.png"
    path.write_bytes(encoded(255 - random_images(1, (4, 5, 3), 0)[0]))
    os.utime(path, ns=(1, 1))
    after = load(f"folder:{root}").train.images[0]
    assert torch.equal(after, 255 - before)
    assert len(list((tmp_path / "cache" / "decoded").glob("*.swrdata"))) == 1


def truncated(root):
    path = root / "train" / "dog" / "1.png"
    path.write_bytes(path.read_bytes()[:-40])


def no_image(root):
    (root / "test" / "cat" / "1.png").write_text("not an image")


def other_size(root):
    (root / "test" / "dog" / "x.png").write_bytes(encoded(np.zeros((5, 4, 3))))


def floats(root):
    Image.new("F", (5, 4)).save(root / "train" / "cat" / "x.tiff")


def eps(root):
    Image.new("RGB", (5, 4)).save(root / "train" / "cat" / "x.eps")
    (root / "train" / "cat" / "x.eps").rename(root / "train" / "cat" / "x.png")


def no_test(root):
    for path in sorted((root / "test").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (root / "test").rmdir()


def empty_class(root):
    (root / "train" / "owl").mkdir()


def new_class(root):
    (root / "test" / "owl").mkdir()


def empty_train(root):
    (root / "train").rename(root / "old")
    (root / "train").mkdir()


@pytest.mark.parametrize(
    ("spoil", "where", "message"),
    [
        (truncated, "train/dog/1.png", "is not a readable image"),
        (no_image, "test/cat/1.png", "is not a readable image"),
        (other_size, "test/dog/x.png", "train/cat/0.png has 5x4 pixels but .* 4x5: scale all images to one size"),
        (floats, "train/cat/x.tiff", "has pixels of mode F, not 8 bits a channel"),
        (eps, "train/cat/x.png", "is not a readable image .cannot identify"),
        (no_test, "test", "is missing: put one sub-folder of images per class there"),
        (empty_class, "train/owl", "holds no images"),
        (new_class, "test/owl", "is a class without a folder in"),
        (empty_train, "train", "is empty: put one sub-folder of images per class there"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said_and_where(tmp_path, spoil, where, message):
    root = image_folder(tmp_path / "pets")
    spoil(root)
    with pytest.raises(DataError, match=message) as caught:
        load(f"folder:{root}")
    assert str(root / where) in str(caught.value)
    result = check(f"folder:{root}")
    assert result.problem == str(caught.value)
    assert result.official is None


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match="nowhere is not a folder: name one that holds"):
        load(f"folder:{tmp_path / 'nowhere'}")
    assert "is not a folder" in status(f"folder:{tmp_path / 'nowhere'}").problem


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    root = image_folder(tmp_path / "pets")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 19)
    with pytest.raises(DataError, match="exceeds limit of 19 pixels"):
        load(f"folder:{root}")


def test_one_class_is_refused(tmp_path):
    root = image_folder(tmp_path / "pets", classes=("cat",))
    with pytest.raises(DataError, match="train holds one class only, cat: there is nothing to tell apart, add another"):
        load(f"folder:{root}")
    assert "one class only" in status(f"folder:{root}").problem


@pytest.mark.parametrize("link", ["train/again", "train/cat/again", "train/cat/deep/again", "test/cat/again"])
@pytest.mark.parametrize("up", ["root", "parent"])
def test_a_link_back_into_the_folder_is_refused(tmp_path, link, up):
    root = image_folder(tmp_path / "pets")
    path = root / link
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(root if up == "root" else path.parent, target_is_directory=True)
    with pytest.raises(DataError, match=f"{path.name} is a symbolic link back to .*, whose images would be read again"):
        load(f"folder:{root}")


def test_two_links_in_a_circle_are_refused(tmp_path):
    root = image_folder(tmp_path / "pets")
    (root / "train/cat/dogs").symlink_to(root / "train/dog")
    (root / "train/dog/cats").symlink_to(root / "train/cat")
    with pytest.raises(DataError, match="is a symbolic link back to"):
        load(f"folder:{root}")


def test_links_to_other_places_are_followed(tmp_path):
    other = image_folder(tmp_path / "other")
    root = image_folder(tmp_path / "pets")
    (root / "train/ant").symlink_to(other / "train/cat")
    (root / "train/cat/more").symlink_to(other / "train/dog")
    dataset = load(f"folder:{root}")
    assert dataset.train.labels.tolist() == [0, 0, 1, 1, 1, 1, 2, 2]
