"""The rows of clients on other machines: when each was last heard of, and what it has asked for.

No kernel here can tell whether such a client lives. It is judged by the store's clock:

    heard of        it lives
    suspect         silent for a while: its seats stay taken, it is given no others, people see it
    fenced          silent for longer than its fence: its own side has ended its programs before,
                    by its own clock, so its seats are free

A time in which the store's machine was off was seen by nobody, so silence begins anew with it.
"""

from enum import Enum, auto
from typing import Protocol

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms

PREFIX = "remote-"
"""How the ids of such members begin: of no others anything has to be looked up."""
MACHINE = "remote"
"""What stands for their machine among the members.

It is the name of no boot, so that processes of other versions do not take them for members of an
earlier one. Which machine they work on, their tickets and leases say.
"""
FENCE = Ms(600_000)
SHORTEST_FENCE = Ms(1_000)
LONGEST_FENCE = Ms(7 * 24 * 3_600_000)
_SUSPECT = Ms(30_000)
_MARGIN = Ms(2_000)


class Hearing(Enum):
    """What is known of a client on another machine."""

    HEARD = auto()
    SUSPECT = auto()
    FENCED = auto()


class RemoteMember(NamedTuple):
    """A client on another machine."""

    id: str
    name: str
    """What people call it."""
    server: str
    """The member that serves it, and is woken for it."""
    boot: str
    """In which boot of the store's machine it was last heard of."""
    heard: Ms
    fence: Ms | None = FENCE
    """For how long it may be silent; None for ever."""

    @property
    def suspect_after(self) -> Ms:
        """After how long a silence it is suspect."""
        return _SUSPECT if self.fence is None else min(_SUSPECT, self.fence // 2)

    @property
    def margin(self) -> Ms:
        """How much later than its own side has ended its programs its seats are given on.

        For clocks that do not run alike, and for what takes a while to end.
        """
        return _MARGIN + (NO_TIME if self.fence is None else self.fence // 20)

    def silence(self, now: Ms, boot: str) -> Ms:
        """For how long nothing was heard of it, as far as somebody has seen the time pass."""
        return max(NO_TIME, now - self.heard) if boot == self.boot else NO_TIME

    def hearing(self, now: Ms, boot: str) -> Hearing:
        """What is known of it."""
        silence = self.silence(now, boot)
        if self.fence is not None and silence > self.fence + self.margin:
            return Hearing.FENCED
        return Hearing.SUSPECT if silence > self.suspect_after else Hearing.HEARD


class RemoteRequest(NamedTuple):
    """What a client has asked for under a key."""

    member: str
    key: str
    id: int
    digest: str


def is_remote(member: str) -> bool:
    """Whether a member is a client on another machine, by its id."""
    return member.startswith(PREFIX)


class RemoteTx(Protocol):
    """What an open transaction must be able to do with these rows."""

    def remote_member(self, id: str) -> RemoteMember | None:
        """A client on another machine."""

    def remote_members(self) -> list[RemoteMember]:
        """All of them, by id."""

    def keep_remote_member(self, row: RemoteMember) -> None:
        """Keep one, new or changed. It is forgotten with its member."""

    def remote_request(self, member: str, key: str) -> RemoteRequest | None:
        """What it has asked for under a key."""

    def remote_requests(self, member: str) -> list[RemoteRequest]:
        """All that it has asked for, and still waits for or holds, by id."""

    def keep_remote_request(self, row: RemoteRequest) -> None:
        """Remember that; it is forgotten with its lease, or its member."""

    def drop_remote_request(self, id: int) -> None:
        """Forget under which key a ticket was asked for."""
