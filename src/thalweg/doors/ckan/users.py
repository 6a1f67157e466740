"""Actions on users, which are accounts of this server, and on their API tokens."""

from __future__ import annotations

from typing import Any, Final

from thalweg.auth.policy import Action, may, require
from thalweg.auth.tokens import token_digest
from thalweg.domain.access import SERVER, Principal, Role, Token, User
from thalweg.domain.errors import InvalidParameter, NotFound, Unauthenticated
from thalweg.doors.ckan.documents import iso
from thalweg.doors.ckan.errors import fault
from thalweg.doors.ckan.organizations import MAX_LISTED
from thalweg.doors.ckan.reading import Parameters
from thalweg.doors.ckan.transport import Call, answer
from thalweg.doors.http import Response
from thalweg.services.accounts import now_us
from thalweg.services.services import Services

_UNITS: Final = 86_400
"""What ``expires_in`` counts unless ``unit`` says otherwise: days, in seconds."""
_ID_LETTERS: Final = 16
"""Of a token's digest, by which it is named."""
MAX_LIFETIME_S: Final = 100 * 365 * 86_400


def _is_administrator(principal: Principal) -> bool:
    return may(principal, Action.ADMINISTER, SERVER)


def user_document(user: User) -> dict[str, Any]:
    return {
        "id": user.name,
        "name": user.name,
        "fullname": user.name,
        "display_name": user.name,
        "about": None,
        "created": iso(user.created_us),
        "state": "active",
        "sysadmin": user.role >= Role.ADMIN,
        "image_url": None,
        "image_display_url": None,
        "number_created_packages": 0,
        "activity_streams_email_notifications": False,
    }


def _require_user(principal: Principal) -> None:
    if not principal.name:
        raise Unauthenticated("Credentials are needed to see users.")


def _own_or_any(call: Call, services: Services, key: str) -> User:
    """An account the caller may see: its own, an administrator any. Raises NotFound for all others."""
    principal = call.request.principal
    _require_user(principal)
    if key == principal.name or _is_administrator(principal):
        for user in services.access.users():
            if user.name == key:
                return user
    raise NotFound("id", "User was not found.")


def user_list(call: Call, services: Services) -> Response:
    """Accounts; of those who are no administrators their own alone."""
    principal = call.request.principal
    _require_user(principal)
    read = Parameters(call.parameters)
    text = read.text("q").lower()
    seen = _is_administrator(principal)
    found = [
        user for user in services.access.users() if (seen or user.name == principal.name) and text in user.name.lower()
    ]
    found.sort(key=lambda user: user.name)
    if not read.boolean("all_fields", True):
        return answer(call, [user.name for user in found[:MAX_LISTED]])
    return answer(call, [user_document(user) for user in found[:MAX_LISTED]])


def user_autocomplete(call: Call, services: Services) -> Response:
    """Accounts whose names contain a text; of those who are no administrators their own alone."""
    principal = call.request.principal
    _require_user(principal)
    read = Parameters(call.parameters)
    text = read.required("q").lower()
    limit = min(read.natural("limit", 20), 100)
    read.done()
    seen = _is_administrator(principal)
    found = [u.name for u in services.access.users() if (seen or u.name == principal.name) and text in u.name.lower()]
    return answer(call, [{"id": name, "name": name, "fullname": name} for name in sorted(found)[:limit]])


def user_show(call: Call, services: Services) -> Response:
    """An account, by default the caller's own."""
    read = Parameters(call.parameters)
    _require_user(call.request.principal)
    return answer(call, user_document(_own_or_any(call, services, read.text("id") or call.request.principal.name)))


def user_create(call: Call, services: Services) -> Response:
    """Make an account. It may do what is public, and more by its roles in organizations; ``sysadmin``: everything.
    Without a password its ``password_hash`` is taken, as CKAN's dumps of users have it."""
    require(call.request.principal, Action.ADMINISTER, SERVER)
    read = Parameters(call.parameters)
    password_hash = read.text("password_hash")
    read.need("name", *(() if password_hash else ("password",)))
    name, password = read.text("name"), read.text("password")
    role = Role.ADMIN if read.boolean("sysadmin", False) else Role.NOTHING
    by = call.request.actor("ckan", call.name)
    services.access.add_user(name, role, password, password_hash="" if password else password_hash, by=by)
    return answer(call, user_document(_own_or_any(call, services, name)))


