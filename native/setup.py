"""Builds the shared library; the header of XLA's interface is that of the jaxlib which is installed."""

from pathlib import Path

import jaxlib
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class SharedLibrary(build_ext):
    """A library that Python does not import: it has no function by which that is done."""

    def get_export_symbols(self, ext):
        return []


setup(
    ext_modules=[
        Extension(
            "anabranch_native._onednn_handler",
            ["anabranch_native/onednn_handler.c"],
            include_dirs=[str(Path(jaxlib.__file__).parent / "include")],
            extra_compile_args=["-std=c11", "-O2", "-Wall", "-fvisibility=hidden"],
        )
    ],
    cmdclass={"build_ext": SharedLibrary},
)
