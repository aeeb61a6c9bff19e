"""The Python snippets of the pattern optimizer's document as they stand there, but for their import
lines.
"""

EXPORT = """
import torch
from xoptim.doc import pretty_onnx
from xoptim import OptimizationOptions
from xoptim.integrations.torch import to_onnx


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(10, 32),
            torch.nn.ReLU(),
            torch.nn.Linear(32, 1),
        )

    def forward(self, x):
        return self.layers(x)


x = torch.rand(3, 10)
onx = to_onnx(
    MLP(), (x,), input_names=["x"], options=OptimizationOptions(patterns=None)
)
with open("temp_doc_mlp.onnx", "wb") as f:
    f.write(onx.SerializeToString())
print(pretty_onnx(onx))
"""

DRAW = """
import onnx
from xoptim.doc import to_dot, demo_mlp_model

onx = demo_mlp_model("temp_doc_mlp.onnx")
print("DOT-SECTION", to_dot(onx))
"""

OPTIMIZE = """
import onnx
from xoptim.doc import pretty_onnx
from xoptim import GraphBuilder
from xoptim.doc import demo_mlp_model

onx = demo_mlp_model("temp_doc_mlp.onnx")

# The model is placed in a GraphBuilder.
# It creates dictionaries to store shapes, ranks, types
# to make it easier to the optimizers to find the information
# they need. It still uses NodeProto to store nodes
gr = GraphBuilder(onx, infer_shapes_options=True)

# Let's optimize.
opt_onx = gr.to_onnx(optimize=True)
with open("temp_doc_mlp_opt.onnx", "wb") as f:
    f.write(opt_onx.SerializeToString())
print(pretty_onnx(opt_onx))
"""

DRAW_OPTIMIZED = """
import onnx
from xoptim.doc import to_dot

onx = onnx.load("temp_doc_mlp_opt.onnx")
print("DOT-SECTION", to_dot(onx))
"""

VERBOSE = """
import onnx
from xoptim import GraphBuilder
from xoptim.doc import demo_mlp_model

onx = demo_mlp_model("temp_doc_mlp.onnx")
gr = GraphBuilder(onx, infer_shapes_options=True, verbose=1)
opt_onx = gr.to_onnx(optimize=True)
"""

MORE_VERBOSE = """
import onnx
from xoptim import GraphBuilder
from xoptim.doc import demo_mlp_model

onx = demo_mlp_model("temp_doc_mlp.onnx")
gr = GraphBuilder(onx, infer_shapes_options=True, verbose=11)
opt_onx = gr.to_onnx(optimize=True)
"""

SELECT = """
import onnx
from xoptim import GraphBuilder, OptimizationOptions
from xoptim.doc import demo_mlp_model

onx = demo_mlp_model("temp_doc_mlp.onnx")
gr = GraphBuilder(
    onx,
    infer_shapes_options=True,
    optimization_options=OptimizationOptions(
        patterns="TransposeTranspose,TransposeMatMul", verbose=1
    ),
)
opt_onx = gr.to_onnx(optimize=True)
"""

SELECT_LISTS = """
import onnx
from xoptim import GraphBuilder, OptimizationOptions
from xoptim.doc import demo_mlp_model

onx = demo_mlp_model("temp_doc_mlp.onnx")
gr = GraphBuilder(
    onx,
    infer_shapes_options=True,
    optimization_options=OptimizationOptions(
        patterns="default+onnxruntime", verbose=1
    ),
)
opt_onx = gr.to_onnx(optimize=True)
"""

STATISTICS = """
import pandas
import onnx
from xoptim import GraphBuilder, OptimizationOptions
from xoptim.doc import demo_mlp_model

onx = demo_mlp_model("temp_doc_mlp.onnx")
gr = GraphBuilder(
    onx,
    infer_shapes_options=True,
    optimization_options=OptimizationOptions(patterns="default"),
)
stat = gr.optimize()
print(pandas.DataFrame(stat))
"""

AGGREGATE = """
import pandas
import onnx
from xoptim import GraphBuilder, OptimizationOptions
from xoptim.doc import demo_mlp_model

onx = demo_mlp_model("temp_doc_mlp.onnx")
gr = GraphBuilder(
    onx,
    infer_shapes_options=True,
    optimization_options=OptimizationOptions(patterns="default"),
)
stat = gr.optimize()

df = pandas.DataFrame(stat)
for c in df.columns:
    if "time" not in c and "pattern" not in c and "exit_point" not in c:
        df[c] = df[c].fillna(0).astype(int)
aggs = {
    "time_in": "sum",
    "added": "sum",
    "removed": "sum",
    "iteration": "max",
    "match_index": "max",
    "instances": "sum",
}
print(df.groupby("pattern").agg(aggs))
"""

TRANSPOSE_TRANSPOSE = """
class TransposeTransposePattern(EasyPatternOptimization):
    def match_pattern(self, g: "GraphBuilder", x):
        t1 = g.op.Transpose(x)
        return g.op.Transpose(t1)

    def apply_pattern(self, g: "GraphBuilder", x):
        return x  # two transposes cancel each other
"""

NOT_NOT = '''
import inspect
from typing import List, Optional
from onnx import NodeProto
from xoptim import PatternOptimization, MatchResult


class NotNotPattern(PatternOptimization):
    """Fuses ``Not(Not(x))`` into ``Identity(x)``."""

    def match(
        self,
        g: "GraphBuilderPatternOptimization",
        node: NodeProto,
        matched: List[MatchResult],
    ) -> Optional[MatchResult]:
        # Only consider Not nodes.
        if node.op_type != "Not" or node.domain != "":
            return self.none()

        # Walk one step backward: the producer of node's input must also be Not.
        not_before = g.node_before(node.input[0])
        if not_before is None or not_before.op_type != "Not" or not_before.domain != "":
            return self.none(node, inspect.currentframe().f_lineno)

        # Return both nodes as the rewrite target.
        return MatchResult(self, [not_before, node], self.apply, insert_at=node)

    def apply(
        self,
        g: "GraphBuilder",
        not_before: NodeProto,
        not_after: NodeProto,
    ) -> List[NodeProto]:
        pre_nodes = []
        # Keep the first Not if its output is consumed elsewhere.
        if g.is_used_more_than_once(not_before.output[0]):
            pre_nodes.append(not_before)
        return [
            *pre_nodes,
            g.make_node(
                "Identity",
                [not_before.input[0]],
                [not_after.output[0]],
                name=f"{self.__class__.__name__}--{not_after.name}",
            ),
        ]
'''

NOT_NOT_EASY = '''
from typing import List, Optional
from onnx import NodeProto
from xoptim import EasyPatternOptimization, MatchResult


class NotNotEasyPattern(EasyPatternOptimization):
    """Fuses ``Not(Not(x))`` into ``Identity(x)`` using the easy API."""

    def match_pattern(self, g: "GraphBuilder", x):
        t = g.op.Not(x)  # first Not
        return g.op.Not(t)  # second Not <-- anchor node

    def apply_pattern(self, g: "GraphBuilder", x):
        return g.op.Identity(x)
'''
