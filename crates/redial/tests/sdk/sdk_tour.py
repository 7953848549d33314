"""Calls a running server with the Python SDK of Svix, 1.x or 2.x, the way a sender does.

PYTHONPATH says which version. URL, TOKEN and RECEIVER_PORT come from the environment; the receiver is
played in this process. Each step prints its name before it begins, so that the last line printed
tells where a failure is.
"""

import json
import os
import sys
from datetime import datetime, timedelta, timezone
from importlib.metadata import version

import standardwebhooks
import stripe
import svix.api as api
from svix.api import Svix, SvixOptions
from svix.api.errors.http_error import HttpError
from svix.api.errors.http_validation_error import HTTPValidationError
from svix.webhooks import Webhook

from receiver import Plain, Receiver, eventually

MAJOR = int(version("svix").split(".")[0])
QUICK = {"policy": {"schedule": {"kind": "fixed", "waits": ["100ms"]}, "max_attempts": 3}}
SUCCESS, PENDING, FAIL = 0, 1, 2
BEGAN = datetime.now(timezone.utc) - timedelta(minutes=1)


def refused(status, code, call):
    try:
        call()
    except HttpError as error:
        assert (error.status_code, error.code) == (status, code), error
        assert error.detail, "an error says what is wrong"
        return
    raise AssertionError(f"{status} {code} was expected, but the call worked")


def both_ways(page, key, all_of_them):
    """Turns pages of two to the end, and back again to the beginning."""
    assert len(all_of_them) >= 3, "one page holds everything: that proves nothing"
    pages = [page(None)]
    while not pages[-1].done:
        assert len(pages) <= len(all_of_them), "pages without end"
        pages.append(page(pages[-1].iterator))
    seen = [key(item) for it in pages for item in it.data]
    assert seen == all_of_them, f"{seen} instead of {all_of_them}"

    last = [it for it in pages if it.data][-1]
    back = [key(item) for item in last.data]
    while len(back) < len(all_of_them):
        last = page(last.prev_iterator)
        assert last.data, "the way back broke off"
        back = [key(item) for item in last.data] + back
    assert back == all_of_them, f"{back} instead of {all_of_them} on the way back"


class Tour:
    def __init__(self):
        url, token = os.environ["URL"], os.environ["TOKEN"]
        self.receiver = Receiver(int(os.environ["RECEIVER_PORT"]))
        self.svix = Svix(token, SvixOptions(server_url=url))
        self.plain = Plain(url, token)
        self.app = f"tour-{MAJOR}"

    def run(self):
        for step in STEPS:
            print(step.__name__.replace("_", " "), flush=True)
            step(self)
        print("done", flush=True)

    # What has another name in 1.x and 2.x.

    def upsert_endpoint(self, named, **fields):
        if MAJOR == 1:
            fields = {{"event_types": "filter_types"}.get(k, k): v for k, v in fields.items()}
            return self.svix.endpoint.update(self.app, named, api.EndpointUpdate(**fields))
        return self.svix.endpoint.upsert(self.app, named, api.EndpointUpsertIn(**fields))

    def upsert_application(self, named, **fields):
        application = self.svix.application
        call = application.update if MAJOR == 1 else application.upsert
        return call(named, api.ApplicationIn(**fields))

    def upsert_event_type(self, name, **fields):
        if MAJOR == 1:
            return self.svix.event_type.update(name, api.EventTypeUpdate(**fields))
        return self.svix.event_type.upsert(name, api.EventTypeUpsertIn(**fields))

    def set_headers(self, uid, headers):
        endpoint = self.svix.endpoint
        call = endpoint.update_headers if MAJOR == 1 else endpoint.set_headers
        return call(self.app, uid, api.EndpointHeadersIn(headers=headers))

    # What most steps need.

    def endpoint(self, uid, **fields):
        """Makes an endpoint that listens at the path of its own name and is retried quickly."""
        url = f"{self.receiver.url}/{uid}"
        made = self.svix.endpoint.create(self.app, api.EndpointIn(url=url, uid=uid, **fields))
        self.plain("PATCH", f"/app/{self.app}/endpoint/{uid}", {"policy": QUICK})
        return made

    def send(self, **fields):
        fields = {"event_type": "tour.began", "payload": {"n": 1}, **fields}
        return self.svix.message.create(self.app, api.MessageIn(**fields))

    def takes_effect(self, what, fits):
        """Sends to the first endpoint until what arrives fits, and returns it.

        A change is on disk when it is answered, and reaches whoever sends a moment later.
        """
        def ask():
            (arrival,) = self.receiver.wait_for("/first", self.send().id)
            return arrival if fits(arrival) else None

        return eventually(what, ask)

    def attempts(self, uid, message, count):
        """Waits until that many attempts of a message are on record, the oldest first."""
        def ask():
            page = self.svix.message_attempt.list_by_msg(
                self.app, message, api.MessageAttemptListByMsgOptions(endpoint_id=uid)
            )
            return page.data[::-1] if len(page.data) >= count else None

        return eventually(f"{message} has {count} attempts at {uid}", ask)


