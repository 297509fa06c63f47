"""Rules in terms of the rows of a catalogue: masks, amounts and caps that are computed once."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from igcf.arrays import BoolArray, Float32Array
from igcf.errors import RuleError, UnknownItemError
from igcf.item_parsing import nearest
from igcf.model.catalogue import Catalogue
from igcf.online.backend.types import MakeRng, Selection
from igcf.online.engine import ScoringEngine
from igcf.online.policies import Policy
from igcf.online.selection import selection_details
from igcf.online.slates import select_slate

if TYPE_CHECKING:
    from igcf.online.rules import Rules

EVERY = "*"
"""Name under which `caps` speaks of every category that it does not name."""


@dataclass(frozen=True, eq=False)
class CompiledRules:
    """Rules in terms of the rows of a catalogue."""

    catalogue: Catalogue
    allowed: BoolArray | None
    """Which items pass the filters, (1, items); None: all."""
    n_forbidden: int
    """How many items do not."""
    boosts: Float32Array | None
    """What is added to the score of each item, (items,); None: nothing to any."""
    caps: Mapping[str, int]
    """Most items of an answer by label."""
    category_cap: int | None
    """Most items of an answer by category that `caps` does not name."""
    pinned: tuple[int, ...]
    """Rows of the pinned items."""
    diversity: float
    _limits: dict[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """What `limits` found so far."""

    @cached_property
    def is_filter(self) -> bool:
        """Whether the rules do no more than leave items out."""
        return not (self.boosts is not None or self.has_caps or self.pinned or self.diversity)

    @property
    def has_caps(self) -> bool:
        """Whether the number of items of some label is limited."""
        return bool(self.caps) or self.category_cap is not None

    def select(
        self, policy: Policy, engine: ScoringEngine, available: BoolArray, k: int, *, make_rng: MakeRng
    ) -> Selection:
        """Select `k` items of the only user of `engine` among those available, (1, items), under these rules."""
        if self.has_caps or self.pinned or self.diversity:
            return select_slate(self, policy, engine, available, k, make_rng=make_rng)
        return selection_details(policy, engine, available, k, make_rng=make_rng, boosts=self.boosts)

    def may_end(self, rows: Sequence[int], available: BoolArray) -> BoolArray:
        """Return which available items, (1, items), may stand in the last place of an answer instead of the one there.

        A pinned item stays, and no cap is exceeded.
        """
        if rows[-1] in self.pinned:
            return np.zeros_like(available)
        if not self.has_caps:
            return available
        counts = Counter(name for row in rows[:-1] for name, _ in self.limits(row))
        full = [name for name, most in self.caps.items() if counts[name] >= most]
        if self.category_cap is not None:
            full += [name for name in counts if name not in self.caps and counts[name] >= self.category_cap]
        result = available.copy()
        for name in full:
            result[0, self.catalogue.labels.get(name, [])] = False
        return result

    def rows_of(self, name: str) -> Any:
        """Return the rows of the items that the cap on a label counts."""
        return self.catalogue.labels.get(name, []) if name in self.caps else self.catalogue.category_rows[name]

    def limits(self, row: int) -> tuple[tuple[str, int], ...]:
        """Return the labels of an item that are capped, and their caps."""
        found = self._limits.get(row)
        if found is None:
            own = [(name, self.caps[name]) for name in self.catalogue.labels_of(row) if name in self.caps]
            if self.category_cap is not None and self.catalogue.categories is not None:
                others = (name for name in self.catalogue.categories[row] if name not in self.caps)
                own += [(name, self.category_cap) for name in others]
            found = self._limits[row] = tuple(own)
        return found


def compile_rules(rules: "Rules", catalogue: Catalogue, *, is_lenient: bool) -> CompiledRules:
    """Find the items that rules speak of; unless `is_lenient`, names that nothing has are refused."""
    named = [*(name for group in rules.any for name in group), *rules.all, *rules.none, *dict(rules.boost)]
    named += [name for name, _ in rules.caps if name != EVERY]
    if not is_lenient:
        _refuse_unknown(rules, named, catalogue)
    boosts = None
    if rules.boost:
        boosts = np.zeros(len(catalogue))
        for name, amount in rules.boost:
            boosts[catalogue.labels.get(name, [])] += amount
    if boosts is not None and not boosts.any():
        boosts = None
    caps = dict(rules.caps)
    category_cap = caps.pop(EVERY, None)
    none_of: list[Any] = [
        catalogue.labels.get(name, []) for name, most in caps.items() if most == 0
    ]  # caps of 0 are filters
    if category_cap == 0:
        none_of += [rows for name, rows in catalogue.category_rows.items() if name not in caps]
        category_cap = None
    rows = [catalogue.row_of.get(item_id) for item_id in rules.pinned]
    mask = _mask(rules, catalogue, none_of)
    return CompiledRules(
        catalogue=catalogue,
        allowed=None if mask is None else mask[None],
        n_forbidden=0 if mask is None else len(mask) - int(np.count_nonzero(mask)),
        boosts=None if boosts is None else boosts.astype(np.float32),
        caps={name: most for name, most in caps.items() if most},
        category_cap=category_cap,
        pinned=tuple(row for row in rows if row is not None),
        diversity=rules.diversity,
    )


def _mask(rules: "Rules", catalogue: Catalogue, capped: list[Any]) -> BoolArray | None:
    if not (rules.any or rules.all or rules.none or rules.least or rules.most or capped):
        return None
    mask = np.ones(len(catalogue), dtype=np.bool_)
    for group in (*rules.any, *((name,) for name in rules.all)):
        has_one = np.zeros(len(catalogue), dtype=np.bool_)
        for name in group:
            has_one[catalogue.labels.get(name, [])] = True
        mask &= has_one
    for rows in (*(catalogue.labels.get(name, []) for name in rules.none), *capped):
        mask[rows] = False
    missing = np.full(len(catalogue), np.nan)
    for name, amount in rules.least:
        mask &= catalogue.attributes.numbers.get(name, missing) >= amount
    for name, amount in rules.most:
        mask &= catalogue.attributes.numbers.get(name, missing) <= amount
    return mask


def _refuse_unknown(rules: "Rules", labels: Iterable[str], catalogue: Catalogue) -> None:
    for name in labels:
        if name not in catalogue.labels:
            raise RuleError(f"no item has the category or tag {name[:80]!r}{nearest(name, catalogue.labels)}")
    for name, _ in (*rules.least, *rules.most):
        if name not in catalogue.attributes.numbers:
            raise RuleError(f"no item has the number {name[:80]!r}{nearest(name, catalogue.attributes.numbers)}")
    for item_id in rules.pinned:
        if item_id not in catalogue.row_of:
            raise UnknownItemError(f"the pinned item {item_id[:80]!r} is not in the catalogue")
