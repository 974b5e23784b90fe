"""Small DICOM files for tests, with marked strings in the fields that describe people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.sequence import Sequence

MARK = "ZQXMARK"
"""Part of every planted string."""

UID_MARK = "1.2.826.0.1.3680043.999777"
"""Start of every planted UID, which can hold digits only."""

DATE_MARK = "19010203"
NUMBER_MARK = "9797979"

TEXTS = (
    "PatientName", "PatientID", "PatientAddress", "OtherPatientIDs", "PatientComments", "PatientMotherBirthName",
    "PatientTelephoneNumbers", "EthnicGroup", "Occupation", "AccessionNumber", "StudyID", "StudyDescription",
    "SeriesDescription", "ProtocolName", "InstitutionName", "InstitutionAddress", "ReferringPhysicianName",
    "PerformingPhysicianName", "OperatorsName", "RequestingPhysician", "StationName", "DeviceSerialNumber",
    "ImageComments", "AdditionalPatientHistory", "WindowCenterWidthExplanation", "LUTExplanation", "DerivationDescription",
)  # fmt: skip
DATES = ("PatientBirthDate", "StudyDate", "SeriesDate", "AcquisitionDate", "ContentDate")
UIDS = ("SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID")


def make(values: np.ndarray, *, syntax: str = pydicom.uid.ExplicitVRLittleEndian, **elements: Any) -> FileDataset:
    """A data set with these stored values (rows×columns, or frames×rows×columns, or rows×columns×3) and elements."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = pydicom.uid.DigitalXRayImageStorageForPresentation
    meta.MediaStorageSOPInstanceUID = f"{UID_MARK}.1"
    meta.TransferSyntaxUID = syntax
    meta.ImplementationVersionName = MARK
    header = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    for place, keyword in enumerate(TEXTS):
        setattr(header, keyword, f"{MARK}{place}")
    for keyword in DATES:
        setattr(header, keyword, DATE_MARK)
    for place, keyword in enumerate(UIDS):
        setattr(header, keyword, f"{UID_MARK}.{place + 2}")
    header.PatientAge, header.PatientWeight, header.PatientSex = "097Y", NUMBER_MARK, "O"
    header.add_new((0x0009, 0x0010), "LO", f"{MARK}PRIVATE")
    header.add_new((0x0009, 0x1001), "LT", f"{MARK}PRIVATE")
    nested = Dataset()
    nested.PatientID = f"{MARK}NESTED"
    header.OtherPatientIDsSequence = Sequence([nested])
    colour = values.ndim == 3 and values.shape[-1] == 3
    header.SamplesPerPixel = 3 if colour else 1
    header.PhotometricInterpretation = "RGB" if colour else "MONOCHROME2"
    if colour:
        header.PlanarConfiguration = 0
    frames = values[None] if values.ndim == 2 or colour else values
    header.Rows, header.Columns = frames.shape[1:3]
    if len(frames) > 1:
        header.NumberOfFrames = len(frames)
    header.BitsAllocated = header.BitsStored = 8 * values.dtype.itemsize
    header.HighBit = header.BitsStored - 1
    header.PixelRepresentation = int(values.dtype.kind == "i")
    header.PixelData = values.tobytes()
    for keyword, value in elements.items():
        if value is None:
            delattr(header, keyword)
        else:
            setattr(header, keyword, value)
    return header


def write(path: Path, values: np.ndarray, **elements: Any) -> Path:
    """The path of a file with these values."""
    path.parent.mkdir(parents=True, exist_ok=True)
    make(values, **elements).save_as(path)
    return path