def create(tour):
    made = tour.svix.application.create(
        api.ApplicationIn(name="Tour", uid=tour.app, metadata={"colour": "blue"})
    )
    assert made.id.startswith("app_") and made.uid == tour.app, made
    assert made.metadata == {"colour": "blue"} and made.created_at.tzinfo, made
    again = tour.svix.application.get_or_create(api.ApplicationIn(name="Else", uid=tour.app))
    assert (again.id, again.name) == (made.id, "Tour"), again
    same = api.ApplicationIn(name="Tour", uid=tour.app)
    refused(409, "conflict", lambda: tour.svix.application.create(same))
    refused(404, "not_found", lambda: tour.svix.application.get("nobody"))

    endpoint = tour.endpoint("first", description="the first", metadata={"a": "b"})
    assert endpoint.id.startswith("ep_") and endpoint.uid == "first", endpoint
    found = tour.svix.endpoint.get(tour.app, "first")
    assert (found.id, found.description, found.metadata) == (endpoint.id, "the first", {"a": "b"})
    assert found.url == f"{tour.receiver.url}/first" and not found.disabled, found


def upsert(tour):
    made = tour.upsert_application(f"{tour.app}-other", name="Other", uid=f"{tour.app}-other")
    changed = tour.upsert_application(f"{tour.app}-other", name="Changed", uid=f"{tour.app}-other")
    assert (changed.id, changed.name) == (made.id, "Changed"), changed
    patch = api.ApplicationPatch(metadata={"x": "y"})
    patched = tour.svix.application.patch(f"{tour.app}-other", patch)
    assert (patched.name, patched.metadata) == ("Changed", {"x": "y"}), patched

    url = f"{tour.receiver.url}/unused"
    made = tour.upsert_endpoint("upserted", url=url, uid="upserted", channels=["nowhere"])
    changed = tour.upsert_endpoint(
        "upserted", url=url, uid="upserted", description="again", channels=["nowhere"]
    )
    assert (changed.id, changed.description) == (made.id, "again"), changed
    patched = tour.svix.endpoint.patch(tour.app, "upserted", api.EndpointPatch(disabled=True))
    assert patched.disabled and patched.description == "again", patched


