"""A pipeline of scikit-learn, converted by skl2onnx, then optimized.

python examples/pipelines/sklearn_pipeline.py
"""

import numpy as np
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import xoptim


def main() -> None:
    """Without ZipMap, whose results are lists of dictionaries, which no comparison of tensors
    covers.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 4)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] > 0).astype(np.int64)
    pipeline = make_pipeline(
        MinMaxScaler(), StandardScaler(), RandomForestClassifier(n_estimators=5, random_state=0)
    ).fit(x, y)
    model = to_onnx(pipeline, x[:1], options={"zipmap": False})
    smaller = xoptim.optimize(model, verify=True)
    print(f"{len(model.graph.node)} nodes became {len(smaller.graph.node)}")


if __name__ == "__main__":
    main()
