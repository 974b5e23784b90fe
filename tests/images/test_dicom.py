from __future__ import annotations

import io
import logging

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate
from pydicom.sequence import Sequence
from tests.images.dicom_files import DATE_MARK, MARK, UID_MARK, make, write

from snellen import SnellenError
from snellen.images import Reading, from_files, from_folder
from snellen.images.dicom import Window, decode_dicom
from snellen.images.geometry import AS_IS
from snellen.images.reading import AS_STORED

STORED = np.array([[0, 1000, 2000], [3000, 4000, 4095]], dtype=np.uint16)


def pixels(path, **reading) -> np.ndarray:
    """Of a greyscale file."""
    return np.asarray(decode_dicom(path, Reading(**reading)).planes[0])


def sentence(path, **reading) -> str:
    """Of the error; it never quotes what describes people."""
    with pytest.raises(SnellenError) as caught:
        decode_dicom(path, Reading(**reading))
    text = str(caught.value)
    assert MARK not in text
    assert UID_MARK not in text
    assert DATE_MARK not in text
    return text.replace(str(path), "x.dcm")


def test_rescaling_and_the_window_of_the_file(tmp_path):
    # values 2 * stored - 1000: -1000, 1000, 3000, 5000, 7000, 7190; the window shows 0 to 5999 (PS3.3 C.11.2.1.2.1)
    path = write(tmp_path / "x.dcm", STORED, RescaleSlope=2, RescaleIntercept=-1000, WindowCenter=3000, WindowWidth=6000)
    expected = [[0, (1000 - 2999.5) / 5999 + 0.5, (3000 - 2999.5) / 5999 + 0.5], [(5000 - 2999.5) / 5999 + 0.5, 1, 1]]
    np.testing.assert_allclose(pixels(path), expected, atol=1e-6)


def test_a_stated_window_replaces_that_of_the_file(tmp_path):
    path = write(tmp_path / "x.dcm", STORED, WindowCenter=[40, 50], WindowWidth=[400, 500])
    np.testing.assert_allclose(pixels(path, window=(2048, 4096)), STORED / 4095, atol=1e-6)
    np.testing.assert_allclose(pixels(path), Window(40, 400)(STORED.astype(float)), atol=1e-6)


def test_monochrome1_is_inverted(tmp_path):
    dark, light = (
        write(tmp_path / f"{kind}.dcm", STORED, PhotometricInterpretation=kind, WindowCenter=2000, WindowWidth=3000)
        for kind in ("MONOCHROME1", "MONOCHROME2")
    )
    np.testing.assert_allclose(pixels(dark), 1 - pixels(light), atol=1e-6)


@pytest.mark.parametrize(
    ("values", "bits", "expected"),
    [
        (STORED, 12, STORED / 4095),
        (STORED, 16, STORED / 65535),
        (np.array([[-2048, 0], [1, 2047]], dtype=np.int16), 12, (np.array([[-2048, 0], [1, 2047]]) + 2048) / 4095),
    ],
)
def test_without_a_window_all_values_that_the_bits_can_hold_are_shown(tmp_path, values, bits, expected):
    path = write(tmp_path / "x.dcm", values, BitsStored=bits, HighBit=bits - 1)
    np.testing.assert_allclose(pixels(path), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ({"RescaleSlope": "", "RescaleIntercept": ""}, STORED / 5000),
        ({"RescaleSlope": 2}, 2 * STORED / 5000),
        ({"RescaleIntercept": 500}, (STORED + 500) / 5000),
    ],
)
def test_a_rescaling_that_is_empty_or_half_stated(tmp_path, elements, expected):
    path = write(tmp_path / "x.dcm", STORED, WindowCenter=2500, WindowWidth=5000, VOILUTFunction="LINEAR_EXACT", **elements)
    np.testing.assert_allclose(pixels(path), np.clip(expected, 0, 1), atol=1e-6)


