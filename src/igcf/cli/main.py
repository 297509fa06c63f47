"""The `igcf` command: subcommands are imported when they are called, mistakes are one line."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from igcf.cli.output import echo, in_options
from igcf.errors import IgcfError
from igcf.version import __version__

COMMANDS = {
    "demo": ("igcf.cli.demo:demo", "See it work on the embedded catalogue, in about a minute."),
    "data": ("igcf.cli.data:data", "List, fetch and validate interaction logs."),
    "pretrain": ("igcf.cli.pretrain:pretrain", "Train a model on an interaction log."),
    "recommend": ("igcf.cli.recommend:recommend", "Recommend to one user, on the terminal or from a file."),
    "serve": ("igcf.cli.serve:serve", "Serve a model over HTTP, with a page to try it."),
    "retrain": ("igcf.cli.retrain:retrain", "Train on a store, compare with the model in service, promote."),
    "models": ("igcf.cli.models:models", "List, promote, roll back and delete the models of a service."),
    "recommend-all": ("igcf.cli.recommend_all:recommend_all", "Write recommendations for every user of a store."),
    "mcp": ("igcf.cli.mcp:mcp", "Offer a running service to assistants as MCP tools."),
    "import": ("igcf.cli.import_log:import_log", "Import a log into the store of a service."),
    "items": ("igcf.cli.items:items", "Add, change, retire and list the items of a service."),
    "store": ("igcf.cli.store:store", "Back up, restore, verify and export a store."),
    "experiment": ("igcf.cli.experiment:experiment", "Plan and run A/B experiments on the users of a service."),
    "ope": ("igcf.cli.ope:ope", "Estimate from a log what another model would have achieved."),
    "evaluate": ("igcf.cli.evaluate:evaluate", "Compare methods on users with known reactions."),
    "lab": ("igcf.cli.lab:lab", "Measure agents, your own and built-in ones, on suites of environments."),
    "reproduce": ("igcf.cli.reproduce:reproduce", "Reproduce the paper's tables and compare them with ours."),
    "bench": ("igcf.cli.bench:bench", "Measure speed against the bare operations and other libraries."),
    "theory": ("igcf.cli.theory:theory", "Check the confidence and regret bounds by simulation."),
    "doctor": ("igcf.cli.doctor:doctor", "Check the installation, data sets and store."),
}
EPILOG = """\b
Examples:
  igcf demo
  igcf pretrain --dataset ratings.csv --out model/
  igcf recommend model/
  igcf serve model/
"""


class LazyGroup(click.Group):
    """Command group that imports subcommands when they are called and shows our own errors as one line, exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all commands, in the order in which one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run; a user's mistake ends in one line on stderr, a bug keeps its trace."""
        extra["standalone_mode"] = False
        try:
            result = super().main(args, prog_name or "igcf", **extra)
            sys.exit(result if isinstance(result, int) else 0)
        except click.exceptions.NoArgsIsHelpError as error:
            echo(error.ctx.get_help() if error.ctx else str(error), err=True)
            sys.exit(2)
        except click.ClickException as error:
            echo(f"Error: {_with_help(error)}", err=True)
            sys.exit(2)
        except IgcfError as error:
            echo(f"Error: {in_options(str(error))}", err=True)
            sys.exit(2)
        except ModuleNotFoundError as error:
            if (told := _missing_extra(error)) is None:
                raise
            echo(f"Error: {told}", err=True)
            sys.exit(2)
        except (click.Abort, KeyboardInterrupt):
            echo("Stopped.", err=True)
            sys.exit(130)
        except BrokenPipeError:  # the reader of our output went away, as in `igcf ... | head`
            sys.stderr.close()
            sys.exit(0)


def _missing_extra(error: ModuleNotFoundError) -> str | None:
    """Say which extra has a package that is not installed; None for one that no extra has."""
    from igcf.cli.doctor import PACKAGES

    name = (error.name or "").partition(".")[0]
    extra = next((extra for extra, names in PACKAGES.items() if name.replace("_", "-") in names), None)
    return extra and f"this needs the package {name}, which is not installed; pip install 'igcf[{extra}]'"


def _with_help(error: click.ClickException) -> str:
    """Name the help of a command that was called wrongly; a value that cannot be used says itself what is wrong."""
    message = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None or type(error) is click.BadParameter:
        return message
    return f"{message.rstrip('.')}; see `{context.command_path} --help`"


@click.group(
    cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="igcf")
def cli() -> None:
    """An interactive recommender: a new user gets an answer at once, and each reaction makes the next one better."""


def main() -> None:
    """Entry point of the `igcf` script."""
    cli.main()
