"""Flags, the entry point and logging, each program in a process of its own: flags belong to a process."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

import anabranch as tf


def run(program: str, *arguments: str, code: int = 0) -> str:
    """What a program prints, both streams together."""
    shown = subprocess.run(
        [sys.executable, "-c", "import anabranch as tf\n" + program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert shown.returncode == code, shown.stdout
    return shown.stdout


DEFINITIONS = """
flags = tf.app.flags
FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 10, "Number of steps.")
flags.DEFINE_string(flag_name="log_dir", default_value="logs", docstring="Where to write.")
flags.DEFINE_float("rate", 0.5, "Rate.")
flags.DEFINE_bool("fast", False, "Fast.")
flags.DEFINE_boolean("slow", True, "Slow.")
flags.DEFINE_list("names", "a,b", "Names.")
flags.DEFINE_multi_string("part", ["x"], "Parts.")
flags.DEFINE_enum("mode", "train", ["train", "eval"], "Mode.")
"""


def test_values_are_parsed_when_one_is_read() -> None:
    shown = run(
        DEFINITIONS + "print(FLAGS.steps, FLAGS.log_dir, FLAGS.rate, FLAGS.fast, FLAGS.slow, FLAGS.names, FLAGS.part, "
        "FLAGS.mode)",
        "--steps=3", "--rate", "2", "--fast", "--noslow", "--names=p,q", "--part=y", "--part=z", "--unknown=1",
    )  # fmt: skip
    assert shown == "3 logs 2.0 True False ['p', 'q'] ['y', 'z'] train\n"


def test_old_ways_to_list_and_parse() -> None:
    shown = run(
        DEFINITIONS + "print(FLAGS._parse_flags())\n"
        "print({name: flag.value for name, flag in FLAGS.__flags.items()}['steps'])\n"
        "print(FLAGS.flag_values_dict()['rate'], FLAGS['mode'].value, 'steps' in FLAGS)",
        "--steps=4",
        "file",
    )
    assert shown == "['file']\n4\n0.5 train True\n"


def test_values_by_name_as_up_to_version_1_4() -> None:
    shown = run(
        DEFINITIONS + "values = FLAGS.__dict__['__flags']\n"
        "print({name: value for name, value in sorted(values.items())}, len(values), 'absent' in values)\n"
        "values['steps'] = 5\nprint(FLAGS.steps, sorted(values)[0], values == dict(values))\n"
        "del values['rate']\nprint('rate' in FLAGS, values.get('rate'))",
        "--steps=4",
    )
    assert shown == (
        "{'fast': False, 'log_dir': 'logs', 'mode': 'train', 'names': ['a', 'b'], 'part': ['x'], 'rate': 0.5, "
        "'slow': True, 'steps': 4} 8 False\n5 fast True\nFalse None\n"
    )


def test_flags_can_be_set() -> None:
    assert run(DEFINITIONS + "FLAGS.steps = 7\nprint(FLAGS.steps, tf.flags.FLAGS.steps)") == "7 7\n"


def test_absl_sees_the_same_flags() -> None:
    shown = run(
        DEFINITIONS + "from absl import flags as absl_flags\nprint(FLAGS.steps, absl_flags.FLAGS.steps)", "--steps=2"
    )
    assert shown == "2 2\n"


@pytest.mark.parametrize(
    ("addition", "arguments", "code", "text"),
    [
        ("flags.DEFINE_integer('steps', 1, '')\nFLAGS.steps", [], 1, "The flag 'steps' is defined twice"),
        ("tf.app.run(main=lambda argv: 0)", ["--steps=many"], 1, "flag --steps=many: invalid literal"),
        ("FLAGS.missing", [], 1, "missing"),
        ("flags.DEFINE_integer('n', default=1, default_value=2, help='')", [], 1, "write 'default'"),
        ("tf.app.run()", [], 1, "Expected: a function of the arguments"),
    ],
)
def test_mistakes(addition: str, arguments: list[str], code: int, text: str) -> None:
    assert text in run(DEFINITIONS + addition, *arguments, code=code)


def test_run_calls_main_with_what_is_left() -> None:
    program = DEFINITIONS + "def main(argv):\n    print(argv[1:], FLAGS.steps)\n    return 3\ntf.app.run()"
    assert run(program, "--steps=2", "--other=1", "file", code=3) == "['--other=1', 'file'] 2\n"


def test_required_flags() -> None:
    program = DEFINITIONS + "flags.DEFINE_string('data', None, '')\nflags.mark_flag_as_required('data')\n"
    assert "Flag --data must have a value other than None" in run(program + "tf.app.run(main=print)", code=1)


def test_help_shows_flags_of_the_program() -> None:
    assert "Number of steps." in run(DEFINITIONS + "tf.app.run(main=print)", "--help", code=1)


def test_messages_have_tensorflows_form_and_come_once() -> None:
    program = """
tf.logging.set_verbosity(tf.logging.INFO)
def main(argv):
    tf.logging.info("step %d", 3)
    tf.logging.debug("not shown")
    tf.logging.warn("careful")
    for i in range(5):
        tf.logging.log_every_n(tf.logging.INFO, "every %d", 2, i)
        tf.logging.log_first_n(tf.logging.INFO, "first %d", 1, i)
    tf.logging.vlog(tf.logging.ERROR, "v")
    tf.logging.TaskLevelStatusMessage("task")
tf.app.run()
"""
    lines = run(program).splitlines()
    assert lines == [
        "INFO:tensorflow:step 3", "WARNING:tensorflow:careful", "INFO:tensorflow:every 0", "INFO:tensorflow:first 0",
        "INFO:tensorflow:every 2", "INFO:tensorflow:every 4", "ERROR:tensorflow:v", "ERROR:tensorflow:task",
    ]  # fmt: skip


def test_levels() -> None:
    before = tf.logging.get_verbosity()
    try:
        tf.logging.set_verbosity("error")
        assert tf.logging.get_verbosity() == tf.logging.ERROR == logging.ERROR
        with pytest.raises(ValueError, match="Given: verbosity 'loud'"):
            tf.logging.set_verbosity("loud")
    finally:
        tf.logging.set_verbosity(before)


def test_messages_name_the_line_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tensorflow"):
        tf.logging.info("here")
    assert [(record.filename, record.getMessage()) for record in caplog.records] == [("test_flags.py", "here")]


def test_loading_flags_is_left_to_who_names_them() -> None:
    assert run("import sys\nprint('absl' in sys.modules)\ntf.flags\nprint('absl' in sys.modules)") == "False\nTrue\n"


def test_files_beside_the_program(tmp_path: object) -> None:
    assert tf.resource_loader.get_path_to_datafile("test_flags.py") == __file__
    assert b"beside the program" in tf.resource_loader.load_resource("test_flags.py")


def test_no_headers() -> None:
    with pytest.raises(NotImplementedError, match=r"Given: tf\.sysconfig\.get_include"):
        tf.sysconfig.get_include()