def test_bits_in_another_place_than_the_lowest_are_refused(tmp_path):
    path = write(tmp_path / "x.dcm", STORED << 4, BitsStored=12, HighBit=15)
    assert sentence(path) == (
        "'x.dcm' holds its 12 bits in another place than the lowest (its high bit is 15), which is not read; "
        "save it again with the values in the lowest bits"
    )


def test_bits_above_those_that_are_stored_are_ignored(tmp_path):
    overlay = STORED | (np.arange(6, dtype=np.uint16).reshape(2, 3) << 12)
    path = write(tmp_path / "x.dcm", overlay, BitsStored=12, HighBit=11)
    np.testing.assert_allclose(pixels(path), STORED / 4095, atol=1e-6)


def test_window_functions_by_hand():
    values = np.array([0.0, 50.0, 100.0])
    np.testing.assert_allclose(Window(50, 100, "LINEAR_EXACT")(values), [0, 0.5, 1])
    np.testing.assert_allclose(Window(50, 100, "SIGMOID")(values), [1 / (1 + np.exp(2)), 0.5, 1 / (1 + np.exp(-2))])
    np.testing.assert_allclose(Window(50, 1)(values), [0, 1, 1])


def test_lookup_tables_of_the_file(tmp_path):
    table = Dataset()
    table.LUTDescriptor, table.LUTData = [4, 0, 16], np.array([65535, 0, 13107, 26214], dtype="<u2").tobytes()
    path = write(tmp_path / "x.dcm", np.array([[0, 1], [2, 3]], dtype=np.uint8), VOILUTSequence=Sequence([table]))
    np.testing.assert_allclose(pixels(path), [[1, 0], [0.2, 0.4]], atol=1e-6)


def test_a_window_per_frame_and_one_frame_of_several(tmp_path):
    def group(centre: float) -> Dataset:
        window, part = Dataset(), Dataset()
        window.WindowCenter, window.WindowWidth = centre, 101
        part.FrameVOILUTSequence = Sequence([window])
        return part

    frames = np.full((2, 2, 2), 100, dtype=np.uint16)
    path = write(tmp_path / "x.dcm", frames, PerFrameFunctionalGroupsSequence=Sequence([group(100.5), group(150.5)]))
    assert sentence(path) == "'x.dcm' holds 2 frames; choose one with --frame, such as --frame 1"
    assert sentence(path, frame=3) == "'x.dcm' holds 2 frames, but --frame is 3"
    np.testing.assert_allclose(pixels(path, frame=1), 0.5)
    np.testing.assert_allclose(pixels(path, frame=2), 0)


