"""Options of the commands that serve a model or look after its store: one per setting of the service."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

from igcf.cli.options import PATH
from igcf.model.files import META
from igcf.service.settings import ServiceSettings

if TYPE_CHECKING:
    from igcf.service.context import ServiceContext
    from igcf.service.store.store import Store

FLAGS = {"model": "DIR", "cors_origins": "--cors-origin", "allowed_hosts": "--allowed-host"}
"""Options that may be repeated are named after one of their values."""
CONFIG = click.option("--config", type=PATH, help="TOML file of settings [default: the one that IGCF_CONFIG names].")
STORE = click.option(
    "--store", help="SQLite file or postgresql://USER@HOST/DB [default: IGCF_STORE, the file of --config, or igcf.db]."
)

GROUPS = {
    "Options": "store store_password_file host port workers api_key_file models log_level",
    "Answers": "policy nu explore index rules forgetting skip_rounds skip_hours no_reaction_after images",
    "Browsers and names": "cors_origins allowed_hosts",
    "Limits of a request": "max_nu max_k max_list max_batch max_items max_body max_items_body request_timeout_s",
    "Limits of a server": "max_connections max_in_flight threads body_timeout_s header_timeout_s send_timeout_s "
    "store_wait_s hot_users hot_megabytes audit_queue audit_days",
}
"""Settings in the order in which `igcf serve --help` lists them; the most common first."""


class GroupedCommand(click.Command):
    """A command with options listed in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command itself first, then those of the settings by group."""
        groups: dict[str, list[tuple[str, str]]] = {group: [] for group in (*GROUPS, "Other settings")}
        of = {name: group for group, names in GROUPS.items() for name in names.split()}
        for parameter in self.get_params(ctx):
            record, name = parameter.get_help_record(ctx), parameter.name or ""
            if record is not None and isinstance(parameter, click.Option):
                is_setting = name in ServiceSettings.model_fields
                groups[of.get(name, "Other settings") if is_setting else "Options"].append(record)
        for group, records in groups.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command one option per setting but the model, which is its argument."""
    for name, field in reversed(ServiceSettings.model_fields.items()):
        if name != "model":
            command = _option(name, field.annotation, field.default, field.description or "")(command)
    return command


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Select the options that were given."""
    return {name: value for name, value in options.items() if value is not None and value != ()}


def store_settings(store: str | None, config: Path | None) -> ServiceSettings:
    """Find the settings that a command about a store needs: by options, the environment or a file, as a server does."""
    from igcf.service.sources import load_settings

    return load_settings(given({"store": store}), file=config).settings


def of_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a store, as its argument `url`."""

    @wraps(command)
    def with_url(*args: Any, store: str | None, config: Path | None, **others: Any) -> Any:
        return command(*args, url=store_settings(store, config).store, **others)

    return STORE(CONFIG(with_url))


def in_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a store, and the store, opened, as its argument `store`."""

    @wraps(command)
    def with_store(*args: Any, url: str, **others: Any) -> Any:
        from igcf.service.store.maintenance import open_existing

        with closing(open_existing(url)) as store:
            return command(*args, store=store, **others)

    return of_store(with_store)


@contextmanager
def context_of(model: Path, store: str | None, config: Path | None = None) -> "Iterator[ServiceContext]":
    """Open a model and a store that exists as a server would, for a command that answers nobody."""
    from igcf.service.context import ServiceContext
    from igcf.service.store.maintenance import open_existing

    settings = store_settings(store, config)
    open_existing(settings.store).close()
    with closing(ServiceContext.open(model, settings)) as context:
        yield context


def model_folder(store: "Store", named: Path | None) -> Path | None:
    """Find the model that is named, or else the one in service; None where that is not on this machine."""
    in_service = Path(store.generation()[1])
    return named or (in_service if (in_service / META).exists() else None)


def _option(name: str, annotation: Any, default: Any, text: str) -> Callable[[Any], Any]:
    kinds = {kind for kind in (annotation, *get_args(annotation)) if kind in (int, float)}
    is_choice = get_origin(annotation) is Literal
    kind = click.Choice(get_args(annotation)) if is_choice else kinds.pop() if kinds else str
    shown = "" if default in (None, ()) else f" [default: {default}]"
    flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
    if name in FLAGS:  # each of them a list
        shown = f" [default: {default[0]}]" if default else ""
        return click.option(flag, name, multiple=True, help=f"{text.rstrip('.')}; may be repeated{shown}.")
    return click.option(flag, name, type=kind, help=f"{text.rstrip('.')}{shown}.", metavar=None)
