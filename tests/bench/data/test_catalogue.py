import gzip
import socket
import subprocess
import sys

import pytest
from data_server import Server
from data_writers import cifar_files, image_folder, mnist_files, small, tar_gz, tiny_members, write, zipped

from swr.bench.data import SOURCES, DataError, check, download, known, load, status

FILES = mnist_files()
PACKED = {f"{name}.gz": gzip.compress(data, mtime=0) for name, data in FILES.items()}


def test_the_table_knows_the_five_datasets():
    assert known() == ("digits", "mnist", "cifar10", "cifar100", "tinyimagenet")
    for source in SOURCES.values():
        held = [part for archive in source.archives for part in archive.parts]
        assert held == [part.name for part in source.parts]
        assert all(":" in item.digest and item.size > 0 for item in source.parts + source.archives)
        assert bool(source.archives) == bool(source.bases)


def test_published_sizes_follow_from_the_formats():
    mnist, cifar10, cifar100 = (SOURCES[name].parts for name in ("mnist", "cifar10", "cifar100"))
    assert [part.size for part in mnist] == [16 + 60_000 * 784, 8 + 60_000, 16 + 10_000 * 784, 8 + 10_000]
    assert sum(part.size for part in cifar10) == 60_000 * 3073
    assert sum(part.size for part in cifar100) == 60_000 * 3074


@pytest.mark.parametrize(
    ("name", "guess"),
    [("minst", "mnist"), ("CIFAR-10", "cifar10"), ("cifar_100", "cifar100"), ("tiny-imagenet", "tinyimagenet")],
)
@pytest.mark.parametrize("call", [load, status, check, download])
def test_an_unknown_name_lists_the_known_ones_with_the_nearest_guess(call, name, guess):
    with pytest.raises(DataError) as caught:
        call(name)
    assert str(caught.value) == (
        f"there is no dataset {name!r}: did you mean {guess}? "
        "known are digits, mnist, cifar10, cifar100, tinyimagenet and folder:PATH"
    )


@pytest.mark.parametrize("name", ["", "folder:", "imaginary"])
def test_a_name_like_no_other_gets_no_guess(name):
    with pytest.raises(DataError, match=r"there is no dataset .*: known are digits"):
        load(name)


def test_the_given_folder_comes_before_swr_data_and_that_before_the_cache(tmp_path, publish, monkeypatch):
    publish(small("mnist", FILES))
    (tmp_path / "second").mkdir()
    monkeypatch.setenv("SWR_DATA", str(tmp_path / "second"))
    write(tmp_path / "cache" / "data" / "MNIST" / "raw", FILES, gz=True)
    for folder in ("cache/data/MNIST/raw", "second", "first"):
        if "cache" not in folder:
            write(tmp_path / folder, FILES)
        found = status("mnist", tmp_path / "first").files
        assert {path.parent for path in found} == {(tmp_path / folder).resolve()}
        assert len(load("mnist", tmp_path / "first", download=False).test) == 10


def test_an_incomplete_folder_is_passed_over(tmp_path, publish, monkeypatch):
    publish(small("mnist", FILES))
    write(tmp_path / "first", dict(list(FILES.items())[:3]))
    monkeypatch.setenv("SWR_DATA", str(tmp_path / "second"))
    write(tmp_path / "second", FILES)
    assert {path.parent.name for path in status("mnist", tmp_path / "first").files} == {"second"}


def test_unpacked_files_come_before_the_archive(tmp_path, publish):
    files = cifar_files("cifar10")
    publish(small("cifar10", files))
    write(tmp_path, {"cifar-10-binary.tar.gz": b"never opened"})
    write(tmp_path / "cifar-10-batches-bin", files)
    assert len(load("cifar10", tmp_path).train) == 50


def test_a_file_given_as_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file is a file, not a data folder"):
        load("mnist", tmp_path / "file")


def test_a_missing_dataset_without_download_says_where_it_was_searched(tmp_path, monkeypatch):
    (tmp_path / "second").mkdir()
    monkeypatch.setenv("SWR_DATA", str(tmp_path / "second"))
    with pytest.raises(DataError) as caught:
        load("mnist", tmp_path / "first", download=False)
    assert str(caught.value) == (
        f"mnist was not found in {tmp_path}/first or {tmp_path}/second or {tmp_path}/cache/data: "
        "run `swr data download mnist` or set SWR_DATA"
    )
    assert status("mnist", tmp_path / "first").problem.startswith("mnist was not found in")
    assert check("mnist", tmp_path / "first").problem.startswith("mnist was not found in")


