"""Which IP addresses are private: a table of our own, so that every Python version decides alike."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

# The special-purpose registry of IANA, and the one public address at which a cloud answers its own machines.
_INSIDE_4 = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "metadata"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_GLOBAL_6 = IPv6Network("2000::/3")
_INSIDE_6 = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("2001::/23", "protocol assignments"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")


def parse_address(text: str) -> Address:
    """The address that a resolver answered. A zone (`%eth0`) names an interface, not another address."""
    return ip_address(text.partition("%")[0])


def why_inside(address: Address) -> str | None:
    """What makes the address one that a plan must allow by name; None for the open Internet."""
    if isinstance(address, IPv6Address):
        return _why_inside_6(address)
    return next((what for network, what in _INSIDE_4 if address in network), None)


def _why_inside_6(address: IPv6Address) -> str | None:
    embedded = address.ipv4_mapped
    if embedded is None and address in _NAT64:
        embedded = IPv4Address(int(address) & 0xFFFFFFFF)
    if embedded is not None:
        return why_inside(embedded)
    named = next((what for network, what in _INSIDE_6 if address in network), None)
    if named is None and address not in _GLOBAL_6:
        return "outside global unicast"
    return named
