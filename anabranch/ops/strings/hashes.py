"""Hashes of strings into buckets: FarmHash's 64-bit fingerprint, SipHash-2-4, and the old Jenkins-like hash.

The formulas are those of the published algorithms (FarmHash `Fingerprint64`, Geoff Pike, 2014; SipHash, Aumasson and
Bernstein, 2012), so that a model trained elsewhere finds its rows: buckets agree with TensorFlow's bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public, public_op
from anabranch.core.contract.opdef import PURE, Int, List, NotDifferentiable, Op, Type
from anabranch.core.graph.build import build
from anabranch.ops.shared import row_rules
from anabranch.ops.strings import hash_arrays
from anabranch.ops.strings.text import one_spelling

_MASK = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
REMEMBERED = 1 << 15
"""Short strings whose hash is remembered, as few words make up most of a text: some 6 MB."""
_SEED = 0xDECAFCAFFE
"""Of the old hash."""
_NO_GRADIENT = NotDifferentiable("a hash is an integer")


def _word(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _rotated(value: int, by: int) -> int:
    """Rotation to the right of 64 bits."""
    value &= _MASK
    return ((value >> by) | (value << (64 - by))) & _MASK


def _mixed(value: int) -> int:
    return value ^ (value >> 47)


def _hash16(u: int, v: int, mul: int) -> int:
    a = ((u ^ v) * mul) & _MASK
    a ^= a >> 47
    b = ((v ^ a) * mul) & _MASK
    b ^= b >> 47
    return (b * mul) & _MASK


def _weak32(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_word(data, at + i) for i in (0, 8, 16, 24))
    a = (a + w) & _MASK
    b = _rotated(b + a + z, 21)
    c = a
    a = (a + x + y) & _MASK
    b = (b + _rotated(a, 44)) & _MASK
    return (a + z) & _MASK, (b + c) & _MASK


@functools.lru_cache(maxsize=REMEMBERED)
def _up_to_64(data: bytes) -> int:
    size = len(data)
    mul = (_K2 + size * 2) & _MASK
    if size > 32:
        a, b = (_word(data, 0) * _K2) & _MASK, _word(data, 8)
        c, d = (_word(data, size - 8) * mul) & _MASK, (_word(data, size - 16) * _K2) & _MASK
        y = (_rotated(a + b, 43) + _rotated(c, 30) + d) & _MASK
        z = _hash16(y, (a + _rotated(b + _K2, 18) + c) & _MASK, mul)
        e, f = (_word(data, 16) * mul) & _MASK, _word(data, 24)
        g, h = ((y + _word(data, size - 32)) * mul) & _MASK, ((z + _word(data, size - 24)) * mul) & _MASK
        return _hash16((_rotated(e + f, 43) + _rotated(g, 30) + h) & _MASK, (e + _rotated(f + a, 18) + g) & _MASK, mul)
    if size > 16:
        a, b = (_word(data, 0) * _K1) & _MASK, _word(data, 8)
        c, d = (_word(data, size - 8) * mul) & _MASK, (_word(data, size - 16) * _K2) & _MASK
        return _hash16(
            (_rotated(a + b, 43) + _rotated(c, 30) + d) & _MASK, (a + _rotated(b + _K2, 18) + c) & _MASK, mul
        )
    if size >= 8:
        a, b = (_word(data, 0) + _K2) & _MASK, _word(data, size - 8)
        c = (_rotated(b, 37) * mul + a) & _MASK
        return _hash16(c, ((_rotated(a, 25) + b) * mul) & _MASK, mul)
    if size >= 4:
        return _hash16(size + (_word(data, 0, 4) << 3), _word(data, size - 4, 4), mul)
    if size:
        y = data[0] + (data[size >> 1] << 8)
        z = size + (data[size - 1] << 2)
        return (_mixed(((y * _K2) & _MASK) ^ ((z * _K0) & _MASK)) * _K2) & _MASK
    return _K2


def fingerprint64(data: bytes) -> int:
    """FarmHash's Fingerprint64 of a string."""
    size = len(data)
    if size <= 64:
        return _up_to_64(data)
    x = 81
    y = (81 * _K1 + 113) & _MASK
    z = (_mixed((y * _K2 + 113) & _MASK) * _K2) & _MASK
    v, w = (0, 0), (0, 0)
    x = (x * _K2 + _word(data, 0)) & _MASK
    end = (size - 1) // 64 * 64
    for at in range(0, end, 64):
        x = (_rotated(x + y + v[0] + _word(data, at + 8), 37) * _K1) & _MASK
        y = (_rotated(y + v[1] + _word(data, at + 48), 42) * _K1) & _MASK
        x ^= w[1]
        y = (y + v[0] + _word(data, at + 40)) & _MASK
        z = (_rotated(z + w[0], 33) * _K1) & _MASK
        v = _weak32(data, at, (v[1] * _K1) & _MASK, (x + w[0]) & _MASK)
        w = _weak32(data, at + 32, (z + w[1]) & _MASK, (y + _word(data, at + 16)) & _MASK)
        z, x = x, z
    mul = (_K1 + ((z & 0xFF) << 1)) & _MASK
    at = size - 64
    w0 = (w[0] + ((size - 1) & 63)) & _MASK
    v0 = (v[0] + w0) & _MASK
    w0 = (w0 + v0) & _MASK
    x = (_rotated(x + y + v0 + _word(data, at + 8), 37) * mul) & _MASK
    y = (_rotated(y + v[1] + _word(data, at + 48), 42) * mul) & _MASK
    x ^= (w[1] * 9) & _MASK
    y = (y + v0 * 9 + _word(data, at + 40)) & _MASK
    z = (_rotated(z + w0, 33) * mul) & _MASK
    v = _weak32(data, at, (v[1] * mul) & _MASK, (x + w0) & _MASK)
    w = _weak32(data, at + 32, (z + w[1]) & _MASK, (y + _word(data, at + 16)) & _MASK)
    z, x = x, z
    return _hash16(
        (_hash16(v[0], w[0], mul) + _mixed(y) * _K0 + z) & _MASK, (_hash16(v[1], w[1], mul) + x) & _MASK, mul
    )


