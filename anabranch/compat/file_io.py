"""``tensorflow.python.lib.io.file_io``: files under the names that ``tf.gfile`` is made of there."""

from __future__ import annotations

from typing import Any

from anabranch.platform import files
from anabranch.platform.files import (
    copy,
    listing,
    make_folder,
    make_folders,
    matching,
    remove,
    remove_tree,
    rename,
    stat,
    walk,
)

FileIO = files.GFile
file_exists = files.exists
is_directory = files.is_folder
delete_file = remove
get_matching_files = matching
create_dir, recursive_create_dir = make_folder, make_folders
delete_recursively = remove_tree
list_directory = listing
__all__ = [
    "FileIO",
    "copy",
    "create_dir",
    "delete_file",
    "delete_recursively",
    "file_exists",
    "get_matching_files",
    "is_directory",
    "list_directory",
    "read_file_to_string",
    "recursive_create_dir",
    "rename",
    "stat",
    "walk",
    "write_string_to_file",
]


def read_file_to_string(filename: Any, binary_mode: bool = False) -> Any:
    """The whole of a file as text, or as bytes."""
    with FileIO(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename: Any, file_content: Any) -> None:
    """Write a file."""
    with FileIO(filename, "w") as file:
        file.write(file_content)


def atomic_write_string_to_file(filename: Any, contents: Any, overwrite: bool = True) -> None:
    """Write a file so that a reader sees the old contents or the new ones."""
    temporary = f"{files.local(filename)}.tmp"
    write_string_to_file(temporary, contents)
    try:
        rename(temporary, filename, overwrite)
    except Exception:
        remove(temporary)
        raise