def event_types(tour):
    prefix = f"tour{MAJOR}"
    schema = {"1": {"type": "object", "examples": [{"example": True}]}}
    for name in ["a", "b", "c"]:
        made = tour.svix.event_type.create(
            api.EventTypeIn(name=f"{prefix}.{name}", description=name, schemas=schema)
        )
        assert (made.name, made.archived) == (f"{prefix}.{name}", False), made
    same = api.EventTypeIn(name=f"{prefix}.a", description="a")
    refused(409, "event_type_exists", lambda: tour.svix.event_type.create(same))
    assert tour.upsert_event_type(f"{prefix}.d", description="new").description == "new"
    assert tour.upsert_event_type(f"{prefix}.d", description="changed").description == "changed"
    patch = api.EventTypePatch(description="patched")
    assert tour.svix.event_type.patch(f"{prefix}.d", patch).description == "patched"
    assert tour.svix.event_type.get(f"{prefix}.a").schemas == schema
    names = [it.name for it in tour.svix.event_type.list().data]
    assert [f"{prefix}.{name}" for name in "abcd"] == [n for n in names if n.startswith(prefix)]
    both_ways(
        lambda iterator: tour.svix.event_type.list(
            api.EventTypeListOptions(limit=2, iterator=iterator)
        ),
        lambda it: it.name,
        names,
    )
    tour.svix.event_type.delete(f"{prefix}.d")
    listed = lambda **options: [
        it.name for it in tour.svix.event_type.list(api.EventTypeListOptions(**options)).data
    ]
    assert f"{prefix}.d" not in listed() and f"{prefix}.d" in listed(include_archived=True)
    sent = tour.svix.endpoint.send_example(
        tour.app, "first", api.EventExampleIn(event_type=f"{prefix}.a")
    )
    (arrival,) = tour.receiver.wait_for("/first", sent.id)
    assert json.loads(arrival.body) == {"example": True}, arrival.body


def send(tour):
    payload = {"text": "ä€😀", "list": [1, 2.5, None]}
    sent = tour.send(payload=payload, event_id=f"event-{MAJOR}", channels=["one"])
    assert sent.id.startswith("msg_") and sent.event_type == "tour.began", sent
    (arrival,) = tour.receiver.wait_for("/first", sent.id)
    secret = tour.svix.endpoint.get_secret(tour.app, "first").key
    assert secret.startswith("whsec_"), "the secret has no prefix"
    assert standardwebhooks.Webhook(secret).verify(arrival.body, arrival.headers) == payload
    # The SDK's own verifier returns the payload in 1.x alone; both throw at a wrong signature.
    Webhook(secret).verify(arrival.body, arrival.headers)
    assert arrival.headers["svix-id"] == sent.id, arrival.headers
    assert arrival.headers["content-type"] == "application/json", arrival.headers
    try:
        standardwebhooks.Webhook(secret).verify(arrival.body + b" ", arrival.headers)
        raise AssertionError("a changed body was accepted")
    except standardwebhooks.WebhookVerificationError:
        pass

    found = tour.svix.message.get(
        tour.app, f"event-{MAJOR}", api.MessageGetOptions(with_content=True)
    )
    assert (found.id, found.payload, found.channels) == (sent.id, payload, ["one"]), found
    refused(409, "conflict", lambda: tour.send(event_id=f"event-{MAJOR}"))
    key = api.MessageCreateOptions(idempotency_key=f"once-{MAJOR}")
    once = api.MessageIn(event_type="tour.once", payload={})
    first, second = (tour.svix.message.create(tour.app, once, key) for _ in range(2))
    assert first.id == second.id, "an idempotency key made two messages"
    assert len(tour.receiver.wait_for("/first", first.id)) == 1


