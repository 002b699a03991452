"""Checks a name with its password, no matter who asks and how often."""

from typing import Any, Final, NamedTuple

from backend.audit import store as audit
from backend.errors import ApiError
from backend.services import Services
from backend.storage.database import Tx
from backend.users import store, tries_store
from backend.users.passwords import Passwords
from backend.users.rules import Try, next_try, refusal_is_news, seconds_to_wait, sha256_hex
from workflow_api.v1 import errors_pb2

# No name that somebody can have.
_NOBODY: Final = "(nobody)"


class Proven(NamedTuple):
    """A person as they were when their password was verified; `fresh_hash` replaces a hash of other parameters."""

    row: Any
    fresh_hash: str | None

    def holds(self, row: Any) -> bool:
        """Whether nothing came between: it is still that password, and the person is enabled."""
        return row is not None and row.disabled_at is None and bool(row.password_hash == self.row.password_hash)


class Proofs:
    """Verifies passwords; a name has ten tries in a row, and then none for a minute."""

    def __init__(self, services: Services, passwords: Passwords) -> None:
        self._services = services
        self._passwords = passwords

    def prove(self, name: str, password: str, actor: str, address: str = "") -> Proven | None:
        """Whether the password is that person's; None where it is not, where nobody bears the name, or who is disabled.

        The try counts as failed until `forget`.

        Raises:
            ApiError: `rate_limited`, whatever the password is.
        """
        name_sha256 = sha256_hex(name)
        self._services.database.read(lambda tx: self._refuse_waiting(tries_store.get(tx, name_sha256)))
        with self._passwords.turn():
            row, counted = self._services.database.write(lambda tx: self._count(tx, name), of=store.OF_USERS)
            # Made by the first try of this process, whatever its name.
            nobodys = self._passwords.nobodys_hash
            kept = nobodys if row is None else row.password_hash
            matches = self._passwords.matches(kept, password)
            proven = matches and row is not None and row.disabled_at is None
            fresh = self._passwords.hash(password) if proven and self._passwords.outdated(kept) else None
        if proven:
            return Proven(row, fresh)
        details: dict[str, object] = {"address": address} if address else {}
        if matches and row is not None:
            details["disabled"] = True
        note = self._note_unknown if row is None else self._note_known
        self._services.database.write(lambda tx: note(tx, name, counted, actor, details), of=store.OF_USERS)
        return None

    @staticmethod
    def forget(tx: Tx, name: str) -> None:
        """Has the name's tries begin anew."""
        tries_store.forget(tx, sha256_hex(name))

    def _refuse_waiting(self, before: Any) -> None:
        seconds = 0 if before is None else seconds_to_wait(before.waits_until, self._services.clock())
        if seconds:
            raise ApiError(
                errors_pb2.ERROR_REASON_RATE_LIMITED,
                f"Too many tries with this name: wait for {seconds} seconds.",
                retry_after=seconds,
            )

    def _count(self, tx: Tx, name: str) -> tuple[Any, Try]:
        name_sha256, now = sha256_hex(name), self._services.clock()
        before = tries_store.get(tx, name_sha256)
        self._refuse_waiting(before)
        counted = next_try(before, now)
        audited_at = 0 if before is None else before.audited_at
        tries_store.put(tx, name_sha256, **counted._asdict(), last_at=now, audited_at=audited_at)
        return store.get(tx, name), counted

    def _note_known(self, tx: Tx, name: str, counted: Try, actor: str, details: dict[str, object]) -> None:
        """Audits what begins a minute of refusals, and what begins a wait."""
        name_sha256, now = sha256_hex(name), self._services.clock()
        before = tries_store.get(tx, name_sha256)
        if before is None:
            # Another try succeeded meanwhile.
            return
        waits = bool(counted.waits_until)
        news = waits or refusal_is_news(before.audited_at, now)
        # Written where nothing changes, too: a commit is what the other kind of name costs.
        tries_store.put(
            tx,
            name_sha256,
            tries=before.tries,
            last_at=now,
            waits_until=before.waits_until,
            audited_at=now if news else before.audited_at,
        )
        if news:
            details |= {"tries": counted.tries, "waits": waits}
            audit.record(tx, at=now, actor=actor, action="user.sign_in_refused", target=name, details=details)

    def _note_unknown(self, tx: Tx, _name: str, _counted: Try, actor: str, details: dict[str, object]) -> None:
        """Audits once a minute how many tries there were; never the name, for it may be a password."""
        now = self._services.clock()
        before = tries_store.get(tx, tries_store.NOBODY)
        tries = 1 if before is None else before.tries + 1
        audited_at = 0 if before is None else before.audited_at
        news = refusal_is_news(audited_at, now)
        tries_store.put(
            tx,
            tries_store.NOBODY,
            tries=0 if news else tries,
            last_at=now,
            waits_until=0,
            audited_at=now if news else audited_at,
        )
        if news:
            details |= {"tries": tries}
            audit.record(tx, at=now, actor=actor, action="user.sign_in_refused", target=_NOBODY, details=details)
