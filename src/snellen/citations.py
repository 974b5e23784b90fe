"""Full references, one line each, by the key that a plug-in cites."""

from __future__ import annotations

CITATIONS: dict[str, str] = {
    # Methods
    "simonyan2014": "Simonyan, Vedaldi, Zisserman. Deep Inside Convolutional Networks: Visualising Image Classification "
    "Models and Saliency Maps. ICLR Workshop 2014. arXiv:1312.6034",
    "shrikumar2016": "Shrikumar, Greenside, Shcherbina, Kundaje. Not Just a Black Box: Learning Important Features Through "
    "Propagating Activation Differences. 2016. arXiv:1605.01713",
    "sundararajan2017": "Sundararajan, Taly, Yan. Axiomatic Attribution for Deep Networks. ICML 2017. arXiv:1703.01365",
    "smilkov2017": "Smilkov, Thorat, Kim, Viégas, Wattenberg. SmoothGrad: Removing Noise by Adding Noise. "
    "ICML Workshop on Visualization for Deep Learning 2017. arXiv:1706.03825",
    "hooker2019": "Hooker, Erhan, Kindermans, Kim. A Benchmark for Interpretability Methods in Deep Neural Networks. "
    "NeurIPS 2019. arXiv:1806.10758",
    "adebayo2018": "Adebayo, Gilmer, Muelly, Goodfellow, Hardt, Kim. Sanity Checks for Saliency Maps. NeurIPS 2018. "
    "arXiv:1810.03292",
    "springenberg2015": "Springenberg, Dosovitskiy, Brox, Riedmiller. Striving for Simplicity: The All Convolutional Net. "
    "ICLR Workshop 2015. arXiv:1412.6806",
    "selvaraju2017": "Selvaraju, Cogswell, Das, Vedantam, Parikh, Batra. Grad-CAM: Visual Explanations from Deep Networks via "
    "Gradient-based Localization. ICCV 2017. arXiv:1610.02391",
    "petsiuk2018": "Petsiuk, Das, Saenko. RISE: Randomized Input Sampling for Explanation of Black-box Models. BMVC 2018. "
    "arXiv:1806.07421",
    "zeiler2014": "Zeiler, Fergus. Visualizing and Understanding Convolutional Networks. ECCV 2014. arXiv:1311.2901",
    # Controls
    "poppi2021": "Poppi, Cornia, Baraldi, Cucchiara. Revisiting the Evaluation of Class Activation Mapping for Explainability: "
    "A Novel Metric and Experimental Analysis. CVPR Workshops 2021. arXiv:2104.10252",
    "judd2009": "Judd, Ehinger, Durand, Torralba. Learning to Predict Where Humans Look. ICCV 2009.",
    # Metrics
}
