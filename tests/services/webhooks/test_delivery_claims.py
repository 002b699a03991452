"""Deliveries by several processes, by one that died, and by clocks that were ahead."""

from backend.services.webhooks import delivery_sql
from backend.services.webhooks.attempts import BACK_OFF_MS
from tests.services.webhooks.hooked import DELIVERED, WebhookWorld, arrived
from tests.support.poll import until
from tests.support.webhook_receiver import Receiver


def test_several_deliverers_send_each_message_once(hooked: WebhookWorld, receiver: Receiver) -> None:
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    runs = [hooked.finished() for _ in range(12)]
    for _ in range(3):
        hooked.deliver()
    until(lambda: {each.state for each in hooked.deliveries(webhook_id)} == {DELIVERED}, "all messages")
    assert sorted(message.json["data"]["run_id"] for message in receiver.received) == sorted(runs)


def test_a_claim_of_a_process_that_died_lapses(hooked: WebhookWorld, receiver: Receiver) -> None:
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.finished()
    at = hooked.clock()
    taken = hooked.services.database.write(
        lambda tx: delivery_sql.claim(tx, webhook_id, "clm_dead", at, at + 20_000, 10)
    )
    assert len(taken) == 1
    hooked.deliver()
    hooked.finished()
    arrived(receiver, 1)
    hooked.clock.advance(seconds=21)
    until(lambda: {each.state for each in hooked.deliveries(webhook_id)} == {DELIVERED}, "the lapsed message")
    assert len(receiver.received) == 2


def test_an_attempt_of_a_process_that_died_makes_no_later_pause_longer(
    hooked: WebhookWorld, receiver: Receiver
) -> None:
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.finished()
    at = hooked.clock()
    hooked.services.database.write(lambda tx: delivery_sql.claim(tx, webhook_id, "clm_dead", at, at + 20_000, 10))
    hooked.clock.advance(seconds=21)
    receiver.status = 503
    hooked.deliver()
    wait = hooked.attempted(webhook_id, 1).next_attempt_at.ToMilliseconds() - hooked.clock()
    assert BACK_OFF_MS[0] <= wait <= 1.1 * BACK_OFF_MS[0]


def test_a_message_of_a_clock_that_was_ahead_is_sent_once_that_is_right(
    hooked: WebhookWorld, receiver: Receiver
) -> None:
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.clock.advance(seconds=600)
    hooked.finished()
    hooked.clock.advance(seconds=-600)
    hooked.deliver()
    assert hooked.attempted(webhook_id, 1).state == DELIVERED


def test_a_pause_that_a_clock_ahead_set_ends_with_the_schedule(hooked: WebhookWorld, receiver: Receiver) -> None:
    receiver.status = 503
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.clock.advance(seconds=600)
    hooked.finished()
    hooked.deliver()
    hooked.attempted(webhook_id, 1)
    hooked.clock.advance(seconds=-600)

    def wait_ms() -> int:
        return hooked.deliveries(webhook_id)[0].next_attempt_at.ToMilliseconds() - hooked.clock()

    until(lambda: 0 < wait_ms() <= 1.1 * BACK_OFF_MS[0], "a pause of the schedule")
    receiver.status = 200
    hooked.clock.advance(seconds=6)
    assert hooked.attempted(webhook_id, 2).state == DELIVERED


def test_a_webhook_that_failed_by_a_clock_ahead_counts_as_failing_since_that_is_right(
    hooked: WebhookWorld, receiver: Receiver
) -> None:
    receiver.status = 503
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.clock.advance(days=365)
    hooked.finished()
    hooked.deliver()
    hooked.attempted(webhook_id, 1)
    hooked.clock.advance(days=-365)
    longest = round(1.1 * BACK_OFF_MS[0])
    until(
        lambda: hooked.deliveries(webhook_id)[0].next_attempt_at.ToMilliseconds() - hooked.clock() <= longest,
        "a pause of the schedule",
    )
    hooked.clock.advance(seconds=6)
    hooked.attempted(webhook_id, 2)
    assert hooked.show(webhook_id).failing_since.ToMilliseconds() == hooked.clock()


def test_a_claim_of_a_clock_that_was_ahead_lapses_within_a_minute(hooked: WebhookWorld, receiver: Receiver) -> None:
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.finished()
    ahead = hooked.clock() + 600_000
    hooked.services.database.write(lambda tx: delivery_sql.claim(tx, webhook_id, "clm_dead", ahead, ahead + 20_000, 10))
    hooked.deliver()
    of_webhook = f"webhook_deliveries WHERE webhook_id = '{webhook_id}'"
    until(lambda: hooked.dump(of_webhook)[0].due_at == hooked.clock() + 60_000, "a claim that lapses soon")
    hooked.clock.advance(seconds=61)
    assert hooked.attempted(webhook_id, 1).state == DELIVERED
