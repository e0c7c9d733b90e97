"""Runs a simulated Brightbox API until Ctrl-C, to try it by hand."""
import argparse
import json
from pathlib import Path

from . import Brightbox


def main():
    parser = argparse.ArgumentParser(prog="python3 -m tests.sim.brightbox", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="default: any that is free")
    parser.add_argument("--servers", type=int, default=3, metavar="N", help="how many servers there are (default: 3)")
    parser.add_argument("--world", type=Path, metavar="FILE", help="JSON of what the account has, and of switches, as the "
                        "simulator takes it by PUT /_sim/state; without it N servers")
    parser.add_argument("--latency", type=float, default=0.02, metavar="SECONDS", help="of each answer (default: 0.02)")
    options = parser.parse_args()
    with Brightbox(port=options.port, latency_s=options.latency) as cloud:
        cloud.lb_build_s = cloud.lb_destroy_s = cloud.map_delay_s = 1
        if options.world:
            cloud.load(json.loads(options.world.read_text()))
        else:
            for _ in range(options.servers):
                cloud.account.add_server()
        for one in cloud.account.every("servers"):
            print("server", one["id"])
        print("export", *(f"{name}={value}" for name, value in cloud.environment().items()), flush=True)
        cloud.run_until_interrupted()


if __name__ == "__main__":
    main()
