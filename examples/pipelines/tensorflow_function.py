"""A function of TensorFlow, converted by tf2onnx, then optimized.

python examples/pipelines/tensorflow_function.py
"""

from typing import Any

import tensorflow as tf
import tf2onnx

import xoptim


def main() -> None:
    """A convolution with a normalization in the layout of TensorFlow, which tf2onnx surrounds with
    Transposes.
    """
    kernel = tf.random.stateless_normal((3, 3, 3, 8), seed=(1, 2))
    scale = tf.random.stateless_uniform((8,), seed=(3, 4)) + 0.5

    def network(x: Any) -> Any:
        y = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME") * scale - 0.5)
        return tf.reduce_mean(tf.reshape(y, (tf.shape(x)[0], -1, 8)), axis=1)

    signature = [tf.TensorSpec((None, 16, 16, 3), tf.float32, name="x")]
    model, _ = tf2onnx.convert.from_function(
        tf.function(network, signature), input_signature=signature, opset=18
    )
    smaller = xoptim.optimize(model, verify=True)
    print(f"{len(model.graph.node)} nodes became {len(smaller.graph.node)}")


if __name__ == "__main__":
    main()
