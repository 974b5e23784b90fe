"""Full references, one line each, by the key that a plug-in cites."""

from __future__ import annotations

CITATIONS: dict[str, str] = {
    # Methods
    "simonyan2014": "Simonyan, Vedaldi, Zisserman. Deep Inside Convolutional Networks: Visualising Image Classification "
    "Models and Saliency Maps. ICLR Workshop 2014. arXiv:1312.6034",
    "shrikumar2016": "Shrikumar, Greenside, Shcherbina, Kundaje. Not Just a Black Box: Learning Important Features Through "
    "Propagating Activation Differences. 2016. arXiv:1605.01713",
    "shrikumar2017": "Shrikumar, Greenside, Kundaje. Learning Important Features Through Propagating Activation "
    "Differences. ICML 2017. arXiv:1704.02685",
    "erion2021": "Erion, Janizek, Sturmfels, Lundberg, Lee. Improving Performance of Deep Learning Models with Axiomatic "
    "Attribution Priors and Expected Gradients. Nature Machine Intelligence 3, 2021. arXiv:1906.10670",
    "sundararajan2017": "Sundararajan, Taly, Yan. Axiomatic Attribution for Deep Networks. ICML 2017. arXiv:1703.01365",
    "smilkov2017": "Smilkov, Thorat, Kim, Viégas, Wattenberg. SmoothGrad: Removing Noise by Adding Noise. "
    "ICML Workshop on Visualization for Deep Learning 2017. arXiv:1706.03825",
    "hooker2019": "Hooker, Erhan, Kindermans, Kim. A Benchmark for Interpretability Methods in Deep Neural Networks. "
    "NeurIPS 2019. arXiv:1806.10758",
    "adebayo2018": "Adebayo, Gilmer, Muelly, Goodfellow, Hardt, Kim. Sanity Checks for Saliency Maps. NeurIPS 2018. "
    "arXiv:1810.03292",
    "adebayo2018local": "Adebayo, Gilmer, Goodfellow, Kim. Local Explanation Methods for Deep Neural Networks Lack "
    "Sensitivity to Parameter Values. ICLR Workshop 2018. arXiv:1810.03307",
    "springenberg2015": "Springenberg, Dosovitskiy, Brox, Riedmiller. Striving for Simplicity: The All Convolutional Net. "
    "ICLR Workshop 2015. arXiv:1412.6806",
    "abnar2020": "Abnar, Zuidema. Quantifying Attention Flow in Transformers. ACL 2020. arXiv:2005.00928",
    "chefer2021": "Chefer, Gur, Wolf. Transformer Interpretability Beyond Attention Visualization. CVPR 2021. "
    "arXiv:2012.09838",
    "chefer2021generic": "Chefer, Gur, Wolf. Generic Attention-model Explainability for Interpreting Bi-Modal and "
    "Encoder-Decoder Transformers. ICCV 2021. arXiv:2103.15679",
    "jain2019": "Jain, Wallace. Attention is not Explanation. NAACL 2019. arXiv:1902.10186",
    "selvaraju2017": "Selvaraju, Cogswell, Das, Vedantam, Parikh, Batra. Grad-CAM: Visual Explanations from Deep Networks "
    "via Gradient-based Localization. ICCV 2017. arXiv:1610.02391",
    "petsiuk2018": "Petsiuk, Das, Saenko. RISE: Randomized Input Sampling for Explanation of Black-box Models. BMVC 2018. "
    "arXiv:1806.07421",
    "zeiler2014": "Zeiler, Fergus. Visualizing and Understanding Convolutional Networks. ECCV 2014. arXiv:1311.2901",
    "kapishnikov2019": "Kapishnikov, Bolukbasi, Viégas, Terry. XRAI: Better Attributions Through Regions. ICCV 2019. "
    "arXiv:1906.02825",
    "xu2020": "Xu, Venugopalan, Sundararajan. Attribution in Scale and Space. CVPR 2020. arXiv:2004.03383",
    "kapishnikov2021": "Kapishnikov, Venugopalan, Avci, Wedin, Terry, Bolukbasi. Guided Integrated Gradients: An Adaptive "
    "Path Method for Removing Noise. CVPR 2021. arXiv:2106.09788",
    "nie2018": "Nie, Zhang, Patel. A Theoretical Explanation for Perplexing Behaviors of Backpropagation-based "
    "Visualizations. ICML 2018. arXiv:1805.07039",
    "ribeiro2016": 'Ribeiro, Singh, Guestrin. "Why Should I Trust You?": Explaining the Predictions of Any Classifier. '
    "KDD 2016. arXiv:1602.04938",
    "lundberg2017": "Lundberg, Lee. A Unified Approach to Interpreting Model Predictions. NeurIPS 2017. arXiv:1705.07874",
    "carter2019": "Carter, Mueller, Jain, Gifford. What Made You Do This? Understanding Black-box Decisions with Sufficient "
    "Input Subsets. AISTATS 2019. arXiv:1810.03805",
    "carter2021": "Carter, Jain, Mueller, Gifford. Overinterpretation Reveals Image Classification Model Pathologies. "
    "NeurIPS 2021. arXiv:2003.08907",
    "slack2020": "Slack, Hilgard, Jia, Singh, Lakkaraju. Fooling LIME and SHAP: Adversarial Attacks on Post hoc Explanation "
    "Methods. AIES 2020. arXiv:1911.02508",
    "alvarezmelis2018": "Alvarez-Melis, Jaakkola. On the Robustness of Interpretability Methods. ICML Workshop on Human "
    "Interpretability in Machine Learning 2018. arXiv:1806.08049",
    "kumar2020": "Kumar, Venkatasubramanian, Scheidegger, Friedler. Problems with Shapley-value-based Explanations as "
    "Feature Importance Measures. ICML 2020. arXiv:2002.11097",
    "bach2015": "Bach, Binder, Montavon, Klauschen, Müller, Samek. On Pixel-Wise Explanations for Non-Linear Classifier "
    "Decisions by Layer-Wise Relevance Propagation. PLoS ONE 10(7), 2015.",
    "montavon2017": "Montavon, Lapuschkin, Binder, Samek, Müller. Explaining Nonlinear Classification Decisions with Deep "
    "Taylor Decomposition. Pattern Recognition 65, 2017. arXiv:1512.02479",
    "mahendran2016": "Mahendran, Vedaldi. Salient Deconvolutional Networks. ECCV 2016.",
    "sixt2020": "Sixt, Granz, Landgraf. When Explanations Lie: Why Many Modified BP Attributions Fail. ICML 2020. "
    "arXiv:1912.09818",
    "schulz2020": "Schulz, Sixt, Tombari, Landgraf. Restricting the Flow: Information Bottlenecks for Attribution. "
    "ICLR 2020. arXiv:2001.00396",
    "fong2017": "Fong, Vedaldi. Interpretable Explanations of Black Boxes by Meaningful Perturbation. ICCV 2017. "
    "arXiv:1704.03296",
    "fong2019": "Fong, Patrick, Vedaldi. Understanding Deep Networks via Extremal Perturbations and Smooth Masks. "
    "ICCV 2019. arXiv:1910.08485",
    "zhou2016": "Zhou, Khosla, Lapedriza, Oliva, Torralba. Learning Deep Features for Discriminative Localization. "
    "CVPR 2016. arXiv:1512.04150",
    "desai2020": "Desai, Ramaswamy. Ablation-CAM: Visual Explanations for Deep Convolutional Network via Gradient-free "
    "Localization. WACV 2020.",
    "muhammad2020": "Muhammad, Yeasin. Eigen-CAM: Class Activation Map using Principal Components. IJCNN 2020. "
    "arXiv:2008.00299",
    "jiang2021": "Jiang, Zhang, Hou, Cheng, Wei. LayerCAM: Exploring Hierarchical Class Activation Maps for Localization. "
    "IEEE Transactions on Image Processing 30, 2021.",
    "fu2020": "Fu, Hu, Dong, Guo, Gao, Li. Axiom-based Grad-CAM: Towards Accurate Visualization and Explanation of CNNs. "
    "BMVC 2020. arXiv:2008.02312",
    "draelos2020": "Draelos, Carin. Use HiResCAM Instead of Grad-CAM for Faithful Explanations of Convolutional Neural "
    "Networks. 2020. arXiv:2011.08891",
    "viering2019": "Viering, Wang, Loog, Eisemann. How to Manipulate CNNs to Make Them Lie: the GradCAM Case. BMVC Workshop "
    "on Interpretable and Explainable Machine Vision 2019. arXiv:1907.10901",
    "lerma2022": "Lerma, Lucas. Grad-CAM++ is Equivalent to Grad-CAM With Positive Gradients. Irish Machine Vision and "
    "Image Processing Conference 2022. arXiv:2205.10838",
    "kokhlikyan2020": "Kokhlikyan, Miglani, Martin, Wang, Alsallakh, Reynolds, Melnikov, Kliushkina, Araya, Yan, "
    "Reblitz-Richardson. Captum: A Unified and Generic Model Interpretability Library for PyTorch. 2020. arXiv:2009.07896",
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
    "song2023": "Song, Cha, Seo. On Pitfalls of RemOve-And-Retrain: Data Processing Inequality Perspective. 2023. "
    "arXiv:2304.13836",
    "tomsett2020": "Tomsett, Harborne, Chakraborty, Gurram, Preece. Sanity Checks for Saliency Metrics. AAAI 2020. "
    "arXiv:1912.01451",
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
    "ancona2018": "Ancona, Ceolini, Öztireli, Gross. Towards Better Understanding of Gradient-based Attribution Methods for "
    "Deep Neural Networks. ICLR 2018. arXiv:1711.06104",
    "alvarezmelis2018senn": "Alvarez-Melis, Jaakkola. Towards Robust Interpretability with Self-Explaining Neural Networks. "
    "NeurIPS 2018. arXiv:1806.07538",
    "samek2017": "Samek, Binder, Montavon, Lapuschkin, Müller. Evaluating the Visualization of What a Deep Neural Network "
    "Has Learned. IEEE Transactions on Neural Networks and Learning Systems 28(11), 2017. arXiv:1509.06321",
    "rong2022": "Rong, Leemann, Borisov, Kasneci, Kasneci. A Consistent and Efficient Evaluation Strategy for Attribution "
    "Methods. ICML 2022. arXiv:2202.00449",
    "ghorbani2019": "Ghorbani, Abid, Zou. Interpretation of Neural Networks is Fragile. AAAI 2019. arXiv:1710.10547",
    "kindermans2019": "Kindermans, Hooker, Adebayo, Alber, Schütt, Dähne, Erhan, Kim. The (Un)reliability of Saliency "
    "Methods. In: Explainable AI, LNCS 11700, 2019. arXiv:1711.00867",
    "arya2019": "Arya, Bellamy, Chen, Dhurandhar, Hind, Hoffman, Houde, Liao, Luss, Mojsilović et al. One Explanation Does"
    " Not Fit All: A Toolkit and Taxonomy of AI Explainability Techniques. 2019. arXiv:1909.03012",
    "nguyen2020": "Nguyen, Martínez. On Quantitative Aspects of Model Interpretability. 2020. arXiv:2007.07584",
    "yang2019": "Yang, Kim. Benchmarking Attribution Methods with Relative Feature Importance. 2019. arXiv:1907.09701",
    "hedstrom2024": "Hedström, Weber, Lapuschkin, Höhne. A Fresh Look at Sanity Checks for Saliency Maps. xAI 2024. "
    "arXiv:2405.02383",
    "binder2023": "Binder, Weber, Lapuschkin, Montavon, Müller, Samek. Shortcomings of Top-Down Randomization-Based Sanity "
    "Checks for Evaluations of Deep Neural Network Explanations. CVPR 2023. arXiv:2211.12486",
    "arun2021": "Arun, Gaw, Singh, Chang, Aggarwal, Chen, Hoebel, Gupta, Patel, Gidwani, Adebayo, Li, Kalpathy-Cramer. "
    "Assessing the Trustworthiness of Saliency Maps for Localizing Abnormalities in Medical Imaging. "
    "Radiology: Artificial Intelligence 3(6), 2021. arXiv:2008.02766",
    "ding2021": "Ding, Koehn. Evaluating Saliency Methods for Neural Language Models. NAACL 2021. arXiv:2104.05824",
    "gomez2022": "Gomez, Fréour, Mouchère. Metrics for Saliency Map Evaluation of Deep Learning Explanation Methods. ICPRAI"
    " 2022. arXiv:2201.13291",
    "arras2022": "Arras, Osman, Samek. CLEVR-XAI: A Benchmark Dataset for the Ground Truth Evaluation of Neural Network "
    "Explanations. Information Fusion 81, 2022. arXiv:2003.07258",
    "wang2004": "Wang, Bovik, Sheikh, Simoncelli. Image Quality Assessment: From Error Visibility to Structural "
    "Similarity. IEEE Transactions on Image Processing 13(4), 2004.",
    "hedstrom2023": "Hedström, Weber, Krakowczyk, Bareeva, Motzkus, Samek, Lapuschkin, Höhne. Quantus: An Explainable AI "
    "Toolkit for Responsible Evaluation of Neural Network Explanations and Beyond. Journal of Machine Learning"
    " Research 24(34), 2023. arXiv:2202.06861",
    "muller2021": "Müller, Hutter. TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation. ICCV 2021. "
    "arXiv:2103.10158",
    "zhang2018mixup": "Zhang, Cisse, Dauphin, Lopez-Paz. mixup: Beyond Empirical Risk Minimization. ICLR 2018. "
    "arXiv:1710.09412",
    # Studies with people
    "kares2025": "Kares, Speith, Zhang, Langer. What Makes for a Good Saliency Map? Comparing Strategies for Evaluating "
    "Saliency Maps in Explainable AI (XAI). 2025. arXiv:2504.17023",
    "hoffman2018": "Hoffman, Mueller, Klein, Litman. Metrics for Explainable AI: Challenges and Prospects. 2018. "
    "arXiv:1812.04608",
    "welch1951": "Welch. On the Comparison of Several Mean Values: An Alternative Approach. Biometrika 38(3), 1951.",
    "delacre2019": "Delacre, Leys, Mora, Lakens. Taking Parametric Assumptions Seriously: Arguments for the Use of Welch's "
    "F-test instead of the Classical F-test in One-Way ANOVA. International Review of Social Psychology 32(1), 2019.",
    "greenhouse1959": "Greenhouse, Geisser. On Methods in the Analysis of Profile Data. Psychometrika 24(2), 1959.",
    "holm1979": "Holm. A Simple Sequentially Rejective Multiple Test Procedure. Scandinavian Journal of Statistics 6(2), "
    "1979.",
    "hedges1981": "Hedges. Distribution Theory for Glass's Estimator of Effect Size and Related Estimators. Journal of "
    "Educational Statistics 6(2), 1981.",
    "steiger2004": "Steiger. Beyond the F Test: Effect Size Confidence Intervals and Tests of Close Fit in the Analysis of "
    "Variance and Contrast Analysis. Psychological Methods 9(2), 2004.",
    "schuirmann1987": "Schuirmann. A Comparison of the Two One-Sided Tests Procedure and the Power Approach for Assessing "
    "the Equivalence of Average Bioavailability. Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987.",
    "baayen2008": "Baayen, Davidson, Bates. Mixed-effects Modeling with Crossed Random Effects for Subjects and Items. "
    "Journal of Memory and Language 59(4), 2008.",
    "mancl2001": "Mancl, DeRouen. A Covariance Estimator for GEE with Improved Small-sample Properties. Biometrics 57(1), "
    "2001.",
    "feldt1965": "Feldt. The Approximate Sampling Distribution of Kuder-Richardson Reliability Coefficient Twenty. "
    "Psychometrika 30(3), 1965.",
    "snellen2026": "Snellen. Traits of Saliency Methods on Pretrained Networks. benchmarks/RESULTS.md, 2026.",
    "brier1950": "Brier. Verification of Forecasts Expressed in Terms of Probability. Monthly Weather Review 78(1), 1950.",
}
