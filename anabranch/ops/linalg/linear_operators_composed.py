"""``tf.linalg.LinearOperator``s made of others: adjoints, inverses, products, blocks, Kronecker products, updates."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, shapes
from anabranch.ops.linalg.linear_operator import (
    LinearOperator,
    adjoint_of,
    conj,
    joined,
    makes,
    product,
    same_batch,
    shape_of,
)
from anabranch.ops.linalg.linear_operators_elementary import absolute


def _all(operators: list[LinearOperator], hint: str) -> bool | None:
    """True if all of them have the hint."""
    return True if all(getattr(one, hint) for one in operators) else None


def _implied(operators: list[LinearOperator], hint: str, given: bool | None, whole: str) -> bool | None:
    """What is given, or else True if all have the hint; ValueError where False contradicts that."""
    implied = _all(operators, hint)
    if implied and given is False:
        kind = hint.removeprefix("is_").replace("positive_definite", "positive definite").replace("_", "-")
        raise ValueError(
            f"The {whole} of {kind} operators is always {kind}.\n"
            + errors.message(f"{hint}=False", f"{hint}=True, as all operators have it", f"leave {hint} out")
        )
    return implied if given is None else given


def _check(operators: Any, name: str) -> list[LinearOperator]:
    checked = list(operators)
    if not checked:
        raise ValueError(
            f"Expected a non-empty list of operators. Found: {operators}\n"
            + errors.message(f"{name} of no operators", "a list of one operator or more", f"{name}([operator])")
        )
    kinds = {one.dtype for one in checked}
    if len(kinds) > 1:
        listed = ", ".join(f"{one.name}: {one.dtype.name}" for one in checked)
        raise TypeError(
            f"Expected all operators to have the same dtype. Found {listed}\n"
            + errors.message(f"operators of {len(kinds)} dtypes", "one dtype", "tf.cast what they are made of")
        )
    return checked


def _lead(operators: list[LinearOperator]) -> tuple[shapes.RawShape, Any]:
    """The batch shape of operators broadcast against each other: what is known of it, and as a value."""
    raw: shapes.RawShape = ()
    for one in operators:
        own = one._raw()
        raw = shapes.broadcast(raw, None if own is None else own[:-2])
    if raw is not None and None not in raw:
        return raw, list(raw)
    dynamic = convert_to_tensor([], dtypes.int32)
    for one in operators:
        dynamic = build("BroadcastArgs", dynamic, one.batch_shape_tensor())
    return raw, dynamic


def _side(operator: LinearOperator, place: int) -> Any:
    """A size as an int if it is known, a scalar tensor otherwise."""
    raw = operator._raw()
    return raw[place] if raw is not None and raw[place] is not None else operator._sizes()[place]


def _pair(rows: Any, columns: Any) -> Any:
    if isinstance(rows, int) and isinstance(columns, int):
        return [rows, columns]
    return build("Pack", [rows, columns], axis=0)


def _known(*sizes: Any) -> list[int | None]:
    return [size if isinstance(size, int) else None for size in sizes]


# -------------------------------------------------------------------------------------------------- adjoint and inverse
def _hint(name: str, given: bool | None, known: bool | None) -> bool | None:
    """What a caller says of an operator, or what is known of it; ValueError if they contradict."""
    if given is not None and known is not None and given != known:
        raise ValueError(errors.message(f"{name}={given}", f"{name}={known}, as of the operator", f"leave {name} out"))
    return known if given is None else given


@public("linalg.LinearOperatorAdjoint")
class LinearOperatorAdjoint(LinearOperator):
    """The conjugate transpose of an operator."""

    def __init__(
        self,
        operator: LinearOperator,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        self._operator = operator
        super().__init__(
            operator.dtype,
            operator.graph_parents,
            _hint("is_non_singular", is_non_singular, operator.is_non_singular),
            _hint("is_self_adjoint", is_self_adjoint, operator.is_self_adjoint),
            _hint("is_positive_definite", is_positive_definite, operator.is_positive_definite),
            _hint("is_square", is_square, operator.is_square),
            name or f"{operator.name}_adjoint",
        )

    @property
    def operator(self) -> LinearOperator:
        """The operator whose adjoint it is."""
        return self._operator

    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        """The operator itself."""
        return self._operator

    def _raw(self) -> shapes.RawShape:
        raw = self._operator._raw()
        return None if raw is None else (*raw[:-2], raw[-1], raw[-2])

    def _sizes(self) -> Any:
        sizes = self._operator._sizes()
        return joined(sizes[:-2], sizes[-1:], sizes[-2:-1])

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return self._operator._matmul(x, not adjoint, adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return self._operator._solve(rhs, not adjoint, adjoint_arg)

    def _to_dense(self) -> Any:
        return adjoint_of(self._operator._to_dense())

    def _determinant(self) -> Any:
        return conj(self._operator._determinant())

    def _log_abs_determinant(self) -> Any:
        return self._operator._log_abs_determinant()


@public("linalg.LinearOperatorInversion")
class LinearOperatorInversion(LinearOperator):
    """The inverse of an operator: products are solutions, and the other way round."""

    def __init__(
        self,
        operator: LinearOperator,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        self._operator = operator
        super().__init__(
            operator.dtype,
            operator.graph_parents,
            _hint("is_non_singular", is_non_singular, True),
            _hint("is_self_adjoint", is_self_adjoint, operator.is_self_adjoint),
            _hint("is_positive_definite", is_positive_definite, operator.is_positive_definite),
            _hint("is_square", is_square, True),
            name or f"{operator.name}_inv",
        )

    @property
    def operator(self) -> LinearOperator:
        """The operator whose inverse it is."""
        return self._operator

    def inverse(self, name: str = "inverse") -> LinearOperator:
        """The operator itself."""
        return self._operator

    def _raw(self) -> shapes.RawShape:
        return self._operator._raw()

    def _sizes(self) -> Any:
        return self._operator._sizes()

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return self._operator._solve(x, adjoint, adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return self._operator._matmul(rhs, adjoint, adjoint_arg)

    def _determinant(self) -> Any:
        return build("Reciprocal", self._operator._determinant())

    def _log_abs_determinant(self) -> Any:
        return build("Neg", self._operator._log_abs_determinant())


# ------------------------------------------------------------------------------------------------------------- products
@public("linalg.LinearOperatorComposition")
class LinearOperatorComposition(LinearOperator):
    """The product of operators, the last of which acts first."""

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        self._operators = _check(operators, "LinearOperatorComposition")
        for left, right in zip(self._operators, self._operators[1:], strict=False):
            inner = _known(_side(left, -1), _side(right, -2))
            if None not in inner and inner[0] != inner[1]:
                raise ValueError(
                    f"Operators are incompatible: {left.name} has {inner[0]} columns, {right.name} {inner[1]} rows\n"
                    + errors.message(
                        f"shapes {left.shape} and {right.shape}",
                        "as many columns on the left as rows on the right",
                        "operator.adjoint()",
                    )
                )
        is_non_singular = _implied(self._operators, "is_non_singular", is_non_singular, "composition")
        super().__init__(
            self._operators[0].dtype,
            [p for one in self._operators for p in one.graph_parents],
            is_non_singular,
            is_self_adjoint,
            is_positive_definite,
            is_square,
            name or "_o_".join(one.name for one in self._operators),
        )

    @property
    def operators(self) -> list[LinearOperator]:
        """The factors."""
        return list(self._operators)

    def _raw(self) -> shapes.RawShape:
        raw, _ = _lead(self._operators)
        return None if raw is None else (*raw, *_known(_side(self._operators[0], -2), _side(self._operators[-1], -1)))

    def _sizes(self) -> Any:
        return joined(_lead(self._operators)[1], _pair(_side(self._operators[0], -2), _side(self._operators[-1], -1)))

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        for one in self._operators if adjoint else self._operators[::-1]:
            x, adjoint_arg = one._matmul(x, adjoint, adjoint_arg), False
        return x

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        for one in self._operators[::-1] if adjoint else self._operators:
            rhs, adjoint_arg = one.solve(rhs, adjoint, adjoint_arg), False
        return rhs

    def _to_dense(self) -> Any:
        matrix = self._operators[-1]._to_dense()
        for one in self._operators[-2::-1]:
            matrix = one._matmul(matrix, False, False)
        return matrix

    def _determinant(self) -> Any:
        determinant = self._operators[0].determinant()
        for one in self._operators[1:]:
            determinant = build("Mul", determinant, one.determinant())
        return determinant

    def _log_abs_determinant(self) -> Any:
        log_determinant = self._operators[0].log_abs_determinant()
        for one in self._operators[1:]:
            log_determinant = build("AddV2", log_determinant, one.log_abs_determinant())
        return log_determinant


@public("linalg.LinearOperatorKronecker")
class LinearOperatorKronecker(LinearOperator):
    """The Kronecker product of operators."""

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        self._operators = _check(operators, "LinearOperatorKronecker")
        hints: Any = [
            _implied(self._operators, hint, given, "Kronecker product")
            for hint, given in (
                ("is_non_singular", is_non_singular),
                ("is_self_adjoint", is_self_adjoint),
                ("is_positive_definite", is_positive_definite),
                ("is_square", is_square),
            )
        ]
        super().__init__(
            self._operators[0].dtype,
            [p for one in self._operators for p in one.graph_parents],
            hints[0],
            hints[1],
            hints[2],
            hints[3],
            name or "_x_".join(one.name for one in self._operators),
        )

    @property
    def operators(self) -> list[LinearOperator]:
        """The factors."""
        return list(self._operators)

    def _side_product(self, place: int) -> Any:
        product: Any = 1
        for one in self._operators:
            side = _side(one, place)
            product = (
                product * side if isinstance(product, int) and isinstance(side, int) else build("Mul", product, side)
            )
        return product

    def _raw(self) -> shapes.RawShape:
        raw, _ = _lead(self._operators)
        return None if raw is None else (*raw, *_known(self._side_product(-2), self._side_product(-1)))

    def _sizes(self) -> Any:
        return joined(_lead(self._operators)[1], _pair(self._side_product(-2), self._side_product(-1)))

    def _to_dense(self) -> Any:
        matrix = self._operators[0]._to_dense()
        for one in self._operators[1:]:
            left, right = same_batch(matrix, one._to_dense())
            a = build("ExpandDims", build("ExpandDims", left, -1), -3)
            b = build("ExpandDims", build("ExpandDims", right, -2), -4)
            sizes = [shape_of(left), shape_of(right)]
            inner = [build("Mul", sizes[0][i], sizes[1][i]) for i in (-2, -1)]
            if all(isinstance(size, list) for size in sizes):
                target: Any = [*sizes[0][:-2], *(sizes[0][i] * sizes[1][i] for i in (-2, -1))]
            else:
                target = joined(build("Shape", left)[:-2], build("Pack", inner, axis=0))
            matrix = build("Reshape", build("Mul", a, b), target)
        return matrix

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return product(self._to_dense(), x, adjoint, adjoint_arg)

    def _by_power(self, values: list[Any], combine: str, power: str) -> Any:
        """A statistic of a determinant: each factor's counts as often as the other factors have rows."""
        combined = None
        total = self._side_product(-1)
        for one, value in zip(self._operators, values, strict=True):
            times = build("FloorDiv", total, _side(one, -1))
            part = build(power, value, build("Cast", times, DstT=value.dtype.base))
            combined = part if combined is None else build(combine, combined, part)
        return combined

    def _determinant(self) -> Any:
        return self._by_power([one.determinant() for one in self._operators], "Mul", "Pow")

    def _log_abs_determinant(self) -> Any:
        return self._by_power([one.log_abs_determinant() for one in self._operators], "AddV2", "Mul")


