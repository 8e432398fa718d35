"""`python3 -m pyref --control 127.0.0.2:7471 --address 127.0.0.2 [--base-port 61440]`, from the folder tests/."""

import argparse
import ipaddress

from .control import Control
from .protection import UPDATE_AFTER
from .responder import SLOTS, Responder


def _control_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    try:
        ipaddress.ip_address(host)
        if not 0 <= int(port) <= 65535:
            raise ValueError
    except ValueError as error:
        raise argparse.ArgumentTypeError("ADDRESS:PORT, with an IP address and a port from 0 to 65535") from error
    return host, int(port)


def main() -> None:
    parser = argparse.ArgumentParser(prog="pyref", description="A small foreign peer for mroce comply.")
    parser.add_argument("--control", type=_control_address, required=True, help="where the control protocol listens")
    parser.add_argument("--address", type=ipaddress.ip_address, required=True, help="address of the endpoint")
    parser.add_argument("--base-port", type=int, default=61440, help="UDP port of slot 0 (61440)")
    parser.add_argument("--key-update", type=int, default=UPDATE_AFTER,
                        help="datagrams of a key phase after which the keys are updated (2^23)")
    options = parser.parse_args()
    if not 1 <= options.base_port <= 65536 - SLOTS:
        parser.error(f"--base-port must be from 1 to {65536 - SLOTS}: 256 slots follow it")
    try:
        control = Control(Responder(str(options.address), options.base_port, options.key_update), *options.control)
    except OSError as error:
        parser.error(f"the control address cannot be opened: {error}")
    print(f"listening {control.address}", flush=True)
    try:
        control.run()
    except KeyboardInterrupt:
        control.close()


if __name__ == "__main__":
    main()
