"""From measured unit costs to a large installation: `python tools/scale_plan.py` prints the tables of docs/scale.md."""

from dataclasses import dataclass

from igcf.tables import markdown_table, short_number

USERS, ITEMS, INTERACTIONS, REQUESTS = 100e6, 10e6, 10e9, 50e3
DIM = 64
SHARE_OF_REACTIONS = 0.25
"""Of the requests, as in the mixture of `tools.load`; the others ask for recommendations."""
STEPS = 100
"""Full passes of training that are assumed."""
BUSY = 0.5
"""Share of a processor that is planned for."""
CORES = 32
"""Of one machine."""
DAY = 86_400


@dataclass(frozen=True)
class Unit:
    """What one thing costs, and the command that measured it."""

    name: str
    value: float
    unit: str
    source: str


LOAD = "python -m tools.load --store postgresql://... --seconds 10"
SIZES = "python -m tools.store_sizes --store postgresql://... --reactions 10"
RETRIEVAL = "python -m tools.retrieval"
BENCH = "igcf bench"
UNITS = {
    "recommend_cpu": Unit("server, one answer (3,706 items)", 1.99, "ms CPU", LOAD),
    "react_cpu": Unit("server, one reaction", 4.37, "ms CPU", LOAD),
    "pg_recommend_cpu": Unit("PostgreSQL, one answer with its audit", 0.45, "ms CPU", SIZES),
    "pg_react_cpu": Unit("PostgreSQL, one reaction", 0.64, "ms CPU", SIZES),
    "react_wal": Unit("write-ahead log, one reaction", 20_132, "bytes", SIZES),
    "answer_wal": Unit("write-ahead log, one answer", 2_033, "bytes", SIZES),
    "reaction_row": Unit("a reaction in PostgreSQL, with indexes", 455, "bytes", SIZES),
    "user_row": Unit("a user with a belief (d = 64), vacuumed", 19_112, "bytes", SIZES),
    "user_row_full": Unit("the same after 10 reactions that nobody vacuumed", 187_261, "bytes", SIZES),
    "answer_row": Unit("an answer in the audit", 1_144, "bytes", SIZES),
    "answer_json": Unit("an answer of five items as JSON", 1_377, "bytes", SIZES),
    "exact_warm": Unit("exact decision and reaction, 1 M items, user in memory", 18.8, "ms CPU", BENCH),
    "exact_cold": Unit("exact decision, 1 M items, user from the store", 19.6, "ms CPU", BENCH),
    "index": Unit("decision from an index, 1 M items, default model", 2.1, "ms CPU", RETRIEVAL),
    "index_mb": Unit("index of 1 M items", 490, "MB", RETRIEVAL),
    "index_build": Unit("building it", 40, "s CPU", RETRIEVAL),
    "step_interaction": Unit("training step (d = 64, 2 layers), per interaction", 0.329 / 3.0, "µs CPU", BENCH),
    "step_item": Unit("the same, per item", 4.15, "µs CPU", BENCH),
    "memory_interaction": Unit("memory of training, per interaction", 100, "bytes", BENCH),
    "memory_item": Unit("the same, per item", 1_610, "bytes", BENCH),
}


@dataclass(frozen=True)
class Line:
    """One quantity of the plan."""

    what: str
    how: str
    result: str


def u(name: str) -> float:
    """A unit cost."""
    return UNITS[name].value


def plan() -> list[tuple[str, list[Line]]]:
    """The quantities, by part."""
    return [("Serving", serving()), ("Store", store()), ("Network", network()), ("Training", training())]


def serving() -> list[Line]:
    """Servers: memory and processors."""
    reactions, answers = REQUESTS * SHARE_OF_REACTIONS, REQUESTS * (1 - SHARE_OF_REACTIONS)
    size = ITEMS / 1e6
    vectors, index = ITEMS * DIM * 4 / 1e9, u("index_mb") * size / 1e3
    exact = answers * (u("recommend_cpu") + u("exact_cold") * size) / 1e3 + reactions * u("react_cpu") / 1e3
    by_index = answers * (u("recommend_cpu") + u("index") * size**0.5) / 1e3 + reactions * u("react_cpu") / 1e3
    return [
        Line("item vectors", f"{ITEMS:,.0f} x {DIM} x 4 bytes, per process", f"{vectors:.1f} GB"),
        Line("index", f"{u('index_mb'):,.0f} MB x {size:.0f}, per machine", f"{index:.1f} GB"),
        Line(
            "a user in memory, exact", f"{ITEMS:,.0f} x 8 bytes (a mean and a variance each)", f"{ITEMS * 8e-6:.0f} MB"
        ),
        Line("a user in memory, index", "the belief, d + d x d numbers of 8 bytes", f"{(DIM + DIM**2) * 8e-3:.0f} kB"),
        Line(
            "processors, exact scores",
            f"{answers:,.0f} answers x ({u('recommend_cpu')} + {u('exact_cold'):g} x {size:.0f}) ms "
            f"+ {reactions:,.0f} reactions x {u('react_cpu')} ms",
            machines(exact),
        ),
        Line(
            "processors, index, its time growing with the root of the items",
            f"the same with {u('index')} x {size**0.5:.1f} ms",
            machines(by_index),
        ),
    ]


