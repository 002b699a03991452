"""What is derived from the secret in a visitor's cookie, so that nothing of it has to be kept here."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Final

_FORM: Final = b"workflow-api console form"
_NOTICE: Final = b"workflow-api console notice"
_LONGEST_NOTICE: Final = 500


def form_token(secret: str) -> str:
    """Return the token that every form of this visitor carries."""
    return hmac.new(secret.encode(), _FORM, sha256).hexdigest()


def is_form_token(secret: str, token: str) -> bool:
    """Return whether a form carried this visitor's token."""
    return hmac.compare_digest(form_token(secret).encode(), token.encode())


def seal_notice(secret: str, notice: str) -> str:
    """Return a cookie's value with a line that only this console can have written for this visitor."""
    text = notice[:_LONGEST_NOTICE].encode()
    return f"{urlsafe_b64encode(text).decode()}.{_notice_mark(secret, text)}"


def open_notice(secret: str, sealed: str) -> str:
    """Return the line in such a value; empty where it is none of this console's for this visitor."""
    encoded, _, mark = sealed.partition(".")
    try:
        text = urlsafe_b64decode(encoded)
        return text.decode() if hmac.compare_digest(_notice_mark(secret, text).encode(), mark.encode()) else ""
    except ValueError:
        return ""


def _notice_mark(secret: str, text: bytes) -> str:
    return hmac.new(secret.encode(), _NOTICE + text, sha256).hexdigest()
