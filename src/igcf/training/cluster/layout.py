"""Division of a training among workers: some columns of all vectors, and the pairs of some users, for each."""

from dataclasses import dataclass

from igcf.errors import ConfigError

NUMBER_BYTES = 4


@dataclass(frozen=True)
class Layout:
    """Columns and users of a training in equal ranges, one of each per worker.

    Columns are propagated without any communication. The likelihood is a sum over users; for it every worker needs
    its own users and all items in all dimensions.
    """

    dim: int
    n_users: int
    n_items: int
    n_workers: int = 1
    coordinated: bool = False
    """Whether rank 0 only gives orders and holds nothing; the workers are then ranks 1, 2, ..."""

    def __post_init__(self) -> None:
        """Refuse more workers than columns."""
        if not 1 <= self.n_workers <= self.dim:
            raise ConfigError(
                f"shards must be between 1 and dim={self.dim}, got {self.n_workers}; a worker holds at least one column"
            )

    @property
    def n_ranks(self) -> int:
        """Number of processes, including one that only gives orders."""
        return self.n_workers + self.coordinated

    def columns(self, rank: int) -> range:
        """Return the columns whose parameters lie at a rank."""
        return self._part(self.dim, rank)

    def users(self, rank: int) -> range:
        """Return the users whose likelihood is computed at a rank."""
        return self._part(self.n_users, rank)

    def n_rows(self, rank: int) -> int:
        """Count the rows that a rank needs in all dimensions: its users and all items; none without users."""
        n_users = len(self.users(rank))
        return n_users + self.n_items if n_users else 0

    def step_bytes(self, rank: int) -> int:
        """Count the bytes that a rank sends in one step: its columns of others' rows, and gradients of its rows.

        The few numbers that are added up over all ranks come on top.
        """
        rows_of_others = sum(self.n_rows(other) for other in range(self.n_ranks) if other != rank)
        width = len(self.columns(rank))
        return NUMBER_BYTES * (width * rows_of_others + self.n_rows(rank) * (self.dim - width))

    def _part(self, total: int, rank: int) -> range:
        worker = rank - self.coordinated
        return range(total * max(worker, 0) // self.n_workers, total * (worker + 1) // self.n_workers)