def store() -> list[Line]:
    """PostgreSQL: bytes, log, processors."""
    reactions, answers = REQUESTS * SHARE_OF_REACTIONS, REQUESTS * (1 - SHARE_OF_REACTIONS)
    log = reactions * u("react_wal") + answers * u("answer_wal")
    cpu = (reactions * u("pg_react_cpu") + answers * u("pg_recommend_cpu")) / 1e3
    return [
        Line(
            "reactions",
            f"{INTERACTIONS:,.0f} x {u('reaction_row'):,.0f} bytes",
            f"{INTERACTIONS * u('reaction_row') / 1e12:.1f} TB",
        ),
        Line("new ones a day", f"{reactions:,.0f} a second", f"{reactions * DAY * u('reaction_row') / 1e12:.1f} TB"),
        Line(
            "beliefs",
            f"{USERS:,.0f} x {u('user_row'):,.0f} bytes ({u('user_row_full'):,.0f} without vacuuming)",
            f"{USERS * u('user_row') / 1e12:.1f} TB",
        ),
        Line(
            "audit a day",
            f"{answers:,.0f} answers a second x {u('answer_row'):,.0f} bytes",
            f"{answers * DAY * u('answer_row') / 1e12:.1f} TB",
        ),
        Line(
            "write-ahead log",
            f"{reactions:,.0f} x {u('react_wal'):,.0f} + {answers:,.0f} x {u('answer_wal'):,.0f} bytes",
            f"{log / 1e6:,.0f} MB/s, {log * DAY / 1e12:.0f} TB a day",
        ),
        Line(
            "commits",
            "one per reaction; audits are written in batches",
            f"{reactions:,.0f} a second",
        ),
        Line(
            "processors",
            f"{reactions:,.0f} x {u('pg_react_cpu')} ms + {answers:,.0f} x {u('pg_recommend_cpu')} ms",
            machines(cpu),
        ),
    ]


def network() -> list[Line]:
    """Between callers, servers and the store."""
    reactions, answers = REQUESTS * SHARE_OF_REACTIONS, REQUESTS * (1 - SHARE_OF_REACTIONS)
    belief = (DIM + DIM * (DIM + 1) / 2) * 8
    return [
        Line(
            "answers to callers",
            f"{answers:,.0f} x {u('answer_json'):,.0f} bytes",
            f"{answers * u('answer_json') * 8 / 1e9:.1f} Gbit/s",
        ),
        Line(
            "beliefs from the store, nobody in memory",
            f"{answers:,.0f} x {belief:,.0f} bytes",
            f"{answers * belief * 8 / 1e9:.1f} Gbit/s",
        ),
        Line(
            "beliefs to and from the store, reactions",
            f"{reactions:,.0f} x 2 x {belief:,.0f} bytes",
            f"{reactions * 2 * belief * 8 / 1e9:.1f} Gbit/s",
        ),
    ]


def training() -> list[Line]:
    """The graph model, one machine's worth of work at a time."""
    nodes = USERS + ITEMS
    memory = INTERACTIONS * u("memory_interaction") + nodes * u("memory_item")
    seconds = (INTERACTIONS * u("step_interaction") + nodes * u("step_item")) / 1e6
    return [
        Line(
            "memory, all together",
            f"{INTERACTIONS:,.0f} x {u('memory_interaction'):.0f} + {nodes:,.0f} x {u('memory_item'):,.0f} bytes",
            f"{memory / 1e12:.2f} TB",
        ),
        Line(
            "of it the users' and items' vectors",
            f"{nodes:,.0f} x {DIM} x 4 bytes",
            f"{nodes * DIM * 4 / 1e9:.0f} GB, {nodes * 4 / 1e9:.2f} GB per column",
        ),
        Line(
            "a step",
            f"{INTERACTIONS:,.0f} x {u('step_interaction'):.2f} + {nodes:,.0f} x {u('step_item')} µs",
            f"{seconds:,.0f} s of one processor",
        ),
        Line(f"{STEPS} steps", "", f"{STEPS * seconds / 3600:.0f} processor hours"),
    ]


def machines(cores: float) -> str:
    """Processors that are busy, and machines where half of each is planned for."""
    count = -(-cores / BUSY // CORES)
    return f"{cores:,.0f} busy processors, {count:,.0f} machines"


def as_markdown() -> str:
    """Write the unit costs, then the plan."""
    costs = [(each.name, f"{short_number(each.value)} {each.unit}", f"`{each.source}`") for each in UNITS.values()]
    tables = [markdown_table(("unit cost", "measured", "by"), costs, align="lr")]
    for name, part in plan():
        lines = [(line.what, line.how, f"**{line.result}**") for line in part]
        tables.append(markdown_table((name, "from", "result"), lines, align="llr"))
    return "\n\n".join(tables)


if __name__ == "__main__":
    print(as_markdown())