# --------------------------------------------------------------------------------------------------------------- blocks
@public("linalg.LinearOperatorBlockDiag")
class LinearOperatorBlockDiag(LinearOperator):
    """Square operators as blocks along the diagonal, zeros elsewhere."""

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str | None = None,
    ) -> None:
        self._operators = _check(operators, "LinearOperatorBlockDiag")
        for one in self._operators:
            if one.is_square is False or not is_square:
                raise ValueError(
                    "Can only represent a block diagonal of square matrices.\n"
                    + errors.message(
                        f"{one.name} of shape {one.shape}",
                        "square blocks",
                        "tf.linalg.LinearOperatorFullMatrix(matrix) for a matrix that is not square",
                    )
                )
        hints: Any = [
            _implied(self._operators, hint, given, "direct sum")
            for hint, given in (
                ("is_non_singular", is_non_singular),
                ("is_self_adjoint", is_self_adjoint),
                ("is_positive_definite", is_positive_definite),
            )
        ]
        super().__init__(
            self._operators[0].dtype,
            [p for one in self._operators for p in one.graph_parents],
            hints[0],
            hints[1],
            hints[2],
            True,
            name or "_ds_".join(one.name for one in self._operators),
        )

    @property
    def operators(self) -> list[LinearOperator]:
        """The blocks."""
        return list(self._operators)

    def _rows(self) -> Any:
        total: Any = 0
        for one in self._operators:
            side = _side(one, -1)
            total = total + side if isinstance(total, int) and isinstance(side, int) else build("AddV2", total, side)
        return total

    def _raw(self) -> shapes.RawShape:
        raw, _ = _lead(self._operators)
        return None if raw is None else (*raw, *_known(self._rows(), self._rows()))

    def _sizes(self) -> Any:
        return joined(_lead(self._operators)[1], _pair(self._rows(), self._rows()))

    def _by_block(self, x: Any, adjoint_arg: bool, function: Any) -> Any:
        x = adjoint_of(x) if adjoint_arg else x
        sizes = [_side(one, -1) for one in self._operators]
        if not all(isinstance(size, int) for size in sizes):
            sizes = build("Pack", sizes, axis=0)
        parts = build("SplitV", x, sizes, -2, num_split=len(self._operators))
        products = [function(one, part) for one, part in zip(self._operators, parts, strict=True)]
        if len(products) == 1:
            return products[0]
        lead = self._batch_of(products)
        return build("ConcatV2", [self._spread(part, lead) for part in products], -2)

    def _batch_of(self, parts: list[Any]) -> Any:
        lead = build("Shape", parts[0])[:-2]
        for part in parts[1:]:
            lead = build("BroadcastArgs", lead, build("Shape", part)[:-2])
        return lead

    def _spread(self, part: Any, lead: Any) -> Any:
        raws = [one._raw() for one in self._operators]
        if None not in raws and len({raw[:-2] for raw in raws if raw is not None}) == 1:
            return part
        return build("BroadcastTo", part, build("ConcatV2", [lead, build("Shape", part)[-2:]], 0))

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return self._by_block(x, adjoint_arg, lambda one, part: one._matmul(part, adjoint, False))

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return self._by_block(rhs, adjoint_arg, lambda one, part: one.solve(part, adjoint))

    def _determinant(self) -> Any:
        determinant = self._operators[0].determinant()
        for one in self._operators[1:]:
            determinant = build("Mul", determinant, one.determinant())
        return determinant

    def _log_abs_determinant(self) -> Any:
        log_determinant = self._operators[0].log_abs_determinant()
        for one in self._operators[1:]:
            log_determinant = build("AddV2", log_determinant, one.log_abs_determinant())
        return log_determinant


