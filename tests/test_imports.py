"""What is imported decides how fast a server starts."""

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


def test_pretrain_is_the_function_whichever_way_it_is_imported() -> None:
    code = "import igcf.training.graph.train; print(callable(igcf.pretrain), callable(igcf.training.pretrain))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "True"]
