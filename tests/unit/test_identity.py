"""Tokens of an identity provider: what passes, what must not, and where keys come from."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from tests.unit.test_auth import QUICK, MemoryAccounts

from thalweg.auth.identity import Key, Rules, claim, looks_signed, read_keys, texts, verify
from thalweg.auth.passwords import Passwords
from thalweg.domain.access import Grant, Principal, Role, Scope
from thalweg.domain.errors import InvalidParameter, StoreUnavailable, Unauthenticated
from thalweg.services.access import Access
from thalweg.services.identity import MAX_DOCUMENT_BYTES, KeySource, Provider, fetch, provider_of
from thalweg.settings import Settings, load_settings

ISSUER = "https://login.example.org/realms/water"
AUDIENCE = "thalweg"
ALL = ("RS256", "PS256", "ES256", "ES384", "EdDSA")
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def jwk(private: Any, algorithm: str, **fields: str) -> dict[str, Any]:
    """The public key as JWK (RFC 7517)."""
    kind = jwt.get_algorithm_by_name(algorithm)
    return {**json.loads(kind.to_jwk(private.public_key())), **fields}


KEY_SET = {
    "keys": [
        jwk(RSA, "RS256", kid="r1", use="sig"),
        jwk(EC, "ES256", kid="e1", alg="ES256"),
        jwk(ED, "EdDSA", kid="d1"),
        jwk(OTHER_RSA, "RS256", kid="encryption", use="enc"),
        {"kty": "oct", "kid": "shared", "k": base64.urlsafe_b64encode(b"x" * 32).decode()},
    ]
}
KEYS = read_keys(json.dumps(KEY_SET).encode())
RULES = Rules(ISSUER, AUDIENCE, ALL, 5.0)


def keys(key_id: str) -> tuple[Key, ...]:
    return tuple(key for key in KEYS if key_id in ("", key.id))


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    made = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 300, **changes}
    return {name: value for name, value in made.items() if value is not None}


def signed(private: Any = RSA, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **changes: Any) -> str:
    return jwt.encode(claims(**changes), private, algorithm, headers={"kid": "r1"} if headers is None else headers)


def raw(header: dict[str, Any], payload: dict[str, Any], signature: bytes) -> str:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    return ".".join((part(json.dumps(header).encode()), part(json.dumps(payload).encode()), part(signature)))


def public_pem(private: Any) -> bytes:
    data: bytes = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return data


def hs_confused() -> str:
    """Signed with the public key as a shared secret, which a careless library would verify with."""
    head = raw({"alg": "HS256", "typ": "JWT", "kid": "r1"}, claims(), b"").rpartition(".")[0]
    signature = hmac.new(public_pem(RSA), head.encode(), hashlib.sha256).digest()
    return f"{head}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    ("private", "algorithm", "key_id"),
    [(RSA, "RS256", "r1"), (RSA, "PS256", "r1"), (EC, "ES256", "e1"), (ED, "EdDSA", "d1")],
)
def test_signed_token_passes(private: Any, algorithm: str, key_id: str) -> None:
    token = signed(private, algorithm, {"kid": key_id})
    assert looks_signed(token)
    assert verify(token, RULES, keys)["sub"] == "ann"
    # Without an id every fitting key is tried.
    assert verify(signed(private, algorithm, {}), RULES, keys)["sub"] == "ann"


def test_audience_may_be_one_of_several_and_clocks_differ_a_little() -> None:
    assert verify(signed(aud=["other", AUDIENCE]), RULES, keys)
    assert verify(signed(exp=int(time.time()) - 2), RULES, keys)
    assert verify(signed(nbf=int(time.time()) + 3), RULES, keys)


def damaged(token: str) -> str:
    head, payload, signature = token.split(".")
    return f"{head}.{payload}.{signature[:-4]}AAAA"


BAD: dict[str, Callable[[], str]] = {
    "unsigned": lambda: raw({"alg": "none"}, claims(), b""),
    "unsigned, spelt otherwise": lambda: raw({"alg": "NoNe"}, claims(), b""),
    "no algorithm": lambda: raw({}, claims(), b"x"),
    "public key as a secret": hs_confused,
    "shared secret of the key set": lambda: jwt.encode(claims(), b"x" * 32, "HS256", headers={"kid": "shared"}),
    "another key": lambda: signed(OTHER_RSA),
    "key for encryption": lambda: signed(OTHER_RSA, headers={"kid": "encryption"}),
    "unknown key": lambda: signed(headers={"kid": "r9"}),
    "key of another kind": lambda: signed(EC, "ES256", {"kid": "r1"}),
    "curve of another algorithm": lambda: signed(ec.generate_private_key(ec.SECP384R1()), "ES384", {"kid": "e1"}),
    "algorithm not allowed": lambda: signed(algorithm="RS384"),
    "key in the token": lambda: signed(OTHER_RSA, headers={"jwk": jwk(OTHER_RSA, "RS256")}),
    "key by address": lambda: signed(OTHER_RSA, headers={"jku": "http://127.0.0.1:1/keys", "kid": "r9"}),
    "extension to be understood": lambda: raw({"alg": "RS256", "kid": "r1", "crit": ["b64"], "b64": False}, {}, b"x"),
    "another type": lambda: signed(headers={"kid": "r1", "typ": "logout+jwt"}),
    "id that is no text": lambda: raw({"alg": "RS256", "kid": ["r1"]}, claims(), b"x"),
    "expired": lambda: signed(exp=int(time.time()) - 60),
    "never expires": lambda: signed(exp=None),
    "not yet": lambda: signed(nbf=int(time.time()) + 60),
    "another issuer": lambda: signed(iss=ISSUER + "/"),
    "no issuer": lambda: signed(iss=None),
    "another audience": lambda: signed(aud="thalweg2"),
    "no audience": lambda: signed(aud=None),
    "time without end": lambda: raw({"alg": "RS256", "kid": "r1"}, claims(exp=1e400), b"x"),
    "changed": lambda: damaged(signed()),
    "nested deeply": lambda: "ey" + "A" * 20 + "." + base64.urlsafe_b64encode(b"[" * 9000).decode() + ".A",
    "too long": lambda: signed(padding="x" * 20_000),
    "no base64": lambda: "ey!.ey?.x",
    "empty parts": lambda: "ey..",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_all_other_tokens_are_refused_in_the_same_words(name: str) -> None:
    with pytest.raises(Unauthenticated, match=r"^The token is not valid here, or has expired\.$"):
        verify(BAD[name](), RULES, keys)


def test_keys_that_cannot_verify_are_left_out() -> None:
    assert [(key.id, key.type) for key in KEYS] == [("r1", "RSA"), ("e1", "EC"), ("d1", "OKP")]
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505
    for document in (
        b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": []}', b'{"keys": [1, {}, {"kty": "RSA", "n": "!", "e": "AQAB"}]}',
        b"[" * 100_000, json.dumps({"keys": [jwk(weak, "RS256")]}).encode(),
        json.dumps({"keys": [KEY_SET["keys"][4]]}).encode(),
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match="key"):
            read_keys(document)


def test_private_part_of_a_key_is_never_used() -> None:
    whole = {**json.loads(jwt.get_algorithm_by_name("RS256").to_jwk(RSA)), "kid": "r1"}
    assert "d" in whole
    (key,) = read_keys(json.dumps({"keys": [whole]}).encode())
    assert not hasattr(key.value, "private_numbers")
    assert verify(signed(), RULES, lambda _: (key,))


def test_claims_are_found_by_path_and_read_as_texts() -> None:
    made = {"roles": ["a", 1, "b"], "realm_access": {"roles": ["c"]}, "scope": "d e", "https://x.org/r": "f"}
    assert texts(claim(made, "roles")) == ("a", "b")
    assert texts(claim(made, "realm_access.roles")) == ("c",)
    assert texts(claim(made, "scope")) == ("d", "e")
    assert texts(claim(made, "https://x.org/r")) == ("f",)
    assert texts(claim(made, "roles.x")) == texts(claim(made, "nothing")) == texts({"a": 1}) == ()


# ---------------------------------------------------------------- the provider as a whole


def settings(**changes: Any) -> Settings:
    made = {
        "oidc_issuer": ISSUER, "oidc_audience": AUDIENCE, "oidc_name_claim": "preferred_username",
        "oidc_roles_claim": "realm_access.roles",
        "oidc_roles": ("staff=viewer", "CN=hydro,O=x=data-manager@lakes", "root=admin", "gone=admin@nowhere"),
    } | changes  # fmt: skip
    return Settings(**made)


def user(name: str = "ann", roles: tuple[str, ...] = ()) -> str:
    return signed(preferred_username=name, realm_access={"roles": list(roles)})


@pytest.fixture
def accounts() -> MemoryAccounts:
    return MemoryAccounts()


@pytest.fixture
def access(accounts: MemoryAccounts) -> Access:
    made = settings()
    return Access(accounts, made, Passwords(hasher=QUICK), Provider(made, keys))


def test_groups_of_the_provider_are_roles_here(access: Access, accounts: MemoryAccounts) -> None:
    def who(*roles: str) -> Principal:
        return access.authenticate(f"Bearer {user(roles=roles)}")

    assert who() == Principal("oidc:ann", Role.NOTHING, Role.VIEWER)
    assert who("staff") == Principal("oidc:ann", Role.VIEWER)
    assert who("staff", "root").role is Role.ADMIN
    hydro = who("CN=hydro,O=x", "gone")
    assert hydro.role is Role.NOTHING
    assert dict(hydro.grants) == {Scope(2): Role.DATA_MANAGER}
    assert hydro.via == "provider"
    accounts.held.append(Grant("oidc:ann", Scope(1), Role.NETWORK_MANAGER))
    assert who().grants[Scope(1)] is Role.NETWORK_MANAGER


def test_token_of_the_provider_is_remembered_until_it_expires(access: Access, accounts: MemoryAccounts) -> None:
    header = f"Bearer {user()}"
    principal = access.authenticate(header)
    assert access.quick(header) == principal
    # Within the leeway it passes, but is not remembered.
    late = f"Bearer {signed(preferred_username='ann', exp=int(time.time()) - 2)}"
    access.authenticate(late)
    assert access.quick(late) is None


@pytest.mark.parametrize("name", [None, 7, "", "x" * 129, "a\nb"])
def test_token_without_a_fit_name_is_refused(access: Access, name: Any) -> None:
    with pytest.raises(Unauthenticated):
        access.authenticate(f"Bearer {signed(preferred_username=name)}")


def test_without_a_provider_a_jwt_is_a_token_like_any_other(accounts: MemoryAccounts) -> None:
    access = Access(accounts, Settings(), Passwords(hasher=QUICK))
    with pytest.raises(Unauthenticated, match="unknown, revoked or expired"):
        access.authenticate(f"Bearer {user()}")


def test_settings_of_a_provider_are_checked() -> None:
    assert provider_of(Settings()) is None
    with pytest.raises(InvalidParameter, match="oidc_audience"):
        provider_of(Settings(oidc_issuer=ISSUER))
    for name, value in (
        ("oidc_issuer", "login.example.org"), ("oidc_algorithms", "HS256"), ("oidc_algorithms", "none"),
        ("oidc_roles", "staff"), ("oidc_roles", "staff=king"), ("oidc_roles", "staff=viewer@"),
        ("oidc_keys", "ftp://x.org/keys"),
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match=name.upper()):
            load_settings(None, {f"THALWEG_{name.upper()}": value})
    made = load_settings(None, {"THALWEG_OIDC_ROLES": "a=viewer, b=admin@lakes", "THALWEG_OIDC_ALGORITHMS": "EdDSA"})
    assert (made.oidc_roles, made.oidc_algorithms) == (("a=viewer", "b=admin@lakes"), ("EdDSA",))


# ---------------------------------------------------------------- keys


class Served:
    """A small provider on loopback: its configuration document and its keys, or whatever a test puts there."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        served = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.asked.append(self.path)
                status, body, headers = served.answers.get(self.path, (404, b"", {}))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.issuer = f"http://{self.host}/realm"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.put("/realm/.well-known/openid-configuration", {"issuer": self.issuer, "jwks_uri": self.url("/keys")})
        self.put("/keys", KEY_SET)

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"

    def put(self, path: str, document: Any, status: int = 200, **headers: str) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.answers[path] = status, body, headers

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.close()


