"""Parts of capabilities that services share: OWS Common 1.0 (OGC 05-008) and 1.1 (06-121r3), prefix ``ows``."""

from __future__ import annotations

from urllib.parse import quote

from thalweg.domain.catalogue import Provider
from thalweg.encode.xmltext import attribute, escape, legal


def leaf(name: str, text: str) -> str:
    """An element with a text; nothing for an empty one."""
    return f"<{name}>{escape(text)}</{name}>\n" if text else ""


def any_uri(text: str) -> str:
    """An address fit for an attribute of type anyURI."""
    return attribute(quote(legal(text), safe=":/?#@!$&'()*+,;=~%"))


def service_provider(provider: Provider, title: str) -> str:
    """The element ServiceProvider: always there, as clients (OWSLib) and test suites read it unasked.

    title  of the service, which stands for a provider's name
    """
    phone = leaf("ows:Voice", provider.voice) + leaf("ows:Facsimile", provider.fax)
    info = (f"<ows:Phone>\n{phone}</ows:Phone>\n" if phone else "") + _post(provider)
    return "".join(
        (
            "<ows:ServiceProvider>\n",
            leaf("ows:ProviderName", provider.name or title),
            f'<ows:ProviderSite xlink:href="{any_uri(provider.site)}"/>\n' if provider.site else "",
            "<ows:ServiceContact>\n",
            leaf("ows:IndividualName", provider.contact_name),
            leaf("ows:PositionName", provider.contact_position),
            f"<ows:ContactInfo>\n{info}</ows:ContactInfo>\n" if info else "",
            "</ows:ServiceContact>\n</ows:ServiceProvider>\n",
        )
    )


def _post(provider: Provider) -> str:
    text = "".join(
        (
            leaf("ows:DeliveryPoint", provider.delivery_point),
            leaf("ows:City", provider.city),
            leaf("ows:AdministrativeArea", provider.administrative_area),
            leaf("ows:PostalCode", provider.postal_code),
            leaf("ows:Country", provider.country),
            leaf("ows:ElectronicMailAddress", provider.email),
        )
    )
    return f"<ows:Address>\n{text}</ows:Address>\n" if text else ""
