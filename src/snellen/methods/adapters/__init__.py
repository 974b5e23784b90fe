"""Methods of other packages as methods here: captum, Quantus-style functions, pytorch-grad-cam.

    import captum.attr
    import snellen

    method = snellen.adapters.captum(captum.attr.IntegratedGradients, n_steps=32)
    snellen.evaluate(model, images, methods=[method, "integrated-gradients"], metrics=["deletion"])

The other package is imported when a map is computed. A class or function is stored by its name, `module:name`, and settings
as JSON, so that a run can be resumed; a lambda or an inner function has no such name and is refused.
"""

from snellen.methods.adapters.captum_method import captum as captum
from snellen.methods.adapters.grad_cam_method import grad_cam as grad_cam
from snellen.methods.adapters.quantus_method import quantus_explain as quantus_explain
