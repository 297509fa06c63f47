from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)  # a busy machine is no failure
settings.load_profile("unhurried")


@pytest.fixture
def new_policies() -> Iterator[None]:
    """Forget the policies that a test defines."""
    from igcf.online import POLICIES

    known = set(POLICIES)
    yield
    for name in set(POLICIES) - known:
        del POLICIES[name]
