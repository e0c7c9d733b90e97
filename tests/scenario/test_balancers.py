"""Load balancers of the cloudlycke provider: addresses, hooks, the state file. What a user of `kubectl` sees."""
import pytest

from lib.ccmd import machine
from lib.services import FINALIZER, Services, finalizers, ingress, ips
from lib.wait import holds_for, wait_for

pytestmark = pytest.mark.one_version

POOL = {"name": "lab", "addresses": ["192.0.2.10-192.0.2.12"]}


@pytest.fixture
def services(api):
    one = Services(api)
    one.clear()
    yield one
    one.clear()


@pytest.fixture
def lab(inventory):
    """An inventory with a pool of three addresses and load balancers; lab(pool=…, hook=…) changes that."""

    def change(*pools, state=None, **balancers):
        inventory.content["addressPools"] = list(pools or [POOL])
        inventory.content["loadBalancers"] = balancers
        if state:
            inventory.content["state"] = {"file": str(state)}
        return inventory.write()

    change()
    return change


def test_a_service_gets_an_address_and_gives_it_back(services, lab, kubelet, ccmd):
    kubelet("n1", initialized=True, provider_id="cloudlycke://m-n1")
    ccmd()
    services.create("web")
    services.create("db")
    assert services.wait_ips("web") != services.wait_ips("db")
    one = services.get("web")
    assert FINALIZER in finalizers(one)
    assert ingress(one)[0].get("ipMode") == "VIP"
    address = ips(one)[0]
    services.delete("web")
    services.wait_gone("web")
    services.create("other")
    assert services.wait_ips("other") == [address] == ["192.0.2.10"] or address == "192.0.2.11"
