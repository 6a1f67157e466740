"""The form in which a door declares its requests for the test of the access policy (``test_policy.py``).

A door ``x`` has a file ``policy_x.py`` here with a ``ROWS: DoorRows``. It says how to make a dataset, and for each
operation of ``Door.operations`` at least one request; the test then sends every request as every kind of caller, at
public and private datasets, and knows by itself what has to come back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from thalweg.app import Application


class Aim(Enum):
    """What a request is about."""

    DATASET = "names the dataset: to who may not read it, as if there were none of that name"
    LISTING = "names none: who may not read the dataset finds none of its texts in the answer"
    SERVER = "is about the server as a whole: a role for anything less does not do"
    WORKSPACE = "makes something new in the workspace: a role for one dataset does not do"


@dataclass(frozen=True)
class Target:
    """A dataset of the door.

    kind, id  what a role is granted on; ``offering``-like further (kind, id) that count for it, too, in ``within``
    keys      texts that requests put in, by any names the door's rows use
    secrets   texts that are in answers only because of this dataset
    listed    texts by which lists name it, and errors that repeat what was asked for
    """

    workspace: str
    kind: str
    id: int
    keys: Mapping[str, str]
    secrets: tuple[str, ...]
    within: tuple[tuple[str, int], ...] = ()
    listed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sent:
    """An HTTP request; the path begins after the workspace's prefix (``/sos``)."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    body: bytes = b""
    content_type: str = "application/xml"


@dataclass(frozen=True)
class Row:
    """One request of an operation.

    send     makes it for a target; the number is another one each time, for what may be sent only once
    allowed  statuses of the answer to who may do it
    changes  whether it changes the target, so that each caller needs a fresh one
    variant  whether it says the same as another row in another way: few callers send it, one for each outcome
    shows    of a listing: whether the answer to who may read the dataset has one of its texts
    of_group  whether it is about what the dataset belongs to, so that a role for the dataset alone does not do
    """

    operation: str
    send: Callable[[Target, int], Sent]
    aim: Aim = Aim.DATASET
    allowed: tuple[int, ...] = (200,)
    changes: bool = False
    shows: bool = True
    variant: bool = False
    of_group: bool = False


@dataclass(frozen=True)
class DoorRows:
    """All rows of a door.

    make     registers a dataset of that name in a workspace, public or not, and gives it as a target
    absent   what a target of that name would be, had it been made
    discard  removes a dataset again that one request was made for
    unknown  statuses by which the door says that there is no such dataset
    everywhere  whether lists are of all workspaces, so that a role in any of them is one to be answered by
    anonymous  status by which callers without credentials are refused: 403 where clients take 401 for a fault
    hidden   empty: of a dataset that may not be read the door says the same as of none; else statuses by which it says
             that there is one, and nothing of what it is
    """

    door: str
    make: Callable[[Application, str, str, bool], Target]
    absent: Callable[[str, str], Target]
    rows: tuple[Row, ...]
    unknown: tuple[int, ...] = (404,)
    discard: Callable[[Application, Target], None] = lambda application, target: None
    everywhere: bool = False
    anonymous: int = 401
    hidden: tuple[int, ...] = ()