def list_and_page_both_ways(tour):
    for number in range(5):
        tour.send(payload={"number": number})
    for name in ["second", "third"]:
        tour.endpoint(name, channels=["nowhere"])
    tour.receiver.wait("/first", 8)
    attempts = tour.svix.message_attempt
    eventually("all attempts are on record", lambda: len(
        attempts.list_by_endpoint(tour.app, "first").data) >= 8)
    resources = [
        (tour.svix.application.list, api.ApplicationListOptions, []),
        (tour.svix.endpoint.list, api.EndpointListOptions, [tour.app]),
        (tour.svix.message.list, api.MessageListOptions, [tour.app]),
        (attempts.list_by_endpoint, api.MessageAttemptListByEndpointOptions, [tour.app, "first"]),
        (attempts.list_attempted_messages,
         api.MessageAttemptListAttemptedMessagesOptions, [tour.app, "first"]),
    ]
    tour.upsert_application(f"{tour.app}-third", name="Third", uid=f"{tour.app}-third")
    for call, options, where in resources:
        everything = [it.id for it in call(*where).data]
        assert len(set(everything)) == len(everything), everything
        turn = lambda iterator: call(*where, options(limit=2, iterator=iterator))
        both_ways(turn, lambda it: it.id, everything)
    (newest, *_) = tour.svix.message.list(tour.app).data
    reached = attempts.list_attempted_destinations(tour.app, newest.id).data
    assert [(it.uid, it.status) for it in reached] == [("first", SUCCESS)], reached


def filter(tour):
    tour.endpoint("typed", **{"filter_types" if MAJOR == 1 else "event_types": [f"tour{MAJOR}.a"]})
    tour.endpoint("channelled", channels=["two"])
    plain, typed, two = tour.send(), tour.send(event_type=f"tour{MAJOR}.a"), tour.send(
        channels=["two", "three"]
    )
    for message in [plain, typed, two]:
        tour.receiver.wait_for("/first", message.id)
    tour.receiver.wait_for("/typed", typed.id)
    tour.receiver.wait_for("/channelled", two.id)
    assert len(tour.receiver.arrivals["/typed"]) == len(tour.receiver.arrivals["/channelled"]) == 1

    listed = lambda **options: [
        it.id for it in tour.svix.message.list(tour.app, api.MessageListOptions(**options)).data
    ]
    assert listed(event_types=[f"tour{MAJOR}.a", "no.such"])[0] == typed.id
    assert plain.id not in listed(event_types=[f"tour{MAJOR}.a"])
    assert listed(channel="three") == [two.id]
    assert listed(before=BEGAN) == []
    assert two.id in listed(after=BEGAN) and two.id not in listed(before=two.timestamp)


def retry(tour):
    tour.receiver.answer("/first", 503)
    sent = tour.send(payload={"retry": "me"})
    failed, worked = tour.receiver.wait_for("/first", sent.id, 2)
    assert (failed.status, worked.status) == (503, 204)
    assert failed.body == worked.body, "the second attempt has other bytes"
    secret = tour.svix.endpoint.get_secret(tour.app, "first").key
    for arrival in [failed, worked]:
        standardwebhooks.Webhook(secret).verify(arrival.body, arrival.headers)
    first, second = tour.attempts("first", sent.id, 2)
    assert (first.status, first.response_status_code) == (FAIL, 503), first
    assert (second.status, second.response_status_code) == (SUCCESS, 204), second
    assert (second.trigger_type, second.msg_id) == (0, sent.id), second
    assert tour.svix.message_attempt.get(tour.app, sent.id, first.id).id == first.id

    options = api.MessageAttemptListByEndpointOptions
    listed = lambda **by: [
        it.id for it in tour.svix.message_attempt.list_by_endpoint(
            tour.app, "first", options(**by)).data
    ]
    assert listed(status=api.MessageStatus.FAIL) == [first.id]
    assert listed(status_code_class=api.StatusCodeClass.CODE5XX) == [first.id]
    assert first.id not in listed(status=api.MessageStatus.SUCCESS)
    assert second.id in listed(status_code_class=api.StatusCodeClass.CODE2XX)


def resend(tour):
    sent = tour.send(payload={"again": 1})
    tour.receiver.wait_for("/first", sent.id)
    tour.attempts("first", sent.id, 1)
    tour.svix.message_attempt.resend(tour.app, sent.id, "first")
    before, after = tour.receiver.wait_for("/first", sent.id, 2)
    assert before.body == after.body
    attempts = tour.attempts("first", sent.id, 2)
    assert [it.status for it in attempts] == [SUCCESS, SUCCESS], attempts


