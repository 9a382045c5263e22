"""One module per file format: from the bytes of published files, or from a folder of images, to tensors."""
