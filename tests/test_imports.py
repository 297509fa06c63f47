"""What is imported decides how fast a server starts, and what must be installed."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "matplotlib", "fastapi", "starlette", "sqlalchemy", "numba")


def imported_by(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(' '.join(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


@pytest.mark.parametrize("statement", ["import igcf", "import igcf.online, igcf.model", "import igcf.cli.main"])
def test_light_imports_stay_light(statement: str) -> None:
    assert imported_by(statement) & set(HEAVY) == set()


def test_every_public_name_resolves() -> None:
    import igcf

    for name in igcf.__all__:
        assert getattr(igcf, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        igcf.nothing  # noqa: B018


@pytest.mark.parametrize("name", ["data", "errors", "lab", "model", "online"])
def test_a_module_with_public_names_needs_no_import_of_its_own(name: str) -> None:
    loaded = imported_by(f"import sys, igcf; assert 'igcf.{name}' not in sys.modules; igcf.{name}")
    assert f"igcf.{name}" in loaded


def test_pretrain_is_the_function_whichever_way_it_is_imported() -> None:
    code = "import igcf.training.variational.train; print(callable(igcf.pretrain), callable(igcf.training.pretrain))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "True"]


BLOCKED = ("torch", "numba", "joblib", "matplotlib", "ray", "fastapi", "sqlalchemy", "pydantic")


def test_the_default_model_trains_and_recommends_with_the_packages_of_a_plain_installation() -> None:
    code = f"""
import sys
sys.modules.update(dict.fromkeys({BLOCKED!r}))
import igcf
from igcf.data import synthetic_catalogue
log = synthetic_catalogue(n_users=80, n_items=40)
model = igcf.pretrain(log, satisfied=4.0, iterations=3, logistic_dim=4)
alice = igcf.Recommender(model).session()
first = alice.recommend(k=3)
alice.observe(first[0].item_id, 5.0)
print(model.n_items, len(alice.recommend(k=3)))
try:
    igcf.pretrain(log, method="graph", dim=4)
except igcf.errors.ConfigError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    numbers, refusal = result.stdout.splitlines()
    assert numbers.split()[1] == "3"
    assert refusal.startswith("the graph model needs torch")
    assert refusal.endswith("pip install 'igcf[train]'")


def test_training_the_default_model_loads_no_torch() -> None:
    assert not imported_by("import igcf.training.experts; igcf.training.pretrain") & {"torch", "numba", "joblib", "ray"}
