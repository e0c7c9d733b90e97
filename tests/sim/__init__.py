"""Simulators of the clouds' HTTP interfaces: what providers are tested against.

    hcloud.py    the Hetzner Cloud API
    robot.py     the Robot web service, Hetzner's dedicated servers
    brightbox/   the Brightbox API
    metadata.py  the metadata service of Hetzner's servers

Each is one endpoint.Endpoint: strict with what it is asked, honest about what it was asked, and able to fail on purpose.
What they do is what the public documents and the official controllers' code say of these APIs.
"""
