"""The rows of docs/what-works.md: one command each."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

_BASICS = {
    "--images": "pictures",
    "--size": "32",
    "--methods": "gradient,random",
    "--metrics": "deletion(steps=2)",
    "--threads": "1",
}


@dataclass(frozen=True)
class Row:
    """A kind of model, head, image or map, and the command that tries it."""

    section: str
    what: str
    options: str
    """Options of `snellen run`; what is not named is that of `_BASICS`."""

    @property
    def words(self) -> list[str]:
        """The whole command after `snellen`."""
        chosen = shlex.split(self.options)
        return ["run", *chosen, *(word for name, value in _BASICS.items() if name not in chosen for word in (name, value))]


def _rows(section: str, *rows: tuple[str, str]) -> list[Row]:
    return [Row(section, what, options) for what, options in rows]


_FINDINGS = "--model models:fourteen --heads independent-labels --classes findings.txt"
_MASKED = "--model models:five --masks masks"

ROWS: list[Row] = [
    *_rows(
        "Models",
        ("a module from a function of yours", "--model models:five"),
        (
            "any function of a batch of images; only methods that need no gradients",
            "--model models:black_box --methods rise(masks=8),random",
        ),
        ("the same with a method that needs gradients", "--model models:black_box"),
        ("a function that returns no model", "--model models:no_model"),
        ("a function that is not there", "--model models:absent"),
        ("a folder of transformers, with its processor", "--model hf:vit --methods gradient,attention-rollout,random"),
        ("a folder of transformers for several labels", "--model hf:findings"),
        ("a folder of transformers without a processor file", "--model hf:bare"),
        ("a folder of transformers whose last layer has the weights of other classes", "--model hf:other_head"),
        ("a folder that is not there", "--model hf:./absent"),
        ("an ONNX file, by methods that need no gradients", "--model onnx:five.onnx --methods rise(masks=8),random"),
        ("an ONNX file, by methods that need gradients", "--model onnx:five.onnx"),
        ("an ONNX file, converted for gradients and layers", "--model onnx2torch:five.onnx --methods grad-cam,random"),
        ("an ONNX file for one image at a time", "--model onnx:single.onnx --methods rise(masks=8),random"),
        ("an ONNX file that is none", "--model onnx:classes.csv"),
        ("an ONNX file for images of another size", "--model onnx:five.onnx --size 48 --methods rise(masks=8),random"),
        ("a TorchScript file", "--model five.pt"),
        ("a file of weights only", "--model weights.pt"),
        ("a model of the zoo", "--model digits --images zoo:digits --size 32"),
    ),
    *_rows(
        "Heads: what the outputs mean",
        ("logits of exclusive classes (if nothing is stated)", "--model models:five"),
        ("probabilities of exclusive classes, not stated", "--model models:five_probabilities"),
        ("probabilities of exclusive classes", "--model models:five_probabilities --outputs probabilities"),
        ("14 independent labels", _FINDINGS),
        ("14 independent labels, a case per label that is right", f"{_FINDINGS} --labels findings.csv --target every-label"),
        ("14 sigmoids, not stated", "--model models:fourteen_probabilities"),
        ("14 sigmoids", "--model models:fourteen_probabilities --heads independent-labels --outputs probabilities"),
        (
            "14 sigmoids, of which only the head is stated",
            "--model models:fourteen_probabilities --heads independent-labels",
        ),
        (
            "14 labels on images with several labels, called exclusive",
            "--model models:fourteen --classes findings.txt --labels findings.csv",
        ),
        ("one logit, not stated", "--model models:one"),
        ("one logit for yes or no", "--model models:one --heads single-logit"),
        ("one logit that is a sigmoid already, not stated", "--model models:one_probability --heads single-logit"),
        ("a number without a range", "--model models:one --heads number(unit=years)"),
        (
            "a number without a range, curves of the number itself",
            "--model models:one --heads number(unit=years) --metrics 'deletion(steps=2, of=logit)'",
        ),
        ("a number with a range", "--model models:one --heads 'number(unit=years, low=0, high=100)'"),
        (
            "a metric of probabilities on a number",
            "--model models:one --heads number(unit=years) --metrics average-increase",
        ),
        ("a metric of decisions on a number", "--model models:one --heads number(unit=years) --metrics stability"),
        ("a number of several outputs", "--model models:five --heads number"),
        ("a threshold outside (0, 1)", "--model models:fourteen --heads independent-labels(thresholds=1.5)"),
        ("a threshold of 0 for yes or no", "--model models:one --heads single-logit(threshold=0)"),
        ("two thresholds for 14 labels", "--model models:fourteen --heads 'independent-labels(thresholds=[0.3, 0.5])'"),
        ("a head that does not exist", "--model models:five --heads ordinal"),
    ),
    *_rows(
        "Targets",
        ("a class by its number", "--model models:five --target 3"),
        ("a class by its name", f"{_FINDINGS} --target finding3"),
        ("the label of the image", "--model models:five --labels classes.csv --target label"),
        ("the label, without labels", "--model models:five --target label"),
        ("the least likely class", "--model models:five --target least-likely"),
        ("why one class and not another", "--model models:five --target 'contrast(1, 2)'"),
        (
            "why one label and not another, on images with several labels",
            f"{_FINDINGS} --labels findings.csv --target 'contrast(finding0, finding2)'",
        ),
        ("the same by relevance propagation", "--model models:five --target 'contrast(1, 2)' --methods lrp-epsilon,random"),
        ("the same by deep-taylor", "--model models:five --target 'contrast(1, 2)' --methods deep-taylor,random"),
        ("what speaks for no", "--model models:one --heads single-logit --target no"),
        ("why no and not yes", "--model models:one --heads single-logit --target 'contrast(no, yes)'"),
        ("a class against itself", "--model models:five --target 'contrast(1, 1)'"),
        ("a label against itself", f"{_FINDINGS} --target 'contrast(finding3, finding3)'"),
        ("what makes a number large", "--model models:one --heads 'number(low=0, high=100)' --target up"),
        ("what makes a number small", "--model models:one --heads 'number(low=0, high=100)' --target down"),
        ("the least likely number", "--model models:one --heads 'number(low=0, high=100)' --target least-likely"),
        ("what makes a class small", "--model models:five --target down"),
        (
            "a function of the outputs",
            "--model models:five --target models:second_minus_first --metrics 'deletion(steps=2, of=logit)'",
        ),
        (
            "a metric of probabilities on a function of the outputs",
            "--model models:five --target models:second_minus_first --metrics average-drop",
        ),
        (
            "a metric of decisions on a function of the outputs",
            "--model models:five --target models:second_minus_first --metrics road",
        ),
        (
            "a function of the outputs without a gradient",
            "--model models:five --target models:winner --metrics 'deletion(steps=2, of=logit)'",
        ),
        ("a function of the outputs that fails", "--model models:five --target models:out_of_range --metrics morf"),
        ("every label, on exclusive classes", "--model models:five --labels classes.csv --target every-label"),
        ("a class that the model does not have", "--model models:five --target 9"),
    ),
    *_rows(
        "Images",
        ("PNG or JPEG files of any size", "--model models:five"),
        ("grey files for a model of one channel", "--model models:grey --images grey"),
        ("DICOM files, with the window of each file", "--model models:grey --images dicom"),
        ("DICOM files, with another window", "--model models:grey --images dicom --window 500,1000"),
        ("a window without a width", "--model models:grey --images dicom --window 500"),
        ("a window of width 0", "--model models:grey --images dicom --window 500,0"),
        ("a window for files that are not DICOM", "--model models:grey --images grey --window 500,1000"),
        ("DICOM files with several frames", "--model models:grey --images frames"),
        ("DICOM files with several frames, the second", "--model models:grey --images frames --frame 2"),
        ("a frame beyond the last", "--model models:grey --images frames --frame 4"),
        ("a DICOM file without pixels", "--model models:grey --images pixelless"),
        ("16-bit PNG files", "--model models:grey --images deep"),
        ("16-bit PNG files, whose values reach 4095", "--model models:grey --images deep --range 0,4095"),
        ("a range whose ends are equal", "--model models:grey --images deep --range 5,5"),
        ("a range whose ends are swapped", "--model models:grey --images deep --range 4095,0"),
        (
            "TIFF files with four channels",
            "--model models:four_channels --channels 4 --images four --show-channels 3,2,1",
        ),
        (
            "the same with a channel to show that is not there",
            "--model models:four_channels --channels 4 --images four --show-channels 5",
        ),
        ("the same for a model of other channels than stated", "--model models:five --channels 4 --images four"),
        ("no channels", "--model models:five --channels 0"),
        (
            "TIFF files with pages for a model of three channels: the first page; a note says so",
            "--model models:five --images pages",
        ),
        ("TIFF files with four samples per pixel for a model of three channels", "--model models:five --images four"),
        ("a data set of Hugging Face, saved to a folder", "--model models:five --images data_set"),
        ("shards of WebDataset", "--model models:five --images shards.tar"),
        ("shards without DICOM files, with a window", "--model models:five --images shards.tar --window 500,1000"),
        ("TIFF files of 16 bits whose zero is white", "--model models:grey --images negative"),
        ("a file that is no image", "--model models:five --images broken"),
    ),
    *_rows(
        "Labels",
        ("one label per image", "--model models:five --labels classes.csv"),
        ("a column per finding: 1, 0, empty, -1", f"{_FINDINGS} --labels findings.csv --target every-label"),
        ("several rows per image", f"{_FINDINGS} --labels rows.csv --target every-label"),
        ("a mark other than 1, 0, empty, -1", f"{_FINDINGS} --labels marks.csv"),
        (
            "two columns of one finding",
            f"{_FINDINGS} --labels twice.csv --target every-label",
        ),
        ("a label beyond the classes", "--model models:five --labels beyond.csv"),
        ("labels of some images only", "--model models:five --labels short.csv"),
        ("a table without a column of labels", "--model models:five --labels two.csv"),
        (
            "numbers for a model of a number",
            "--model models:one --heads 'number(unit=years, low=0, high=100)' --labels ages.csv",
        ),
        (
            "a number beyond the range",
            "--model models:one --heads 'number(unit=years, low=0, high=50)' --labels ages.csv",
        ),
        ("a word for a model of a number", "--model models:one --heads 'number(low=0, high=100)' --labels words.csv"),
        ("0 and 1 for one logit", "--model models:one --heads single-logit --labels marked.csv"),
        ("names for one logit", "--model models:one --heads single-logit --classes answers.txt --labels words.csv"),
    ),
    *_rows(
        "Methods and metrics of your own",
        ("a function in a file as a method", "--model models:five --methods mine.py:bright,random"),
        ("the same with a setting", "--model models:five --methods mine.py:bright(power=2),random"),
        ("the same inside a method of Snellen", "--model models:five --methods smoothgrad(of=mine.py:bright,samples=2)"),
        ("a class in a file", "--model models:five --methods mine.py:Scaled(factor=3)"),
        ("a function in a module", "--model models:five --methods mine:bright"),
        ("a function in a file as a metric", "--model models:five --metrics mine.py:spread"),
        ("a file in a folder with spaces", "--model models:five --methods 'my code/mine.py:bright,random'"),
        (
            "a path with commas or brackets, in quotes",
            """--model models:five --methods '"code, (1)/mine.py:bright"(power=2),random'""",
        ),
        ("two files of one name", "--model models:five --methods 'mine.py:bright,my code/mine.py:bright'"),
        ("a file that is not there", "--model models:five --methods absent.py:f"),
        ("a file without a name in it", "--model models:five --methods mine.py"),
        ("a name that is not in the file", "--model models:five --methods mine.py:brigth"),
        ("a file that raises an error when it is imported", "--model models:five --methods raises.py:f"),
        ("a function with other arguments", "--model models:five --methods mine.py:two"),
        ("a setting that the function does not have", "--model models:five --methods mine.py:bright(powr=2)"),
        ("maps of the wrong shape", "--model models:five --methods mine.py:channels"),
        ("a method that raises an error", "--model models:five --methods mine.py:divides"),
        ("scores of the wrong shape", "--model models:five --metrics mine.py:average"),
        ("a metric that raises an error", "--model models:five --metrics mine.py:no_number"),
        ("a method in place of a metric", "--model models:five --metrics mine.py:bright"),
        ("a method that ends the program", "--model models:five --methods mine.py:ends"),
    ),
    *_rows(
        "Maps made elsewhere",
        ("a folder with an .npy file per image", "--model models:five --maps theirs=maps"),
        ("one .npz file with ids of images as keys", "--model models:five --maps theirs=maps.npz"),
        ("one .safetensors file", "--model models:five --maps theirs=maps.safetensors"),
        ("grey PNG files with a stated range", "--model models:five --maps theirs=maps_png --map-range=-1,1"),
        ("grey PNG files without a range", "--model models:five --maps theirs=maps_png"),
        (
            "a metric that explains again: no score for the maps, with the reason",
            "--model models:five --maps theirs=maps --metrics 'deletion(steps=2),random-logit'",
        ),
        (
            "several targets of an image, a map each",
            f"{_FINDINGS} --labels findings.csv --target every-label --maps theirs=maps_findings",
        ),
        (
            "several targets of an image, one map",
            f"{_FINDINGS} --labels findings.csv --target every-label --maps theirs=maps",
        ),
        ("a missing map", "--model models:five --maps theirs=maps_missing"),
        ("a map of no image", "--model models:five --maps theirs=maps_extra"),
        ("a map of another size", "--model models:five --maps theirs=maps_small"),
        ("a map with NaN", "--model models:five --maps theirs=maps_nan"),
        ("pictures in colour as maps", "--model models:five --maps theirs=pictures --map-range 0,1"),
        ("two maps of one image", "--model models:five --maps theirs=maps_twice"),
        ("the name of a method", "--model models:five --maps gradient=maps"),
        ("images that are changed first", "--model models:five --maps theirs=maps --condition rotation"),
        ("a folder that is not there", "--model models:five --maps theirs=absent"),
    ),
    *_rows(
        "The masks as maps",
        ("a mask per image, as it is and blurred", f"{_MASKED} --methods gradient,random,truth,blurred-truth"),
        (
            "a metric that explains again: no score for the masks, with the reason",
            f"{_MASKED} --methods random,truth --metrics 'deletion(steps=2),random-logit'",
        ),
        ("no masks", "--model models:five --methods random,truth"),
        ("masks of some images only", "--model models:five --masks masks_missing --methods random,truth"),
        (
            "an empty mask: its scores are undefined, and counted",
            "--model models:five --masks masks_empty --methods random,truth",
        ),
        ("masks that are turned with their images", f"{_MASKED} --methods random,truth --condition rotation"),
        ("14 independent labels", f"{_FINDINGS} --masks masks --methods random,truth"),
        ("nothing beside the masks", f"{_MASKED} --methods truth"),
        ("the masks inside a method", f"{_MASKED} --methods smoothgrad(of=truth),random"),
        ("a width of 0", f"{_MASKED} --methods random,blurred-truth(sigma=0)"),
    ),
]
