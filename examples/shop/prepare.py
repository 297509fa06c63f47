"""Write the shop's invented catalogue and order book: products.csv and orders.csv.

`python prepare.py [FOLDER [CUSTOMERS PRODUCTS]]`
"""

import csv
import sys
from pathlib import Path

from igcf.data import synthetic_catalogue


def main(folder: Path = Path(), customers: int = 400, products: int = 150) -> None:
    """Write both tables into `folder`."""
    log = synthetic_catalogue(n_users=customers, n_items=products, seed=7)
    with (folder / "products.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "title", "categories"])
        for item, title, categories in zip(log.item_ids, log.titles or (), log.categories or (), strict=True):
            table.writerow([item, title, "|".join(categories)])
    with (folder / "orders.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["customer_id", "product_id", "rating", "timestamp"])
        for user, item, value, time in zip(log.user_idx, log.item_idx, log.values, log.timestamps, strict=True):
            table.writerow([log.user_ids[user], log.item_ids[item], f"{value:g}", time])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]), *map(int, sys.argv[2:]))
