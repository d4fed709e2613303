"""Record TensorFlow's buckets of strings.

Run with an interpreter that has TensorFlow: `python tools/golden/kernels/string_hashes.py
tests/golden/string_hashes.json`. The words have every length at which the hashes change their way.
"""

import json
import sys

import tensorflow.compat.v1 as tf

WORDS = [(f"x{n}-" * 40)[:n] for n in [*range(40), 63, 64, 65, 66, 100, 127, 128, 129, 130, 200]]
WORDS += ["äöü €", "the", "a\0b"]
KEY = [123, 2**63 - 5]


def main():
    """Writes the buckets of all words."""
    found = {}
    for count in (7, 1000, 2**40):
        found[str(count)] = {
            "fast": tf.strings.to_hash_bucket_fast(WORDS, count).numpy().tolist(),
            "strong": tf.strings.to_hash_bucket_strong(WORDS, count, KEY).numpy().tolist(),
            "old": tf.string_to_hash_bucket(WORDS, count).numpy().tolist(),
        }
    with open(sys.argv[1], "w") as stream:
        json.dump({"words": WORDS, "buckets": found}, stream)
        stream.write("\n")


if __name__ == "__main__":
    tf.enable_eager_execution()
    main()
