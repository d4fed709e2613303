"""The prompt at which a user looks at a step: commands over what is to be run, or over what a run has left."""

from __future__ import annotations

import argparse
import cmd
import fnmatch
import shlex
from collections.abc import Callable
from typing import Any, TextIO

import numpy as np

from anabranch.core import errors
from anabranch.debug import reports
from anabranch.debug.dump_dir import DebugDumpDir


class RunRequest:
    """What the user wants of the coming run.

    Args:
        mode: ``debug`` (keep its tensors, come back), ``plain``, or ``exit``.
        times: come back after this many runs.
        filter_name: keep on running until the filter passes a tensor.
    """

    def __init__(self, mode: str, times: int = 1, filter_name: str | None = None) -> None:
        self.mode = mode
        self.times = times
        self.filter_name = filter_name


class Exit(Exception):
    """The user wants to leave the program."""


class Prompt(cmd.Cmd):
    """Commands of the debugger.

    Args:
        title: what is shown first.
        feeds: the coming run's feeds by name.
        filters: what ``run -f`` and ``lt -f`` know, by name.
        dump: what the run has left; None before it.
        stdin: where commands come from; the terminal if None.
        stdout: where answers go; the terminal if None.
    """

    prompt = "tfdbg> "

    def __init__(
        self,
        title: str,
        feeds: dict[str, Any],
        filters: dict[str, Callable[..., bool]],
        dump: DebugDumpDir | None = None,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        if stdin is not None:
            self.use_rawinput = False
        self._title = title
        self._feeds = feeds
        self._filters = filters
        self._dump = dump
        self.request: RunRequest | None = None

    def preloop(self) -> None:
        """Show what it is about."""
        self._say(self._title + "\nhelp lists the commands.")

    def emptyline(self) -> bool:
        """An empty line does nothing."""
        return False

    def default(self, line: str) -> None:
        """Say that there is no such command; the end of the input is one that leaves."""
        if line == "EOF":
            raise Exit
        self._say(f"no command {line.split()[0]!r}; help lists the commands")

    def onecmd(self, line: str) -> bool:
        """Run a command; what is wrong with its arguments is told, and nothing else happens."""
        try:
            return bool(super().onecmd(line))
        except (argparse.ArgumentError, ValueError, KeyError, LookupError, errors.OpError) as problem:
            self._say(str(problem))
            return False

    def _say(self, text: str) -> None:
        print(text, file=self.stdout)

    def _arguments(self, line: str, *options: tuple[tuple[str, ...], dict[str, Any]]) -> argparse.Namespace:
        parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
        for names, settings in options:
            parser.add_argument(*names, **settings)
        known, unknown = parser.parse_known_args(shlex.split(line))
        if unknown:
            raise ValueError(f"unknown arguments: {' '.join(unknown)}")
        return known

    def _filter(self, name: str) -> Callable[..., bool]:
        if name not in self._filters:
            raise ValueError(f"no filter {name!r}; there are: {', '.join(sorted(self._filters))}")
        return self._filters[name]

    # ------------------------------------------------------------------------------------------------------------- runs
    def do_run(self, line: str) -> bool:
        """run [-n] [-t TIMES] [-f FILTER]: run, and come back; -n: without looking; -t: after this many runs;
        -f: after the first run in which the filter passes a tensor.
        """
        given = self._arguments(
            line,
            (("-n", "--no_debug"), {"action": "store_true"}),
            (("-t", "--times"), {"type": int, "default": 1}),
            (("-f", "--till_filter_pass"), {"default": None}),
        )
        if given.till_filter_pass is not None:
            self._filter(given.till_filter_pass)
        if given.times < 1:
            raise ValueError(f"-t {given.times}: at least one run")
        mode = "plain" if given.no_debug or given.times > 1 else "debug"
        self.request = RunRequest(mode, given.times, given.till_filter_pass)
        return True

    do_r = do_run

    def do_exit(self, line: str) -> bool:
        """exit: leave the program."""
        raise Exit

    do_quit = do_exit

    def do_run_info(self, line: str) -> None:
        """run_info: what is run."""
        self._say(self._title)

    do_ri = do_run_info

    def do_print_feed(self, line: str) -> None:
        """print_feed TENSOR (pf): the value that a tensor is fed."""
        name = self._arguments(line, (("name",), {})).name
        if name not in self._feeds:
            raise ValueError(f"{name!r} is not fed; fed are: {', '.join(self._feeds) or 'none'}")
        self._say(f"{name}: {reports.describe(np.asarray(self._feeds[name]))}\n{self._feeds[name]}")

    do_pf = do_print_feed

    # ---------------------------------------------------------------------------------------------------------- tensors
    def _kept(self) -> DebugDumpDir:
        if self._dump is None:
            raise ValueError("nothing has run yet: run")
        return self._dump

    def do_list_tensors(self, line: str) -> None:
        """list_tensors [-f FILTER] [-n NAMES] [-t OP_TYPES] (lt): the tensors of the run, in the order of time."""
        given = self._arguments(
            line,
            (("-f", "--tensor_filter"), {"default": None}),
            (("-n", "--node_name_filter"), {"default": "*"}),
            (("-t", "--op_type_filter"), {"default": "*"}),
        )
        dump = self._kept()
        passes = self._filter(given.tensor_filter) if given.tensor_filter else None
        count = 0
        for datum in dump.dumped_tensor_data:
            kind = dump.node_op_type(datum.node_name)
            if not fnmatch.fnmatchcase(datum.node_name, given.node_name_filter):
                continue
            if not fnmatch.fnmatchcase(kind, given.op_type_filter):
                continue
            value = datum.get_tensor()
            if passes is not None and not passes(datum, value):
                continue
            count += 1
            moment = (datum.timestamp - (dump.t0 or 0)) / 1000
            self._say(f"{moment:10.3f} ms  {datum.tensor_name}  {kind}  {reports.describe(value)}")
        self._say(f"{count} tensors")

    do_lt = do_list_tensors

    def do_print_tensor(self, line: str) -> None:
        """print_tensor TENSOR[SLICE] [-n NUMBER] [-a] (pt): a tensor's values, of its run of that number; -a: all of
        them.
        """
        given = self._arguments(
            line,
            (("name",), {}),
            (("-n", "--number"), {"type": int, "default": -1}),
            (("-a", "--all"), {"action": "store_true"}),
        )
        name, bracket, inside = given.name.partition("[")
        node, _, slot = name.partition(":")
        values = self._kept().get_tensors(node, int(slot or 0), "DebugIdentity")
        value = values[given.number]
        if bracket and value is not None:
            value = np.asarray(value)[_index(inside.removesuffix("]"))]
        self._say(f"{node}:{slot or 0} ({len(values)} times): {reports.describe(value)}")
        shown = np.asarray(value) if value is not None else None
        with np.printoptions(threshold=10**9 if given.all else 1000):
            self._say(str(shown))

    do_pt = do_print_tensor

    # ------------------------------------------------------------------------------------------------------------ graph
    def do_node_info(self, line: str) -> None:
        """node_info NODE [-a] [-t] (ni): an op, what it takes and who takes it; -a: attributes; -t: the lines that
        made it.
        """
        given = self._arguments(
            line,
            (("name",), {}),
            (("-a", "--attributes"), {"action": "store_true"}),
            (("-t", "--traceback"), {"action": "store_true"}),
        )
        dump = self._kept()
        node = given.name.partition(":")[0]
        self._say(f"{node}  {dump.node_op_type(node)}  {dump.node_device(node)}")
        for title, names in (
            ("inputs", dump.node_inputs(node)),
            ("control inputs", dump.node_inputs(node, is_control=True)),
            ("recipients", dump.node_recipients(node)),
            ("control recipients", dump.node_recipients(node, is_control=True)),
        ):
            self._say(f"  {title}: {', '.join(names) or 'none'}")
        if given.attributes:
            for name, value in dump.node_attributes(node).items():
                self._say(f"  {name}: {str(value).strip()}")
        if given.traceback:
            for frame in dump.node_traceback(node):
                self._say(f"  {frame}")

    do_ni = do_node_info

    def do_list_inputs(self, line: str) -> None:
        """list_inputs NODE (li): all ops that an op follows from, nearest first."""
        node = self._arguments(line, (("name",), {})).name
        for name in self._kept().transitive_inputs(node.partition(":")[0]):
            self._say(f"  {name}  {self._kept().node_op_type(name)}")

    do_li = do_list_inputs

    def do_list_outputs(self, line: str) -> None:
        """list_outputs NODE (lo): the ops that take an op's outputs, or wait for it."""
        node = self._arguments(line, (("name",), {})).name.partition(":")[0]
        dump = self._kept()
        for name in [*dump.node_recipients(node), *dump.node_recipients(node, is_control=True)]:
            self._say(f"  {name}  {dump.node_op_type(name)}")

    do_lo = do_list_outputs


def _index(text: str) -> tuple[Any, ...]:
    """``"0, 1:3"`` as an index."""
    index: list[Any] = []
    for part in text.split(","):
        bounds = [int(bound) if bound.strip() else None for bound in part.split(":")]
        index.append(bounds[0] if len(bounds) == 1 else slice(*bounds))
    return tuple(index)
