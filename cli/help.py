"""The help of a command: ten options, or with ``--help-all`` all of them in groups."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import click

FAST: Final = "xopt fast"
"""A key in the data of a context whose help is the help of ``xopt fast``."""
_ALL: Final = "xopt --help-all"
"""A key in the data of a context whose help lists all options."""
_FEW: Final = 16
"""Maximum number of options of a command whose ``--help`` lists all of them."""
_TEN: Final = 10
"""Number of options that ``--help`` lists of a command with more options."""
_WIDTH: Final = 46
"""Maximum number of characters of the text of an option, so that it fits on one line."""
_FIRST: Final = (
    *(
        "output",
        "in_place",
        "inputs",
        "outputs",
        "into",
        "link",
        "at",
        "against",
        "max_shrink",
        "jobs",
        "resume",
        "fast",
        "opset",
    ),
    *("target", "precision", "fix", "include", "by_operator", "threads", "values", "html", "limit"),
    *("assume", "report", "tolerance", "rtol", "feeds", "dims", "provider", "seconds", "as_json"),
)
"""Options, the most frequent ones first. A command lists the first ten of its options."""
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Result": (
        *("output", "in_place", "external_data", "share_weights", "strip", "tag", "dry_run"),
        "report",
    ),
    "Patterns": (
        *("patterns", "include", "require", "exclude", "rewrite", "drop", "strategy"),
        "max_rounds",
    ),
    "Runtime": (
        *("fast", "opset", "provider", "target", "cpu", "genai", "only_if_faster", "benchmark"),
    ),
    "Inputs and outputs": (
        *("fix", "free", "drop_output", "keep_output", "rename", "drop_unused_inputs", "io_types"),
    ),
    "Parts of models": ("inputs", "outputs", "into", "link"),
    "Assumptions and proofs": (
        *("assume", "assume_from_model", "assume_fitting", "guard", "prove", "strict_proof"),
        "certificate",
    ),
    "Verification": (
        *("verify", "check", "strict", "verify_budget", "run_limit", "custom_op_lib"),
        *("software_device", "fewer_inputs"),
    ),
    "Values and comparison": (
        *("feeds", "test_data", "dims", "seed", "rtol", "atol", "ulp", "tf32"),
    ),
    "Precision": (
        *("precision", "tolerance", "metric", "goal", "static", "calibration", "compute"),
        "budget",
    ),
    "Weights of 2 to 8 bits": ("bits", "block_size"),
    "Mixtures of experts": ("exact_routing",),
    "Graph": ("no_fold", "inline", "outline", "max_growth"),
    "Batch": ("jobs", "timeout", "memory", "resume", "scheduler"),
    "Checks": (
        *("max_shrink", "against", "max_larger", "max_slower", "max_left", "max_partitions"),
        "exact",
    ),
    "Measurement": ("threads", "seconds", "ort_level", "by_operator"),
    "Messages": ("as_json", "as_sarif", "github", "verbose", "quiet"),
}
"""The options in groups of at most eight, by the names of parameters."""


class HelpfulCommand(click.Command):
    """A command whose help lists the ten most frequent options, or all options in groups."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """All parameters and ``--help-all``, which is listed if ``--help`` lists ten options."""
        params = super().get_params(ctx)
        return [*params[:-1], _help_all(is_listed=self._has_many()), params[-1]]

    def _has_many(self) -> bool:
        return sum(isinstance(param, click.Option) for param in self.params) > _FEW

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the words of the command line."""
        name = FAST if FAST in ctx.meta else ctx.command_path
        formatter.write_usage(name, " ".join(self.collect_usage_pieces(ctx)))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options."""
        if not self._has_many():
            super().format_options(ctx, formatter)
            return
        params = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        helps = params[-2:]
        options = {str(param.name): param for param in params[:-2]}
        if FAST in ctx.meta:
            options.pop("fast", None)  # the command sets it
        if _ALL in ctx.meta:
            groups = {title: [*_chosen(options, names)] for title, names in GROUPS.items()}
            listed = {param.name for params in groups.values() for param in params}
            remaining = [param for name, param in options.items() if name not in listed]
            for title, params in {**groups, "Other": [*remaining, *helps]}.items():
                _write(formatter, title, (param.get_help_record(ctx) for param in params))
            return
        first = {param.name for param in [*_chosen(options, _FIRST)][:_TEN]}
        shown = [param for name, param in options.items() if name in first]
        _write(formatter, "Options", (_line(param) for param in [*shown, *helps]))


def _chosen(options: Mapping[str, click.Option], names: Iterable[str]) -> Iterator[click.Option]:
    return (options[name] for name in names if name in options)


def _write(formatter: click.HelpFormatter, title: str, records: Iterable[Any]) -> None:
    rows = [record for record in records if record is not None]
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def _line(option: click.Option) -> tuple[str, str]:
    """The names of an option, and the beginning of its help."""
    names = ", ".join(option.opts)
    if not option.is_flag:
        is_choice = isinstance(option.type, click.Choice)
        names += f" {'WORD' if is_choice else option.metavar or option.type.name.upper()}"
    text = (option.help or "").partition(". ")[0].partition(" (")[0].rstrip(".")
    return names, text if len(text) <= _WIDTH else f"{text[: text.rindex(' ', 0, _WIDTH)]} ..."


def _help_all(*, is_listed: bool) -> click.Option:
    """The option that prints the whole help."""

    def show(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            ctx.meta[_ALL] = True
            click.echo(ctx.get_help())
            ctx.exit()

    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        hidden=not is_listed,
        help="Show all options, in groups.",
    )
