"""``tf.keras.utils.get_file`` of version 1: Keras 3 downloads, archives are unpacked where they are."""

from __future__ import annotations

import os
import tarfile
import zipfile
from typing import Any

from anabranch.core import errors
from anabranch.keras import loader


def get_file(
    fname: str,
    origin: str,
    untar: bool = False,
    md5_hash: str | None = None,
    file_hash: str | None = None,
    cache_subdir: str = "datasets",
    hash_algorithm: str = "auto",
    extract: bool = False,
    archive_format: Any = "auto",
    cache_dir: str | None = None,
) -> str:
    """Download a file unless it is there, and return its path.

    Args:
        fname: name of the file, or a path: below the folder of ``cache_subdir``, or an absolute one, which is where the
            file is then kept.
        origin: its address.
        untar: whether it is a tar archive, which is kept as ``fname.tar.gz`` and unpacked into its folder; the path
            returned is that of ``fname``, which should be in the archive.
        md5_hash: old name of ``file_hash``.
        file_hash: expected hash.
        cache_subdir: folder below ``cache_dir``, or an absolute path.
        hash_algorithm: "md5", "sha256" or "auto".
        extract: whether to unpack it into its folder, if it is an archive; the path returned is that of the archive.
        archive_format: "tar", "zip", a list of these, "auto" for both, or None for none.
        cache_dir: folder of downloads; ``~/.keras`` if None.
    """
    folder, name = os.path.split(fname)
    path: str = loader.find("utils", "get_file")(
        name + ".tar.gz" * untar,
        origin,
        md5_hash=md5_hash,
        file_hash=file_hash,
        cache_subdir=os.path.join(cache_subdir, folder),
        hash_algorithm=hash_algorithm,
        cache_dir=cache_dir,
    )
    if untar:
        unpacked = path.removesuffix(".tar.gz")
        if not os.path.exists(unpacked):
            _unpack(path, ["tar"])
        return unpacked
    if extract and archive_format is not None:
        formats = ["tar", "zip"] if archive_format == "auto" else archive_format
        _unpack(path, [formats] if isinstance(formats, str) else formats)
    return path


def _unpack(path: str, formats: Any) -> None:
    """Unpack an archive into its folder, if it is one of the formats; nothing is written beside that folder."""
    folder = os.path.dirname(path)
    if "tar" in formats and tarfile.is_tarfile(path):
        if not hasattr(tarfile, "data_filter"):
            raise NotImplementedError(
                errors.message(
                    f"{path!r} under a Python whose tarfile cannot keep what it writes within a folder",
                    "Python 3.11.4 or newer",
                    "unpack it by hand: tar -xf",
                )
            )
        with tarfile.open(path) as tar:
            tar.extractall(folder, filter="data")
    elif "zip" in formats and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
