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
    "selvaraju2017": "Selvaraju, Cogswell, Das, Vedantam, Parikh, Batra. Grad-CAM: Visual Explanations from Deep Networks "
    "via Gradient-based Localization. ICCV 2017. arXiv:1610.02391",
    "petsiuk2018": "Petsiuk, Das, Saenko. RISE: Randomized Input Sampling for Explanation of Black-box Models. BMVC 2018. "
    "arXiv:1806.07421",
    "zeiler2014": "Zeiler, Fergus. Visualizing and Understanding Convolutional Networks. ECCV 2014. arXiv:1311.2901",
    "nie2018": "Nie, Zhang, Patel. A Theoretical Explanation for Perplexing Behaviors of Backpropagation-based "
    "Visualizations. ICML 2018. arXiv:1805.07039",
    # The five papers whose settings are presets
    "boggust2023": "Boggust, Suresh, Strobelt, Guttag, Satyanarayan. Saliency Cards: A Framework to Characterize and "
    "Compare Saliency Methods. FAccT 2023. arXiv:2206.02958",
    "zhang2024": "Zhang, Torres, Hermanns. Saliency Maps Give a False Sense of Explainability to Image Classifiers: An "
    "Empirical Evaluation across Methods and Metrics. ACML 2024.",
    "cose2023": "Daroya, Sun, Maji. COSE: A Consistency-Sensitivity Metric for Saliency on Image Classification. ICCV "
    "Workshops 2023. arXiv:2309.10989",
    # Controls
    "poppi2021": "Poppi, Cornia, Baraldi, Cucchiara. Revisiting the Evaluation of Class Activation Mapping for "
    "Explainability: A Novel Metric and Experimental Analysis. CVPR Workshops 2021. arXiv:2104.10252",
    "kim2022": "Kim, Plumb, Talwalkar. Sanity Simulations for Saliency Methods. ICML 2022. arXiv:2105.06506",
    "judd2009": "Judd, Ehinger, Durand, Torralba. Learning to Predict Where Humans Look. ICCV 2009.",
    # Metrics
    "chattopadhay2018": "Chattopadhay, Sarkar, Howlader, Balasubramanian. Grad-CAM++: Generalized Gradient-based Visual "
    "Explanations for Deep Convolutional Networks. WACV 2018. arXiv:1710.11063",
    "zhang2024opticam": "Zhang, Torres, Sicre, Avrithis, Ayache. Opti-CAM: Optimizing Saliency Maps for Interpretability. "
    "Computer Vision and Image Understanding 2024. arXiv:2301.07002",
    "bhatt2020": "Bhatt, Weller, Moura. Evaluating and Aggregating Feature-based Model Explanations. IJCAI 2020. "
    "arXiv:2005.00631",
    "chalasani2020": "Chalasani, Chen, Chowdhury, Jha, Wu. Concise Explanations of Neural Networks using Adversarial "
    "Training. ICML 2020. arXiv:1810.06583",
    "hurley2009": "Hurley, Rickard. Comparing Measures of Sparsity. IEEE Transactions on Information Theory 55(10), 2009. "
    "arXiv:0811.4706",
    "yeh2019": "Yeh, Hsieh, Suggala, Inouye, Ravikumar. On the (In)fidelity and Sensitivity of Explanations. NeurIPS 2019. "
    "arXiv:1901.09392",
    "zhang2018": "Zhang, Bargal, Lin, Brandt, Shen, Sclaroff. Top-Down Neural Attention by Excitation Backprop. "
    "International Journal of Computer Vision 126, 2018. arXiv:1608.00507",
    "wang2020": "Wang, Wang, Du, Yang, Zhang, Ding, Mardziel, Hu. Score-CAM: Score-Weighted Visual Explanations for "
    "Convolutional Neural Networks. CVPR Workshops 2020. arXiv:1910.01279",
}