@pytest.mark.parametrize("name", ["mnist", "cifar10", "cifar100", "tinyimagenet"])
def test_a_missing_dataset_without_network_says_so(tmp_path, publish, name):
    with socket.socket() as unused:  # bound but not listening: connections are refused
        unused.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        publish(small(name, {part.name: b"" for part in SOURCES[name].parts}, base=base))
        with pytest.raises(DataError) as caught:
            load(name, tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{name} was not found in {tmp_path} or {tmp_path}/cache/data, and ")
    assert f"{SOURCES[name].archives[0].name}: no connection" in message
    assert "check the network and try again, or put the file into" in message
    assert "\n" not in message


def test_loading_downloads_what_is_missing_and_then_needs_no_network(tmp_path, publish):
    with Server(PACKED) as server:
        publish(small("mnist", FILES, packed=PACKED, base=server.base))
        first = load("mnist", tmp_path)
        assert [name for name, _ in server.requests] == list(PACKED)
    assert {path.name for path in (tmp_path / "MNIST" / "raw").glob("[!.]*")} == set(PACKED)
    again = load("mnist", tmp_path)
    assert first.train.images.equal(again.train.images)
    assert check("mnist", tmp_path).official is True


def test_downloads_go_to_the_cache_when_no_folder_is_named(tmp_path, publish):
    archive = tar_gz({f"cifar-100-binary/{name}": data for name, data in cifar_files("cifar100").items()})
    packed = {"cifar-100-binary.tar.gz": archive}
    publish(small("cifar100", cifar_files("cifar100"), packed=packed))
    with Server(packed) as server:
        result = download("cifar100", base=server.base)
        assert download("cifar100", base=server.base).files == result.files
        assert len(server.requests) == 1
    assert result.files == ((tmp_path / "cache" / "data" / "cifar-100-binary.tar.gz").resolve(),)
    assert result.official is True
    assert result.problem is None
    assert len(load("cifar100", download=False).train) == 10


def test_only_the_missing_files_are_downloaded(tmp_path, publish):
    write(tmp_path / "MNIST" / "raw", dict(list(FILES.items())[:2]))
    with Server(PACKED) as server:
        publish(small("mnist", FILES, packed=PACKED))
        assert download("mnist", tmp_path, base=server.base).official is True
        assert [name for name, _ in server.requests] == list(PACKED)[2:]


def test_the_official_zip_is_recognised_and_another_is_not_overwritten(tmp_path, publish):
    packed = {"tiny-imagenet-200.zip": zipped(tiny_members())}
    with Server(packed) as server:
        publish(small("tinyimagenet", {}, packed=packed))
        assert download("tinyimagenet", tmp_path / "one", base=server.base).official is True
        other = zipped(tiny_members(train=1))
        write(tmp_path / "two", {"tiny-imagenet-200.zip": other})
        with pytest.raises(DataError, match=r"is not the published archive, its md5 is .*: move it away"):
            download("tinyimagenet", tmp_path / "two", base=server.base)
        assert (tmp_path / "two" / "tiny-imagenet-200.zip").read_bytes() == other
    assert len(load("tinyimagenet", tmp_path / "two").train) == 3


@pytest.mark.parametrize("name", ["digits", "folder:anywhere"])
def test_what_is_not_published_cannot_be_downloaded(name):
    with pytest.raises(DataError, match=f"{name} is not a dataset to download"):
        download(name)


def test_status_tells_files_and_cache_and_check_tells_faults(tmp_path, publish):
    publish(small("mnist", FILES))
    write(tmp_path / "data", FILES)
    before = status("mnist", tmp_path / "data")
    assert before.cached is None
    assert before.official is None
    assert len(before.files) == 4
    load("mnist", tmp_path / "data")
    after = check("mnist", tmp_path / "data")
    assert after.cached is not None
    assert after.official is True
    after.cached.write_bytes(after.cached.read_bytes()[:-1] + b"x")
    assert check("mnist", tmp_path / "data").cached is None
    file = tmp_path / "data" / "t10k-labels-idx1-ubyte"
    file.write_bytes(file.read_bytes()[:-1] + b"\x00")
    spoilt = check("mnist", tmp_path / "data")
    assert spoilt.official is False
    assert "t10k-labels-idx1-ubyte is not the published file" in spoilt.problem


def test_digits_and_folders_are_checked_without_hashes(tmp_path):
    assert check("digits").problem is None
    assert check("digits").official is None
    root = image_folder(tmp_path / "pets")
    result = check(f"folder:{root}")
    assert (result.files, result.official, result.problem, result.source) == ((root.resolve(),), None, None, None)


def test_a_second_load_does_not_import_scikit_learn():
    load("digits")
    code = "import sys, swr.bench.data as d; d.load('digits'); print('sklearn' in sys.modules)"
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("False\n", "")