def finished(tour, task, kind):
    assert task.id.startswith("qtask_") and task.task == kind, task
    assert task.status in ("running", "finished"), task
    found = eventually(
        f"{kind} finishes",
        lambda: (it := tour.svix.background_task.get(task.id)).status == "finished" and it,
    )
    assert found.task == kind, found


def recover(tour):
    tour.endpoint("flaky")
    tour.receiver.answer("/flaky", 500, 500, 500)
    sent = tour.send(payload={"lost": "and found"})
    tour.receiver.wait_for("/flaky", sent.id, 3)
    tour.attempts("flaky", sent.id, 3)
    status = lambda: [
        it.status
        for it in tour.svix.message_attempt.list_attempted_messages(tour.app, "flaky").data
    ]
    eventually("three failures are the end", lambda: status() == [FAIL])
    task = tour.svix.endpoint.recover(tour.app, "flaky", api.RecoverIn(since=BEGAN))
    finished(tour, task, "endpoint.recover")
    arrivals = tour.receiver.wait_for("/flaky", sent.id, 4)
    assert len({arrival.body for arrival in arrivals}) == 1
    eventually("the message is delivered", lambda: status() == [SUCCESS])


def replay_missing(tour):
    tour.endpoint("absent")
    later = datetime.now(timezone.utc) + timedelta(minutes=10)
    sent = tour.send(payload={"missing": True}, deliver_at=later)
    (delivery,) = tour.plain("GET", f"/app/{tour.app}/endpoint/absent/delivery")["data"]
    tour.plain("POST", f"/app/{tour.app}/delivery/{delivery['id']}/cancel")
    assert tour.receiver.arrivals["/absent"] == [], "it arrived before its time"
    task = tour.svix.endpoint.replay_missing(tour.app, "absent", api.ReplayIn(since=BEGAN))
    finished(tour, task, "endpoint.replay")
    tour.receiver.wait_for("/absent", sent.id)
    tour.attempts("absent", sent.id, 1)
    task = tour.svix.endpoint.bulk_replay(tour.app, "absent", api.BulkReplayIn(since=BEGAN))
    finished(tour, task, "endpoint.bulk-replay")
    tour.receiver.wait_for("/absent", sent.id, 2)


def stats(tour):
    ask = lambda: tour.svix.endpoint.get_stats(
        tour.app, "flaky", api.EndpointGetStatsOptions(since=BEGAN)
    )
    # The message that was to be missed waits for its time here; all others are settled.
    eventually("one delivery is pending", lambda: ask().pending == 1)
    found = ask()
    assert found.success >= 1 and found.fail == 0, found
    if MAJOR == 2:
        # Attempts are summed up by the minute, and the sums are written every few seconds.
        ask = lambda: tour.svix.endpoint.get_attempt_stats(tour.app, "flaky")
        eventually("the attempts are summed up", lambda: ask().success >= 1 and ask().fail >= 3)


def headers(tour):
    shown = lambda: tour.svix.endpoint.get_headers(tour.app, "first")
    tour.set_headers("first", {"X-Colour": "blue", "Authorization": "Bearer hidden"})
    assert shown().headers == {"X-Colour": "blue"}, shown()
    assert [name.lower() for name in shown().sensitive] == ["authorization"], shown()
    patch = {"headers": {"X-Shape": "round"}}
    if MAJOR == 2:
        patch["delete_headers"] = ["X-Colour"]
    tour.svix.endpoint.patch_headers(tour.app, "first", api.EndpointHeadersPatchIn(**patch))
    assert shown().headers["X-Shape"] == "round" and ("X-Colour" in shown().headers) == (MAJOR == 1)
    arrival = tour.takes_effect("the headers arrive", lambda it: "x-shape" in it.headers)
    assert arrival.headers["x-shape"] == "round", arrival.headers
    assert arrival.headers["authorization"] == "Bearer hidden", "the sensitive header is not sent"