# -------------------------------------------------------------------------------------------------------------- updates
@public("linalg.LinearOperatorLowRankUpdate")
class LinearOperatorLowRankUpdate(LinearOperator):
    """``base + u @ diag(diag_update) @ v^H``, ``u`` and ``v`` ``[..., n, k]``; ``v`` is ``u`` if None."""

    def __init__(
        self,
        base_operator: LinearOperator,
        u: Any,
        diag_update: Any = None,
        v: Any = None,
        is_diag_update_positive: bool | None = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowRankUpdate",
    ) -> None:
        self._base = base_operator
        kind = base_operator.dtype
        with name_scope(name, values=[u, diag_update, v]):
            self._u = convert_to_tensor(u, kind, name="u")
            self._v = self._u if v is None else convert_to_tensor(v, kind, name="v")
            self._diag_update = (
                None if diag_update is None else convert_to_tensor(diag_update, kind, name="diag_update")
            )
        positive = is_diag_update_positive or diag_update is None
        if v is None and base_operator.is_self_adjoint and is_self_adjoint is None and not kind.is_complex:
            is_self_adjoint = True
        if v is None and positive and base_operator.is_positive_definite and is_positive_definite is None:
            is_positive_definite = True
        self._use_cholesky = bool(
            base_operator.is_positive_definite and base_operator.is_self_adjoint and positive and v is None
        )
        self._check_factors()
        parents = [item for item in (self._u, self._diag_update, None if v is None else self._v) if item is not None]
        super().__init__(
            kind,
            [*base_operator.graph_parents, *parents],
            is_non_singular,
            is_self_adjoint,
            is_positive_definite,
            is_square,
            name,
        )

    def _check_factors(self) -> None:
        """Raise ValueError if factors and diagonal are known not to fit each other and what is updated."""
        u, v = self._u.shape, self._v.shape
        if u.ndims is None or v.ndims is None:
            return
        self._base.domain_dimension.assert_is_compatible_with(u[-2])
        self._base.range_dimension.assert_is_compatible_with(v[-2])
        u[-1].assert_is_compatible_with(v[-1])
        batches = [u[:-2], v[:-2], self._base.batch_shape]
        if self._diag_update is not None and self._diag_update.shape.ndims is not None:
            u[-1].assert_is_compatible_with(self._diag_update.shape[-1])
            batches.append(self._diag_update.shape[:-1])
        merged: shapes.RawShape = ()
        for batch in batches:
            try:
                merged = shapes.broadcast(merged, batch.raw)
            except ValueError as problem:
                raise ValueError(
                    f"Incompatible shapes for broadcasting: {', '.join(map(str, batches))}\n{problem}"
                ) from None

    @property
    def base_operator(self) -> LinearOperator:
        """What is updated."""
        return self._base

    @property
    def u(self) -> Any:
        """The left factor."""
        return self._u

    @property
    def v(self) -> Any:
        """The right factor."""
        return self._v

    @property
    def diag_update(self) -> Any:
        """The diagonal between them, or None."""
        return self._diag_update

    def _raw(self) -> shapes.RawShape:
        raw, own = self._base._raw(), self._u._shape
        if raw is None or own is None:
            return raw
        lead = shapes.broadcast(raw[:-2], own[:-2])
        return None if lead is None else (*lead, *raw[-2:])

    def _sizes(self) -> Any:
        raw = self._raw()
        if raw is not None and None not in raw:
            return list(raw)
        lead = build("BroadcastArgs", self._base.batch_shape_tensor(), build("Shape", self._u)[:-2])
        return build("ConcatV2", [lead, self._base.shape_tensor()[-2:]], 0)

    def _between(self, x: Any, adjoint: bool, inverse: bool = False) -> Any:
        if self._diag_update is None:
            return x
        column = build("ExpandDims", conj(self._diag_update) if adjoint else self._diag_update, -1)
        return build("RealDiv" if inverse else "Mul", x, column)

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        x = adjoint_of(x) if adjoint_arg else x
        update = product(left, self._between(product(right, x, True), adjoint))
        return build("AddV2", self._base._matmul(x, adjoint, False), update)

    def _capacitance(self) -> Any:
        """``diag^-1 + v^H base^-1 u``, ``[..., k, k]`` (Woodbury, 1950)."""
        inner = product(self._v, self._base.solve(self._u), True)
        if self._diag_update is None:
            part = build("MatrixDiagPart", inner)
            return build("MatrixSetDiag", inner, build("AddV2", part, self._number(1)))
        inverse = build("MatrixDiag", build("Reciprocal", self._diag_update))
        return build("AddV2", inner, inverse)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        plain = self._base.solve(rhs, adjoint)
        capacitance, inner = same_batch(self._capacitance(), product(right, plain, True))
        solved = build("MatrixSolve", capacitance, inner, adjoint=adjoint)
        return build("Sub", plain, self._base.solve(product(left, solved), adjoint))

    def _determinant(self) -> Any:
        determinant = build("Mul", self._base.determinant(), build("MatrixDeterminant", self._capacitance()))
        if self._diag_update is None:
            return determinant
        return build("Mul", determinant, build("Prod", self._diag_update, [-1]))

    def _log_abs_determinant(self) -> Any:
        own = build("LogMatrixDeterminant", self._capacitance()).log_abs_determinant
        own = build("Real", own, Tout=self._dtype.real_dtype) if self._dtype.is_complex else own
        log_determinant = build("AddV2", self._base.log_abs_determinant(), own)
        if self._diag_update is None:
            return log_determinant
        size = absolute(self._diag_update)
        return build("AddV2", log_determinant, build("Sum", build("Log", size), [-1]))


makes["composition"] = LinearOperatorComposition
makes["adjoint"] = LinearOperatorAdjoint
makes["inverse"] = LinearOperatorInversion
