from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from snellen import SnellenError
from snellen.images import Reading, from_files
from snellen.images.decoding import MOST_PIXELS, brightest_of_16_bits, decode, decode_mask, frames
from snellen.images.geometry import AS_IS

RED = (200, 30, 10)


def noise(width: int = 40, height: int = 30) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def png_16_bit(values: np.ndarray, colour_type: int) -> bytes:
    """A PNG of 16 bits per channel, written by hand: Pillow cannot write colour ones."""
    height, width = values.shape[:2]

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, colour_type, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def png_that_says(width: int, height: int) -> bytes:
    """A PNG whose header names another size than the few pixels that it holds."""
    held = bytearray(png_16_bit(np.zeros((2, 2), dtype=np.uint16), 0))
    held[16:24] = struct.pack(">II", width, height)
    held[29:33] = struct.pack(">I", zlib.crc32(bytes(held[12:29])))
    return bytes(held)


def sentence(path: Path) -> str:
    with pytest.raises(SnellenError) as caught:
        decode(path)
    text = str(caught.value)
    assert "\n" not in text
    assert path.name in text
    return text


def test_zero_bytes(tmp_path: Path) -> None:
    path = tmp_path / "nothing.jpg"
    path.touch()
    assert sentence(path).endswith("is empty (0 bytes)")


def test_not_an_image(tmp_path: Path) -> None:
    path = tmp_path / "letter.png"
    path.write_text("Dear reader")
    assert sentence(path).endswith("is not a picture that can be read")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP"])
