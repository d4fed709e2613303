"""What Python, NumPy, SciPy, h5py, matplotlib and pytest have lost since the libraries were written, given back.

`tools/run_libraries.py` makes this file the `sitecustomize` of the processes that it starts on a current Python. It
names nothing of TensorFlow. Names of Python's own library and of `numpy`, and what functions and arrays of `numpy` no
longer take, come from `anabranch run`.
"""

import contextlib
import importlib.abc
import importlib.util
import sys
import types
import unittest
import warnings

import numpy as np

if not hasattr(unittest.TestCase, "assertItemsEqual"):
    vars(unittest)["TestCase"].assertItemsEqual = unittest.TestCase.assertCountEqual

_issubdtype = np.issubdtype
_ABSTRACT = {float: np.floating, int: np.integer, complex: np.complexfloating, str: np.character}


def _issubdtype_of(arg1, arg2):
    """`np.issubdtype` that takes Python's types for all of their kind, as until NumPy 1.14."""
    return _issubdtype(arg1, _ABSTRACT.get(arg2, arg2) if isinstance(arg2, type) else arg2)


vars(np)["issubdtype"] = _issubdtype_of


@contextlib.contextmanager
def _all_warnings():
    """A list that fills with the warnings of the block."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        yield record


def _patch_pytest(module):
    """`pytest.warns(None)`, which took any warning or none until pytest 7."""
    warns = module.warns

    def warns_or_not(expected_warning=Warning, *args, **kwargs):
        return _all_warnings() if expected_warning is None else warns(expected_warning, *args, **kwargs)

    module.warns = warns_or_not


def _patch_scipy_special(module):
    """Names of SciPy 1.2."""
    import scipy.special

    for name in ("logsumexp", "comb", "factorial"):
        if not hasattr(module, name):
            setattr(module, name, getattr(scipy.special, name))


def _patch_scipy_signal(module):
    """Windows, which SciPy moved into a module of their own."""
    import scipy.signal.windows as windows

    for name in windows.__all__:
        if not hasattr(module, name):
            setattr(module, name, getattr(windows, name))


def _patch_h5py(module):
    """Files open for reading and writing where no mode is given; attributes that were stored as bytes are bytes."""
    file, attributes = module.File, module.AttributeManager
    if getattr(file, "opened_as_before", False):
        return
    begin, read = file.__init__, attributes.__getitem__

    def __init__(self, name, mode="a", *args, **kwargs):
        begin(self, name, mode or "a", *args, **kwargs)

    def __getitem__(self, name):
        value = read(self, name)
        kind = self.get_id(name).get_type()
        if not isinstance(kind, module.h5t.TypeStringID) or kind.get_cset() != module.h5t.CSET_ASCII:
            return value
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, np.ndarray) and value.dtype.kind != "S":
            return np.array([item.encode() if isinstance(item, str) else item for item in value.ravel()]).reshape(
                value.shape
            )
        return value

    file.__init__, attributes.__getitem__ = __init__, __getitem__
    file.opened_as_before = True


def _patch_pillow(module):
    """The filter's name of Pillow 9."""
    if not hasattr(module, "ANTIALIAS"):
        module.ANTIALIAS = module.LANCZOS


def _patch_networkx(module):
    """Graphs in order, as all are now."""
    for old, new in (("OrderedGraph", "Graph"), ("OrderedDiGraph", "DiGraph"), ("OrderedMultiDiGraph", "MultiDiGraph")):
        if not hasattr(module, old):
            setattr(module, old, getattr(module, new))


def _patch_colormaps(module):
    """The function that finds a colour map, as it was until matplotlib 3.9."""
    if not hasattr(module, "get_cmap"):

        def get_cmap(name=None, lut=None):
            colours = module._colormaps.get_cmap(name)
            return colours if lut is None else colours.resampled(lut)

        module.get_cmap = get_cmap


_PATCHES = {
    "matplotlib.cm": _patch_colormaps,
    "networkx": _patch_networkx,
    "pytest": _patch_pytest,
    "PIL.Image": _patch_pillow,
    "scipy.misc": _patch_scipy_special,
    "scipy.signal": _patch_scipy_signal,
    "h5py": _patch_h5py,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Call a patch once its module has been loaded; make `scipy.misc` and `imp`, which are gone."""

    busy = False

    def find_spec(self, name, path=None, target=None):
        """The module's own specification with a loader that patches it afterwards."""
        if name not in _PATCHES and name not in _LOST:
            return None
        if self.busy:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            spec = None
        finally:
            self.busy = False
        if spec is None:
            if name not in _LOST:
                return None
            return importlib.util.spec_from_loader(name, _Lost(), is_package=True)
        if name not in _PATCHES or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _PATCHES[name](module)

        vars(spec.loader)["exec_module"] = exec_module
        return spec


class _Lost(importlib.abc.Loader):
    """Modules that their packages no longer have."""

    def create_module(self, spec):
        """An empty module."""
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        """Names that stand elsewhere now."""
        _LOST[module.__name__](module)


_LOST = {"scipy.misc": _patch_scipy_special}

sys.meta_path.insert(0, _Finder())
