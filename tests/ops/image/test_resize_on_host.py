"""Resizing in NumPy takes only the rows that it needs, number by number: bit for bit what the definition gives."""

import itertools
import types

import numpy as np
import pytest

from anabranch.ops.image import resize

METHODS = [resize.bilinear_taps, resize.nearest_taps, resize.bicubic_taps]
SHAPES = [(2, 7, 9, 3), (1, 40, 30, 1), (1, 5, 4, 4), (0, 5, 4, 3), (1, 3, 1, 2)]
SIZES = [(3, 4), (9, 12), (1, 1), (7, 9)]


def resized(xp, x, size, align, centres, taps):
    attrs = {"align_corners": align, "half_pixel_centers": centres}
    return resize._resize(types.SimpleNamespace(xp=xp, host=True, platform="cpu"), x, size, attrs, taps)


@pytest.mark.parametrize("taps", METHODS, ids=[taps.__name__ for taps in METHODS])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_the_host_form_is_the_definition(taps, dtype):
    draw = np.random.default_rng(0)
    definition = types.SimpleNamespace(take=np.take, asarray=np.asarray)  # an array namespace that is not NumPy
    for shape, size, (align, centres) in itertools.product(SHAPES, SIZES, [(0, 0), (1, 0), (0, 1)]):
        for x in (images := (draw.random(shape) * 200).astype(dtype)), images[:, :, ::-1]:
            expected = resized(definition, x, size, align, centres, taps)
            result = resized(np, x, size, align, centres, taps)
            assert result.dtype == expected.dtype == (dtype if taps is resize.nearest_taps else np.float32)
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("block", [1, 100, 1000])
@pytest.mark.parametrize("taps", [*METHODS, resize.area_taps], ids=lambda taps: taps.__name__)
def test_blocks_of_images_and_rows_give_what_a_whole_gives(monkeypatch, taps, block):
    draw = np.random.default_rng(0)
    definition = types.SimpleNamespace(take=np.take, asarray=np.asarray)
    monkeypatch.setattr(resize, "_BLOCK", block)
    for shape, size in itertools.product([(5, 7, 9, 3), (1, 40, 30, 1), (3, 9, 4, 2)], [(3, 4), (9, 12), (7, 9)]):
        images = (draw.random(shape) * 200).astype(np.float32)
        for x in (images, images[:, ::-1]):
            expected = resized(definition, x, size, False, False, taps)
            np.testing.assert_array_equal(resized(np, x, size, False, False, taps), expected)
