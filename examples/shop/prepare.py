"""Write the shop's invented catalogue and order book: products.csv, orders.csv, and the newest tenth as today.csv.

`python prepare.py [FOLDER [CUSTOMERS PRODUCTS]]`
"""

import csv
import sys
from pathlib import Path

from igcf.data import synthetic_catalogue


def main(folder: Path = Path(), customers: int = 400, products: int = 150) -> None:
    """Write the three tables into `folder`."""
    log = synthetic_catalogue(n_users=customers, n_items=products, seed=7)
    with (folder / "products.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "title", "categories"])
        for item, title, categories in zip(log.item_ids, log.titles or (), log.categories or (), strict=True):
            table.writerow([item, title, "|".join(categories)])
    orders = sorted(zip(log.timestamps, log.user_idx, log.item_idx, log.values, strict=True))
    tenth = len(orders) // 10
    for name, part in (("orders.csv", orders[:-tenth]), ("today.csv", orders[-tenth:])):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["customer_id", "product_id", "rating", "timestamp"])
            for time, user, item, value in part:
                table.writerow([log.user_ids[user], log.item_ids[item], f"{value:g}", time])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]), *map(int, sys.argv[2:]))