def test_provider_on_loopback_is_found_and_asked_once(served: Served, accounts: MemoryAccounts) -> None:
    made = settings(oidc_issuer=served.issuer, oidc_hosts=(served.host,))
    access = Access(accounts, made, Passwords(hasher=QUICK))
    for name in ("ann", "bob", "ann"):
        token = signed(iss=served.issuer, preferred_username=name)
        assert access.authenticate(f"Bearer {token}").name == f"oidc:{name}"
    assert served.asked == ["/realm/.well-known/openid-configuration", "/keys"]


def test_keys_are_renewed_by_age_and_for_new_ids_but_not_at_will(served: Served) -> None:
    now = [1000.0]
    source = KeySource(settings(oidc_keys=served.url("/keys"), oidc_hosts=(served.host,)), clock=lambda: now[0])
    assert [key.id for key in source("r1")] == ["r1"]
    # An unknown id may be new: looked for again, but at most every half minute whatever is sent.
    for _ in range(50):
        assert source("r2") == ()
    assert len(served.asked) == 1
    served.put("/keys", {"keys": [jwk(OTHER_RSA, "RS256", kid="r2")]})
    now[0] += 31
    assert [key.id for key in source("r2")] == ["r2"]
    assert source("r1") == ()
    assert len(served.asked) == 2
    # A provider that is down for a while is no harm; for a day, it is.
    served.put("/keys", b"", 500)
    now[0] += 3700
    assert [key.id for key in source("r2")] == ["r2"]
    assert len(served.asked) == 3
    now[0] += 86_400
    with pytest.raises(StoreUnavailable):
        source("r2")


