from tools.thin_log import thin_log


def test_a_thin_log_has_the_sizes_it_promises_and_no_pair_twice() -> None:
    log, table = thin_log(0.02, seed=1)
    assert log.height == 22_996
    assert (log["User-ID"].n_unique(), log["ISBN"].n_unique()) == (2_106, 6_811)
    assert not log.select("User-ID", "ISBN").is_duplicated().any()
    assert set(log["ISBN"]) == set(table["ISBN"])
    assert abs((log["ISBN"].value_counts()["count"] == 1).mean() - 0.58) < 0.01  # type: ignore[operator]
    assert abs((log["Book-Rating"] == 0).mean() - 0.62) < 0.01  # type: ignore[operator]
    assert thin_log(0.02, seed=1)[0].equals(log)
