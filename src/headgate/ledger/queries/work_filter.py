"""Which work is wanted: by its pool, its task, its model, its name. What is None is no matter."""

from headgate.core.key_patterns import matches
from headgate.core.named_tuple import NamedTuple


class WorkFilter(NamedTuple):
    """What work has to be like to be listed."""

    pool: str | None = None
    task: str | None = None
    model: str | None = None
    """A pattern over keys."""
    name: str | None = None

    @property
    def takes_all(self) -> bool:
        """Whether nothing is filtered."""
        return self == WorkFilter()

    def takes(self, key: str, task: str, name: str) -> bool:
        """Whether a piece of work is like that."""
        return (
            self.takes_key(key)
            and (self.task is None or task == self.task)
            and (self.name is None or name == self.name)
        )

    def takes_key(self, key: str) -> bool:
        """Whether work with this key can be."""
        return all(pattern is None or matches(pattern, key) for pattern in (self.pool, self.model))


ALL = WorkFilter()
