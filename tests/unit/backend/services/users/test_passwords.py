import inspect
import re
from concurrent.futures import ThreadPoolExecutor
from math import log2
from threading import Event

import pytest

from backend.common.errors import ApiError
from backend.rpc.server import UNARY_THREADS
from backend.services.users.passwords import MAX_CALLERS, MAX_CONCURRENT, Passwords, new_password
from contract.channel.in_process import InProcessChannel
from tests.support.poll import until
from workflow_api.v1 import errors_pb2


def test_a_made_password_is_of_at_least_120_bits_and_easy_to_read() -> None:
    made = {new_password() for _ in range(200)}
    assert len(made) == 200
    for password in made:
        assert re.fullmatch("([0-9a-z]{5}-){4}[0-9a-z]{5}", password)
    alphabet = set("".join(made)) - {"-"}
    assert len(alphabet) == 32
    assert not alphabet & set("ilou")
    assert 25 * log2(len(alphabet)) >= 120


def test_a_hash_is_argon2id_with_a_salt_of_its_own() -> None:
    passwords = Passwords()
    first, second = passwords.hash("a password"), passwords.hash("a password")
    assert first != second
    assert first.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert passwords.matches(first, "a password")
    assert passwords.matches(second, "a password")
    assert not passwords.matches(first, "a passwork")


def test_decoy_hash_costs_as_much_as_todays() -> None:
    passwords = Passwords()
    assert not passwords.outdated(passwords.decoy_hash)


def test_passwords_never_hold_every_thread_that_answers() -> None:
    in_process = inspect.signature(InProcessChannel).parameters["threads"].default
    assert min(UNARY_THREADS, in_process) >= 2 * MAX_CALLERS


def test_the_same_letters_are_the_same_password_however_they_are_typed() -> None:
    passwords = Passwords()
    assert passwords.matches(passwords.hash("Größe-Ångström"), "Gro\u0308ße-A\u030angstro\u0308m")


def test_two_at_a_time_have_a_slot_and_few_wait() -> None:
    passwords = Passwords()
    inside: list[int] = []
    leave = Event()

    def take_slot(number: int) -> ApiError | None:
        try:
            with passwords.slot():
                inside.append(number)
                assert leave.wait(60)
        except ApiError as error:
            return error
        return None

    with ThreadPoolExecutor(MAX_CALLERS + 1) as pool:
        slots = [pool.submit(take_slot, number) for number in range(MAX_CALLERS + 1)]
        [refused] = until(lambda: [slot for slot in slots if slot.done()], "one to be refused", every=0.01)
        until(lambda: len(inside) == MAX_CONCURRENT, "the first have their slot", every=0.01)
        error = refused.result()
        assert error is not None
        assert (error.reason, error.retry_after) == (errors_pb2.ERROR_REASON_RATE_LIMITED, 1)
        leave.set()
        assert [slot.result() for slot in slots if slot is not refused] == [None] * MAX_CALLERS
    assert len(inside) == MAX_CALLERS


def test_a_slot_is_released_after_an_error() -> None:
    passwords = Passwords()
    for _ in range(MAX_CALLERS + 1):
        with pytest.raises(ZeroDivisionError), passwords.slot():
            _ = 1 / 0
