"""schemathesis over the OpenAPI document: the service does what the document says, whatever it is sent."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.settings import ServiceSettings


@pytest.fixture(scope="module")
def document(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    store = tmp_path_factory.mktemp("fuzz") / "store.db"
    context = ServiceContext.open(model_folder, ServiceSettings(store=str(store), models=str(model_folder.parent)))
    yield schemathesis.openapi.from_asgi("/openapi.json", create_app(context))
    context.close()


FEW = settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_the_service_keeps_to_its_document(document: Any, mode: str) -> None:
    tried = 0
    for found in document.get_all_operations():
        operation = found.ok()

        @FEW
        @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
        def check(case: Any) -> None:
            # Which values and items a model knows is more than a schema can say.
            excluded = [positive_data_acceptance]
            if case.operation.path == "/v1/feedback":  # reports what is wrong entry by entry
                excluded.append(negative_data_rejection)
            case.call_and_validate(excluded_checks=excluded)

        with contextlib.suppress(Unsatisfiable):  # a route without parameters cannot be asked wrongly
            check()
            tried += 1
    assert tried >= 11