def test_truncated(tmp_path: Path, kind: str) -> None:
    held = io.BytesIO()
    noise().save(held, kind)
    path = tmp_path / f"half.{kind.lower()}"
    path.write_bytes(held.getvalue()[: len(held.getvalue()) // 2])
    assert "cannot be read" in sentence(path) or "can be read" in sentence(path)


def test_corrupt_in_the_middle(tmp_path: Path) -> None:
    held = io.BytesIO()
    noise().save(held, "PNG")
    body = bytearray(held.getvalue())
    body[len(body) // 2] ^= 0xFF
    path = tmp_path / "flipped.png"
    path.write_bytes(bytes(body))
    assert "is damaged and cannot be read" in sentence(path)


def test_missing_file_and_folder_in_place_of_a_file(tmp_path: Path) -> None:
    assert sentence(tmp_path / "gone.png").startswith("there is no file")
    (tmp_path / "folder.png").mkdir()
    assert "cannot be read" in sentence(tmp_path / "folder.png")


def test_one_pixel(tmp_path: Path) -> None:
    path = tmp_path / "dot.png"
    Image.new("RGB", (1, 1)).save(path)
    assert "is 1×1 pixels; a picture needs at least 2×2" in sentence(path)


def test_a_decompression_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_that_says(60_000, 60_000))
    assert "is larger than 64 million pixels; make it smaller first" in sentence(path)


def test_a_picture_above_our_own_limit_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "wide.png"
    path.write_bytes(png_that_says(MOST_PIXELS // 1000 + 1, 1000))
    assert "is larger than 64 million pixels; make it smaller first" in sentence(path)
    with pytest.raises(SnellenError, match=r"the mask .* is larger than 64 million pixels"):
        decode_mask(path)


def test_a_jpeg_above_the_limit_is_read_where_it_can_be_reduced(tmp_path: Path) -> None:
    path = tmp_path / "camera.jpg"
    Image.new("L", (9000, 8000), 7).save(path)
    assert decode(path, at_least=(500, 500)).image.size == (1125, 1000)
    assert "is larger than 64 million pixels" in sentence(path)


@pytest.mark.parametrize("kind", ["EPS", "ICO", "PDF", "PCX", "SGI", "ICNS", "MSP", "XBM"])
def test_formats_that_are_not_pictures_of_a_camera_are_not_decoded_whatever_the_file_is_called(
    tmp_path: Path, kind: str
) -> None:
    """A .png that holds EPS would start Ghostscript."""
    path = tmp_path / "photo.png"
    noise(64, 64).convert("1" if kind in ("MSP", "XBM") else "RGB").save(path, kind)
    assert sentence(path).endswith("is not a picture that can be read")
    with pytest.raises(SnellenError, match=r"the mask .* cannot be read"):
        decode_mask(path)


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_a_picture_or_mask_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / "pipe.png"
    os.mkfifo(path)
    assert sentence(path).endswith("is not an ordinary file and cannot be read")
    with pytest.raises(SnellenError, match=r"the mask .*pipe.png' is not an ordinary file"):
        decode_mask(path)
    assert frames(path) == 1


@pytest.mark.parametrize(("bits", "colour"), [(12, 0), (12, 2), (16, 0), (16, 2)])
def test_how_much_of_sixteen_bits_a_picture_uses(tmp_path: Path, bits: int, colour: int) -> None:
    shape = (6, 5, 3) if colour == 2 else (6, 5)
    values = np.full(shape, 2**bits - 1, dtype=np.uint16)
    path = tmp_path / "scan.png"
    path.write_bytes(png_16_bit(values, colour))
    share = brightest_of_16_bits(path)
    assert share == pytest.approx((2**bits - 1) / 65535, abs=1 / 255)
    noise().save(tmp_path / "eight.png")
    assert brightest_of_16_bits(tmp_path / "eight.png") is None


def test_a_large_picture_below_the_limit_gives_no_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.png"
    Image.new("L", (40, 30), 7).save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # 1200 pixels: Pillow warns, and only refuses from 2000
    assert decode(path).size == (40, 30)


def test_a_large_jpeg_is_reduced_while_it_is_read_and_keeps_its_true_size(tmp_path: Path) -> None:
    path = tmp_path / "large.jpg"
    Image.new("RGB", (1600, 1200), RED).save(path)
    decoded = decode(path, at_least=(100, 100))
    assert decoded.size == (1600, 1200)
    assert decoded.image.size == (200, 150)
    assert decode(path).image.size == (1600, 1200)


def test_animated_gives_the_first_frame(tmp_path: Path) -> None:
    path = tmp_path / "moving.gif"
    first, second = Image.new("RGB", (8, 8), (255, 0, 0)), Image.new("RGB", (8, 8), (0, 0, 255))
    first.save(path, save_all=True, append_images=[second])
    assert frames(path) == 2
    assert decode(path).image.convert("RGB").getpixel((3, 3)) == (255, 0, 0)


def test_frames_of_a_file_that_is_damaged_behind_the_first(tmp_path: Path) -> None:
    path = tmp_path / "moving.gif"
    noise().save(path, save_all=True, append_images=[noise().rotate(180)])
    path.write_bytes(path.read_bytes()[:-600])
    assert decode(path).size == (40, 30)
    assert frames(path) >= 1


def test_grey_and_one_bit_become_grey(tmp_path: Path) -> None:
    Image.new("L", (4, 4), 51).save(tmp_path / "grey.png")
    Image.new("1", (4, 4), 1).save(tmp_path / "bit.png")
    assert decode(tmp_path / "grey.png").image.mode == "L"
    assert decode(tmp_path / "bit.png").image.getpixel((0, 0)) == 255


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path, suffix: str) -> None:
    values = np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16)
    path = tmp_path / f"deep.{suffix}"
    Image.fromarray(values).save(path)
    seen = AS_IS.picture(decode(path).image, 1)
    np.testing.assert_allclose(seen[0].numpy(), values / 65535, atol=1e-6)


def test_sixteen_bit_colour_is_scaled(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 65536, (6, 5, 3), dtype=np.uint16)
    path = tmp_path / "deep.png"
    path.write_bytes(png_16_bit(values, 2))
    seen = AS_IS.picture(decode(path).image, 3)
    np.testing.assert_allclose(seen.permute(1, 2, 0).numpy(), values / 65535, atol=1 / 255)


def test_floating_point_in_range_is_taken_and_out_of_range_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 0.25, dtype=np.float32)).save(tmp_path / "small.tiff")
    Image.fromarray(np.full((4, 4), 90.0, dtype=np.float32)).save(tmp_path / "big.tiff")
    assert float(AS_IS.picture(decode(tmp_path / "small.tiff").image, 1).mean()) == pytest.approx(0.25)
    assert "32-bit numbers whose range is unknown" in sentence(tmp_path / "big.tiff")


def test_cmyk_becomes_the_same_colour(tmp_path: Path) -> None:
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / "print.jpg", quality=95)
    red, green, blue = decode(tmp_path / "print.jpg").image.getpixel((8, 8))
    assert red > 240
    assert green < 15
    assert blue < 15


def test_transparent_parts_stand_on_white(tmp_path: Path) -> None:
    picture = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    picture.putpixel((1, 1), (*RED, 255))
    picture.putpixel((2, 2), (0, 0, 0, 128))
    picture.save(tmp_path / "glass.png")
    seen = decode(tmp_path / "glass.png").image
    assert seen.mode == "RGB"
    assert seen.getpixel((0, 0)) == (255, 255, 255)
    assert seen.getpixel((1, 1)) == RED
    assert seen.getpixel((2, 2)) == (127, 127, 127)


