"""The wheel and the sdist: complete, valid, and enough for a fresh environment."""

import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import swr

ROOT = Path(__file__).parents[1]
HERE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=HERE, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    for tool in ("build", "hatchling", "twine"):
        pytest.importorskip(tool, reason=f"{tool} is not installed: pip install 'soft-weight-rescaling[dev]'")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The Python of a fresh environment with the wheel in it; torch and the other dependencies are this environment's."""
    folder = tmp_path_factory.mktemp("venv").resolve()
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", built[0])
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))  # after its own; .pth files there are not read
    return python


def test_the_names_and_the_metadata(built):
    wheel, sdist = built
    assert wheel.name == f"soft_weight_rescaling-{swr.__version__}-py3-none-any.whl"
    assert sdist.name == f"soft_weight_rescaling-{swr.__version__}.tar.gz"
    with zipfile.ZipFile(wheel) as archive:
        [path] = [name for name in archive.namelist() if name.endswith("METADATA")]
        metadata = email.message_from_bytes(archive.read(path))
    assert metadata["Name"] == "soft-weight-rescaling"
    assert set(metadata.get_all("Provides-Extra")) == {"bench", "dev", "docs", "ray"}
    assert [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line] == ["torch>=2.11"]
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Programming Language :: Python :: {version}" in metadata.get_all("Classifier")
    own = [line for line in metadata.get_all("Requires-Dist") if line.startswith("swr")]
    assert own == []  # swr on the index is somebody else's


def test_both_pass_the_strict_check_of_the_index(built):
    assert run(sys.executable, "-m", "twine", "check", "--strict", *built).count("PASSED") == 2


def test_the_wheel_has_the_package_with_its_data_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as archive:
        inside = set(archive.namelist())
    tops = {name.partition("/")[0] for name in inside}
    assert tops == {"swr", f"soft_weight_rescaling-{swr.__version__}.dist-info"}
    assert not [name for name in inside if re.search(r"(^|/)(tests?/|test_|conftest)", name)]
    source = ROOT / "src"
    files = {p.relative_to(source).as_posix() for p in (source / "swr").rglob("*") if p.is_file() and p.suffix != ".pyc"}
    assert files <= inside
    assert {
        "swr/py.typed",
        "swr/bench/report/web/page.html",
        "swr/bench/report/web/page.css",
        "swr/bench/report/web/tables.js",
    } <= inside


def test_the_sdist_has_what_the_tests_need(built):
    with tarfile.open(built[1]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CITATION.cff", "constraints.txt", "tests/conftest.py", "docs/index.md"} <= inside


def test_the_wheel_works_in_a_fresh_environment(installed, tmp_path):
    code = "import swr; print(swr.__file__); print(swr.SoftWeightRescaling.__name__)"
    where, name = run(installed, "-c", code, cwd=tmp_path).splitlines()
    assert Path(where).is_relative_to(installed.parents[1])
    assert name == "SoftWeightRescaling"
    assert "noisy" in run(installed.parent / "swr", "quickstart", "--help", cwd=tmp_path)
    page = (
        "from swr.bench.report.page import render; from swr.bench.report.results import Results; print(render(Results([], {})))"
    )
    assert "No runs yet" in run(installed, "-c", page, cwd=tmp_path)  # the page's files are found
