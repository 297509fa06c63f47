from click.testing import CliRunner

from tests.service.postgres import Cluster
from tools.store_sizes import main


def test_sizes_of_rows_are_asked_of_postgresql(cluster: Cluster) -> None:
    sizes = ["--store", cluster.new_store(), "--users", "5", "--reactions", "33", "--answers", "10"]
    result = CliRunner().invoke(main, sizes, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = {line.split("|")[1].strip(): line.split("|")[2:] for line in result.output.splitlines() if line[:2] == "| "}
    assert [rows[table][0].strip() for table in ("feedback", "users", "beliefs", "recommendations")] == [
        "165",
        "5",
        "5",
        "10",
    ]
    belief = (64 + 64 * 65 // 2) * 8
    assert int(rows["beliefs"][2].replace(",", "")) >= belief
    assert int(rows["reaction"][0].replace(",", "")) < belief  # only one reaction in many writes the belief anew
    assert "bytes of JSON" in result.output
