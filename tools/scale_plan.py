"""From measured unit costs (`tools/scale_costs.toml`) to a large installation.

`python -m tools.scale_plan` prints the tables of docs/scale.md.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from igcf.tables import markdown_table, short_number

COSTS = Path(__file__).with_name("scale_costs.toml")
USERS, ITEMS, INTERACTIONS, REQUESTS = 100e6, 10e6, 10e9, 50e3
DIM = 83
"""Of the default model on ML-1M, whose seven channels are what the measured memory is of."""
SHARE_OF_REACTIONS = 0.25
"""Of the requests, as in the mixture of `tools.load`; the others ask for recommendations."""
DATABASES = 16
BUSY = 0.5
"""Share of a processor that is planned for."""
CORES, MEMORY_GB = 32, 256
"""Of one machine."""
HOT_MB = 256
"""Memory for users in one process (`hot_megabytes`)."""
ITERATIONS = 20
"""Of the logistic expert: 15 without the users who are chosen on, 5 with everybody."""
WORKERS = 4
"""Of training, on one machine: each holds the vectors of all items."""
DAY, KEPT_DAYS = 86_400, 90


@dataclass(frozen=True)
class Line:
    """One quantity of the plan."""

    what: str
    how: str
    result: str


@cache
def costs() -> dict[str, dict[str, Any]]:
    """Read the measured unit costs: of each a name, a value, a unit and where it was measured."""
    return tomllib.loads(COSTS.read_text(encoding="utf-8"))


def u(name: str) -> float:
    """Return a unit cost."""
    return float(costs()[name]["value"])


def rates() -> tuple[float, float]:
    """Return answers and reactions a second."""
    return REQUESTS * (1 - SHARE_OF_REACTIONS), REQUESTS * SHARE_OF_REACTIONS


def plan() -> list[tuple[str, list[Line]]]:
    """Return the quantities, by part."""
    return [("Serving", serving()), ("Store", store()), ("Network", network()), ("Training", training())]


def serving() -> list[Line]:
    """Compute servers: processors and memory."""
    million = ITEMS / 1e6
    more = u("answer_index") * million ** u("index_exponent") - u("answer_exact")
    request = u("mixed_cold") + (1 - SHARE_OF_REACTIONS) * more
    cpu, warm = REQUESTS * request / 1e3, REQUESTS * (request - u("mixed_cold") + u("mixed")) / 1e3
    process = (u("process_mb") + u("model_mb") * million) / 1e3
    shared = u("index_mb") * million / 1e3
    fitting = int((MEMORY_GB - shared) // process)
    return [
        Line(
            "an answer from the index takes more",
            f"{u('answer_index')} x {million:.0f}^{u('index_exponent')} - {u('answer_exact')} ms",
            f"{more:.1f} ms",
        ),
        Line(
            "processors, nobody in memory",
            f"{REQUESTS:,.0f} requests x ({u('mixed_cold')} + {1 - SHARE_OF_REACTIONS} x {more:.1f}) ms",
            f"{cpu:,.0f} busy, {machines(cpu):,.0f} machines",
        ),
        Line(
            "the same, everybody in memory",
            f"{REQUESTS:,.0f} requests x ({u('mixed')} + {1 - SHARE_OF_REACTIONS} x {more:.1f}) ms",
            f"{warm:,.0f} busy, {machines(warm):,.0f} machines",
        ),
        Line(
            "memory of a process",
            f"{u('process_mb'):,.0f} MB + {u('model_mb'):,.0f} MB x {million:.0f}",
            f"{process:.1f} GB",
        ),
        Line("index, one copy per machine", f"{u('index_mb'):,.0f} MB x {million:.0f}", f"{shared:.1f} GB"),
        Line(
            "processes that fit a machine",
            f"({MEMORY_GB} - {shared:.1f}) GB / {process:.1f} GB",
            f"{fitting}, so {-(-(cpu / BUSY) // fitting):,.0f} machines",
        ),
        Line(
            "users in memory of a process",
            f"{HOT_MB} MB / {u('user_kb'):.0f} kB",
            f"{HOT_MB * 1e3 / u('user_kb'):,.0f}",
        ),
        Line(
            "building the index",
            f"{u('index_build'):.0f} s x {million:.0f}^1.5 (as many lists as the root of the items)",
            f"{u('index_build') * million**1.5 / 60:,.0f} minutes of one processor",
        ),
    ]


def store() -> list[Line]:
    """Compute the databases and the audit: bytes, log, processors."""
    answers, reactions = rates()
    log = reactions * u("wal_reaction") + answers * u("wal_answer")
    cpu = (reactions * u("pg_reaction") + answers * u("pg_answer")) / 1e3
    kept, beliefs = INTERACTIONS * u("row_reaction"), USERS * u("row_user")
    daily, audit = reactions * DAY * u("row_reaction"), answers * DAY * u("audit_bytes")
    moved = USERS / (DATABASES + 1)
    return [
        Line("reactions", f"{INTERACTIONS:,.0f} x {u('row_reaction'):,.0f} bytes", f"{kept / 1e12:.1f} TB"),
        Line("users and beliefs", f"{USERS:,.0f} x {u('row_user'):,.0f} bytes", f"{beliefs / 1e12:.1f} TB"),
        Line("new reactions", f"{reactions:,.0f} a second", f"{daily / 1e12:.2f} TB a day, never deleted"),
        Line(
            "write-ahead log",
            f"{reactions:,.0f} x {u('wal_reaction'):,.0f} + {answers:,.0f} x {u('wal_answer'):,.0f} bytes",
            f"{log / 1e6:,.0f} MB/s",
        ),
        Line(
            "processors",
            f"{reactions:,.0f} x {u('pg_reaction')} ms + {answers:,.0f} x {u('pg_answer')} ms",
            f"{cpu:,.0f} busy",
        ),
        Line(
            f"one of {DATABASES} databases",
            f"1/{DATABASES} of all this",
            f"{reactions / DATABASES:,.0f} reactions and {log / DATABASES / 1e6:,.1f} MB of log a second, "
            f"{(kept + beliefs) / DATABASES / 1e9:,.0f} GB",
        ),
        Line(
            "a further database joins",
            f"{moved:,.0f} users x {u('move')} ms, servers stopped",
            f"{moved * u('move') / 6e4:,.0f} minutes of one processor",
        ),
        Line(
            f"audit, {KEPT_DAYS} days",
            f"{answers:,.0f} answers a second x {u('audit_bytes'):.0f} bytes",
            f"{audit / 1e12:.2f} TB a day, {KEPT_DAYS * audit / 1e12:.0f} TB",
        ),
    ]


def network() -> list[Line]:
    """Compute what goes between callers, servers and databases."""
    answers, reactions = rates()
    belief = (DIM + DIM * (DIM + 1) / 2) * 8
    return [
        Line(
            "answers to callers",
            f"{answers:,.0f} x {u('json'):,.0f} bytes",
            f"{answers * u('json') * 8 / 1e9:.1f} Gbit/s",
        ),
        Line(
            "beliefs from the databases, nobody in memory",
            f"{answers:,.0f} x {belief:,.0f} bytes",
            f"{answers * belief * 8 / 1e9:.1f} Gbit/s",
        ),
        Line(
            "beliefs to the databases, after every 32 reactions",
            f"{reactions:,.0f} / 32 x {belief:,.0f} bytes",
            f"{reactions / 32 * belief * 8 / 1e9:.2f} Gbit/s",
        ),
    ]


def training() -> list[Line]:
    """Compute the training of the default model on workers."""
    times = (INTERACTIONS / 100_743_367) ** u("train_exponent")
    logistic, between = ITERATIONS * u("logistic_cpu") * ITEMS / 1e5, 2 * u("map_cpu") * ITEMS / 27e3
    held, per_process = INTERACTIONS * u("train_worker") / 1e9, ITEMS * u("logistic_item") / 1e9
    left = MEMORY_GB - WORKERS * per_process
    return [
        Line(
            "reactions from the databases to files",
            f"{INTERACTIONS:,.0f} x {u('read')} µs, database after database",
            f"{INTERACTIONS * u('read') / 3.6e9:.0f} hours of one processor",
        ),
        Line(
            "reading, linear experts, replays",
            f"{u('train_cpu'):.0f} s x {INTERACTIONS / 100_743_367:.0f}^{u('train_exponent')}",
            f"{u('train_cpu') * times / 3600:.1f} processor hours",
        ),
        Line(
            "logistic expert",
            f"{ITERATIONS} iterations x {u('logistic_cpu')} s x {ITEMS / 1e5:.0f}",
            f"{logistic / 3600:.0f} processor hours",
        ),
        Line(
            "map between items, twice",
            f"2 x {u('map_cpu'):.0f} s x {ITEMS:,.0f} / 27,000",
            f"{between / 3600:.0f} processor hours",
        ),
        Line("reactions held by workers", f"{INTERACTIONS:,.0f} x {u('train_worker')} bytes", f"{held:,.0f} GB"),
        Line("vectors in every worker", f"{ITEMS:,.0f} x {u('logistic_item'):,.0f} bytes", f"{per_process:.0f} GB"),
        Line(
            f"machines, {WORKERS} workers each",
            f"{held:,.0f} GB / ({MEMORY_GB} - {WORKERS} x {per_process:.0f}) GB",
            f"{-(-held // left):.0f}",
        ),
    ]


def machines(cores: float) -> float:
    """Return the machines that so many busy processors need, half of each being planned for."""
    return -(-cores / BUSY // CORES)


def as_markdown() -> str:
    """Write the unit costs, then the plan."""
    rows = [
        (each["name"], f"{short_number(each['value'])} {each['unit']}".strip(), each["source"])
        for each in costs().values()
    ]
    tables = [markdown_table(("unit cost", "measured", "by"), rows, align="lr")]
    for name, part in plan():
        lines = [(line.what, line.how, f"**{line.result}**") for line in part]
        tables.append(markdown_table((name, "from", "result"), lines, align="llr"))
    return "\n\n".join(tables)


if __name__ == "__main__":
    print(as_markdown())
