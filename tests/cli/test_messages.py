"""The words of errors and results: other tests assert the options, names and numbers in them."""

import io
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.command import RELU, TRANSPOSES, Xopt, write


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model, here and as standard input, and files that are not models."""
    given = write(TRANSPOSES).read_bytes()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(given)))
    for name in ("in", "empty", "taken.onnx.session.json"):
        Path(name).mkdir()
    write(TRANSPOSES, "in/a.onnx")
    write(RELU, "in/relu.onnx")
    Path("in/text.onnx").write_text("no model")


STREAM = "MODEL is a stream: give a file to write with -o FILE"
TWO = "give two models, or one model and --against-torch"
TABLE = "--target onnx: models cannot be run there; xoptim only has a table of its operators"
PROVIDERS = "--provider qnn does not run models on --target webgpu"
ALLOWED = "is not a percentage from 0 to 100, such as 5%"
ON_CPU = "--for startup measures session settings on the CPU"
ABSENT = "No such file or directory"
REFUSED = {
    # the name of the model or of the command
    "optimize": "Missing argument 'MODEL'",
    "explain model.onnx --prove": "--prove takes the name of a pattern",
    "explain model.onnx Cast --prove": "--prove takes the name of a pattern",
    "explain model.onnx": "Missing argument 'PATTERN'",
    "model.onnx another.onnx": "`xopt model.onnx -o another.onnx` writes there",
    "model.onnx stats": "the command comes first: `xopt stats model.onnx`",
    "stat model.onnx": "there is no command or file 'stat'; did you mean `xopt stats`?",
    "optimise model.onnx": "there is no command or file 'optimise'; did you mean `xopt optimize`?",
    "help": "there is no command or file 'help'; did you mean `xopt --help`?",
    "version": "did you mean `xopt --version`?",
    "onnxsim model.onnx": "no command or file 'onnxsim'; did you mean `xopt MODEL -o OUTPUT`?",
    "infer model.onnx": "or file 'infer'; did you mean `xopt extract MODEL -o OUTPUT`?",
    "nodir/model.onnx": f"cannot read 'nodir/model.onnx': {ABSENT}",
    "modle.onnx": f"cannot read 'modle.onnx': {ABSENT} (did you mean 'model.onnx'?)",
    "bench missing.onnx": f"cannot read 'missing.onnx': {ABSENT}",
    "stats absent.onnx": f"cannot read 'absent.onnx': {ABSENT}",
    "check absent.onnx": f"cannot read 'absent.onnx': {ABSENT}",
    "verify model.onnx absent.onnx": f"cannot read 'absent.onnx': {ABSENT}",
    "verify model.onnx .": "cannot read '.': Is a directory (did you mean 'model.onnx'?)",
    ".": "(did you mean 'model.onnx'?); `xopt batch . -o OUT` optimizes all models in it",
    "bench in/text.onnx": "'in/text.onnx' is not an ONNX model, or it is truncated",
    "bench model.onnx in/text.onnx": "'in/text.onnx' is not an ONNX model, or it is truncated",
    "http://host/model.onnx": "'http://host/model.onnx' is a URL, not a file; download the model",
    "stats hf://name/model.onnx": "is not an address of the Hub: hf://ORG/REPO/FILE.onnx",
    "''": "the name of the model is empty",
    "stats ''": "the name of the model is empty",
    "-": f"{STREAM}, or -o -",
    "- --in-place": f"{STREAM}, or -o -",
    "bisect -": STREAM,
    "verify - -": "standard input can be read only once",
    "bench - model.onnx -": "standard input can be read only once",
    "verify model.onnx": TWO,
    "verify model.onnx model.onnx --against-torch a:b": TWO,
    "batch nowhere -o out": "'nowhere' is neither a folder",
    "replay empty": "'empty' holds no dump",
    "replay gone": "cannot read 'gone'",
    "replay model.onnx": "cannot read 'model.onnx'",
    # the file to write
    "model.onnx -o ''": "the name of the file to write is empty",
    "model.onnx -o http://host/out.onnx": "'http://host/out.onnx' is a URL, not a file",
    "- -o s3://bucket/out.onnx": "'s3://bucket/out.onnx' is a URL, not a file; write a local file",
    "model.onnx -o no/such.onnx": "the folder 'no' does not exist; create it first",
    "model.onnx -o a --in-place": "--in-place and --output exclude each other",
    "tune - -o -": "this command cannot write to standard output; give a file with -o FILE",
    "- -o - --json": "-o - and --json both write to standard output",
    "- -o - --external-data": "--external-data writes a file next to the model; use -o FILE",
    "batch in": "'-o' / '--output'",
    "batch in -o in/a.onnx": "is a file",
    "model.onnx --report folder/r.pdf": "HTML: name the file 'folder/r.html', not 'folder/r.pdf'",
    "model.onnx --report missing/r.html": "the folder 'missing' does not exist",
    "model.onnx --report model.onnx": "--report 'model.onnx' would replace a model",
    "diff model.onnx in/a.onnx --html r.pdf": "--html writes HTML: name the file 'r.html', not ",
    "model.onnx --certificate c.json -o -": "--certificate is about files; give -o FILE",
    "model.onnx --certificate c.json -o c.json": "--certificate 'c.json' would replace a model",
    "model.onnx --certificate c --fix N=3": "--certificate is about the optimization alone",
    "model.onnx --for startup -o -": "--for startup writes files next to the model; use -o FILE",
    "model.onnx --for startup -o taken.onnx": "'taken.onnx.session.json': it is a folder",
    # options that are not known, or do not go with another one
    "model.onnx --no-verify --atol 1": "--atol has no effect with --no-verify; remove it",
    "model.onnx --tf32": "--tf32 has no effect without --provider cuda; remove it",
    "explain NegNeg --prove --json": "--json has no effect with --prove; remove it",
    "model.onnx --verfy": "'--verify'",
    "--verfy model.onnx": "'--verify'",
    "model.onnx --frobnicate": "--frobnicate",
    "bench model.onnx --secnds 1": "--seconds",
    "model.onnx -q -v": "--quiet and --verbose exclude each other",
    "model.onnx --config": "--config needs a file",
    "model.onnx --config gone.toml": "--config 'gone.toml': no such file",
    "--completion csh": "'csh' is not one of 'bash', 'zsh', 'fish'",
    "--json-schema verfy": "'verfy' is not one of 'apply', ",
    "verify - model.onnx --ulp 4 --atol 1": "--ulp replaces --rtol and --atol; remove --atol",
    "verify model.onnx in/a.onnx --exact --rtol 1": "--exact allows no difference; remove --rtol",
    "batch in -o out --pattern Cast": "--patterns",
    "batch in -o out --benchmark": "--benchmark",
    "bench model.onnx in/a.onnx --onnxruntime 1.30,1.32": "measures one model; give one",
    "bench model.onnx --onnxruntime 1.30": "give two or more different versions",
    "new-pattern APattern --nodes u": "--nodes needs --from MODEL",
    "new-pattern APattern --from model.onnx": "no node is selected that computes anything",
    "new-pattern APattern --from gone.onnx --nodes a": "cannot read 'gone.onnx'",
    "new-pattern APattern --pack a --family b": "--family and --pack exclude each other",
    # values of options
    "model.onnx --max-rounds -1": "-1",
    "model.onnx --atol -0.5": "-0.5",
    "model.onnx --rtol much": "Invalid value for '--rtol': 'much' is not a number of at least 0",
    "model.onnx --max-growth much": "a size such as 500kB, a share such as 10%, or `unlimited` is",
    "model.onnx --opset 6": "models are lowered to operator set 7 or newer, not to 6",
    "model.onnx --opset 999": "there is no operator set 999: the installed onnx ",
    "model.onnx --dim a": "--dim 'a': write it as NAME=SIZE, such as batch=2",
    "model.onnx --dim a=5,b": "--dim 'a=5,b': write it as NAME=SIZE, such as batch=2",
    "model.onnx --dim q=2": "the model has no dynamic dimension 'q' (it has a, b)",
    "model.onnx --dim a=2,b=3 --dim a=4": "--dim a is given twice: 2 and 4",
    "model.onnx --dim a=3,5": "--dim a=3,5: only benchmarks take several sizes; give one",
    "bench model.onnx --dim a=3,5,7 --dim b=2,4": "--dim: a has 3, b has 2 sizes; the lists are ",
    "model.onnx --fix n=0": "--fix 'n=0': a fixed size is at least 1",
    "model.onnx --precision fp16": "there is no scheme 'fp16'; did you mean float16?",
    "model.onnx --precision int4 --bits 9": "9 is not in the range 2<=x<=8",
    "model.onnx --precision int8 --tolerance 0": "'0' is not above 0% and below 100%",
    "model.onnx --precision int8 --tolerance much": f"'much' {ALLOWED}",
    "model.onnx --precision int8 --tolerance y=0.01": "'0.01' has no percent sign: write 0.01% or ",
    "model.onnx --precision int8 --feeds empty": "no .npz file in 'empty'; write one for each ",
    "model.onnx --precision int8 --static": "give some with --feeds FILE.npz or a folder",
    "model.onnx --feeds gone.npz": "cannot read feeds from 'gone.npz': ",
    "model.onnx --test-data absent": "there is no folder 'absent' of test data",
    "model.onnx --custom-op-lib gone.so": "there is no custom operator library 'gone.so'",
    "check model.onnx --max-shrink 105": f"'105' {ALLOWED}",
    "check model.onnx --max-shrink 0.05": "'0.05' has no percent sign: write 0.05% or 5%",
    "bench model.onnx --seconds 0": "'0' is not a time above 0",
    "bench model.onnx --onnxruntime 1.30,x": "'x' is not a version such as 1.30 or 1.30.1",
    "batch in -o out --memory much": "a size such as 500kB or 4GB",
    "batch in -o out --memory 0": "the memory limit must be positive",
    "batch in -o out --timeout 0": "0",
    "batch in -o out --rewrite gone.txt": f"gone.txt': {ABSENT}",
    "batch in -o out --custom-op-lib gone.so": "there is no custom operator library 'gone.so'",
    "new-pattern AbsAbs": "'AbsAbs' is not a class name such as ReluReluPattern",
    "new-pattern AbsAbs --pack acme": "'AbsAbs' is not a class name such as ReluReluPattern",
    "new-pattern APattern --pack 12": "'12' cannot be the name of a package",
    "new-pattern APattern --pack empty": "'empty' exists; nothing was written",
    "new-pattern APattern --family tensors": "there is no folder 'patterns' of families here",
    # names of patterns, targets and providers
    "model.onnx --patterns default+": "a word is missing after '+' in the selection 'default+'",
    "model.onnx --patterns=-Cast": "'-Cast' has no patterns to remove from; did you mean `default-",
    "list --patterns Castt": "unknown pattern, tag or preset 'Castt'; did you mean 'Cast'?",
    "list TransposeTranspoze": "did you mean 'TransposeTranspose'",
    "list --include fastrun": "unknown pattern, tag or preset 'fastrun'; did you mean 'fast_run'?",
    "model.onnx --patterns qqqq": "`xopt list` shows the patterns, `xopt list --tags` the tags and",
    "model.onnx --drop Castt": "unknown pattern 'Castt'; did you mean 'Cast'?",
    "model.onnx --drop qqqqqqqqqqqqqqq": "'qqqqqqqqqqqqqqq'; `xopt list` shows the patterns",
    "model.onnx --include onnxruntme": "'onnxruntme'; did you mean 'onnxruntime'?",
    "explain model.onnx Cast --provider gpu": "unknown execution provider 'gpu'",
    "doctor --provider nope": "unknown execution provider 'nope'; use one of cpu, cuda,",
    "bench model.onnx --provider abacus": "no execution provider 'abacus', only ",
    "check model.onnx --target nothing": "there is no target 'nothing'",
    "batch in -o out --target webgqu": "did you mean 'webgpu'?",
    "batch in -o out --target qnn --precision int4": "--precision int4 writes",
    "bench model.onnx --target onnx": TABLE,
    "tune model.onnx --target onnx": TABLE,
    "verify model.onnx in/a.onnx --target onnx": TABLE,
    "bench model.onnx --target webgpu --provider qnn": PROVIDERS,
    "check model.onnx --target webgpu --provider qnn": PROVIDERS,
    "verify model.onnx in/a.onnx --target webgpu --provider qnn": PROVIDERS,
    "verify model.onnx in/a.onnx --target openvino --provider openvino --provider cuda": (
        "--target runs on one provider; give one --provider"
    ),
    "model.onnx --for startup --provider cuda": ON_CPU,
    "model.onnx --for startup --target webgpu": ON_CPU,
}
"""Command lines, and the end of their messages or a part of it."""


@pytest.mark.parametrize("line", REFUSED)
def test_refused_command_lines(xopt: Xopt, line: str) -> None:
    before = {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")}
    assert REFUSED[line] in xopt(*shlex.split(line)).error
    assert {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")} == before


SHOWN = {
    "model.onnx --dry-run": "nodes         3 → 1 (67% fewer)",
    "in/relu.onnx --dry-run": "nodes         1 (no pattern applies)",
    "model.onnx --dry-run --no-verify": "verification  skipped: --no-verify",
    "check model.onnx": "failed  model.onnx: nodes: 3 → 1, 66.7 % fewer; at most 5 % allowed",
    "check in/relu.onnx": "ok  in/relu.onnx: nodes: 1 → 1, 0.0 % fewer; at most 5 % allowed",
    "check in/relu.onnx --target webnn --fix batch=2": "ok  in/relu.onnx: on webnn: 1 of 1 node in",
    "check in/relu.onnx --target webnn": (
        "0 of 1 node (by table, not verified); left: 1, at most 0 allowed; Relu 1: its shapes are "
    ),
    "diff model.onnx in/relu.onnx --limit 1": "2 removed, 3 changed; 4 not shown (--limit)",
    "diff model.onnx in/a.onnx": "no difference",
    "diff --values model.onnx in/a.onnx": "no results differ",
    "explain model.onnx NotNot": "NotNot matches nowhere: it starts at Not",
    "explain model.onnx TransposeTranspose": "TransposeTranspose was tried at 2 nodes: 1 refused",
    "explain model.onnx TransposeTranspose --at u": "TransposeTranspose matches at #1 Transpose",
    "explain model.onnx TransposeTranspose --matches": "TransposeTranspose applies at 1 node",
    "explain model.onnx NotNot --matches": "NotNot applies at no node; `xopt explain ",
    "explain model.onnx QuickGelu": "QuickGelu matches nowhere: it starts at Sigmoid",
    "place model.onnx --target webnn": "webnn: 0 of 3 nodes (by table, not verified)",
    "place in/relu.onnx --target webnn --fix batch=2": "webnn: 1 of 1 node in 1 partition (by ",
    "bisect model.onnx": "found no rewrite that changes an output",
    "doctor in/relu.onnx": "dynamic     the model runs with batch = 1, 2, 3, ",
}
"""Command lines, and the beginning of a line of standard output, or a part of it."""


@pytest.mark.parametrize("line", SHOWN)
def test_shown_results(xopt: Xopt, line: str) -> None:
    assert SHOWN[line] in xopt(*shlex.split(line)).out


def test_errors_of_the_system(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: OSError) -> Callable[..., None]:
        def raised(*_: object, **__: object) -> None:
            raise error

        return raised

    for error, message in (
        (OSError("cannot connect to tcp://a:1"), "cannot connect to tcp://a:1"),
        (
            OSError(5, "Input/output error", "file"),
            "cannot use 'file': Input/output error; nothing was written",
        ),
        # os.getcwd
        (
            FileNotFoundError(2, "No such file or directory"),
            "the current folder no longer exists",
        ),
        (
            FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"),  # tempfile
            "no folder for temporary files can be written; set TMPDIR=FOLDER (environment)",
        ),
        (OSError(5, "Input/output error"), "cannot write to standard output: Input/output error"),
        # os.fork
        (BlockingIOError(11, "Try again"), "Try again; nothing was written"),
    ):
        monkeypatch.setattr("xoptim.workflow.stages.optimize_verified", fail(error))
        assert xopt("model.onnx").error == message
