"""The metadata service of Hetzner servers, for one server of a simulated cloud.

    with Metadata(cloud.add_server("n1", networks=[net])) as metadata:
        run_something(HCLOUD_METADATA_ENDPOINT=metadata.url)
"""
import ipaddress

from .endpoint import Endpoint, Reply

PLAIN = {"Content-Type": "text/plain; charset=utf-8"}


class Metadata(Endpoint):
    base = "/hetzner/v1/metadata"

    def __init__(self, server, **options):
        self.server = server
        super().__init__(**options)

    def answer(self, request):
        place = self.server.location
        zone = next(one["name"] for one in self.server.project.cloud.datacenters if one["location"] == place)
        values = {
            "/hostname": lambda: self.server.name,
            "/instance-id": lambda: str(self.server.id),
            "/public-ipv4": lambda: self.server.ipv4 or "",
            "/region": lambda: place["network_zone"],
            "/availability-zone": lambda: zone,
            "/private-networks": self._private_networks,
        }
        value = values.get(request.path) if request.has_base and request.method == "GET" else None
        if value is None:
            return Reply(404, b"not found\n", PLAIN)
        return Reply(200, value().encode(), PLAIN)

    def _private_networks(self):
        """A list in YAML."""
        return "".join(self._entry(number, one) for number, one in enumerate(self.server.private_net, 1))

    def _entry(self, number, entry):
        network = self.server.project.networks[entry["network"]]
        address = ipaddress.ip_address(entry["ip"])
        subnet = next(one[0] for one in network.subnets if address in one[0])
        aliases = "[" + ", ".join(entry["alias_ips"]) + "]"
        return (
            f"- ip: {entry['ip']}\n  alias_ips: {aliases}\n  interface_num: {number}\n"
            f"  mac_address: {entry['mac_address']}\n  network_id: {network.id}\n  network_name: {network.name}\n"
            f"  network: {network.ip_range}\n  subnet: {subnet}\n  gateway: {network.gateway}\n"
        )
