"""A process in place of that of ``xopt``, whose models are texts that say how it ends. It ends with
its first command, as where a process cannot be copied.
"""

from pathlib import Path

SCRIPT = """
import json, os, pathlib, signal, sys, time
memory, *words = json.loads(sys.stdin.readline())
model, target = pathlib.Path(words[-1]), pathlib.Path(words[words.index("-o") + 1])
with model.with_suffix(".runs").open("a") as stream:
    stream.write(f"{os.getpid()}\\n")
verb, *rest = model.read_text().split()
if verb == "crash":
    os.kill(os.getpid(), signal.SIGKILL)
if verb == "slow":
    sys.stdin.read()  # until the process ends that runs it, then go on
if verb == "broken":
    print("xopt: error: 'it' is not an ONNX model", file=sys.stderr)
    sys.exit(2)
status = {"different": "different", "doubtful": "not verified"}.get(verb, "equal")
if verb != "silent":
    reason = "" if status == "equal" else "because"
    reports = [{"status": status, "reason": reason, "largest": None}]
    reports[0]["unreached"] = ["branch 'then' of If 'y'"] if verb == "partial" else []
    sizes = dict(nodes_before=3, nodes_after=1, bytes_before=300, bytes_after=100)
    remarks = dict(remarks=["hint: use it", *rest]) if verb == "remarkable" else {}
    print(json.dumps({**sizes, **remarks, "verification": reports}))
if verb == "different":
    print("xopt: error: different: because; nothing was written", file=sys.stderr)
    sys.exit(1)
if verb == "weighty":
    target.with_name(f"{target.name}.data").write_text("weights")
target.write_text(json.dumps([str(memory), words[: words.index("-o")], rest]))
sys.exit(3 if verb == "doubtful" else 0)
"""


def write(folder: Path, **models: str) -> Path:
    """Write models: name (``__`` for ``/``) and text."""
    for name, text in models.items():
        path = folder / f"{name.replace('__', '/')}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def runs(folder: Path) -> dict[str, int]:
    """How often the command ran each model."""
    return {
        path.stem: len(path.read_text().splitlines()) for path in sorted(folder.rglob("*.runs"))
    }


def files(folder: Path) -> set[str]:
    """The files in a folder, the lock excepted."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }
