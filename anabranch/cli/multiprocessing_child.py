"""What the fork server of :mod:`multiprocessing` imports; see :mod:`anabranch.cli.multiprocessing_children`."""

from anabranch.cli import multiprocessing_children

multiprocessing_children.begin()
