"""Rules of loops and conditionals, whose bodies are computed with padding themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.xla import engine
from anabranch.xla.padding.equations import Computation, Equation, Rules
from anabranch.xla.padding.sizes import Refused

rules = Rules()


def _bodies(equation: Equation, name: str) -> tuple[list[Any], list[Any]]:
    closed = [e.params[name] for e in equation.at]
    return [one.jaxpr for one in closed], [one.consts for one in closed]


@rules.computes("while")
def _while(masked: Computation, equation: Equation, values: list[Any]) -> Sequence[Any]:
    params = equation.params
    condition, condition_consts = _bodies(equation, "cond_jaxpr")
    body, body_consts = _bodies(equation, "body_jaxpr")
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

    def goes_on(carried: Any) -> Any:
        return masked.evaluate(condition, condition_consts, [*values[:first], *carried])[0]

    def run(carried: Any) -> Any:
        return tuple(masked.evaluate(body, body_consts, [*values[first:second], *carried]))

    return list(engine.jax().lax.while_loop(goes_on, run, tuple(values[second:])))


@rules.computes("scan")
def _scan(masked: Computation, equation: Equation, values: list[Any]) -> Sequence[Any]:
    params = equation.params
    same = {key: value for key, value in params.items() if key not in ("length", "jaxpr", "_split_transpose")}
    if any(e.params[key] != value for e in equation.at for key, value in same.items()):
        raise Refused("scan, otherwise for another size")
    line = masked.line([e.params["length"] for e in equation.at])
    body, consts = _bodies(equation, "jaxpr")
    # The rows that go in and come out have a dimension less in the body. JAX's own counts have other names in 0.12.
    carry = sum(o.aval.ndim == i.aval.ndim for o, i in zip(equation.at[0].outvars, body[0].outvars, strict=True))
    taken = sum(o.aval.ndim != i.aval.ndim for o, i in zip(equation.at[0].invars, body[0].invars, strict=True))
    fixed = len(body[0].invars) - carry - taken
    jax = engine.jax()

    def run(carried: Any, row: Any) -> Any:
        place, row = row
        results = masked.evaluate(body, consts, [*values[:fixed], *carried, *row])
        after = results[:carry]
        if line is not None:  # what is behind the end changes nothing
            after = [jax.lax.select(place, new, old) for new, old in zip(after, carried, strict=True)]
        return tuple(after), tuple(results[carry:])

    places = None if line is None else masked.present(params["length"], line)
    carried, rows = jax.lax.scan(
        run,
        tuple(values[fixed : fixed + carry]),
        (places, tuple(values[fixed + carry :])),
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return [*carried, *rows]


@rules.computes("cond")
def _cond(masked: Computation, equation: Equation, values: list[Any]) -> Sequence[Any]:
    branches = []
    for i in range(len(equation.params["branches"])):
        closed = [e.params["branches"][i] for e in equation.at]

        def branch(*given: Any, closed: list[Any] = closed) -> Any:
            return tuple(masked.evaluate([one.jaxpr for one in closed], [one.consts for one in closed], given))

        branches.append(branch)
    return list(engine.jax().lax.switch(values[0], branches, *values[1:]))