def test_colours(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    path = write(tmp_path / "x.dcm", values)
    np.testing.assert_array_equal(np.asarray(decode_dicom(path, AS_STORED).planes[0]), values)
    assert sentence(path, window=(1, 2)) == "--window is for grey pictures, but 'x.dcm' has colours; leave it out"
    deep = write(tmp_path / "deep.dcm", values.astype(np.uint16) * 16, BitsStored=12, HighBit=11)
    planes = decode_dicom(deep, AS_STORED).planes
    np.testing.assert_allclose(
        np.stack([np.asarray(plane) for plane in planes], axis=2), values.astype(float) * 16 / 4095, atol=1e-6
    )


def jpeg(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((height, width), 200, dtype=np.uint8)).save(buffer, format="JPEG")
    return buffer.getvalue()


def compressed(path, data: bytes, syntax: str, rows: int = 16, columns: int = 16):
    header = make(np.zeros((rows, columns), dtype=np.uint8), syntax=syntax)
    header.PixelData = encapsulate([data])
    header["PixelData"].is_undefined_length = True
    header.save_as(path)
    return path


def test_jpeg_inside_is_decoded_and_limited_by_its_own_size(tmp_path):
    baseline = pydicom.uid.JPEGBaseline8Bit
    np.testing.assert_allclose(pixels(compressed(tmp_path / "x.dcm", jpeg(16, 16), baseline)), 200 / 255, atol=0.02)
    larger = compressed(tmp_path / "larger.dcm", jpeg(64, 64), baseline)
    assert sentence(larger) == "'x.dcm' is damaged: its pixels do not fit its header"


def test_compression_that_cannot_be_decoded_names_the_package(tmp_path):
    name = "JPEG-LS Lossless Image Compression"
    path = compressed(tmp_path / "x.dcm", b"\xff\xd8\xff", pydicom.uid.JPEGLSLossless)
    remedy = "install pylibjpeg[all], or save it without compression"
    assert sentence(path) == f"'x.dcm' is compressed with {name}, which cannot be decoded here; {remedy}"
    unknown = compressed(tmp_path / "u.dcm", b"\xff\xd8\xff", f"{UID_MARK}.9")
    assert sentence(unknown) == f"'x.dcm' is compressed with an unknown method, which cannot be decoded here; {remedy}"
    video = compressed(tmp_path / "v.dcm", b"\xff\xd8\xff", pydicom.uid.MPEG2MPML)
    assert sentence(video).endswith("which cannot be decoded here; save the frame to use without compression")
    damaged = compressed(tmp_path / "d.dcm", b"\xff\xd8\xff", pydicom.uid.JPEGBaseline8Bit)
    assert sentence(damaged).endswith(f"and is damaged or of a kind that cannot be decoded here; {remedy}")


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ({"PixelData": None}, "'x.dcm' is a DICOM file without pixels, such as a report; remove it"),
        ({"Rows": None}, "'x.dcm' is damaged: its header does not state rows and columns"),
        ({"PixelData": b"\0\0"}, "'x.dcm' is damaged: its pixels do not fit its header"),
        ({"Rows": 1}, "'x.dcm' is 3×1 pixels; a picture needs at least 2×2"),
        ({"Rows": 65535, "Columns": 65535}, "'x.dcm' is larger than 64 million pixels; make it smaller first"),
        (
            {"WindowCenter": 5, "WindowWidth": 0},
            "'x.dcm' states a rescaling or window that cannot be used; state one with --window centre,width",
        ),
        (
            {"RescaleSlope": 0, "RescaleIntercept": 0},
            "'x.dcm' states a rescaling or window that cannot be used; state one with --window centre,width",
        ),
        (
            {"PhotometricInterpretation": f"{MARK} KIND"},
            "'x.dcm' holds pixels of another kind than MONOCHROME1, MONOCHROME2, RGB, YBR_, PALETTE COLOR; "
            "convert it to one of them",
        ),
    ],
)
def test_files_that_cannot_be_used_are_one_sentence_that_quotes_no_header(tmp_path, elements, expected):
    assert sentence(write(tmp_path / "x.dcm", STORED, **elements)) == expected


def test_floating_point_values_need_a_window(tmp_path):
    header = make(STORED, PixelData=None, BitsStored=None, HighBit=None, PixelRepresentation=None)
    header.BitsAllocated, header.FloatPixelData = 32, (STORED / 4095).astype(np.float32).tobytes()
    header.save_as(tmp_path / "x.dcm")
    remedy = "state one with --window centre,width"
    assert sentence(tmp_path / "x.dcm") == f"'x.dcm' holds floating-point values and no window; {remedy}"


def test_files_that_are_not_dicom_or_deflated_are_refused(tmp_path):
    (tmp_path / "x.dcm").write_bytes(b"\x89PNG" * 100)
    assert sentence(tmp_path / "x.dcm") == "'x.dcm' is not a DICOM file, although its name says so"
    path = write(tmp_path / "deflated.dcm", STORED, syntax=pydicom.uid.DeflatedExplicitVRLittleEndian)
    assert sentence(path) == "'x.dcm' is a deflated DICOM file; save it without the deflated transfer syntax"


def test_every_truncation_of_a_file_is_read_or_refused_in_a_sentence(tmp_path):
    whole = write(tmp_path / "whole.dcm", STORED, WindowCenter=3000, WindowWidth=6000).read_bytes()
    for length in range(0, len(whole), 23):
        (tmp_path / "x.dcm").write_bytes(whole[:length])
        assert "x.dcm" in sentence(tmp_path / "x.dcm")