def siphash(key: tuple[int, int], data: bytes) -> int:
    """SipHash-2-4 of a string with a key of two 64-bit words."""
    k0, k1 = key[0] & _MASK, key[1] & _MASK
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & _MASK
            v[1] = _rotated(v[1], 51) ^ v[0]
            v[0] = _rotated(v[0], 32)
            v[2] = (v[2] + v[3]) & _MASK
            v[3] = _rotated(v[3], 48) ^ v[2]
            v[0] = (v[0] + v[3]) & _MASK
            v[3] = _rotated(v[3], 43) ^ v[0]
            v[2] = (v[2] + v[1]) & _MASK
            v[1] = _rotated(v[1], 47) ^ v[2]
            v[2] = _rotated(v[2], 32)

    whole = len(data) // 8 * 8
    for word in [*(_word(data, at) for at in range(0, whole, 8)), _word(data, whole) | (len(data) & 0xFF) << 56]:
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def hash64(data: bytes, seed: int = _SEED) -> int:
    """The 64-bit hash in the style of MurmurHash 2 that TensorFlow used before FarmHash."""
    mul = 0xC6A4A7935BD1E995
    size = len(data)
    h = seed ^ ((size * mul) & _MASK)
    for at in range(0, size // 8 * 8, 8):
        k = (_word(data, at) * mul) & _MASK
        k = ((k ^ (k >> 47)) * mul) & _MASK
        h = ((h ^ k) * mul) & _MASK
    if size % 8:
        h = ((h ^ _word(data, size // 8 * 8, size % 8)) * mul) & _MASK
    h = ((h ^ (h >> 47)) * mul) & _MASK
    return h ^ (h >> 47)


def _buckets(one: Callable[[bytes], int], many: Callable[[list[bytes]], np.ndarray], values: Any, count: int) -> Any:
    """Buckets by a hash of ``one`` string and the same hash of ``many``."""
    texts = values.ravel().tolist()
    if len(texts) > hash_arrays.FEW:
        return (many(texts) % np.uint64(count)).astype(np.int64).reshape(values.shape)
    return np.array([one(text) % count for text in texts], np.int64).reshape(values.shape)


def fingerprints(texts: Sequence[bytes]) -> np.ndarray:
    """FarmHash's Fingerprint64 of strings, uint64."""
    if len(texts) <= hash_arrays.FEW:
        return np.array([fingerprint64(text) for text in texts], np.uint64)
    if len(texts) <= _A_LINE:
        return _remembered_fingerprints(texts)
    return hash_arrays.fingerprints(texts, fingerprint64)


_A_LINE = 512
"""Strings that are looked up first: those of a line come again and again, and of a batch's each is looked at once."""
_known_fingerprints: dict[bytes, int] = {}


def _remembered_fingerprints(texts: Sequence[bytes]) -> np.ndarray:
    """The same of strings most of which have come before."""
    known = _known_fingerprints
    try:
        return np.array([known[text] for text in texts], np.uint64)
    except KeyError:
        pass
    found = hash_arrays.fingerprints(texts, fingerprint64)
    if len(known) > REMEMBERED:
        known.clear()
    known.update(zip(texts, found.tolist(), strict=True))
    return found


def old_hashes(texts: Sequence[bytes]) -> np.ndarray:
    """The old hash of strings, uint64."""
    return hash_arrays.old_hashes(texts, _SEED)


class StringToHashBucketFast(Op):
    """Bucket of each string by FarmHash: int64 in ``[0, num_buckets)``, shape of ``input``."""

    signature = "input: string -> output: int64"
    attrs = {"num_buckets": Int(minimum=1)}
    effect = PURE
    by_rows = row_rules.as_it_is
    gradient = _NO_GRADIENT

    def shape(c):
        return c.shapes[0]

    def host_kernel(ctx, inputs, attrs):
        return _buckets(fingerprint64, fingerprints, inputs[0], attrs["num_buckets"])


class StringToHashBucketStrong(Op):
    """Bucket of each string by SipHash with a ``key`` of two integers: int64 in ``[0, num_buckets)``."""

    signature = "input: string -> output: int64"
    attrs = {"num_buckets": Int(minimum=1), "key": List("int")}
    effect = PURE
    by_rows = row_rules.as_it_is
    gradient = _NO_GRADIENT

    def shape(c):
        return c.shapes[0]

    def host_kernel(ctx, inputs, attrs):
        key = attrs["key"]
        ctx.check(len(key) == 2, errors.InvalidArgumentError, f"Key must have 2 elements, but it has {len(key)}")
        one, many = (functools.partial(hashed, tuple(key)) for hashed in (siphash, hash_arrays.siphashes))
        return _buckets(one, many, inputs[0], attrs["num_buckets"])


class StringToHashBucket(Op):
    """Bucket of each string by the old hash: int64 in ``[0, num_buckets)``."""

    signature = "string_tensor: string -> output: int64"
    attrs = {"num_buckets": Int(minimum=1)}
    effect = PURE
    by_rows = row_rules.as_it_is
    gradient = _NO_GRADIENT

    def shape(c):
        return c.shapes[0]

    def host_kernel(ctx, inputs, attrs):
        return _buckets(hash64, old_hashes, inputs[0], attrs["num_buckets"])


class Fingerprint(Op):
    """Eight bytes for what each row of ``data`` holds, by FarmHash; the same whatever the shape and type of a row.

    A row of several strings has that of its strings' fingerprints.
    """

    signature = "data: T, method: string -> fingerprint: uint8"
    attrs = {"T": Type()}
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        given = c.with_rank_at_least(0, 1)
        method = c.value(1)
        if method is not None and method.item() != b"farmhash64":
            raise ValueError(f"Unsupported method: {method.item().decode('utf-8', 'replace')}")
        return [(None if given is None else given[0], 8)]

    def host_kernel(ctx, inputs, attrs):
        data, method = inputs
        known = method.item() == b"farmhash64"
        ctx.check(known, errors.InvalidArgumentError, f"Unsupported method: {method.item().decode('utf-8', 'replace')}")
        ctx.check(np.ndim(data) > 0, errors.InvalidArgumentError, "data must be at least rank 1, is a scalar")
        rows = data.reshape(data.shape[0], int(np.prod(data.shape[1:], dtype=np.int64)))
        if data.dtype == object:
            hashes = fingerprints(rows.ravel().tolist()).astype("<u8")
            if rows.shape[1] == 1 or not rows.size:
                return hashes.view(np.uint8).reshape(rows.shape[0], 8)
            rows = hashes.reshape(rows.shape)
        texts = [np.ascontiguousarray(row).tobytes() for row in rows]
        return fingerprints(texts).astype("<u8").view(np.uint8).reshape(len(texts), 8)


string_to_hash_bucket_fast = public_op(
    "StringToHashBucketFast", "string_to_hash_bucket_fast", "strings.to_hash_bucket_fast"
)
string_to_hash_bucket_strong = public_op(
    "StringToHashBucketStrong", "string_to_hash_bucket_strong", "strings.to_hash_bucket_strong"
)


@public("string_to_hash_bucket", "strings.to_hash_bucket")
def string_to_hash_bucket(
    string_tensor: Any = None, num_buckets: Any = None, name: str | None = None, input: Any = None
) -> Any:
    """The bucket of each string by the old hash, int64; ``input`` is another name of ``string_tensor``."""
    return build("StringToHashBucket", one_spelling(string_tensor, input), num_buckets=num_buckets, name=name)


@public("fingerprint")
def fingerprint(data: Any, method: str = "farmhash64", name: str | None = None) -> Any:
    """Eight bytes for what each row of a tensor holds.

    Args:
        data: a tensor whose first dimension counts the rows; its bytes count, not its type and shape.
        method: ``"farmhash64"``.
        name: of the operation.

    Returns:
        uint8 ``[rows, 8]``, each row a fingerprint with its lowest byte first.

    Raises:
        ValueError: ``data`` is a scalar, or the method is another.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     session.run(tf.fingerprint(["ab"])).tolist()
        [[30, 165, 173, 66, 82, 110, 141, 170]]
    """
    return build("Fingerprint", data, method, name=name)