def user_update(call: Call, services: Services) -> Response:
    """Give an account another password, or by an administrator another standing or a password by its hash. There is no
    more to change of it."""
    read = Parameters(call.parameters)
    principal = call.request.principal
    user = _own_or_any(call, services, read.text("id") or read.text("name") or read.required("id"))
    by = call.request.actor("ckan", call.name)
    if "sysadmin" in read.given and read.boolean("sysadmin", False) != (user.role >= Role.ADMIN):
        require(principal, Action.ADMINISTER, SERVER)
        services.access.set_role(user.name, Role.ADMIN if read.boolean("sysadmin", False) else Role.NOTHING, by=by)
    if read.text("password"):
        if principal.via == "token" and not _is_administrator(principal):
            # Whoever got hold of a token must not get hold of the account.
            raise fault("password", "A password is changed on the account's page")
        services.access.set_password(user.name, read.text("password"), by=by)
    elif read.text("password_hash"):
        require(principal, Action.ADMINISTER, SERVER)
        services.access.set_password_hash(user.name, read.text("password_hash"), by=by)
    return answer(call, user_document(_own_or_any(call, services, user.name)))


def user_patch(call: Call, services: Services) -> Response:
    """The same as user_update, as what is left out of that stays."""
    Parameters(call.parameters).need("id")
    return user_update(call, services)


def user_delete(call: Call, services: Services) -> Response:
    """Remove an account with its tokens and roles."""
    require(call.request.principal, Action.ADMINISTER, SERVER)
    name = Parameters(call.parameters).required("id")
    try:
        services.access.remove_user(name, by=call.request.actor("ckan", call.name))
    except NotFound:
        raise NotFound("id", "User was not found.") from None
    return answer(call, None)


# ------------------------------------------------------------------ tokens


def _token_document(token: Token) -> dict[str, Any]:
    return {
        "id": token.digest[:_ID_LETTERS],
        "name": token.label,
        "user_id": token.user,
        "created_at": iso(token.created_us),
        "last_access": iso(token.used_us) if token.used_us else None,
        "expires_at": iso(token.expires_us) if token.expires_us else None,
    }


def api_token_create(call: Call, services: Services) -> Response:
    """Make a token of an account, shown this once; ``expires_in`` times ``unit`` (a day) seconds."""
    read = Parameters(call.parameters)
    read.need("name", *(() if read.text("user_id") else ("user",)))
    user = _own_or_any(call, services, read.text("user") or read.text("user_id"))
    if call.request.principal.via == "token" and not _is_administrator(call.request.principal):
        # One that is narrowed or about to end must not make one that is not.
        raise fault("user", "A token is made by a password or on the account's page, not by another token")
    name = read.text("name")
    expires_in = read.natural("expires_in", 0)
    unit = read.natural("unit", _UNITS)
    read.done()
    lifetime_s = expires_in * unit
    if lifetime_s > MAX_LIFETIME_S:
        raise fault("expires_in", "Must be less than 100 years")
    expires_us = now_us() + lifetime_s * 1_000_000 if lifetime_s else None
    try:
        by = call.request.actor("ckan", call.name)
        text = services.access.create_token(user.name, name, expires_us, by=by)
    except InvalidParameter as error:
        raise fault("name" if error.parameter == "label" else "expires_in", error.message) from None
    return answer(call, {"token": text, "id": token_digest(text)[:_ID_LETTERS]})


def api_token_list(call: Call, services: Services) -> Response:
    """Tokens of an account, without what they are."""
    read = Parameters(call.parameters)
    user = _own_or_any(call, services, read.text("user_id") or read.text("user") or read.required("user_id"))
    return answer(call, [_token_document(token) for token in services.access.tokens(user.name)])


def api_token_revoke(call: Call, services: Services) -> Response:
    """Take a token back, by its text or its id (``jti``)."""
    read = Parameters(call.parameters)
    principal = call.request.principal
    _require_user(principal)
    key = read.text("token") or read.text("jti") or read.required("token")
    own = None if _is_administrator(principal) else principal.name
    found = [
        token
        for token in services.access.tokens(own)
        if token.digest == token_digest(key) or (len(key) >= 8 and token.digest.startswith(key.lower()))
    ]
    if len(found) != 1:
        raise NotFound("token", "API token was not found.")
    services.access.revoke_token(found[0].digest, user=own, by=call.request.actor("ckan", call.name))
    return answer(call, None)
