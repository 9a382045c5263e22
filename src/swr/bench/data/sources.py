"""The published datasets as data: what they hold, which files they come in, where those are, what they hash to.

Nothing here reads or downloads anything. A new published dataset is one more entry and one reader.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One published file of a dataset, unpacked."""

    name: str
    size: int
    """bytes"""
    digest: str
    """``md5:…`` or ``sha1:…`` of the unpacked bytes"""


@dataclass(frozen=True)
class Archive:
    """One file to download."""

    path: str
    """where it is kept below a data folder; its last component is also its name on the server"""
    size: int
    """bytes"""
    digest: str
    parts: tuple[str, ...]
    """the parts that it holds; empty when it is read in place"""

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Source:
    """A published dataset."""

    name: str
    about: str
    classes: int
    shape: tuple[int, int, int]
    """channels, height, width"""
    train: int
    """training images"""
    test: int
    """test images"""
    places: tuple[str, ...]
    """sub-folders of a data folder in which the parts may be"""
    parts: tuple[Part, ...]
    archives: tuple[Archive, ...]
    bases: tuple[str, ...]
    """base addresses to download from, tried in order"""
    folder: str | None = None
    """what the archive is extracted to, for one that is read in place"""

    @property
    def remedy(self) -> str:
        """What to do about a file that is not the published one."""
        return f"delete it and run `swr data download {self.name}`"


def _digits() -> Source:
    return Source(
        name="digits",
        about="handwritten digits, 8x8 grey, embedded in scikit-learn",
        classes=10,
        shape=(1, 8, 8),
        train=1_442,
        test=355,
        places=(),
        parts=(),
        archives=(),
        bases=(),
    )


def _mnist() -> Source:
    names = (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    )
    unpacked = (
        (47_040_016, "md5:6bbc9ace898e44ae57da46a324031adb"),
        (60_008, "md5:a25bea736e30d166cdddb491f175f624"),
        (7_840_016, "md5:2646ac647ad5339dbf082846283269ea"),
        (10_008, "md5:27ae3e4e09519cfbb04c329615203637"),
    )
    packed = (
        (9_912_422, "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        (28_881, "md5:d53e105ee54ea40749a09fcbcd1e9432"),
        (1_648_877, "md5:9fb629c4189551a2d022fa330f9573f3"),
        (4_542, "md5:ec29112dd5afa0611ce80d1b7f02629c"),
    )
    return Source(
        name="mnist",
        about="handwritten digits, 28x28 grey",
        classes=10,
        shape=(1, 28, 28),
        train=60_000,
        test=10_000,
        places=("MNIST/raw", "mnist", "."),
        parts=tuple(Part(name, *facts) for name, facts in zip(names, unpacked, strict=True)),
        archives=tuple(Archive(f"MNIST/raw/{name}.gz", *facts, (name,)) for name, facts in zip(names, packed, strict=True)),
        bases=("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    )


def _cifar10() -> Source:
    digests = {
        "data_batch_1.bin": "sha1:aadd24acce27caa71bf4b10992e9e7b2d74c2540",
        "data_batch_2.bin": "sha1:c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
        "data_batch_3.bin": "sha1:1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
        "data_batch_4.bin": "sha1:aab85764eb3584312d3c7f65fd2fd016e36a258e",
        "data_batch_5.bin": "sha1:26e2849e66a845b7f1e4614ae70f4889ae604628",
        "test_batch.bin": "sha1:67eb016db431130d61cd03c7ad570b013799c88c",
    }
    return Source(
        name="cifar10",
        about="photographs of 10 kinds, 32x32 colour",
        classes=10,
        shape=(3, 32, 32),
        train=50_000,
        test=10_000,
        places=("cifar-10-batches-bin", "."),
        parts=tuple(Part(name, 10_000 * 3073, digest) for name, digest in digests.items()),
        archives=(Archive("cifar-10-binary.tar.gz", 170_052_171, "md5:c32a1d4ab5d03f1284b67883e8d87530", tuple(digests)),),
        bases=("https://www.cs.toronto.edu/~kriz/",),
    )


def _cifar100() -> Source:
    return Source(
        name="cifar100",
        about="photographs of 100 kinds (fine labels), 32x32 colour",
        classes=100,
        shape=(3, 32, 32),
        train=50_000,
        test=10_000,
        places=("cifar-100-binary", "."),
        parts=(
            Part("train.bin", 50_000 * 3074, "sha1:e207cd2e05b73b1393c74c7f5e7bea451d63e08e"),
            Part("test.bin", 10_000 * 3074, "sha1:8fb6623e830365ff53cf14adec797474f5478006"),
        ),
        archives=(
            Archive(
                "cifar-100-binary.tar.gz",
                168_513_733,
                "md5:03b5dce01913d631647c71ecec9e9cb8",
                ("train.bin", "test.bin"),
            ),
        ),
        bases=("https://www.cs.toronto.edu/~kriz/",),
    )


def _tinyimagenet() -> Source:
    return Source(
        name="tinyimagenet",
        about="photographs of 200 kinds, 64x64 colour; the validation images serve as test split",
        classes=200,
        shape=(3, 64, 64),
        train=100_000,
        test=10_000,
        places=(".",),
        parts=(),
        archives=(Archive("tiny-imagenet-200.zip", 248_100_043, "md5:90528d7ca1a48142e341f4ef8d21d0de", ()),),
        bases=("https://cs231n.stanford.edu/", "http://cs231n.stanford.edu/"),
        folder="tiny-imagenet-200",
    )


SOURCES: dict[str, Source] = {source.name: source for source in (_digits(), _mnist(), _cifar10(), _cifar100(), _tinyimagenet())}
