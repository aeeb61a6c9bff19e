"""A pattern file that is made from nodes of a model works from the start."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.meta.sources import ROOT, with_mypy
from tests.support import parse, types
from xoptim import EasyPatternOptimization, ModelError, optimize
from xoptim.catalogue.discovery import patterns_of
from xoptim.cli.main import run
from xoptim.scaffold.new_pattern import pattern_from_model, write_pattern
from xoptim.testing import check_example, check_near_misses

BERT = ROOT / "examples" / "models" / "tiny_bert.onnx"
LAYER = "/m/encoder/layer.0/attention/"
SELECTIONS = {
    "a product and a sum": ["self/query/MatMul", "self/query/Add"],
    "scalars": ["/m/Cast", "/m/Sub", "/m/Mul_1"],
    "a computed shape": ["self/query/Add", "self/Reshape", "self/Transpose"],
    "attention": ["self/MatMul", "self/Div", "self/Add", "self/Softmax", "self/MatMul_1"],
    "sizes": ["self/Shape_1", "self/Gather_1", "self/Unsqueeze_3"],
    "a result that is read elsewhere": ["output/Add", "output/LayerNorm/LayerNormalization"],
    "a large table": ["/m/embeddings/word_embeddings/Gather", "/m/embeddings/Add"],
    "operands that became attributes": ["/m/Unsqueeze_3", "/m/Unsqueeze_4", "/m/Cast"],
}
MODELS = {
    "several outputs and a common part": (
        (
            "agraph (float[a,4] x, float[4] z) "
            "=> (float[a,4] y, float[a,4] w) <float[1] h = {0.25}> { s = Sigmoid(x) t = Mul(s, z) "
            "u = Mul(s, h) y = Sub(t, u) w = Exp(t) }"
        ),
        "s,t,u,y",
    ),
    "a node with several outputs": (
        (
            "agraph (float[a,8] x) => (float[a,4] y, float[a,3] w) <int64[2] n = {4, 4}, "
            "int64[3] k = {4, 1, 3}> { p, q = Split <axis = 1> (x, n) r = Sigmoid(q) y = Mul(p, r) "
            "b, c, w = Split <axis = 1> (x, k) }"
        ),
        "p,r,y,w",
    ),
    "attributes and optional operands": (
        (
            "agraph (float[a,2,h,w] x, float[3,2,3,3] k) => (float[a,3,m,n] y) <float top = {6}> { "
            "c = Conv <pads = [1, 1, 1, 1], strides = [2, 2], kernel_shape = [3, 3]> (x, k) "
            "l = LeakyRelu <alpha = 0.3> (c) y = Clip(l, , top) }"
        ),
        "c,l,y",
    ),
    "a domain": (
        (
            "agraph (float[a,b] x) => (float[a,b] y) { "
            "g = com.microsoft.QuickGelu <alpha = 1.5> (x) y = Neg(g) }"
        ),
        "g,y",
    ),
    "16 bits": (
        "agraph (float16[a] x) => (float16[a] y) { h = Mul(x, c) e = Erf(h) y = Add(e, d) }",
        "h,e,y",
    ),
    "constants of several elements": (
        (
            "agraph (float[a,3] x) => (float[a,3] y) <float[3] s = {1, 2, 3}, float[3] b = {0.5, "
            "0.25, 0.125}> { t = Mul(x, s) u = Add(b, t) y = Tanh(u) }"
        ),
        "t,u,y",
    ),
    "numbers of one axis": (
        (
            "agraph (bool[a,3] c, bool[a,3] d, float[a,3] x) "
            "=> (float[a,3] y) <float[1] h = {2.5}, bool[1] f = {1}> { e = And(c, f) g = Xor(e, d) "
            "r = Relu(x) y = Where(g, r, h) }"
        ),
        "e,g,r,y",
    ),
    "a tensor as attribute": (
        (
            "agraph (float[a,b] x) => (float[a,b] y) { s = Shape(x) "
            "z = ConstantOfShape <value = float[1] {2}> (s) y = Mul(x, z) }"
        ),
        "s,z,y",
    ),
    "many operands": (
        (
            f"agraph ({', '.join(f'float[a] x{i}' for i in range(12))}) => (float[b] y) "
            f"{{ s = Concat <axis = 0> ({', '.join(f'x{i}' for i in range(12))}) y = Neg(s) }}"
        ),
        "s,y",
    ),
}


def _write(text: str, path: Path) -> Path:
    model = parse(text, domains={"com.microsoft": 1})
    if "float16" in text:
        for name, value in (("c", 0.7071), ("d", 1.0)):
            model.graph.initializer.append(
                numpy_helper.from_array(np.array(value, np.float16), name)
            )
    onnx.save(model, path)
    return path


def _class(text: str, path: Path) -> type[EasyPatternOptimization]:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (pattern,) = patterns_of(module)
    assert issubclass(pattern, EasyPatternOptimization)
    return pattern


def _ruff(text: str, *words: str) -> str:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            *words,
            "--stdin-filename",
            "patterns/matmul/made.py",
            "-",
        ],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr + text
    return done.stdout


def _check_style(text: str) -> None:
    """Nothing is left to do after the formatter."""
    pytest.importorskip("ruff")
    _ruff(_ruff(text, "format"), "check", "--ignore", "PLR0913")  # as many operands as there are


def _check_pattern(text: str, path: Path, model: Path, *, near_misses: bool = False) -> None:
    _check_style(text)
    pattern = _class(text, path)
    (example,) = pattern.examples
    check_example(pattern, example)
    if near_misses:  # which take a second each
        assert check_near_misses(pattern, example)["fired"]
    again = optimize(
        onnx.load(model), patterns=[pattern], strict=True, constant_folding=False, merge=False
    )
    assert pattern.name() in types(again)
    onnx.checker.check_model(again)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("nodes", SELECTIONS.values(), ids=SELECTIONS)
def test_selections_of_a_real_model(nodes: list[str], tmp_path: Path) -> None:
    names = [name if name.startswith("/") else LAYER + name for name in nodes]
    _check_pattern(
        pattern_from_model("SelectedPattern", BERT, names),
        tmp_path / "selected.py",
        BERT,
        near_misses=True,
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("text", "nodes"), MODELS.values(), ids=MODELS)
def test_selections_of_small_models(text: str, nodes: str, tmp_path: Path) -> None:
    model = _write(text, tmp_path / "model.onnx")
    _check_pattern(
        pattern_from_model("SelectedPattern", model, nodes.split(",")),
        tmp_path / "selected.py",
        model,
    )


def test_what_is_written(tmp_path: Path) -> None:
    model = _write(MODELS["several outputs and a common part"][0], tmp_path / "model.onnx")
    text = pattern_from_model("TwoPattern", model, ["y", "s", "t", "u"])
    for line in (
        '    """Sigmoid, Mul, Sub → Two',
        "    def match_pattern(self, g: PatternBuilder, x1: Symbol, x2: Symbol) -> Any:",
        "        sigmoid_1 = g.op.Sigmoid(x1)",
        "        mul_2 = g.op.Mul(sigmoid_1, x2)",
        "        mul_3 = g.op.Mul(sigmoid_1, np.array([0.25]))",
        "        sub_4 = g.op.Sub(mul_2, mul_3)",
        "        return mul_2, sub_4",
        "    def apply_pattern(self, g: PatternRewriter, x1: str, x2: str) -> Any:",
        "        return g.function(FUNCTION)(x1, x2)",
        "    min_opset = 18  # more are right where the operators are the same",
        '    operand_types = {"x1": (TensorProto.FLOAT,), "x2": (TensorProto.FLOAT,)}  # (1)',
    ):
        assert line in text.splitlines(), line
    text = pattern_from_model(
        "ThreePattern",
        _write(MODELS["attributes and optional operands"][0], model),
        ["c", "l", "y"],
    )
    assert "conv_1 = g.op.Conv(x1, x2, pads=[1, 1, 1, 1], strides=[2, 2], kernel_shape=" in text
    assert "leakyrelu_2 = g.op.LeakyRelu(conv_1, alpha=0.3)" in text
    assert "clip_3 = g.op.Clip(leakyrelu_2, None, np.array(6.0))" in text


