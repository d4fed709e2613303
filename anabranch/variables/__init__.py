"""Variables: ``tf.Variable`` in both forms, variable scopes, initializers, assignments. Above ops, below sessions."""

from anabranch.variables import (
    assignments,
    generator,
    initializers,
    listing,
    module,
    orthogonal_kernels,
    partitioned,
    ref_variable,
    resource_variable,
    scope,
    template,
)
from anabranch.variables.variable import Variable

__all__ = [
    "Variable",
    "assignments",
    "generator",
    "initializers",
    "listing",
    "module",
    "orthogonal_kernels",
    "partitioned",
    "ref_variable",
    "resource_variable",
    "scope",
    "template",
]
