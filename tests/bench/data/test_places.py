"""Where files are looked for, and which of them count."""

import gzip

import pytest
from data_writers import cifar_files, mnist_files, small, tar_gz, tiny_members, write, zipped

from swr.bench.data import DataError, check, download, load, status
from swr.bench.data.places import data_folders, locate, truncation

FILES = mnist_files()


@pytest.mark.parametrize("act", [lambda: status("mnist"), lambda: load("mnist"), lambda: download("mnist")])
def test_a_mistyped_swr_data_is_not_created(tmp_path, monkeypatch, act):
    monkeypatch.setenv("SWR_DATA", str(tmp_path / "dtaa"))
    with pytest.raises(DataError, match=r"SWR_DATA names .*dtaa, which does not exist: correct it, or create the folder"):
        act()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_named_as_an_option_is_created_by_a_download_only(tmp_path):
    assert data_folders(tmp_path / "new")[0] == tmp_path / "new"
    assert status("mnist", tmp_path / "new").problem.startswith("mnist was not found")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("gz", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_not_found(tmp_path, publish, name, gz):
    source = publish(small("mnist", FILES))
    write(tmp_path / "data", FILES, gz=gz)
    assert truncation(source, locate(source, tmp_path / "data")) is None
    path = tmp_path / "data" / (f"{name}.gz" if gz else name)
    path.write_bytes(path.read_bytes()[:-7])
    found = status("mnist", tmp_path / "data")
    assert found.problem == f"{path} is truncated: delete it and run `swr data download mnist`"
    assert path.resolve() in found.files
    assert "truncated" in check("mnist", tmp_path / "data").problem or gz
    with pytest.raises(DataError, match=f"{path.name} is (truncated|not a whole gzip file)"):
        load("mnist", tmp_path / "data", download=False)


def test_a_truncated_archive_is_not_found(tmp_path, publish):
    files = cifar_files("cifar10")
    packed = tar_gz({f"cifar-10-batches-bin/{name}": data for name, data in files.items()})
    publish(small("cifar10", files))
    for name, archive, content in (
        ("cifar10", "cifar-10-binary.tar.gz", packed),
        ("tinyimagenet", "tiny-imagenet-200.zip", zipped(tiny_members())),
    ):
        write(tmp_path, {archive: content})
        assert status(name, tmp_path).problem is None
        write(tmp_path, {archive: content[:-100]})
        assert (
            status(name, tmp_path).problem == f"{tmp_path / archive} is truncated: delete it and run `swr data download {name}`"
        )


def test_a_whole_copy_further_on_is_preferred_to_a_truncated_one(tmp_path, publish, monkeypatch):
    publish(small("mnist", FILES))
    cut = {name: data[:-1] for name, data in FILES.items()}
    write(tmp_path / "first", cut)
    write(tmp_path / "second", {name: gzip.compress(data) for name, data in FILES.items()} | cut)
    write(tmp_path / "third", FILES)
    monkeypatch.setenv("SWR_DATA", str(tmp_path / "third"))
    assert {path.parent.name for path in status("mnist", tmp_path / "first").files} == {"third"}
    assert len(load("mnist", tmp_path / "first", download=False).test) == 10
