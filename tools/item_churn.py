"""Two servers on one PostgreSQL while items come and go and one of the servers is killed with kill -9.

    python -m tools.item_churn --seconds 30

Writers add items and retire every item at most once; readers ask for recommendations. An answer that began more than a
second after a retirement was acknowledged must not contain the item, and what was acknowledged must be in the store.
Prints one JSON document; `violations` and `lost` must be 0.
"""

import argparse
import json
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from igcf.service.store import Store
from igcf.service.store.items import ItemStore
from tests.model.test_adding import genre_model
from tests.service.postgres import Cluster
from tools.torture.calls import Lost, call
from tools.torture.servers import Served, wait_until_ready

N_WRITERS, N_READERS = 16, 4
GRACE_S = 1.0


class Churn:
    """What was acknowledged, and what was seen."""

    def __init__(self, ports: list[int], until: float) -> None:
        self.ports, self.until = ports, until
        self.retired: dict[str, float] = {}
        self.added: set[str] = set()
        self.answers = self.changes = self.refusals = self.new_shown = 0
        self.violations: list[str] = []
        self.latest = 0.0
        self.lock = threading.Lock()

    def write(self, number: int) -> None:
        """Add an item, change it, retire it or one that the model was trained with; each is retired once."""
        rng = random.Random(number)
        trained = [f"i{row}" for row in range(120) if row % N_WRITERS == number][:-3]
        mine: list[str] = []
        count = 0
        while time.monotonic() < self.until:
            time.sleep(rng.uniform(0.1, 0.6))
            port = rng.choice(self.ports)
            try:
                if rng.random() < 0.4 or not (mine or trained):
                    count += 1
                    item = f"new-{number}-{count}"
                    body = {"items": [{"id": item, "title": item, "categories": [rng.choice(["comedy", "horror"])]}]}
                    if call(port, "POST", "/v1/items", body | {"event_id": item}).status == 200:
                        mine.append(item)
                        with self.lock:
                            self.added.add(item)
                            self.changes += 1
                elif mine and rng.random() < 0.3:
                    call(port, "PATCH", f"/v1/items/{rng.choice(mine)}", {"title": f"changed {count}"})
                else:
                    pool = mine if (mine and rng.random() < 0.6) or not trained else trained
                    item = pool.pop(rng.randrange(len(pool)))
                    if call(port, "DELETE", f"/v1/items/{item}").status == 200:
                        with self.lock:
                            self.retired[item] = time.monotonic()
                            self.changes += 1
            except Lost:
                pass  # the server is being killed; whether it was done is not known, and nothing is claimed

    def read(self, number: int) -> None:
        """Ask for recommendations and react to some."""
        rng = random.Random(1000 + number)
        while time.monotonic() < self.until:
            port, user, began = rng.choice(self.ports), f"user-{rng.randrange(30)}", time.monotonic()
            rules = rng.choice([None, {"caps": {"comedy": 12}}, {"boost": {"horror": 0.1}}, {"diversity": 0.5}])
            try:
                answer = call(port, "POST", f"/v1/users/{user}/recommendations", {"k": 20, "rules": rules})
                if answer.status != 200:
                    self.refusals += 1
                    continue
                items = [each["item"] for each in answer.body["items"]]
                with self.lock:
                    self.answers += 1
                    self.new_shown += sum(item.startswith("new") for item in items)
                    for item in items:
                        if item in self.retired:
                            lag = began - self.retired[item]
                            self.latest = max(self.latest, lag)
                            if lag > GRACE_S:
                                self.violations.append(f"{item} {lag:.2f} s after it was retired")
                if rng.random() < 0.3:
                    new = [item for item in items if item.startswith("new")] or [*self.added] or items
                    reaction = {"item": rng.choice(new), "value": rng.choice([1, 5])}
                    call(port, "POST", f"/v1/users/{user}/feedback", reaction)
            except Lost:
                pass


def run(seconds: float, kills: int = 3) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="igcf-churn-") as name:
        folder, cluster = Path(name), Cluster()
        servers: list[Served] = []
        try:
            genre_model().save(folder / "models" / "model")
            url, log = cluster.new_store(), folder / "log"
            servers += [Served(folder / "models" / "model", url, log, workers=1) for _ in range(2)]
            for server in servers:
                wait_until_ready(server.port)
            churn = Churn([server.port for server in servers], time.monotonic() + seconds)
            jobs = [threading.Thread(target=churn.write, args=[n]) for n in range(N_WRITERS)]
            jobs += [threading.Thread(target=churn.read, args=[n]) for n in range(N_READERS)]
            for job in jobs:
                job.start()
            for number in range(kills):
                time.sleep(seconds / (kills + 1))
                victim = number % 2
                servers[victim].kill_all()
                servers[victim] = Served(folder / "models" / "model", url, log, workers=1)
                churn.ports[victim] = servers[victim].port
            for job in jobs:
                job.join()
            known = known_items(folder / "models" / "model", url, log, churn)
            store = Store(url)
            stored = {item.item_id: item for item in ItemStore(store.database).changes()}
            store.close()
        finally:
            for server in servers:
                server.stop()
            cluster.close()
    lost = [item for item in churn.added if item not in stored]
    lost += [item for item in churn.retired if item not in stored or not stored[item].is_retired]
    return {
        "seconds": seconds,
        "kills": kills,
        "answers": churn.answers,
        "refusals": churn.refusals,
        "changes": churn.changes,
        "added": len(churn.added),
        "retired": len(churn.retired),
        "new_items_shown": churn.new_shown,
        "latest_sight_of_a_retired_item_s": round(churn.latest, 3),
        "violations": len(churn.violations),
        "first": churn.violations[:5],
        "lost": len(lost),
        **known,
    }


def known_items(model: Path, url: str, log: Path, churn: Churn) -> dict[str, Any]:
    """Compare what both servers know of new items with a third one, which starts now and reads the log anew."""
    third = Served(model, url, log, workers=1)
    wait_until_ready(third.port)
    time.sleep(3.0)  # two looks
    differences, reactions = [], 0
    for item in sorted(churn.added):
        states = [call(port, "GET", f"/v1/items/{item}").body.get("new") for port in (*churn.ports, third.port)]
        if all(states):
            reactions += states[2]["reactions"]
            for name in ("expected", "std"):
                differences += [abs(state[name] - states[2][name]) for state in states[:2]]
    third.stop()
    return {"reactions_to_new_items": reactions, "largest_difference_of_posteriors": max(differences, default=0.0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--kills", type=int, default=3)
    options = parser.parse_args()
    print(json.dumps(run(options.seconds, options.kills), indent=2))


if __name__ == "__main__":
    main()
