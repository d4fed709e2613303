"""What programs use beside the graph: flags, the entry point, logging, files. Each module loads when it is named.

``tf.flags`` is :mod:`anabranch.platform.flags`, ``tf.app`` :mod:`anabranch.platform.app`, and so on; the package finds
them by the table in ``anabranch/_public.py``, so that a program that does not name them does not pay for absl.
"""
