"""A standby takes over under load."""

import pytest

from tools.failover import fail_over


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_with_synchronous_replication() -> None:
    found = fail_over("synchronous", seconds=0.2, cut_s=0.2)
    assert found.acknowledged_before > 0
    assert found.acknowledged_after > 0
    assert (found.lost, found.problems) == (0, 0)
