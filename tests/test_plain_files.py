"""A pipe or a device in the place of a file, or a file of brackets without end, is one clear error, at once."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from igcf.data.columns import parse_kinds
from igcf.data.items import read_batch
from igcf.errors import IgcfError
from igcf.lab.evaluate.tuned_settings import parse_changes
from igcf.model import Model
from igcf.online.rules import read_rules
from igcf.service.http.authentication import Keys
from igcf.service.sources import load_settings
from igcf.service.store.transfer import import_store


def _with_password(path: Path) -> Any:
    return load_settings({"store": "postgresql://igcf@db/igcf", "store_password_file": str(path)})


@pytest.mark.parametrize("read", [read_rules, read_batch, Keys.from_file, _with_password])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_refused_at_once(read: Callable[[Path], Any], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(IgcfError, match="not a regular file"):
        read(path)


def _model(path: Path) -> Any:
    shutil.copy(path, path.parent / "meta.json")
    return Model.load(path.parent)


def _table(path: Path) -> Any:
    path.write_text(f"store = {path.read_text()}")
    return load_settings({}, file=path)


def _export(path: Path) -> Any:
    shutil.copy(path, path.parent / "manifest.json")
    return import_store(None, path.parent)  # type: ignore[arg-type]  # it is not reached


def _value_of_kind(path: Path) -> Any:
    path.write_text(f'{{"like": {path.read_text()}')
    return parse_kinds(str(path))


READERS = [read_rules, read_batch, _model, _table, _export, _value_of_kind]


@pytest.mark.parametrize("read", READERS)
def test_a_file_of_100_000_brackets_is_told_in_one_sentence(read: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    path.write_text("[" * 100_000)
    with pytest.raises(IgcfError) as raised:
        read(path)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("content", [b'{"like": "\xff"}', b'{"like": 1' + b"0" * 400 + b"}", b'{"like": null}'])
def test_kinds_of_feedback_that_cannot_be_read_are_told_in_one_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "kinds.json").write_bytes(content)
    with pytest.raises(IgcfError, match=r"^--kinds .*: expected lines such as like=4, or a JSON object \(.*\)$"):
        parse_kinds(str(tmp_path / "kinds.json"))


def test_a_setting_of_100_000_brackets_is_a_word_which_is_no_number() -> None:
    with pytest.raises(IgcfError, match="expected a number"):
        parse_changes(("icf-ucb:penalty=" + "[" * 100_000,))


def test_nesting_that_is_just_not_too_deep_to_be_read_is_told_in_one_sentence(tmp_path: Path) -> None:
    """Somewhere near Python's limit a text is read, and what was read can be neither printed nor sealed."""
    for depth in range(800, 1_000):
        nested = "[" * depth + "]" * depth
        (tmp_path / "items.json").write_text(f'[{{"id": "a", "categories": {nested}}}]')
        (tmp_path / "meta.json").write_text(f'{{"format": "igcf-model", "version": 1, "x": {nested}}}')
        with pytest.raises(IgcfError):
            read_batch(tmp_path / "items.json")
        with pytest.raises(IgcfError):
            Model.load(tmp_path)
