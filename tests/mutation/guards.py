"""Guards taken out of patterns: how many of the wrong models that they made does the proof of the command notice?

``python -m tests.mutation.guards --count 200``: one condition of a pattern at a time is removed. Where a near miss of an
example then computes something else, the plain command's proof judges it. What it does not notice is printed.
"""

import argparse
import ast
import inspect
import itertools
import logging
import multiprocessing
import random
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import onnx

from xoptim.catalogue.discovery import installed_patterns, patterns_of
from xoptim.engine.options import OptimizationOptions
from xoptim.match.rewrite import Rewrite
from xoptim.optimizing.proof import ProofOptions, prove
from xoptim.testing.models import optimize_alone, provider_of, serialized
from xoptim.testing.perturbations import compare, near_misses
from xoptim.testing.variant import Case, Variant

_DECLARED: Final = ("constant_operands", "operand_types", "operand_ranks")
_SECONDS: Final = 10.0
"""Time to find models that a mutant makes wrong."""
_MODELS: Final = 3
_PROOF_SECONDS: Final = 60.0
_MUTANT_SECONDS: Final = 120.0
_MEMORY: Final = 3 << 30
_NOT_NUMBERS: Final = ("onnxruntime refuses", "the result does not run")


class Guard(NamedTuple):
    """A condition of a pattern: its line, its text, and the module without it."""

    line: int
    text: str
    without: ast.Module


class Wrong(NamedTuple):
    """A model that a pattern without a guard makes wrong."""

    pattern: type[Rewrite]
    variant: Variant
    difference: str


def guards(tree: ast.Module) -> Iterator[Guard]:
    """The conditions in the patterns and helpers of a module: tests before a refusal, terms of a result, declarations."""
    places = {id(node): place for place, node in enumerate(ast.walk(tree))}
    for statement in ast.walk(tree):
        for condition, held in _conditions(statement):
            copy = deepcopy(tree)
            target = next(itertools.islice(ast.walk(copy), places[id(condition)], None))
            without = ast.fix_missing_locations(_Without(target, held).visit(copy))
            yield Guard(condition.lineno, ast.unparse(condition), without)


def _conditions(statement: ast.AST) -> Iterator[tuple[ast.expr, bool | None]]:
    """The conditions of a statement, each with the value that it has where it allows a match, ``None`` for a declaration."""
    match statement:
        case ast.If(test=ast.BoolOp(op=ast.Or(), values=terms), body=[answer], orelse=[]) if _refuses(answer):
            yield from ((term, False) for term in terms)
        case ast.If(test=test, body=[answer], orelse=[]) if _refuses(answer):
            yield test, False
        case ast.Return(value=ast.BoolOp(op=ast.And(), values=terms)):
            yield from ((term, True) for term in terms)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=terms)) if name in _DECLARED:
            yield from ((term, None) for term in terms)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys)) if name in _DECLARED:
            yield from ((key, None) for key in keys if key is not None)


def _refuses(statement: ast.stmt) -> bool:
    """Whether a statement returns None, False, or what ``self.none`` returns."""
    match statement:
        case ast.Return(value=None | ast.Constant(value=None | False) | ast.Call(func=ast.Attribute(attr="none"))):
            return True
    return False


class _Without(ast.NodeTransformer):
    """Lets a condition always hold, which is still evaluated, since it may assign names; or removes a declaration."""

    def __init__(self, target: ast.AST, held: bool | None) -> None:
        self.target, self.held = target, held

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Dict) and self.target in node.keys:
            place = node.keys.index(self.target)
            del node.keys[place], node.values[place]
        if node is not self.target or not isinstance(node, ast.expr):
            return self.generic_visit(node)
        if self.held is None:
            return None
        return ast.BoolOp(ast.Or() if self.held else ast.And(), [node, ast.Constant(self.held)])


def mutated(module: ModuleType, tree: ast.Module) -> ModuleType:
    """A module like another one, made from other statements."""
    made = ModuleType(module.__name__)
    made.__package__, made.__file__ = module.__package__, module.__file__
    exec(compile(tree, str(module.__file__), "exec"), made.__dict__)
    return made