def test_a_domain_that_nobody_knows(tmp_path: Path) -> None:
    model = parse(
        'agraph (float[a] x) => (float[a] y) { [mix] t = acme.Mix <mode = "soft", n = 3> (x) y ='
        " Neg(t) }",
        domains={"acme": 2},
    )
    text = pattern_from_model("MixedPattern", model, ["mix", "y"])
    _check_style(text)
    assert "mix_1 = g.op.Mix(x1, mode='soft', n=3, domain='acme')" in text
    pattern = _class(text, tmp_path / "mixed.py")
    assert types(optimize(model, patterns=[pattern], strict=True)) == ["Mixed"]


@with_mypy
@pytest.mark.slow
def test_types_are_checked_by_mypy(tmp_path: Path) -> None:
    """With the settings of the repository, so that the modules of xoptim come from the cache that
    `make types` fills.
    """
    api = pytest.importorskip("mypy.api")
    paths = []
    for number, nodes in enumerate(
        (SELECTIONS["attention"], SELECTIONS["a result that is read elsewhere"])
    ):
        path = tmp_path / f"selected_{number}.py"
        text = pattern_from_model("SelectedPattern", BERT, [LAYER + name for name in nodes])
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    out, err, code = api.run(["--config-file", str(ROOT / "pyproject.toml"), *paths])
    assert code == 0, out + err


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("gone", "'gone'"),
        ("k,y", "'y' has subgraphs"),
        ("v", "'v' is not in"),
        ("", "no node is selected"),
        ("c0", "no node is selected"),
        ("w", "type of operand 'q'"),
    ],
)
def test_errors(
    nodes: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = parse(
        "agraph (bool c, float[a] x, q) => (float[a] y, float[a] m, float[a] y3, float[a] w) { "
        "k = Neg(x) l = Abs(k) m = Add(l, k) c0 = Constant <value = float {1}> () x2 = Exp(c0) "
        "y3 = Relu(x2) w = acme.Mix(q) y = If (c) <then_branch = t () "
        "=> (float[a] u) { v = Neg(x) u = Neg(v) }, else_branch = e () => (float[a] z) { "
        "z = Abs(k) }> }",
        domains={"acme": 1},
    )
    with pytest.raises(ModelError, match=message):
        pattern_from_model("SelectedPattern", model, list(filter(None, nodes.split(","))))
    onnx.save(model, tmp_path / "model.onnx")
    words = ["SelectedPattern", "--family", "matmul"]
    assert (
        run(["new-pattern", *words, "--from", str(tmp_path / "model.onnx"), "--nodes", nodes]) == 2
    )
    captured = capsys.readouterr()
    assert (captured.out, captured.err.splitlines()[-1][:13]) == ("", "xopt: error: ")
    assert message in captured.err


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("patterns/matmul").mkdir(parents=True)
    Path("patterns/matmul/__init__.py").touch()
    words = [
        "QueryPattern",
        "--family",
        "matmul",
        "--from",
        str(BERT),
        "--nodes",
        ",".join(LAYER + name for name in SELECTIONS["a product and a sum"]),
    ]
    assert run(["new-pattern", *words]) == 0
    assert Path(capsys.readouterr().out.strip()) == Path("patterns/matmul/query.py")
    assert "class QueryPattern(EasyPatternOptimization):" in Path(
        "patterns/matmul/query.py"
    ).read_text(encoding="utf-8")
    assert run(["new-pattern", *words]) == 2
    assert "exists" in capsys.readouterr().err
    with pytest.raises(ModelError, match="cannot read"):
        write_pattern("OtherPattern", tmp_path, "gone.onnx", "a,b")
    assert (
        run(
            [
                "new-pattern",
                "OtherPattern",
                "--family",
                "matmul",
                "--from",
                "gone.onnx",
                "--nodes",
                "a",
            ]
        )
        == 2
    )
    assert not (tmp_path / "patterns" / "matmul" / "other.py").exists()


def test_an_element_type_that_onnx_does_not_have() -> None:
    model = parse("agraph (float[n] x) => (float[n] y) { y = Relu(x) }")
    model.graph.input[0].type.tensor_type.elem_type = 255
    with pytest.raises(ModelError, match="type 255"):
        pattern_from_model("SomePattern", model, ["y"])


def test_an_attribute_whose_tensor_is_damaged() -> None:
    model = parse(
        "agraph (int64[1] s) => (float[n] y) { y = ConstantOfShape <value = float[1] {1}> (s) }"
    )
    model.graph.node[0].attribute[0].t.data_type = onnx.TensorProto.UNDEFINED
    with pytest.raises(ModelError, match="type TensorProto"):
        pattern_from_model("SomePattern", model, ["y"])
