"""Every setting, declared once: name, type, default, unit, range and one sentence.

A setting comes from a flag of the command line (where it has one), else from the environment variable
``THALWEG_<NAME>``, else from a TOML file, else from its default. The file is the one given by ``--config`` or
``THALWEG_CONFIG``, else ``thalweg.toml`` in the folder of the store, if it is there.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from thalweg.domain.access import ROLE_NAMES, Role
from thalweg.domain.errors import InvalidParameter

ENVIRONMENT_PREFIX: Final = "THALWEG_"
FILE_NAME: Final = "thalweg.toml"
MIB: Final = 1 << 20
OIDC_ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Signatures by asymmetric keys; with shared secrets, or none, no token is taken."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is known of a setting beside its name and type.

    shown    the default as documents say it, where it depends on the machine
    flag     whether ``thalweg serve`` takes it as an option
    choices  the only texts allowed; empty for any
    check    raises ValueError with a clause that follows "must"
    """

    unit: str
    sentence: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    flag: bool = False
    shown: str = ""
    check: Callable[[Any], None] | None = None


def setting(
    default: T,
    unit: str,
    sentence: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    flag: bool = False,
    shown: str = "",
    check: Callable[[T], None] | None = None,
) -> T:
    """A field of ``Settings``; typed as its default, so that a setting reads like an ordinary attribute."""
    declaration = Declaration(unit, sentence, at_least, at_most, choices, flag, shown, check)
    result: T = field(default=default, metadata={"setting": declaration})
    return result


def _check_store(url: str) -> None:
    if not url.startswith("sqlite:///") or len(url) == len("sqlite:///"):
        raise ValueError("be sqlite:///relative/path or sqlite:////absolute/path")


def _check_public_url(url: str) -> None:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment):
        raise ValueError("be an http or https address without query, such as https://data.example.org/thalweg")


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.netloc):
        raise ValueError("be an http or https address")


def _check_origins(origins: tuple[str, ...]) -> None:
    for origin in origins:
        parts = urlsplit(origin)
        if origin != "*" and (parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}"):
            raise ValueError(f"hold '*' or origins such as https://viewer.example.org, not '{origin}'")


def _check_targets(targets: tuple[str, ...]) -> None:
    for target in targets:
        parts = urlsplit(target)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"hold http or https addresses without query, not '{target}'")


def _check_networks(networks: tuple[str, ...]) -> None:
    for text in networks:
        try:
            ip_network(text, strict=False)
        except ValueError:
            raise ValueError(f"hold addresses and networks such as 192.0.2.7 or 2001:db8::/32, not '{text}'") from None


def _check_issuer(url: str) -> None:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment):
        raise ValueError("be an http or https address without query, such as https://login.example.org/realms/water")


def _check_keys(source: str) -> None:
    if "://" in source:
        _check_issuer(source)


def _check_algorithms(names: tuple[str, ...]) -> None:
    for name in names:
        if name not in OIDC_ALGORITHMS:
            raise ValueError(f"hold names of {', '.join(OIDC_ALGORITHMS)}, not '{name}'")


def _check_oidc_roles(items: tuple[str, ...]) -> None:
    for item in items:
        group, equals, role = item.rpartition("=")
        if not equals or not group or role.partition("@")[0] not in ROLE_NAMES or role.endswith("@"):
            raise ValueError(f"hold GROUP=ROLE or GROUP=ROLE@WORKSPACE, the role one of {', '.join(ROLE_NAMES)}, "
                             f"not '{item}'")  # fmt: skip


