"""The connection to PostgreSQL is cut at a certain byte of a request: on the way there, or on the way back."""

from collections.abc import Iterator, Sequence

from tools.torture.operations import OPERATIONS
from tools.torture.places import Place
from tools.torture.proxy import Direction, Proxy
from tools.torture.results import Trial
from tools.torture.servers import Launcher, wait_until_ready

FAR = 1 << 30


def proxied_url(url: str, port: int) -> str:
    """Find the same store through a proxy."""
    head, options = url.split("?", 1)
    kept = "&".join(part for part in options.split("&") if not part.startswith("host="))
    return f"{head.replace('@/', f'@127.0.0.1:{port}/')}?{kept}&sslmode=disable&gssencmode=disable"


def cut_connections(place: Place, launcher: Launcher, operation: str, cuts: int = 24) -> Iterator[Trial]:
    """Cut at `cuts` places of one kind of request in each direction, the last bytes among them."""
    assert place.cluster is not None
    proxy = Proxy(f"{place.cluster.folder}/.s.PGSQL.5432")
    server = launcher.start(place.models[0], proxied_url(place.url, proxy.port))
    try:
        wait_until_ready(server.port)
        proxy.arm("up", FAR)
        OPERATIONS[operation](place.ledger, server.port, "measured")()
        sizes = proxy.disarm()
        directions: Sequence[Direction] = ("up", "down")
        for way in directions:
            last = range(max(0, sizes[way] - cuts // 3), sizes[way])
            for after in sorted({*place.rng.sample(range(sizes[way]), min(cuts, sizes[way]) - len(last)), *last}):
                n_cuts = proxy.n_cuts
                send = OPERATIONS[operation](place.ledger, server.port, f"{operation.replace(' ', '-')}-{way}-{after}")
                proxy.arm(way, after)
                send()
                proxy.disarm()
                problems = place.check(server.port)
                problems = [f"{operation}, cut {way} after {after} bytes: {problem}" for problem in problems]
                what = f"connection to the database cut, {'towards' if way == 'up' else 'from'} it"
                yield Trial(what, place.name, problems=problems, tried=proxy.n_cuts - n_cuts)
    finally:
        server.stop()
        proxy.close()
