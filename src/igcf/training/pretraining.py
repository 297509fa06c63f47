"""From an interaction log to a model: the one function that the library and the command line call."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from igcf.config import ExpertsConfig, GraphConfig, configured
from igcf.data.findings import report_of
from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.data.log_files import LogFiles
from igcf.data.reading import read_files
from igcf.data.success import Success, success_in
from igcf.errors import ConfigError, DataError
from igcf.model import Model
from igcf.model.checks import checked_kinds
from igcf.training.attribute_prior import with_attributes
from igcf.training.checkpoint import Checkpoint
from igcf.training.cluster.executors import Engine, Workers
from igcf.training.content import fit_content
from igcf.training.context import with_context
from igcf.training.experts import fit_experts
from igcf.training.experts.executor import one_thread_each
from igcf.training.progress import Watch, watching


def pretrain(
    data: Interactions | LogFiles,
    config: GraphConfig | ExpertsConfig | None = None,
    *,
    validation: Interactions | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Watch | bool = True,
    shards: int | None = None,
    engine: Engine | None = None,
    address: str | None = None,
    **settings: Any,
) -> Model:
    """Learn a model from a log: by default the experts, or the paper's variational graph model (alg:pretrain).

    `method="graph"` chooses the graph model, `config=igcf.GraphConfig.paper()` the graph model as the paper prints it;
    both need `pip install 'igcf[train]'`. Both methods choose open settings on validation users.

    Validation users have the same items in the same order and are not in `data`. On them the graph model's training
    stops when their interactive precision stops growing, and its online noise and gamma are chosen. Without them, some
    of the most active users are held out for such choices, and the model is then refitted to everybody.

    Args:
        data: The log, or the Parquet files of one, which workers read themselves.
        config: All settings, an `ExpertsConfig` or a `GraphConfig`; the defaults if left out.
        validation: Reactions of users that are not in `data`.
        checkpoint: A folder for the state of training: of the default model after every stage, of the graph model
            whenever the validation users are scored. Workers on several machines must all see it.
        resume: Continue from the checkpoints in that folder, to the same result as without interruption. One that
            does not exist is an error; in one without a checkpoint training starts.
        progress: True prints progress on standard error, False prints nothing; a function is called with a
            `Progress` after every step instead.
        shards: Number of workers that share the users of the log (default model only); the result does not depend
            on it.
        engine: What runs them: processes of this machine (`local`), or actors of a `ray` cluster.
        address: Address of a running Ray cluster; without it, one is started on this machine.
        **settings: Fields of the configuration that differ from `config`, for instance `seed=1`, and `method`.

    Example:
        >>> import igcf
        >>> data = igcf.data.synthetic_catalogue(n_users=60, n_items=20)
        >>> model = igcf.pretrain(data, seed=0, progress=False)
        >>> model.n_items
        20
    """
    workers = Workers(shards, engine, address)
    config = configured(config, settings)
    if isinstance(data, str | Path):
        raise DataError(f"expected a log, found a path: {str(data)!r}; read it with igcf.load_dataset({str(data)!r})")
    if isinstance(data, Interactions) and len(data) == 0:
        raise DataError(f"the log {data.name!r} holds no reaction to learn from")
    if validation is not None and len(validation) == 0:
        raise DataError("the validation log holds no reaction; give at least one user or leave it out")
    folder = None if checkpoint is None else Path(checkpoint)
    if resume:
        can_resume(folder)
    workers.check(config)
    if folder is not None:
        with suppress(OSError):  # from here on it can be resumed; where it cannot be made, the first to write says why
            folder.mkdir(parents=True, exist_ok=True)
    with watching(progress) as watch:
        if isinstance(config, ExpertsConfig) and workers.are_asked_for:
            if validation is not None:
                raise ConfigError("workers hold users out of the log by themselves; leave validation out")
            return _learned_by_workers(data, config, workers, folder, resume, watch)
        log = _read(data)
        success = success_in(log, config.satisfied)
        config = replace(config, satisfied=success.threshold)
        learn: Callable[..., Model] = fit_experts if isinstance(config, ExpertsConfig) else _graph_fit()
        state = Checkpoint(folder)
        if folder is not None:
            given = None if validation is None else validation.fingerprint()
            state.begin({"settings": config.as_dict(), "log": log.fingerprint(), "validation": given}, resume=resume)
        model = learn(log, config, validation=validation, progress=watch, checkpoint=state)
        return _with_log_facts(model, log, success, log)


def can_resume(folder: Path | None) -> bool:
    """Whether a folder holds the state of a training; one that does not exist is refused."""
    if folder is None:
        raise ConfigError("resume needs the checkpoint folder of the run to continue")
    if not folder.is_dir():
        raise ConfigError(f"resume: there is no checkpoint folder {folder}; check its name, or train without resume")
    return Checkpoint(folder).is_begun


def _with_log_facts(model: Model, data: Interactions, success: Success, log: Interactions) -> Model:
    """Return the model with metadata, kinds of feedback, attributes and rare items of the log."""
    model.metadata["success"] = success.as_dict()
    model.metadata["reading"] = report_of(data, success, data.name).as_dict()
    if log.timestamps is not None and (known := log.timestamps[log.timestamps != MISSING_TIME]).size:
        model.metadata["data"]["until"] = int(known.max())
    model.kinds = checked_kinds(data.kinds)
    with one_thread_each():
        model = with_context(with_attributes(model.changed(content=fit_content(model)), log), log)
    known = [item for item in data.rare_items if item.title or item.categories or item.text or item.numbers]
    return model.with_items(known) if known else model


def _graph_fit() -> Callable[..., Model]:
    try:
        from igcf.training.variational.run import fit_graph
    except ImportError as error:
        raise ConfigError(f"the graph model needs torch ({error}); pip install 'igcf[train]'") from error
    return fit_graph


def _learned_by_workers(
    data: Interactions | LogFiles,
    config: ExpertsConfig,
    workers: Workers,
    folder: Path | None,
    resume: bool,
    watch: Watch,
) -> Model:
    """Learn the default model on workers that share the users of the log."""
    from igcf.training.cluster.executors import open_workers
    from igcf.training.cluster.sharing import log_fingerprint, shared_log, with_people

    with ExitStack() as stack:
        folder = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="igcf-parts-")))
        state = Checkpoint(folder)
        identity = {"settings": config.as_dict(), "log": log_fingerprint(data)}
        if state.is_begun:  # before the parts of another log take the place of those that are there
            state.begin(identity, resume=resume)
        executor = stack.enter_context(open_workers(workers))
        log = shared_log(data, executor, folder)
        success = success_in(log.catalogue, config.satisfied, levels=log.levels)
        state.begin(identity, resume=True)  # after a log that cannot be read nothing is left to resume
        config = replace(config, satisfied=success.threshold)
        model = fit_experts(log, config, progress=watch, checkpoint=state)
        model.metadata["workers"] = {
            "engine": workers.engine or "local",
            "number": executor.size,
            "exchanged_bytes": executor.exchanged,
        }
        own = data if isinstance(data, Interactions) else with_people(log, data, folder)
        return _with_log_facts(model, log.catalogue, success, own)


def _read(data: Interactions | LogFiles) -> Interactions:
    """Return a log in memory."""
    if isinstance(data, Interactions):
        return data
    log = read_files(data.path, data.columns)
    log = log if data.items is None else log.with_items(data.items)
    return log if data.users is None else log.with_users(data.users, data.without)
