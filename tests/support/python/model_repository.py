"""Lays out model repositories for tests."""

import os
import pathlib
import shutil


def add_model(repository, name, model, version=1):
    """Puts the file `model` into the repository, without a copy where the file systems allow it."""
    folder = pathlib.Path(repository) / name / str(version)
    folder.mkdir(parents=True)
    try:
        os.link(model, folder / "model.onnx")
    except OSError:  # another file system
        shutil.copy(model, folder / "model.onnx")