def _cores() -> int:
    return min(64, max(1, len(os.sched_getaffinity(0))))


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in effect. ``origins`` says where each came from: flag, environment or file; others are defaults."""

    store: str = setting(
        "sqlite:///thalweg-data/thalweg.sqlite", "", "Address of the store; its folder is created at need.",
        flag=True, check=_check_store,
    )  # fmt: skip
    host: str = setting("127.0.0.1", "", "Address to listen on; 0.0.0.0 or :: listens on all.", flag=True)
    port: int = setting(
        8080, "", "Port to listen on; 0 takes a free one.", at_least=0, at_most=65535, flag=True
    )  # fmt: skip
    workers: int = setting(
        _cores(), "processes", "Worker processes, each with its own listening socket.",
        at_least=1, at_most=64, flag=True, shown="number of cores",
    )  # fmt: skip
    public_url: str = setting(
        "", "", "Address that clients reach the server by, from which all links are made; empty: the one listened on.",
        flag=True, check=_check_public_url,
    )  # fmt: skip
    anonymous_role: Role = setting(  # noqa: RUF009 (immutable)
        Role.VIEWER, "", "What callers without credentials may do; none closes the server to them.", flag=True
    )

    max_body_bytes: int = setting(
        16 * MIB, "bytes", "Largest request body, after decompression.", at_least=1024, at_most=1024 * MIB
    )
    max_bulk_body_bytes: int = setting(
        64 * MIB, "bytes",
        "Largest request body of a caller who may insert observations (data-manager and above); a single text in it, "
        "such as a block of values, may have 10 MB at most, since libxml2 refuses longer ones.",
        at_least=1024, at_most=1024 * MIB,
    )  # fmt: skip
    max_bodies_bytes: int = setting(
        256 * MIB, "bytes", "Most bytes of request bodies that a worker holds at once; requests beyond get 503.",
        at_least=1024, at_most=1024 * 1024 * MIB,
    )  # fmt: skip
    max_url_bytes: int = setting(
        16 * 1024, "bytes", "Longest path and query of a request.", at_least=256, at_most=64 * 1024
    )
    max_header_bytes: int = setting(
        32 * 1024, "bytes", "Largest sum of a request's header names and values.", at_least=1024, at_most=MIB
    )
    max_headers: int = setting(100, "", "Most headers of one request.", at_least=10, at_most=1000)
    max_xml_depth: int = setting(100, "", "Deepest nesting of elements in a request body.", at_least=10, at_most=250)
    max_xml_nodes: int = setting(
        1_000_000, "", "Most elements and attributes in a request body.", at_least=1000, at_most=100_000_000
    )
    max_observations_per_insert: int = setting(
        1_000_000, "values", "Most values that one InsertObservation may hold.", at_least=1, at_most=100_000_000
    )
    max_period_days: int = setting(
        0, "days", "Longest period that one GetObservation may ask for; 0: no bound.", at_least=0, at_most=3_660_000
    )
    sos_http_status: str = setting(
        "ogc", "", "HTTP status of SOS exceptions: as the OGC standards name it, or always 200 as some clients need.",
        choices=("ogc", "200"),
    )  # fmt: skip
    wfs_service_level: str = setting(
        "complete", "", "What the WFS door offers: basic reads, transactional also writes, complete also locks.",
        choices=("basic", "transactional", "complete"),
    )  # fmt: skip
    wfs_max_features: int = setting(
        1_000_000, "features", "Most features of one answer of the WFS door; its CountDefault.",
        at_least=1, at_most=1_000_000_000,
    )  # fmt: skip
    wfs_number_matched: str = setting(
        "exact", "", "Whether WFS 2.0 answers with a filter say how many features match, or unknown.",
        choices=("exact", "unknown"),
    )  # fmt: skip
    wfs_lock_expiry_s: float = setting(
        300.0, "s", "Time that a WFS lock is held where the client names none.", at_least=1, at_most=86_400
    )
    wfs_max_lock_expiry_s: float = setting(
        86_400.0, "s", "Longest time that a client may hold a WFS lock.", at_least=1, at_most=604_800
    )
    wfs_jsonp: bool = setting(False, "", "Whether the WFS door answers text/javascript with a callback (JSONP).")
    inspire_metadata_url: str = setting(
        "", "", "Address of the service's metadata record; if given, capabilities have INSPIRE's extension.",
        check=_check_address,
    )  # fmt: skip
    inspire_language: str = setting(
        "eng", "", "Language of the service in INSPIRE's extension, ISO 639-2/B, three letters."
    )

    features_default_limit: int = setting(
        100, "features", "Features of a page of OGC API - Features where the client asks for no number.",
        at_least=1, at_most=10_000,
    )  # fmt: skip
    features_max_limit: int = setting(
        10_000, "features", "Most features of a page of OGC API - Features; who asks for more gets so many.",
        at_least=1, at_most=1_000_000,
    )  # fmt: skip

    ldes_port: int = setting(
        0, "", "Port on which event streams alone are served, at the root, as by the Flanders LDES server; 0: none.",
        at_least=0, at_most=65535,
    )  # fmt: skip
    ldes_public_url: str = setting(
        "", "", "Address that clients reach that port by, from which its links are made; empty: the one listened on.",
        check=_check_public_url,
    )  # fmt: skip
    ldes_strict_members: bool = setting(
        False, "",
        "Whether a member with more than one named subject, or with blank nodes that not exactly one triple refers "
        "to, is refused, as the Flanders LDES server 3 does.",
    )  # fmt: skip
    ldes_contexts: str = setting(
        "", "", "Folder of JSON-LD contexts that bodies may name by address; its index.json maps addresses to files.",
    )  # fmt: skip
    ldes_max_age_s: int = setting(
        60, "s", "Time that caches may keep a node of an event stream that can still change.",
        at_least=0, at_most=86400,
    )  # fmt: skip
    ldes_max_age_immutable_s: int = setting(
        604_800, "s", "Time that caches may keep a node that never changes.", at_least=0, at_most=31_536_000
    )  # fmt: skip

    event_streams: tuple[str, ...] = setting(
        (), "", "Files (RDF), each describing an event stream with its views, that is made at start if it is not "
        "there; views that one lacks are added.",
    )  # fmt: skip
    stream_retention_s: float = setting(
        60.0, "s", "How often retention of event streams is applied.", at_least=1, at_most=604_800
    )
    stream_grace_s: float = setting(
        604_800.0, "s", "How long pages of event streams that compaction has replaced can still be read.",
        at_least=0, at_most=31_536_000,
    )  # fmt: skip

    ckan_rows_max: int = setting(
        32_000, "records", "Most records of one datastore_search; more are to be asked for in pages or as a dump.",
        at_least=1, at_most=1_000_000,
    )  # fmt: skip
    ckan_sql_time_s: float = setting(
        2.0, "s", "Longest time of one datastore_search_sql; what takes longer is ended.", at_least=0.1, at_most=600
    )
    ckan_max_records: int = setting(
        100_000, "records", "Most records that one datastore_create or datastore_upsert may write.",
        at_least=1, at_most=1_000_000,
    )  # fmt: skip

    ckan_max_upload_bytes: int = setting(
        1024 * MIB, "bytes",
        "Largest request body with an uploaded file, of callers who may register datasets; it goes to the disk as it "
        "arrives. For slow lines raise body_timeout_s, too.",
        at_least=1024, at_most=1024 * 1024 * MIB,
    )  # fmt: skip
    ckan_load_uploads: bool = setting(
        True, "", "Whether uploaded tables (CSV, TSV, JSON, GeoJSON, XLSX, Parquet) are loaded into the DataStore."
    )

    webhook_targets: tuple[str, ...] = setting(
        (), "", "Addresses that web hooks may be sent to, each with all below it, such as https://example.org/hooks; "
        "none: no web hook can be registered.",
        check=_check_targets,
    )  # fmt: skip

    request_timeout_s: float = setting(
        60.0, "s", "Longest time until an answer begins; the client then gets 503.", at_least=0.1, at_most=3600
    )
    head_timeout_s: float = setting(
        10.0, "s", "Time for a request's line and headers to arrive whole.", at_least=0.1, at_most=600
    )
    body_timeout_s: float = setting(
        60.0, "s", "Time for a request's body to arrive whole.",
        at_least=0.1, at_most=86400,
    )  # fmt: skip
    min_body_rate_bytes_s: int = setting(
        1024, "bytes/s", "Slowest request body that is waited for, as a mean after the first five seconds; 0: any.",
        at_least=0, at_most=1024 * MIB,
    )  # fmt: skip
    send_timeout_s: float = setting(
        60.0, "s", "Time over which the rate is looked at by which a client reads an answer that waits for it.",
        at_least=0.1, at_most=3600,
    )  # fmt: skip
    min_send_rate_bytes_s: int = setting(
        1024, "bytes/s", "Slowest reader of an answer that is waited for, as a mean over send_timeout_s; 0: any that "
        "reads at all.",
        at_least=0, at_most=1024 * MIB,
    )  # fmt: skip
    keep_alive_s: float = setting(
        30.0, "s", "Time an idle connection is kept for its next request.", at_least=0.1, at_most=3600
    )
    max_connections: int = setting(
        5000, "", "Most connections open at once, per worker process; more are answered 503.",
        at_least=1, at_most=100_000,
    )  # fmt: skip
    max_connections_per_address: int = setting(
        1000, "", "Most connections open at once from one client, per worker; more are answered 503; 0: no bound.",
        at_least=0, at_most=100_000,
    )  # fmt: skip
    max_requests_per_client_s: int = setting(
        200, "requests/s", "Most requests of one client, per worker, as a mean over ten seconds; more are answered "
        "429; 0: no bound.",
        at_least=0, at_most=1_000_000,
    )  # fmt: skip
    max_heavy_requests: int = setting(
        256, "requests", "Most requests of a worker at once that take long (streamed answers, bodies above 64 KiB); "
        "more are answered 503.",
        at_least=1, at_most=100_000,
    )  # fmt: skip
    max_heavy_requests_per_client: int = setting(
        16, "requests", "Most of these of one client, per worker; more are answered 429; 0: no bound.",
        at_least=0, at_most=100_000,
    )  # fmt: skip
    trusted_clients: tuple[str, ...] = setting(
        ("127.0.0.0/8", "::1"), "", "Addresses and networks that no limit per client applies to, separated by commas.",
        check=_check_networks,
    )  # fmt: skip
    trusted_proxies: tuple[str, ...] = setting(
        (), "", "Addresses and networks of proxies whose X-Forwarded-For names the client, separated by commas.",
        check=_check_networks,
    )  # fmt: skip
    max_pipelined: int = setting(
        256, "requests", "Most requests that a client may send ahead on one connection; it is closed beyond.",
        at_least=1, at_most=10_000,
    )  # fmt: skip
    worker_timeout_s: float = setting(
        10.0, "s", "Time after which a worker process that gives no sign of life is killed and replaced.",
        at_least=1, at_most=3600,
    )  # fmt: skip
    tls_certificate: str = setting(
        "", "", "File with the certificate and its chain (PEM); with it, the server speaks TLS alone."
    )
    tls_key: str = setting("", "", "File with the certificate's key (PEM, no password); empty: it is in the same file.")
    stop_timeout_s: float = setting(
        8.0, "s", "Time that running requests are given to end when the server stops.", at_least=0, at_most=600
    )

    threads: int = setting(
        4, "threads", "Threads of each worker for long work: large bodies, long answers, passwords.",
        at_least=1, at_most=64,
    )  # fmt: skip
    max_pool_queue: int = setting(
        1000, "requests", "Most requests of a worker that wait for a thread; more are answered 503.",
        at_least=1, at_most=100_000,
    )  # fmt: skip
    compress_min_bytes: int = setting(
        16 * 1024, "bytes", "Smallest answer that is compressed for clients who accept gzip; 0: none is.",
        at_least=0, at_most=1024 * MIB,
    )  # fmt: skip
    store_lock_timeout_s: float = setting(
        5.0, "s", "Longest wait of a write for other processes writing to the store.", at_least=0.1, at_most=600
    )
    write_queue_length: int = setting(
        4096, "writes", "Most writes of a worker that wait for their commit; more are answered 503.",
        at_least=1, at_most=1_000_000,
    )  # fmt: skip

    login_concurrency: int = setting(
        2, "", "Passwords hashed at once by a worker (64 MiB of memory each).", at_least=1, at_most=64
    )
    login_wait_s: float = setting(
        5.0, "s", "Longest wait for a password's turn to be hashed; the client then gets 503.", at_least=0.1, at_most=60
    )
    remembered_login_s: float = setting(
        60.0, "s", "Time that a verified token, or password since its last use (for an hour), is remembered; changes "
        "of accounts end it at once.",
        at_least=0, at_most=3600,
    )  # fmt: skip
    remembered_logins: int = setting(
        10_000, "", "Most verified credentials that a worker remembers.", at_least=1, at_most=1_000_000
    )

    login_tries: int = setting(
        5, "tries",
        "Wrong passwords of a name from one address, counted over all workers, before the next has to wait; with each "
        "one more twice as long.",
        at_least=1, at_most=1000,
    )  # fmt: skip
    login_delay_s: float = setting(
        300.0, "s", "Longest such wait.", at_least=1, at_most=86400
    )  # fmt: skip
    session_idle_s: float = setting(
        7200.0, "s", "Time after which a signed-in browser that asks for nothing is signed out.",
        at_least=60, at_most=31_536_000,
    )  # fmt: skip
    session_lifetime_s: float = setting(
        86_400.0, "s", "Time after which a browser has to sign in anew, whatever it does.",
        at_least=60, at_most=31_536_000,
    )  # fmt: skip
    audit_keep_days: int = setting(
        1095, "days", "Time that lines of the audit log are kept; 0: for ever.", at_least=0, at_most=36_600
    )
    metrics_role: Role = setting(  # noqa: RUF009 (immutable)
        Role.VIEWER, "", "Role on the server that reading /metrics needs; none opens it to everybody."
    )

    oidc_issuer: str = setting(
        "", "", "Address of an OpenID Connect provider whose tokens are taken, as its tokens name it; empty: none.",
        check=_check_issuer,
    )  # fmt: skip
    oidc_audience: str = setting(
        "", "", "Audience that tokens of the provider have to be made out for: what this server is called there."
    )
    oidc_keys: str = setting(
        "", "", "File or address of the provider's public keys (JWK set); empty: asked of the issuer.",
        check=_check_keys,
    )  # fmt: skip
    oidc_hosts: tuple[str, ...] = setting(
        (), "", "Hosts that keys may be fetched from, with the port where it is not the usual one; none is fetched "
        "from any other.",
    )  # fmt: skip
    oidc_algorithms: tuple[str, ...] = setting(
        ("RS256", "ES256"), "", "Signatures that are taken: RS256 to RS512, PS256 to PS512, ES256 to ES512, EdDSA.",
        check=_check_algorithms,
    )  # fmt: skip
    oidc_name_claim: str = setting("sub", "", "Claim that names the user; the name here is oidc: and its text.")
    oidc_roles_claim: str = setting(
        "roles", "", "Claim that lists the user's groups or roles; a dotted path leads into it (realm_access.roles)."
    )
    oidc_roles: tuple[str, ...] = setting(
        (), "", "What these are here: GROUP=ROLE for the server, GROUP=ROLE@WORKSPACE for a workspace.",
        check=_check_oidc_roles,
    )  # fmt: skip
    oidc_leeway_s: float = setting(
        30.0, "s", "How far the provider's clock may be from this one.", at_least=0, at_most=600
    )
    oidc_keys_s: float = setting(
        3600.0, "s", "Time after which the provider's keys are fetched again; one not known is looked for at once.",
        at_least=60, at_most=604_800,
    )  # fmt: skip

    cors_origins: tuple[str, ...] = setting(
        (), "", "Origins whose pages may read answers in a browser, separated by commas; * is any.",
        check=_check_origins,
    )  # fmt: skip
    log_level: str = setting(
        "info", "", "Least severe messages that are logged.", choices=("debug", "info", "warning", "error"), flag=True
    )
    log_format: str = setting("text", "", "Form of log lines.", choices=("text", "json"), flag=True)
    access_log: bool = setting(True, "", "Whether each request is logged in a line.")

    origins: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def listens_on_all(self) -> bool:
        """Whether the address to listen on is every address of the machine."""
        return self.host in ("", "0.0.0.0", "::")  # noqa: S104 (compared, not bound)

    @property
    def base_url(self) -> str:
        """What all links begin with, without trailing slash: ``public_url``, else the address listened on."""
        if self.public_url:
            return self.public_url.rstrip("/")
        # A server that listens on all addresses cannot know by which one it is reached.
        host = "localhost" if self.listens_on_all else self.host
        scheme = "https" if self.tls_certificate else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def ldes_base_url(self) -> str:
        """What links begin with on the port of event streams, without trailing slash."""
        if self.ldes_public_url:
            return self.ldes_public_url.rstrip("/")
        host = "localhost" if self.listens_on_all else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.ldes_port}"

    def origin(self, name: str) -> str:
        """Where a value came from: ``flag``, ``environment``, ``file`` or ``default``."""
        return self.origins.get(name, "default")


@dataclass(frozen=True, slots=True)
class Reference:
    """One setting as documents describe it; ``default`` as text."""

    name: str
    environment: str
    type: str
    default: str
    unit: str
    sentence: str
    allowed: str
    declaration: Declaration


def _declarations() -> dict[str, tuple[Any, Declaration]]:
    return {f.name: (f.default, f.metadata["setting"]) for f in fields(Settings) if "setting" in f.metadata}


_DECLARED: Final = _declarations()
_TYPE_WORDS: Final = {str: "text", int: "integer", float: "number", bool: "true or false", tuple: "list", Role: "role"}


def reference() -> Iterator[Reference]:
    """Every setting in order of declaration."""
    for name, (default, declaration) in _DECLARED.items():
        yield Reference(
            name=name,
            environment=ENVIRONMENT_PREFIX + name.upper(),
            type=_TYPE_WORDS[type(default)],
            default=declaration.shown or as_text(default),
            unit=declaration.unit,
            sentence=declaration.sentence,
            allowed=_allowed(default, declaration),
            declaration=declaration,
        )


def as_text(value: Any) -> str:
    """A setting's value as the environment or a flag would write it."""
    if isinstance(value, Role):
        return value.word
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def store_folder(store: str) -> Path:
    """The folder that holds the file of a ``sqlite:///`` address."""
    return Path(store.removeprefix("sqlite:///")).parent


