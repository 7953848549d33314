"""Signs and verifies with the Python libraries of Standard Webhooks and Stripe, and as the
documentation of Slack and Shopify tells receivers to verify.

Reads a JSON list of tasks from standard input and answers each in a JSON list on standard output:
a task to verify with true or false, a task to sign with the value of the signature header.
"""

import base64
import hashlib
import hmac
import json
import sys
from datetime import datetime, timezone

import standardwebhooks
import stripe


def verify_standard(task):
    try:
        webhook = standardwebhooks.Webhook(task["secret"])
        webhook.verify(task["body"].encode(), task["headers"], json_parse=False)
        return True
    except standardwebhooks.WebhookVerificationError:
        return False


def verify_standard_raw(task):
    return verify_standard({**task, "secret": task["secret"].encode()})


def sign_standard(task):
    when = datetime.fromtimestamp(task["timestamp"], tz=timezone.utc)
    webhook = standardwebhooks.Webhook(task["secret"])
    return webhook.sign(msg_id=task["id"], timestamp=when, data=task["body"])


def verify_stripe(task):
    (header,) = (value for name, value in task["headers"].items() if name.endswith("-Signature"))
    try:
        return stripe.WebhookSignature.verify_header(
            task["body"].encode(), header, task["secret"], tolerance=300
        )
    except stripe.SignatureVerificationError:
        return False


def sign_stripe(task):
    return stripe.WebhookSignature.generate_signature_header(
        task["body"], task["secret"], timestamp=task["timestamp"]
    )


def digest(task, text):
    return hmac.new(task["secret"].encode(), text.encode(), hashlib.sha256)


def verify_slack(task):
    headers = task["headers"]
    text = f"v0:{headers['X-Slack-Request-Timestamp']}:{task['body']}"
    expected = "v0=" + digest(task, text).hexdigest()
    return hmac.compare_digest(expected, headers["X-Slack-Signature"])


def verify_shopify(task):
    expected = base64.b64encode(digest(task, task["body"]).digest()).decode()
    return hmac.compare_digest(expected, task["headers"]["X-Shopify-Hmac-Sha256"])


ANSWERS = {
    "verify standardwebhooks": verify_standard,
    "verify standardwebhooks raw": verify_standard_raw,
    "sign standardwebhooks": sign_standard,
    "verify stripe": verify_stripe,
    "sign stripe": sign_stripe,
    "verify slack": verify_slack,
    "verify shopify": verify_shopify,
}

json.dump([ANSWERS[task["do"]](task) for task in json.load(sys.stdin)], sys.stdout)