def test_a_tall_transparent_picture_is_the_same_in_all_its_rows(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 256, (600, 3, 4), dtype=np.uint8)
    Image.fromarray(values, "RGBA").save(tmp_path / "tall.png")
    white = Image.new("RGBA", (3, 600), (255, 255, 255, 255))
    whole = Image.alpha_composite(white, Image.fromarray(values, "RGBA")).convert("RGB")
    np.testing.assert_array_equal(np.asarray(decode(tmp_path / "tall.png").image), np.asarray(whole))


def test_palettes_with_and_without_transparency(tmp_path: Path) -> None:
    picture = Image.new("P", (4, 4), 1)
    picture.putpalette([0, 0, 0, *RED])
    picture.save(tmp_path / "plain.png")
    assert decode(tmp_path / "plain.png").image.getpixel((0, 0)) == RED
    picture.save(tmp_path / "clear.png", transparency=1)
    assert decode(tmp_path / "clear.png").image.getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize(
    ("orientation", "corner"),
    [(1, (0, 0)), (2, (1, 0)), (3, (1, 1)), (4, (0, 1)), (5, (0, 0)), (6, (1, 0)), (7, (1, 1)), (8, (0, 1))],
)
def test_exif_rotation_is_applied(tmp_path: Path, orientation: int, corner: tuple[int, int]) -> None:
    """The bright corner of the stored picture is at its top left; each orientation brings it to a known corner."""
    stored = Image.new("L", (32, 16), 0)
    stored.paste(255, (0, 0, 8, 8))
    tags = Image.Exif()
    tags[0x0112] = orientation
    path = tmp_path / "phone.jpg"
    stored.save(path, exif=tags, quality=95)
    decoded = decode(path, at_least=(1000, 1000))
    assert decoded.size == decoded.image.size == ((16, 32) if orientation >= 5 else (32, 16))
    width, height = decoded.size
    place = (3 if corner[0] == 0 else width - 4, 3 if corner[1] == 0 else height - 4)
    assert decoded.image.getpixel(place) > 200
    assert sum(decoded.image.getpixel((x, y)) > 127 for x in (3, width - 4) for y in (3, height - 4)) == 1


def test_a_mask_marks_what_is_not_zero(tmp_path: Path) -> None:
    values = np.zeros((6, 6), dtype=np.uint8)
    values[2, 3] = 1
    Image.fromarray(values).save(tmp_path / "mask.png")
    assert np.argwhere(decode_mask(tmp_path / "mask.png")).tolist() == [[2, 3]]


def test_a_jpeg_mask_is_cut_at_half(tmp_path: Path) -> None:
    values = np.zeros((32, 32), dtype=np.uint8)
    values[8:24, 8:24] = 255
    Image.fromarray(values).save(tmp_path / "mask.jpg", quality=60)
    np.testing.assert_array_equal(decode_mask(tmp_path / "mask.jpg"), values > 0)


def test_a_broken_mask_is_named(tmp_path: Path) -> None:
    (tmp_path / "mask.png").write_text("no")
    with pytest.raises(SnellenError, match=r"the mask '.*mask.png' cannot be read"):
        decode_mask(tmp_path / "mask.png")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_tiff_files_whose_zero_is_white(tmp_path, dtype):
    most = np.iinfo(dtype).max
    stored = np.linspace(0, most, 12).astype(dtype).reshape(3, 4)
    tifffile.imwrite(tmp_path / "x.tif", stored, photometric="miniswhite")
    samples = from_files([tmp_path / "x.tif"], geometry=AS_IS, channels=1)
    np.testing.assert_allclose(samples[0].image[0].numpy(), 1 - stored / most, atol=1e-6)
    if dtype == np.uint16:
        ranged = from_files([tmp_path / "x.tif"], geometry=AS_IS, channels=1, reading=Reading(range=(0, 4095)))
        np.testing.assert_allclose(ranged[0].image[0].numpy(), 1 - np.clip(stored / 4095, 0, 1), atol=1e-6)


def test_many_channels_whose_zero_is_white_are_refused(tmp_path):
    values = np.zeros((3, 4, 5), dtype=np.uint8)
    tifffile.imwrite(tmp_path / "x.tif", values, photometric="miniswhite", planarconfig="contig")
    with pytest.raises(SnellenError, match="states that zero is white, which is not read here; save it with zero as black"):
        from_files([tmp_path / "x.tif"], geometry=AS_IS, channels=5)
