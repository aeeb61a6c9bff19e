import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import is_written_by, replaced_by


class ShapeResizePattern(PatternOptimization):
    """Resize(x, sizes=Concat(Shape(x, 0, 2), c)) → Resize(x, sizes=c, axes=(2, 3))

    What: lists only the resized axes, with their sizes as a constant.
    Why: the nodes that compute the sizes of the other axes become unused. (Constant scales would do
    this as well, but runtimes round the sizes that they compute from scales.)
    Refuses when:
    1. the sizes are constant, unknown or missing.
    2. the Resize lists axes already, keeps the aspect ratio, or crops.
    3. a size is neither static nor the size of the operand, or no axis is resized.
    4. `ResizeAxes` wrote the node.
    """

    anchors = ("Resize",)
    min_opset = 18

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        name = node.input[3] if len(node.input) > 3 else ""
        sizes, shape = (g.info(name).data if name else None), g.try_infer_shape(node.input[0])
        if sizes is None or shape is None or len(sizes) != len(shape) or g.is_constant(name):  # (1)
            return self.none(node, msg="the sizes are constant, unknown or missing")
        if is_written_by(node, "ResizeAxes"):  # (4)
            return self.none(node, msg="ResizeAxes made this node")
        modes = [
            g.get_attribute(node, key)
            for key in ("coordinate_transformation_mode", "keep_aspect_ratio_policy")
        ]
        # (2)
        if (
            "axes" in node.attribute
            or modes[0] == "tf_crop_and_resize"
            or modes[1] not in (None, "stretch")
        ):
            return self.none(node, msg="the Resize lists axes, crops, or keeps the aspect ratio")
        axes = [axis for axis, size in enumerate(sizes) if size != shape[axis]]
        numbers = [size for axis in axes if isinstance(size := sizes[axis], int)]
        if not numbers or len(numbers) < len(axes):  # (3)
            return self.none(
                node, msg="a size is computed at run time, or all sizes are the operand's"
            )
        listed = {**node.attribute, "axes": axes}
        return MatchResult(
            self, [node], replaced_by("Resize", *node.input[:3], np.array(numbers), **listed)
        )

    examples = Example.only(
        "agraph (float[a,b,4,5] x) => (float[a,b,8,11] y) <int64[2] c = {8, 11}> { s = Shape <end ="
        ' 2> (x) z = Concat <axis = 0> (s, c) y = Resize <mode = "linear"> (x, , , z) }',
        '<int64[2] c = {8, 11}> { y = Resize <axes = [2, 3], mode = "linear"> (x, , , c) }',
    )