def test_damaged_bytes_are_read_or_refused_without_quoting_the_header(tmp_path, caplog, recwarn):
    whole = write(tmp_path / "whole.dcm", STORED, WindowCenter=3000, WindowWidth=6000).read_bytes()
    generator = np.random.default_rng(0)
    caplog.set_level(logging.DEBUG)
    sentences = []
    for _ in range(150):
        damaged = bytearray(whole)
        for place in generator.integers(132, len(whole), 4):
            damaged[place] = generator.integers(256)
        try:
            decode_dicom(tmp_path / "x.dcm", AS_STORED, io.BytesIO(damaged))
        except SnellenError as problem:
            sentences.append(str(problem))
    assert sentences
    assert MARK not in "".join(sentences)
    assert MARK not in caplog.text
    assert not caplog.records
    assert not recwarn.list


def test_a_folder_of_dicom_files_also_without_endings(tmp_path):
    window = {"WindowCenter": 2048, "WindowWidth": 4096}
    write(tmp_path / "a.dcm", STORED, **window)
    write(tmp_path / "IM0001", STORED, **window)
    write(tmp_path / "1.2.840.77", STORED, **window)
    (tmp_path / "README").write_text("not a picture")
    write(tmp_path / "DICOMDIR", STORED)
    samples = from_folder(tmp_path, geometry=AS_IS)
    assert samples.ids == ("1.2.840.77", "IM0001", "a.dcm")
    assert all(digest == samples.digests[0] for digest in samples.digests)
    assert samples.notes == (f"2 files in '{tmp_path}' ignored: not pictures by name",)
    np.testing.assert_allclose(samples[0].image.numpy(), np.broadcast_to(STORED / 4095, (3, 2, 3)), atol=1e-6)


def test_files_without_a_window_are_noted(tmp_path):
    paths = [write(tmp_path / name, STORED, BitsStored=12, HighBit=11) for name in ("a.dcm", "b.dcm")]
    samples = from_files(paths, geometry=AS_IS)
    assert samples.notes == (
        f"'{paths[0]}' and 1 more have no window, so black to white are all values that the file can hold, 0 to 4095 in "
        f"'{paths[0]}'; state --window centre,width if they use fewer",
    )
    assert not from_files(paths, geometry=AS_IS, reading=Reading(window=(2048, 4096))).notes


def test_pydicom_that_is_not_installed_is_one_sentence(tmp_path, monkeypatch):
    path = write(tmp_path / "x.dcm", STORED)
    monkeypatch.setitem(__import__("sys").modules, "pydicom", None)
    assert sentence(path) == "'x.dcm' is a DICOM file, which needs pydicom; install snellen[medical]"


def test_palette_colours_are_looked_up(tmp_path):
    reds, greens, blues = [0, 255, 10, 1], [0, 128, 20, 2], [0, 64, 30, 3]
    tables = {
        f"{colour}PaletteColorLookupTable{part}": value
        for colour, values in (("Red", reds), ("Green", greens), ("Blue", blues))
        for part, value in (("Descriptor", [4, 0, 8]), ("Data", bytes(values)))
    }
    stored = np.array([[0, 1, 2], [2, 1, 0]], dtype=np.uint8)
    path = write(tmp_path / "x.dcm", stored, PhotometricInterpretation="PALETTE COLOR", **tables)
    (image,) = decode_dicom(path, AS_STORED).planes
    assert (np.asarray(image) == np.stack([np.array(table)[stored] for table in (reds, greens, blues)], axis=-1)).all()


def test_palette_colours_without_a_palette_are_one_sentence(tmp_path):
    path = write(tmp_path / "x.dcm", np.zeros((2, 3), dtype=np.uint8), PhotometricInterpretation="PALETTE COLOR")
    assert sentence(path) == "'x.dcm' has palette colours, but its palette cannot be read"
