"""Decode an image file to uint8 planes with Pillow: a short list of formats, and no warnings."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from swr.bench.data.dataset import DataError

FORMATS = {  # suffix -> Pillow's name; nothing that starts another program, as EPS does
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".bmp": "BMP",
    ".gif": "GIF",
    ".pgm": "PPM",
    ".ppm": "PPM",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".webp": "WEBP",
}
PILLOW = tuple(dict.fromkeys(FORMATS.values()))
GREY = ("1", "L", "I;16")
COLOUR = ("P", "RGB", "RGBA", "LA", "PA", "La", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV", "LAB")


@contextmanager
def opened(where: str, file: Path | bytes) -> Iterator[Image.Image]:
    """An image of which only the header has been read; any failure within names the file.

    Args:
        where: The file's name, for messages.
        file: Its path, or its bytes.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unusual metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(file) if isinstance(file, bytes) else file, formats=PILLOW) as image:
                if image.mode not in GREY + COLOUR:
                    raise DataError(f"{where} has pixels of mode {image.mode}, not 8 bits a channel: convert it")
                yield image
    except DataError:
        raise
    except Exception as error:  # damaged files make Pillow raise nearly any exception
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{where} is not a readable image ({reason}): replace or remove it") from error


def planes(image: Image.Image, channels: int) -> NDArray[np.uint8]:
    """The pixels as [channels, H, W]; grey is repeated for three channels, an alpha channel is dropped.

    Args:
        channels: 1 (for an image whose mode is in ``GREY``) or 3.
    """
    if image.mode == "I;16":
        grey = (np.asarray(image) >> 8).astype(np.uint8)  # Pillow's own conversion would clip at 255
        return np.broadcast_to(grey, (channels, *grey.shape))
    if channels == 1:
        return np.asarray(image.convert("L"))[None]
    if image.mode in ("P", "PA", "LA"):
        image = image.convert("RGBA")
    return np.asarray(image.convert("RGB")).transpose(2, 0, 1)
