"""What Hetzner sells and where, as far as providers look at it."""

LOCATIONS = [
    {"id": number, "name": name, "description": description, "country": country, "city": city, "latitude": latitude,
     "longitude": longitude, "network_zone": zone}
    for number, name, description, country, city, latitude, longitude, zone in (
        (1, "fsn1", "Falkenstein DC Park 1", "DE", "Falkenstein", 50.47612, 12.370071, "eu-central"),
        (2, "nbg1", "Nuremberg DC Park 1", "DE", "Nuremberg", 49.452102, 11.076665, "eu-central"),
        (3, "hel1", "Helsinki DC Park 1", "FI", "Helsinki", 60.169855, 24.938379, "eu-central"),
        (4, "ash", "Ashburn, VA", "US", "Ashburn, VA", 39.045821, -77.487073, "us-east"),
        (5, "hil", "Hillsboro, OR", "US", "Hillsboro, OR", 45.54222, -122.951924, "us-west"),
        (6, "sin", "Singapore", "SG", "Singapore", 1.283333, 103.833333, "ap-southeast"),
    )
]


def _price(location, monthly):
    hourly = f"{monthly / 720:.4f}"
    both = lambda text: {"net": text, "gross": text}
    return {"location": location, "price_hourly": both(hourly), "price_monthly": both(f"{monthly:.4f}"),
            "included_traffic": 20 << 40, "price_per_tb_traffic": both("1.0000")}


def _prices(monthly):
    return [_price(one["name"], monthly) for one in LOCATIONS]


SERVER_TYPES = [
    {"id": number, "name": name, "description": name.upper(), "category": "Shared vCPU", "cores": cores,
     "memory": memory, "disk": disk, "prices": _prices(monthly), "storage_type": "local", "cpu_type": "shared",
     "architecture": architecture, "deprecated": False, "deprecation": None,
     "locations": [{"id": one["id"], "name": one["name"], "deprecation": None, "available": True, "recommended": True}
                   for one in LOCATIONS]}
    for number, name, cores, memory, disk, monthly, architecture in (
        (104, "cx22", 2, 4, 40, 3.29, "x86"),
        (105, "cx32", 4, 8, 80, 5.83, "x86"),
        (45, "cax11", 2, 4, 40, 3.29, "arm"),
    )
]

LOAD_BALANCER_TYPES = [
    {"id": number, "name": name, "description": name.upper(), "max_connections": connections, "max_services": services,
     "max_targets": targets, "max_assigned_certificates": certificates, "prices": _prices(monthly), "deprecated": None,
     "deprecation": None}
    for number, name, connections, services, targets, certificates, monthly in (
        (1, "lb11", 10000, 5, 25, 10, 5.39),
        (2, "lb21", 20000, 15, 75, 25, 16.40),
        (3, "lb31", 40000, 30, 150, 50, 32.90),
    )
]

IMAGES = [
    {"id": number, "type": "system", "status": "available", "name": name, "description": name, "image_size": None,
     "disk_size": 5, "created": "2025-08-10T09:00:00+00:00", "created_from": None, "bound_to": None,
     "os_flavor": flavor, "os_version": version, "rapid_deploy": True, "protection": {"delete": False},
     "deprecated": None, "deleted": None, "labels": {}, "architecture": architecture}
    for number, name, flavor, version, architecture in (
        (114690387, "debian-12", "debian", "12", "x86"),
        (114690389, "debian-12", "debian", "12", "arm"),
        (161547269, "ubuntu-24.04", "ubuntu", "24.04", "x86"),
    )
]

# Deprecated, and gone from servers since July 2026; older clients still want to see them.
DATACENTERS = [
    {"id": number, "name": name, "description": f"{location} virtual DC", "location": location,
     "server_types": dict.fromkeys(("supported", "available", "available_for_migration"),
                                   [one["id"] for one in SERVER_TYPES])}
    for number, name, location in (
        (4, "fsn1-dc14", "fsn1"), (2, "nbg1-dc3", "nbg1"), (3, "hel1-dc2", "hel1"), (5, "ash-dc1", "ash"),
        (6, "hil-dc1", "hil"), (7, "sin-dc1", "sin"),
    )
]
for _one in DATACENTERS:
    _one["location"] = next(place for place in LOCATIONS if place["name"] == _one["location"])


def find(things, wanted):
    """By ID, by ID in a string, or by name; None if there is none."""
    for one in things:
        if wanted in (one["id"], one["name"]) or (isinstance(wanted, str) and wanted == str(one["id"])):
            return one
    return None
