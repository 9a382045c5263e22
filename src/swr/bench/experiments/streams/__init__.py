"""The streams of the field: many short tasks in a row. A new one is a file and one more entry in this list."""

from swr.bench.experiments.streams.bit_flipping import BitFlipping
from swr.bench.experiments.streams.changing_channels import ChangingChannels
from swr.bench.experiments.streams.class_incremental import ClassIncremental
from swr.bench.experiments.streams.five_plus_one import FivePlusOne
from swr.bench.experiments.streams.label_permutation import LabelPermutation
from swr.bench.experiments.streams.permuted_pixels import PermutedPixels
from swr.bench.experiments.streams.random_labels import RandomLabels
from swr.bench.experiments.streams.stream import METHODS, Size, Stream

STREAMS: dict[str, Stream] = {
    one.name: one
    for one in (
        PermutedPixels(),
        RandomLabels(),
        LabelPermutation(),
        FivePlusOne(),
        ClassIncremental(),
        BitFlipping(),
        ChangingChannels(),
    )
}

__all__ = ["METHODS", "STREAMS", "Size", "Stream"]
