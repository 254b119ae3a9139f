"""The model, following the log: rewards are learned here, away from decisions.

`Learner` folds events into the `State` and teaches the policy, row by row, in the order of the log: so the model
is a function of the log alone, however often the process was stopped. What decisions read is a frozen copy
(`Serving`), put in place in one step when it is ready; nobody waits for it.
"""

from __future__ import annotations

import io
import json
import logging
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kinbandits.errors import FormatError, KinbanditsError
from kinbandits.policies import KMTLUCB, load
from kinbandits.service.config import Settings
from kinbandits.service.events import Event
from kinbandits.service.state import State
from kinbandits.service.store import Store

log = logging.getLogger("kinbandits.service")

SNAPSHOT_VERSION = 1


@dataclass(frozen=True)
class Serving:
    """What decisions are made from: the model after event ``seq``."""

    policy: KMTLUCB
    seq: int


class Learner:
    """Policy and state after some event of the log. One thread at a time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.policy = settings.build()
        self.state = State(list(self.policy.arms))
        self.refused = 0  # rows the policy would not learn
        self.serving = Serving(self.policy.frozen(), 0)

    @property
    def seq(self) -> int:
        """The last event taken in."""
        return self.state.seq

    def apply(self, events: Iterable[Event]) -> bool:
        """Take in the next events; whether the model has changed."""
        changed = False
        for event in events:
            self.state.apply(event)
            if event.is_learned:
                changed |= self._learn(event)
            elif event.kind in ("arm_added", "arm_retired"):
                self._arms(event)
                changed = True
        return changed

    def publish(self) -> None:
        """Let decisions see what was learned."""
        self.serving = Serving(self.policy.frozen(), self.seq)

    def _learn(self, event: Event) -> bool:
        body = event.body
        try:
            own = bool(body.get("own_contexts"))
            self.policy.observe([body["arm"]], [body["context"]], [body["reward"]], own_contexts=own)
        except KinbanditsError as error:
            # A row that cannot be learned (say, the settings now have another reward range) is left out, and
            # stays in the log. It must not stop the others.
            self.refused += 1
            log.warning("event not learned", extra={"seq": event.seq, "reason": str(error)})
            return False
        return True

    def _arms(self, event: Event) -> None:
        body = event.body
        try:
            if event.kind == "arm_retired":
                self.policy.retire_arm(body["arm"])
            elif body["arm"] not in self.policy.arms:
                self.policy.add_arm(
                    body["arm"],
                    body.get("descriptor"),
                    similarity=body.get("similarity"),
                    neighbours=body.get("neighbours"),
                )
        except KinbanditsError as error:
            log.warning("arm not changed", extra={"seq": event.seq, "reason": str(error)})

    # -- snapshots ------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """A snapshot: the saved policy, and the state as JSON."""
        data = {"version": SNAPSHOT_VERSION, "settings": self.settings.fingerprint(), "state": self.state.to_data()}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "policy"
            self.policy.save(path)
            saved = path.read_bytes()
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("state.json", json.dumps(data))
            archive.writestr("policy", saved, zipfile.ZIP_STORED)
        return buffer.getvalue()

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot of the same settings; any other is a `FormatError`."""
        try:
            with zipfile.ZipFile(io.BytesIO(snapshot)) as archive:
                data = json.loads(archive.read("state.json"))
                saved = archive.read("policy")
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError) as error:
            raise FormatError(f"the snapshot is damaged ({error})") from error
        if data["version"] != SNAPSHOT_VERSION:
            raise FormatError(f"the snapshot has version {data['version']}")
        if data["settings"] != self.settings.fingerprint():
            raise FormatError("the policy settings have changed since the snapshot")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "policy"
            path.write_bytes(saved)
            self.policy = load(path)
        self.state = State.from_data(data["state"])


def follow(store: Store, settings: Settings) -> Learner:
    """The learner after the whole log: the latest snapshot that fits, and the events after it."""
    learner = Learner(settings)
    for seq, snapshot in store.snapshots():
        try:
            learner.restore(snapshot)
        except (FormatError, TypeError) as error:
            log.warning("snapshot not used", extra={"seq": seq, "reason": str(error)})
            learner = Learner(settings)
        else:
            break
    learner.apply(store.read_all(learner.seq))
    learner.publish()
    return learner
