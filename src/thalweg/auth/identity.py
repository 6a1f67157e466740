"""Tokens of an outside identity provider: signed JSON Web Tokens (RFC 7519), checked by PyJWT.

Only signatures by asymmetric keys count, each key only for algorithms of its own kind, so that nobody can pass off a
public key as a shared secret or leave the signature away (RFC 8725 sections 3.1 and 3.2).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter, Unauthenticated

ALGORITHMS: Final[Mapping[str, tuple[str, str]]] = {
    "RS256": ("RSA", ""), "RS384": ("RSA", ""), "RS512": ("RSA", ""),
    "PS256": ("RSA", ""), "PS384": ("RSA", ""), "PS512": ("RSA", ""),
    "ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"), "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", ""),
}  # fmt: skip
"""Those that may be allowed: with the type of key, and the curve, that each one needs (RFC 7518 section 3.1)."""
MAX_KEYS: Final = 100
MAX_TOKEN: Final = 16_384
"""Longest token, characters; those of providers with many groups have a few thousand."""
MIN_RSA_BITS: Final = 2048


@dataclass(frozen=True, slots=True)
class Key:
    """One public key of the provider. ``value`` is what PyJWT verifies with; algorithm empty: any of its kind."""

    id: str
    type: str
    curve: str
    algorithm: str
    value: Any


def looks_signed(token: str) -> bool:
    """Whether a bearer token has the form of a signed JWT, which our own tokens never have."""
    return token.count(".") == 2 and token.startswith("ey")


def read_keys(document: bytes) -> tuple[Key, ...]:
    """The public signing keys of a JWK set (RFC 7517); those of other types and uses are left out.

    raises  InvalidParameter (``oidc_keys``) if it is no JWK set, or holds no key that can be used
    """
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    try:
        items = json.loads(document)["keys"]
        if not isinstance(items, list):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidParameter("oidc_keys", "The identity provider's keys are no JSON Web Key set.") from None
    keys = []
    for item in items[:MAX_KEYS]:
        if not isinstance(item, dict) or item.get("use", "sig") != "sig":
            continue
        kind, curve, algorithm = str(item.get("kty", "")), str(item.get("crv", "")), str(item.get("alg", ""))
        if kind not in ("RSA", "EC", "OKP") or (algorithm and algorithm not in ALGORITHMS):
            # Shared secrets (oct) least of all.
            continue
        # Never more of a key than its public part.
        public = {name: item[name] for name in ("kty", "crv", "n", "e", "x", "y", "alg") if name in item}
        if not algorithm:
            public["alg"] = next(
                (name for name, needs in ALGORITHMS.items() if needs[0] == kind and needs[1] in ("", curve)), ""
            )
        try:
            value = PyJWK(public).key
        except (PyJWTError, ValueError, TypeError):
            continue
        if kind == "RSA" and value.key_size < MIN_RSA_BITS:
            continue
        keys.append(Key(str(item.get("kid", "")), kind, curve, algorithm, value))
    if not keys:
        raise InvalidParameter("oidc_keys", "The identity provider's key set holds no public key to verify with.")
    return tuple(keys)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a provider's token has to be.

    issuer      its ``iss``; audience: one of its ``aud``
    algorithms  names of ALGORITHMS
    leeway_s    how far its clock may be from ours
    """

    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    leeway_s: float


def verify(token: str, rules: Rules, keys: Callable[[str], tuple[Key, ...]]) -> dict[str, Any]:
    """The claims of a token that passes all rules: signature, issuer, audience, times; ``exp`` has to be there.

    keys    the keys of an id (``kid``); all, for an empty one
    raises  Unauthenticated, in the same words whatever failed: a client of the provider mends it there, and others are
            not to learn
    """
    import jwt
    from jwt.exceptions import PyJWTError

    bad = Unauthenticated("The token is not valid here, or has expired.")
    if len(token) > MAX_TOKEN:
        raise bad
    try:
        header = jwt.get_unverified_header(token)
    except (PyJWTError, ValueError, RecursionError):
        raise bad from None
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    # Extensions that have to be understood are none that we do (RFC 7515 section 4.1.11); an access token is a JWT.
    if algorithm not in rules.algorithms or algorithm not in ALGORITHMS or "crit" in header:
        raise bad
    if not isinstance(key_id, str) or str(header.get("typ", "JWT")).lower() not in ("jwt", "at+jwt"):
        raise bad
    kind, curve = ALGORITHMS[algorithm]
    fitting = [
        key
        for key in keys(key_id)
        if key.type == kind and curve in ("", key.curve) and key.algorithm in ("", algorithm)
    ]
    for key in fitting:
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key.value,
                algorithms=[algorithm],
                audience=rules.audience,
                issuer=rules.issuer,
                leeway=rules.leeway_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (PyJWTError, ValueError, TypeError, RecursionError, OverflowError):
            continue
        return claims
    raise bad


def claim(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by name, or a value within one by a dotted path (``realm_access.roles``); None: it is not there."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def texts(value: Any) -> tuple[str, ...]:
    """The texts of a claim: a list, or one text of words between blanks (OAuth ``scope``). At most 1,000."""
    items = value.split() if isinstance(value, str) else value if isinstance(value, list) else ()
    return tuple(item for item in items[:1000] if isinstance(item, str))