def rotate(tour):
    old = tour.svix.endpoint.get_secret(tour.app, "first").key
    answer = tour.svix.endpoint.rotate_secret(tour.app, "first", api.EndpointSecretRotateIn())
    new = tour.svix.endpoint.get_secret(tour.app, "first").key
    assert new != old and new.startswith("whsec_"), "the secret is still the old one"
    if MAJOR == 2:
        assert answer.key == new, "rotate-secret answered another key"
    signatures = lambda arrival: len(arrival.headers["webhook-signature"].split(" "))
    arrival = tour.takes_effect("two secrets sign", lambda it: signatures(it) == 2)
    for secret in [old, new]:
        standardwebhooks.Webhook(secret).verify(arrival.body, arrival.headers)
        Webhook(secret).verify(arrival.body, arrival.headers)


def branded_signatures(tour):
    url = f"{tour.receiver.url}/branded"
    fields = {"url": url, "uid": "branded", "signatures": ["branded"]}
    tour.plain("POST", f"/app/{tour.app}/endpoint", fields)
    sent = tour.send(payload={"object": "event", "id": "evt_1"})
    (arrival,) = tour.receiver.wait("/branded", 1)
    assert json.loads(arrival.body)["id"] == "evt_1" and sent.id
    secret = tour.svix.endpoint.get_secret(tour.app, "branded").key
    signature = arrival.headers["x-redial-signature"]
    assert stripe.WebhookSignature.verify_header(arrival.body, signature, secret, tolerance=300)
    event = stripe.Webhook.construct_event(arrival.body, signature, secret)
    assert event["id"] == "evt_1", event


def names(tour):
    # This SDK takes such a name out of the path, and then asks for the application itself. No server
    # can tell that from a request that means it, so nothing has such a name.
    for uid in [".", ".."]:
        new = api.EndpointIn(url=f"{tour.receiver.url}/never", uid=uid)
        try:
            tour.svix.endpoint.create(tour.app, new)
            raise AssertionError(f"an endpoint got the uid {uid}")
        except HTTPValidationError as error:
            assert error.detail[0].loc == ["body", "uid"], error
    refused(405, "method_not_allowed", lambda: tour.svix.endpoint.delete(tour.app, "."))
    names = [endpoint.uid for endpoint in tour.svix.endpoint.list(tour.app).data]
    assert "." not in names and ".." not in names, names


def delete(tour):
    sent = tour.send()
    tour.receiver.wait_for("/first", sent.id)
    tour.svix.message.expunge_content(tour.app, sent.id)
    found = tour.svix.message.get(tour.app, sent.id, api.MessageGetOptions(with_content=True))
    assert found.payload == {"expired": True}, found
    tour.svix.endpoint.delete(tour.app, "first")
    refused(404, "not_found", lambda: tour.svix.endpoint.get(tour.app, "first"))
    for name in ["a", "b", "c", "d"]:
        options = api.EventTypeDeleteOptions(expunge=True)
        tour.svix.event_type.delete(f"tour{MAJOR}.{name}", options)
    refused(404, "not_found", lambda: tour.svix.event_type.get(f"tour{MAJOR}.a"))
    tour.svix.application.delete(tour.app)
    refused(404, "not_found", lambda: tour.svix.application.get(tour.app))
    refused(404, "not_found", lambda: tour.send())


STEPS = [
    create, upsert, event_types, send, list_and_page_both_ways, filter, retry, resend, recover,
    replay_missing, headers, rotate, branded_signatures, stats, names, delete,
]

if __name__ == "__main__":
    expected = os.environ.get("SVIX_MAJOR")
    if expected and int(expected) != MAJOR:
        sys.exit(f"this is version {version('svix')} of the SDK, not {expected}.x")
    print(f"svix {version('svix')}", flush=True)
    Tour().run()
