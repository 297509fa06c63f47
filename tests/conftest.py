from collections.abc import Iterator

import pytest


@pytest.fixture
def new_policies() -> Iterator[None]:
    """Forget the policies that a test defines."""
    from igcf.online import POLICIES

    known = set(POLICIES)
    yield
    for name in set(POLICIES) - known:
        del POLICIES[name]