def test_keys_come_from_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(KEY_SET))
    assert [key.id for key in KeySource(settings(oidc_keys=str(path)))("e1")] == ["e1"]
    path.write_bytes(b" " * 300_000)
    with pytest.raises(StoreUnavailable):
        KeySource(settings(oidc_keys=str(path)))("e1")
    with pytest.raises(StoreUnavailable):
        KeySource(settings(oidc_keys=str(tmp_path / "none")))("e1")


def test_nothing_is_fetched_from_hosts_not_named(served: Served) -> None:
    elsewhere = Served()
    try:
        for url, hosts in (
            (served.url("/keys"), ()),
            (served.url("/keys"), ("127.0.0.1",)),
            (served.url("/keys"), (elsewhere.host,)),
            (f"http://{elsewhere.host}@{served.host}/keys", (elsewhere.host,)),
            ("file:///etc/passwd", ("",)),
            ("http://192.0.2.1/keys", ("192.0.2.1",)),  # no TLS
        ):
            with pytest.raises(StoreUnavailable, match="cannot be fetched"):
                fetch(url, hosts)
        assert served.asked == elsewhere.asked == []
        # Nor by way of one that is.
        served.put("/keys", b"", 302, Location=elsewhere.url("/keys"))
        with pytest.raises(StoreUnavailable):
            fetch(served.url("/keys"), (served.host,))
        served.put(
            "/realm/.well-known/openid-configuration", {"issuer": served.issuer, "jwks_uri": elsewhere.url("/keys")}
        )
        source = KeySource(settings(oidc_issuer=served.issuer, oidc_hosts=(served.host,)))
        with pytest.raises(StoreUnavailable):
            source("r1")
        assert elsewhere.asked == []
    finally:
        elsewhere.close()


