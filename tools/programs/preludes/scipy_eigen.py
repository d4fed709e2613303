"""SciPy 1.8 and later: `scipy.sparse.linalg.eigen.arpack` is gone; its functions stand in `scipy.sparse.linalg`."""

import sys
import types

import scipy.sparse.linalg

eigen = types.ModuleType("scipy.sparse.linalg.eigen")
arpack = types.ModuleType("scipy.sparse.linalg.eigen.arpack")
arpack.eigsh = scipy.sparse.linalg.eigsh
arpack.eigs = scipy.sparse.linalg.eigs
eigen.arpack = arpack
scipy.sparse.linalg.eigen = eigen
sys.modules[eigen.__name__] = eigen
sys.modules[arpack.__name__] = arpack
