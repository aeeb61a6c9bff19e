"""Text of symbolic dimensions, in Python syntax."""

from typing import Any

from xoptim.facts.polynomials import Atom, Monomial, Terms


def text_of(terms: Terms, constant: int) -> str:
    """Readable text, for example ``2*batch*seq - seq**2 + 1``.

    The limits of an expression (`MOST_TERMS`, ...) also limit the length of its text.
    """
    pieces: list[str] = []
    for monomial, coefficient in terms:
        size = abs(coefficient)
        body = _monomial_text(monomial, alone=coefficient == 1)
        pieces.append("-" if coefficient < 0 else "+")
        pieces.append(body if size == 1 else f"{size}*{body}")
    if constant:
        pieces += ["-" if constant < 0 else "+", str(abs(constant))]
    first = pieces[1] if pieces[0] == "+" else "-" + pieces[1]
    return " ".join([first, *pieces[2:]])


def _is_tight(atom: Atom) -> bool:
    """Whether the text of an atom needs no parentheses next to any operator."""
    return atom.kind not in ("//", "%")


def _atom_text(atom: Atom) -> str:
    if not atom.args:
        return atom.name
    if _is_tight(atom):
        return f"{atom.kind}({', '.join(map(str, atom.args))})"
    return f"{_operand_text(atom.args[0])}{atom.kind}{_operand_text(atom.args[1])}"


def _operand_text(dim: Any) -> str:
    if type(dim) is int:
        return str(dim)
    atom = dim.atom
    return str(dim) if atom is not None and _is_tight(atom) else f"({dim})"


def _monomial_text(monomial: Monomial, alone: bool) -> str:
    if alone and len(monomial) == 1 and monomial[0][1] == 1:
        return _atom_text(monomial[0][0])
    factors: list[str] = []
    for atom, exponent in monomial:
        text = _atom_text(atom)
        if not _is_tight(atom):
            text = f"({text})"
        factors.append(text if exponent == 1 else f"{text}**{exponent}")
    return "*".join(factors)
