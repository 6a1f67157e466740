"""TLS by certificate files, which are read again when they have been renewed."""

from __future__ import annotations

import logging
import os
import ssl
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.settings import Settings

logger = logging.getLogger(__name__)

_UNKNOWN: Final = (0, 0)


class Tls:
    """The certificate of one process.

    context  for listening sockets; TLS 1.2 and later
    """

    def __init__(self, certificate: str, key: str) -> None:
        """Raises InvalidParameter ``tls_certificate`` or ``tls_key``."""
        self._certificate = certificate
        self._key = key or certificate
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self._seen = self._look()
        self._load(self.context)

    def _look(self) -> tuple[int, int]:
        try:
            return os.stat(self._certificate).st_mtime_ns, os.stat(self._key).st_mtime_ns
        except OSError:
            return _UNKNOWN

    def _load(self, context: ssl.SSLContext) -> None:
        for name, path in (("tls_certificate", self._certificate), ("tls_key", self._key)):
            if not os.access(path, os.R_OK):
                raise InvalidParameter(name, f"The file '{path}' (setting {name}) cannot be read.")
        try:
            # Never a question on the terminal for the password of a key.
            context.load_cert_chain(self._certificate, self._key, password=lambda: b"")
        except (ssl.SSLError, OSError) as error:
            raise InvalidParameter(
                "tls_certificate",
                f"The files '{self._certificate}' and '{self._key}' are not a certificate (PEM, with the chain) and "
                f"its key without a password: {getattr(error, 'reason', None) or error}.",
            ) from None

    def renew(self) -> None:
        """Take over files that have changed, for connections to come. Bad ones are told in the log, and the old ones
        are kept: a renewal writes two files, and may be looked at between them."""
        seen = self._look()
        if seen in (self._seen, _UNKNOWN):
            return
        self._seen = seen
        try:
            # Tried apart: a certificate without its key would spoil the context in use.
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            self._load(self.context)
        except InvalidParameter as error:
            logger.error("the renewed certificate is not used: %s", error.message)
        else:
            logger.info("the renewed certificate '%s' is used from now on", self._certificate)


def tls_of(settings: Settings) -> Tls | None:
    """The certificate that the settings name, if they do. Raises InvalidParameter."""
    if not settings.tls_certificate:
        if settings.tls_key:
            raise InvalidParameter("tls_certificate", "A key (tls_key) needs its certificate (tls_certificate).")
        return None
    return Tls(settings.tls_certificate, settings.tls_key)
