"""One training of the default model: in this process, or on workers that share the users of the log."""

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from igcf.config import ExpertsConfig
from igcf.data.interactions import Interactions
from igcf.data.log_files import LogFiles
from igcf.data.reading import read_files
from igcf.data.success import Success, success_from, success_in
from igcf.errors import ConfigError
from igcf.model import Model
from igcf.training.cluster.workers import Workers
from igcf.training.experts import fit_experts
from igcf.training.experts.kept import Kept
from igcf.training.progress import Watch


@dataclass(frozen=True)
class ExpertsRun:
    """Settings of a training, where its state is kept, and who watches it."""

    config: ExpertsConfig
    folder: Path | None
    """Where the state is kept; None: nowhere."""
    resume: bool
    watch: Watch


def learned(
    data: Interactions | LogFiles, run: ExpertsRun, workers: Workers, *, validation: Interactions | None
) -> tuple[Model, Interactions, Success]:
    """Learn the default model; return also the items of the log, and what is a success in it."""
    if workers.are_asked_for:
        if validation is not None:
            raise ConfigError("workers hold validation users out of the log by themselves; leave validation out")
        return _learned_by_workers(data, run, workers)
    data = read(data)
    success = success_in(data, run.config.satisfied)
    kept = Kept(run.folder)
    config = replace(run.config, satisfied=success.threshold)
    if run.folder is not None:
        identity = {"log": data.fingerprint(), "validation": None if validation is None else validation.fingerprint()}
        kept.begin({"settings": config.as_dict(), **identity}, resume=run.resume)
    return fit_experts(data, config, validation=validation, progress=run.watch, kept=kept), data, success


def _learned_by_workers(
    data: Interactions | LogFiles, run: ExpertsRun, workers: Workers
) -> tuple[Model, Interactions, Success]:
    from igcf.training.cluster.executors import open_workers
    from igcf.training.cluster.sharing import log_fingerprint, shared_log

    with ExitStack() as stack:
        folder = run.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="igcf-parts-")))
        kept = Kept(folder)
        settings, fingerprint = {"settings": run.config.as_dict()}, log_fingerprint(data)
        if kept.is_begun:  # before the parts of another log take the place of those that are there
            kept.begin(settings, resume=run.resume)
            kept.check("log", fingerprint)
        executor = stack.enter_context(open_workers(workers))
        log = shared_log(data, executor, folder)
        success = success_from(log.catalogue, *log.levels, run.config.satisfied)
        kept.begin(settings, resume=True)  # after a log that cannot be read nothing is left to resume
        kept.check("log", fingerprint)
        config = replace(run.config, satisfied=success.threshold)
        model = fit_experts(log, config, progress=run.watch, kept=kept)
        model.metadata["workers"] = {
            "engine": workers.engine or "local",
            "number": executor.size,
            "exchanged_bytes": executor.exchanged,
        }
        return model, log.catalogue, success


def read(data: Interactions | LogFiles) -> Interactions:
    """Return a log in memory."""
    if isinstance(data, Interactions):
        return data
    log = read_files(data.path, data.columns)
    return log if data.items is None else log.with_items(data.items)
