"""Programs that factorise matrices, on one thread of the library that does it.

Policy. XLA's CPU backend hands factorisations and triangular systems to the LAPACK of SciPy, whose BLAS splits even
small products over its own threads; those spin while they wait for each other, beside the threads of XLA. On two cores
that other work loads, a Cholesky factorisation of 150x150 took 9 ms of CPU time instead of 0.4, its gradient 25 instead
of 1.1, and the factorisation into eigenvectors 89 instead of 2. So a program that holds such equations is called under
:mod:`anabranch.ops.shared.host_blas`, as host kernels are, unless one of its matrices is so large that threads pay.
What the program around had set holds again when the results are there: the call waits for them.
"""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any

from anabranch.ops.shared import host_blas
from anabranch.xla import engine, memory


@functools.cache
def _primitives() -> frozenset[Any]:
    """What LAPACK, or BLAS, computes."""
    return frozenset(value for name, value in vars(engine.jax().lax.linalg).items() if name.endswith("_p"))


def _work(equation: Any) -> int:
    """About how many multiplications one matrix of an equation takes."""
    shapes = [atom.aval.shape for atom in equation.invars]
    return max((math.prod(shape[-2:]) * max(shape[-2:]) for shape in shapes if len(shape) > 1), default=0)


def largest(jaxpr: Any) -> int:
    """The multiplications of the largest equation of a jaxpr, inner ones included, that LAPACK computes; 0 without."""
    own = [_work(equation) for equation in jaxpr.eqns if equation.primitive in _primitives()]
    inner = [largest(part) for equation in jaxpr.eqns for part in memory.inner_jaxprs(equation.params)]
    return max((*own, *inner), default=0)


class OnOneThread:
    """A compiled function that is called while BLAS has one thread."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        importlib.import_module("scipy.linalg.cython_lapack")  # it must have been loaded to be set
        host_blas.find_libraries()

    @property
    def in_avals(self) -> Any:
        """Shapes and dtypes of the arguments, as the compiled function has them."""
        return self._compiled.in_avals

    @property
    def out_info(self) -> Any:
        """The same of the results, in their structure."""
        return self._compiled.out_info

    def __call__(self, *arguments: Any) -> Any:
        host_blas.enter()
        try:
            results = self._compiled(*arguments)
            engine.wait_for(results)  # it may return while XLA's threads still compute
            return results
        finally:
            host_blas.leave()


def limited(compiled: Any, work: int, platform: str) -> Any:
    """``compiled``, on one thread of BLAS where that is better for matrices of so much ``work``."""
    return OnOneThread(compiled) if platform == "cpu" and 0 < work < host_blas.LARGE else compiled