@pytest.mark.parametrize(
    "document",
    [
        b"{}" + b" " * MAX_DOCUMENT_BYTES,
        b"no json",
        b"[]",
        json.dumps({"issuer": "https://evil.example", "jwks_uri": "x"}).encode(),
    ],
)
def test_configuration_that_is_too_large_or_anothers_is_not_used(served: Served, document: bytes) -> None:
    served.put("/realm/.well-known/openid-configuration", document)
    with pytest.raises(StoreUnavailable):
        KeySource(settings(oidc_issuer=served.issuer, oidc_hosts=(served.host,)))("r1")


def test_whole_application_takes_the_providers_tokens(tmp_path: Path) -> None:
    """By HTTP: a group of the provider opens a private procedure of one workspace, and nothing else."""
    from tests.conformance.policy_sos import make
    from tests.conformance.test_server_pages import Client

    from thalweg import app
    from thalweg.domain.catalogue import Workspace

    (tmp_path / "keys.json").write_text(json.dumps(KEY_SET))
    application = app.build(
        settings(store=f"sqlite:///{tmp_path}/thalweg.sqlite", oidc_keys=str(tmp_path / "keys.json"))
    )
    try:
        application.store.put_workspace(Workspace(0, "", "lakes")).result(30)
        hidden = {name: make(application, name, f"hidden-{name}", False) for name in ("default", "lakes")}

        def seen(workspace: str, token: str) -> tuple[int, bool]:
            path = "/sos" if workspace == "default" else f"/{workspace}/sos"
            with Client(application) as web:
                answer = web.get(
                    f"{path}?service=SOS&request=GetCapabilities", headers={"Authorization": f"Bearer {token}"}
                )
            return answer.status_code, hidden[workspace].keys["procedure"] in answer.text

        hydro = user(roles=("CN=hydro,O=x",))
        assert (seen("lakes", hydro), seen("default", hydro)) == ((200, True), (200, False))
        assert seen("default", user(roles=("staff",))) == (200, True)
        assert seen("lakes", user()) == (200, False)
        assert seen("lakes", BAD["expired"]()) == seen("lakes", BAD["unsigned"]()) == (401, False)
    finally:
        application.close()