def find_file(environ: Mapping[str, str], overrides: Mapping[str, Any]) -> Path | None:
    """The settings file to read when none was given by a flag: ``THALWEG_CONFIG``, which has to exist, else
    ``thalweg.toml`` in the folder of the store that flags, environment or the default name, if it is there."""
    named = environ.get(ENVIRONMENT_PREFIX + "CONFIG")
    if named:
        return Path(named)
    store = overrides.get("store") or environ.get(ENVIRONMENT_PREFIX + "STORE") or _DECLARED["store"][0]
    found = store_folder(str(store)) / FILE_NAME
    return found if found.is_file() else None


def load_settings(
    file: Path | None = None, environ: Mapping[str, str] | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from flags, environment, file and defaults, in this order of precedence.

    file       TOML with settings as top-level keys; None: no file
    environ    names ``THALWEG_<NAME>``; one that is no setting is an error if it looks like a misspelt one, else it
               is left alone (other programs use the prefix too); an empty value counts as not given
    overrides  from flags, by name; None values count as not given
    raises     InvalidParameter naming the setting, where it came from, the value and what is allowed; for unknown
               names the nearest known one
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    if file is not None:
        for name, value in _read_file(file).items():
            _require_known(name, str(file))
            values[name] = _convert(name, value, f"'{name}' in {file}")
            origins[name] = "file"
    for variable, text in (environ or {}).items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or not text:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        # Kubernetes sets THALWEG_PORT=tcp://... beside a service of that name.
        if text.startswith("tcp://") or (name not in _DECLARED and not _nearest(name, 0.75)):
            continue
        _require_known(name, f"environment variable {variable}")
        values[name] = _convert(name, text, variable)
        origins[name] = "environment"
    for name, value in (overrides or {}).items():
        if value is not None:
            _require_known(name, "option")
            values[name] = _convert(name, value, f"--{name.replace('_', '-')}")
            origins[name] = "flag"
    return Settings(**values, origins=origins)


def _read_file(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise InvalidParameter("config", f"The settings file {file} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParameter("config", f"The settings file {file} is not TOML: {error}.") from None


def _require_known(name: str, where: str) -> None:
    if name in _DECLARED:
        return
    raise InvalidParameter(name, f"There is no setting '{name}' ({where}); did you mean '{_nearest(name, 0.0)}'?")


def _nearest(name: str, cutoff: float) -> str:
    """The known name most like this one, or an empty text if none is like it enough (0 any, 1 equal)."""
    near = difflib.get_close_matches(name.lower().replace("-", "_"), _DECLARED, n=1, cutoff=cutoff)
    return near[0] if near else ""


def _convert(name: str, value: Any, where: str) -> Any:
    """The value of a setting from TOML or text, its type and range checked."""
    default, declaration = _DECLARED[name]
    try:
        converted = _typed(type(default), value)
        if isinstance(converted, int | float) and not isinstance(converted, bool | Role):
            # Written so that not-a-number fails.
            if declaration.minimum is not None and not converted >= declaration.minimum:
                raise ValueError
            if declaration.maximum is not None and not converted <= declaration.maximum:
                raise ValueError
        if declaration.choices and converted not in declaration.choices:
            raise ValueError
        if isinstance(converted, str) and any(ord(letter) < 32 for letter in converted):
            raise ValueError("hold no control characters")
        if declaration.check is not None:
            declaration.check(converted)
    except (ValueError, KeyError, OverflowError) as error:
        must = str(error) if isinstance(error, ValueError) and str(error) else "be " + _allowed(default, declaration)
        raise InvalidParameter(name, f"{where} is {_quoted(value)}, but must {must}.") from None
    return converted


def _typed(kind: type, value: Any) -> Any:
    if kind is Role:
        return value if isinstance(value, Role) else Role.named(str(value))
    if kind is bool:
        if isinstance(value, bool):
            return value
        return {
            "true": True,
            "yes": True,
            "1": True,
            "on": True,
            "false": False,
            "no": False,
            "0": False,
            "off": False,
        }[str(value).strip().lower()]
    if kind is tuple:
        parts = value if isinstance(value, list | tuple) else str(value).split(",")
        return tuple(str(part).strip() for part in parts if str(part).strip())
    if kind is str:
        # TOML's 200 for sos_http_status is meant as the text.
        if isinstance(value, bool | float | list | dict):
            raise ValueError
        return str(value)
    if isinstance(value, bool):
        raise ValueError
    if kind is int:
        if isinstance(value, float):
            raise ValueError
        return _plain_number(int, value)
    return _plain_number(float, value)


def _plain_number(kind: Callable[[Any], Any], value: Any) -> Any:
    try:
        return kind(value)
    except (TypeError, ValueError):
        # Without Python's own words, which would replace those about the range.
        raise ValueError from None


def _allowed(default: Any, declaration: Declaration) -> str:
    """What may be given, as a phrase after "must be"."""
    if isinstance(default, Role):
        return "one of " + ", ".join(ROLE_NAMES)
    if declaration.choices:
        return "one of " + ", ".join(declaration.choices)
    if isinstance(default, bool):
        return "true or false"
    if isinstance(default, tuple):
        return "a list"
    if isinstance(default, str):
        return "a text"
    kind = "a whole number" if isinstance(default, int) else "a number"
    unit = f" {declaration.unit}" if declaration.unit else ""
    return f"{kind} from {_grouped(declaration.minimum)} to {_grouped(declaration.maximum)}{unit}"


def _grouped(bound: float | None) -> str:
    """A bound with separators of thousands, never with an exponent where it is whole."""
    if bound is None:
        return "any"
    return f"{int(bound):,}" if float(bound).is_integer() else f"{bound:g}"


def _quoted(value: Any) -> str:
    text = str(value)
    return f"'{text[:100]}'" + ("…" if len(text) > 100 else "")
