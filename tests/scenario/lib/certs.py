"""A certificate authority for one test cluster."""
import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=2)
BACKDATED = datetime.timedelta(hours=2)  # tests move clocks by an hour


def _name(common_name, organizations=()):
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    return x509.Name(parts + [x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path, data):
    path = Path(path)
    path.write_bytes(data)
    path.chmod(0o600)
    return path


class Pair:
    """The files of a certificate and its key."""

    def __init__(self, certificate, key):
        self.certificate = Path(certificate)
        self.key = Path(key)


class Authority:
    """Writes NAME.crt and NAME.key files into its folder; its own are ca.crt and ca.key."""

    def __init__(self, folder, name="ca"):
        self.folder = Path(folder)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name(f"ccmd test {name}")
        builder = self._builder(self._subject, self._key.public_key())
        # RFC 5280 wants both identifiers, and Python from 3.13 on refuses a chain without them
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(
            x509.KeyUsage(
                digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
                key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        self.certificate = _write(self.folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))
        _write(self.folder / f"{name}.key", _key_pem(self._key))

    def server(self, name, hosts=("localhost", "127.0.0.1", "::1", "10.96.0.1")):
        return self._issue(name, _name(name), ExtendedKeyUsageOID.SERVER_AUTH, hosts)

    def client(self, name, user, groups=(), **validity):
        """validity: since, until: timedeltas from now."""
        return self._issue(name, _name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, (), **validity)

    def key_only(self, name):
        """A signing key and its public half, as service account tokens need them."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return Pair(_write(self.folder / f"{name}.pub", public), _write(self.folder / f"{name}.key", _key_pem(key)))

    def _builder(self, subject, public_key, since=None, until=None):
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._subject).public_key(public_key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now + (since or -BACKDATED)).not_valid_after(now + (until or LIFETIME))

    def _issue(self, name, subject, usage, hosts, **validity):
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key.public_key(), **validity)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if hosts:
            names = [_general_name(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(
            _write(self.folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM)),
            _write(self.folder / f"{name}.key", _key_pem(key)),
        )


def _general_name(host):
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
