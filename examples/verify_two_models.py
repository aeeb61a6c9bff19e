"""Do two models compute the same? How much do they differ, and where?

python examples/verify_two_models.py
"""

from xoptim.testing import parse
from xoptim.verification import VerificationOptions, verify_models

EXACT = "agraph (float[batch,8] x) => (float[batch,8] y) { y = Gelu(x) }"
FAST = 'agraph (float[batch,8] x) => (float[batch,8] y) { y = Gelu <approximate = "tanh"> (x) }'


def main() -> None:
    """Two forms of an activation, with the tolerance of its type and with a wider one."""
    exact, fast = parse(EXACT, opset=20), parse(FAST, opset=20)
    for options in (
        VerificationOptions(),
        VerificationOptions(atol=1e-2, dims={"batch": 100}),
    ):
        report = verify_models(exact, fast, options)
        print(report.summary())
        for run in report.runs:
            print(
                f"  {dict(run.dims)}: {run.comparisons[0].mismatches} of "
                f"{run.comparisons[0].count} elements differ"
            )


if __name__ == "__main__":
    main()
