"""``tf.resource_loader``: files that lie beside a program's own source."""

from __future__ import annotations

import os
import sys

from anabranch.core.contract import api
from anabranch.core.contract.api import public


def _folder_of_caller() -> str:
    """The folder of the file that called the function that calls this one."""
    return os.path.dirname(os.path.abspath(sys._getframe(2).f_code.co_filename))


@public("resource_loader.get_data_files_path")
def get_data_files_path() -> str:
    """The folder of the calling file."""
    return _folder_of_caller()


@public("resource_loader.get_path_to_datafile")
def get_path_to_datafile(path: str) -> str:
    """The path of a file given relative to the folder of the calling file."""
    return os.path.join(_folder_of_caller(), path)


@public("resource_loader.load_resource")
def load_resource(path: str) -> bytes:
    """The bytes of a file given relative to the folder of the calling file."""
    with open(os.path.join(_folder_of_caller(), path), "rb") as file:
        return file.read()


@public("resource_loader.readahead_file_path")
def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """The path itself: files are read by the operating system, which reads ahead."""
    return path


@public("resource_loader.get_root_dir_with_all_resources")
def get_root_dir_with_all_resources() -> str:
    """The folder of the calling file: there is no bundle of resources beyond it."""
    return _folder_of_caller()


__getattr__, __dir__ = api.module_attributes("resource_loader")
