"""A name server that answers from a table, over UDP and TCP (RFC 1035, section 4)."""
import ipaddress
import socket
import struct
import threading

A, AAAA, IN = 1, 28, 1
PORT = 53
RESPONSE, TRUNCATED, RECURSION, NO_SUCH_NAME = 0x8000, 0x0200, 0x0180, 3
POINTER_TO_QUESTION = 0xC00C


class NameServer:
    """with NameServer("::1", {"api.cluster.example": ["::1"]}, truncates=True) as server: server.asked

    truncates: every answer over UDP is empty, with the flag that sends the client to TCP. asked is a list of
    ("udp" or "tcp", name). Raises OSError where the port is taken or not allowed.
    """

    def __init__(self, address, names, truncates=False):
        self.names = {name: [ipaddress.ip_address(one) for one in addresses] for name, addresses in names.items()}
        self.truncates = truncates
        self.asked = []
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._udp = socket.socket(family, socket.SOCK_DGRAM)
        self._tcp = socket.socket(family, socket.SOCK_STREAM)
        self._tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._udp.bind((address, PORT))
            self._tcp.bind((address, PORT))
        except OSError:
            self._close()
            raise
        self._tcp.listen()

    def __enter__(self):
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._serve_udp, self._serve_tcp)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._close()
        for thread in self._threads:
            thread.join()

    def _close(self):
        for one in (self._udp, self._tcp):
            try:
                one.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for it
            except OSError:
                pass
            one.close()

    def _serve_udp(self):
        while True:
            try:
                query, client = self._udp.recvfrom(4096)
            except OSError:
                return
            if not query:  # shut down
                return
            self._udp.sendto(self._answer("udp", query), client)

    def _serve_tcp(self):
        while True:
            try:
                connection, _ = self._tcp.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                connection.settimeout(5)
                while head := stream.read(2):
                    answer = self._answer("tcp", stream.read(struct.unpack("!H", head)[0]))
                    connection.sendall(struct.pack("!H", len(answer)) + answer)

    def _answer(self, transport, query):
        name, end = read_name(query, 12)
        kind, _ = struct.unpack_from("!HH", query, end)
        question = query[12:end + 4]
        self.asked.append((transport, name))
        addresses = self.names.get(name.lower())
        flags = RESPONSE | RECURSION | (NO_SUCH_NAME if addresses is None else 0)
        records = [record(one) for one in addresses or [] if {4: A, 6: AAAA}[one.version] == kind]
        if self.truncates and transport == "udp" and addresses:
            flags, records = flags | TRUNCATED, []
        return query[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0) + question + b"".join(records)


def read_name(packet, start):
    labels = []
    while length := packet[start]:
        labels.append(packet[start + 1:start + 1 + length].decode())
        start += 1 + length
    return ".".join(labels), start + 1


def record(address):
    data = address.packed
    return struct.pack("!HHHIH", POINTER_TO_QUESTION, A if address.version == 4 else AAAA, IN, 0, len(data)) + data