class Battery:
    """The near misses of all patterns of a module, in a random order, and what the patterns make of them."""

    def __init__(self, module: ModuleType, rng: random.Random) -> None:
        cases = [Case(example, pattern) for pattern in patterns_of(module) for example in pattern.examples]
        self._variants = [(case, v) for case in cases for v in near_misses(case.example, case.pattern)]
        self._right: dict[int, bytes] = {}
        rng.shuffle(self._variants)

    def wrong_with(self, module: ModuleType) -> Iterator[Wrong]:
        """Near misses of which the patterns of a mutant change the numbers: a few, the first of each family."""
        patterns = {pattern.name(): pattern for pattern in patterns_of(module)}
        families: set[str] = set()
        end = time.monotonic() + _SECONDS
        for number, (case, variant) in enumerate(self._variants):
            if time.monotonic() > end or len(families) == _MODELS:
                break
            if variant.family in families:
                continue
            assert case.pattern is not None
            pattern = patterns[case.pattern.name()]
            found = _optimized(pattern, variant.model)
            if found is None or serialized(found) == self._expected(number):
                continue
            difference = compare(case, variant, found, pattern.exactness).difference
            if difference and not difference.startswith(_NOT_NUMBERS):
                families.add(variant.family)
                yield Wrong(pattern, variant, difference)

    def _expected(self, number: int) -> bytes:
        if number not in self._right:
            case, variant = self._variants[number]
            found = _optimized(case.pattern, variant.model)
            self._right[number] = serialized(variant.model if found is None else found)
        return self._right[number]


def _optimized(pattern: type[Rewrite] | None, model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The optimized model, ``None`` when the pattern fails on it."""
    try:
        return optimize_alone(pattern, model).model
    except Exception:  # a pattern without a guard may raise anything
        return None


def verdict(wrong: Wrong) -> str:
    """The verdict of the plain command's proof on a wrong model, made in a process of its own, which may crash."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_judge, args=(wrong, there))
    process.start()
    there.close()
    try:
        return str(here.recv()) if here.poll(_PROOF_SECONDS) else "no end"
    except EOFError:
        return "crash"
    finally:
        process.kill()
        process.join()


def _judge(wrong: Wrong, answer: Connection) -> None:
    options = OptimizationOptions(patterns=[wrong.pattern], provider=provider_of(wrong.pattern))
    try:
        proof = prove(wrong.variant.model, options, ProofOptions(bisect=False))
        report = proof.failure
        answer.send("equal" if report is None else report.status)
    except Exception as error:  # the command ends with it, and writes nothing
        answer.send(type(error).__name__)


class Outcome(NamedTuple):
    """A wrong model: the verdict of the proof on it, and a description of what was not noticed."""

    verdict: str
    missed: str = ""


def outcomes(name: str, seed: int) -> Iterator[list[Outcome]]:
    """The wrong models that come of each guard of a module.

    They are made in a process of its own, since a pattern without a guard may never end, or take all memory.
    """
    start, context = 0, multiprocessing.get_context("fork")
    while True:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_try_all, args=(name, seed, start, there))
        process.start()
        there.close()
        try:
            while here.poll(_MUTANT_SECONDS):
                answer = here.recv()
                if answer is None:
                    return
                start += 1
                yield answer
        except EOFError:
            pass
        finally:
            process.kill()
            process.join()
        start += 1
        yield []


def _try_all(name: str, seed: int, start: int, answer: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    logging.disable()
    module = sys.modules[name]
    path = Path(inspect.getfile(module))
    battery = Battery(module, random.Random(seed))
    for guard in list(guards(ast.parse(path.read_text(encoding="utf-8"))))[start:]:
        place = f"{path.parent.name}/{path.name}:{guard.line} without `{guard.text[:90]}`"
        answer.send([_outcome(wrong, place) for wrong in battery.wrong_with(mutated(module, guard.without))])
    answer.send(None)


def _outcome(wrong: Wrong, place: str) -> Outcome:
    found = verdict(wrong)
    return Outcome(found, f"{place}\n  {wrong.variant.name}: {wrong.difference[:300]}" if found == "equal" else "")


def main() -> int:
    """Entry point; the exit status is 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="wrong models to judge")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--of", default="", help="only patterns of modules whose name contains this")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    names = sorted({c.__module__ for c in installed_patterns().values() if chosen.of in c.__module__})
    random.Random(chosen.seed).shuffle(names)
    verdicts: Counter[str] = Counter()
    removed = needed = 0
    for found in itertools.chain.from_iterable(outcomes(name, chosen.seed) for name in names):
        removed += 1
        needed += bool(found)
        verdicts.update(outcome.verdict for outcome in found)
        for outcome in found:
            if outcome.missed:
                sys.stdout.write(f"not noticed: {outcome.missed}\n")
                sys.stdout.flush()
        if verdicts.total() >= chosen.count:
            break
    noticed = verdicts.total() - verdicts["equal"]
    sys.stdout.write(f"{removed} guards removed, {needed} of them make wrong models\n")
    sys.stdout.write(f"{verdicts.total()} wrong models, {noticed} noticed: {dict(verdicts)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
