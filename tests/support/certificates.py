"""Makes a certificate authority that no client trusts, and a server's certificate signed by it."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PEM = serialization.Encoding.PEM


def new_authority(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the authority's certificate file, and the TLS context of a server on 127.0.0.1."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority_name = _name("authority")
    authority = _builder(authority_name, authority_name, authority_key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    server = _builder(_name("server"), authority_name, server_key.public_key()).add_extension(
        x509.SubjectAlternativeName([loopback]), critical=False
    )
    authority_file, server_file = folder / "authority.pem", folder / "server.pem"
    authority_file.write_bytes(authority.sign(authority_key, hashes.SHA256()).public_bytes(_PEM))
    server_file.write_bytes(
        server.sign(authority_key, hashes.SHA256()).public_bytes(_PEM)
        + server_key.private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server_file)
    return authority_file, context


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    today = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
    )
