"""Where the rows live: in memory for one process, in an SQLite file for one machine.

A store opens transactions (`ledger.transaction.rows.Tx`) and has a clock of its own. What differs
between stores stays below this line: the rules and the transactions above are the same for all,
and so is the conformance suite that holds them to it.

`memory://` or `memory://NAME`     in this process only; a name is shared by all who open it
`sqlite:///path/to/file`           processes of one machine, and containers that share the folder
"""

from headgate.store.base import Store
from headgate.store.locate import default_url, open_store

__all__ = ["Store", "default_url", "open_store"]
