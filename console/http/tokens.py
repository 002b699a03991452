"""Form tokens and notices, authenticated with the secret of a visitor's cookie, so that nothing is stored here."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from secrets import token_hex
from typing import Final

_FORM: Final = b"workflow-api console form"
_NOTICE: Final = b"workflow-api console notice"
_MAX_NOTICE_CHARS: Final = 500
_PAGE_CHARS: Final = 16
_SIGNATURE_CHARS: Final = 48


def form_token(secret: str) -> str:
    """Returns a token for the forms of one page of this visitor; every page has another."""
    return _form_token(secret, token_hex(_PAGE_CHARS // 2))


def is_form_token(secret: str, token: str) -> bool:
    """Returns whether a token is that of a page of this visitor."""
    return hmac.compare_digest(_form_token(secret, token[:_PAGE_CHARS]).encode(), token.encode())


def _form_token(secret: str, page: str) -> str:
    return page + hmac.new(secret.encode(), _FORM + page.encode(), sha256).hexdigest()[:_SIGNATURE_CHARS]


def seal_notice(secret: str, notice: str) -> str:
    """Returns a cookie's value with a notice, signed for this visitor."""
    text = notice[:_MAX_NOTICE_CHARS].encode()
    return f"{urlsafe_b64encode(text).decode()}.{_notice_signature(secret, text)}"


def open_notice(secret: str, sealed: str) -> str:
    """Returns the notice of a cookie's value; empty where its signature is not valid for this visitor."""
    encoded, _, signature = sealed.partition(".")
    try:
        text = urlsafe_b64decode(encoded)
        return (
            text.decode() if hmac.compare_digest(_notice_signature(secret, text).encode(), signature.encode()) else ""
        )
    except ValueError:
        return ""


def _notice_signature(secret: str, text: bytes) -> str:
    return hmac.new(secret.encode(), _NOTICE + text, sha256).hexdigest()
