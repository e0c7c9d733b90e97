"""Certificates."""
from . import lists
from .project import ApiError, Resource, invalid, refused, stamp
from .routing import serves

MANAGED_AN_HOUR = 20
VALID_S = 90 * 86400


class Certificate(Resource):
    kind = "certificate"

    def __init__(self, project, name, kind_of, domain_names, labels=None):
        super().__init__(project, name, labels)
        self.type = kind_of
        self.domain_names = list(domain_names)
        self.pem = None
        self.fingerprint = None
        self.valid = (None, None)  # from, to
        self.issuance = "pending"

    def json(self):
        status = None
        if self.type == "managed":
            renewal = "scheduled" if self.issuance == "completed" else "unavailable"
            status = {"issuance": self.issuance, "renewal": renewal, "error": None}
        return {
            **self.common(), "type": self.type, "certificate": self.pem, "fingerprint": self.fingerprint,
            "not_valid_before": stamp(self.valid[0]), "not_valid_after": stamp(self.valid[1]),
            "domain_names": list(self.domain_names), "status": status, "used_by": self._used_by(),
        }

    def _used_by(self):
        return [
            {"id": one.id, "type": "load_balancer"} for one in self.project.load_balancers.values()
            if any(self.id in service.get("http", {}).get("certificates", []) for service in one.services)
        ]

    def issue(self):
        """What the certification authority does in the end."""
        now = self.project.cloud.clock.now()
        self.valid = (now, now + VALID_S)
        self.issuance = "completed"

    def read(self, pem):
        """Names, fingerprint and dates are the certificate's own."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        try:
            parsed = x509.load_pem_x509_certificate(pem.encode())
        except ValueError:
            raise refused("certificate", "is no certificate in PEM format") from None
        self.pem = pem
        self.fingerprint = ":".join(f"{byte:02X}" for byte in parsed.fingerprint(hashes.SHA256()))
        self.valid = (parsed.not_valid_before_utc.timestamp(), parsed.not_valid_after_utc.timestamp())
        try:
            names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            self.domain_names = names.get_values_for_type(x509.DNSName)
        except x509.ExtensionNotFound:
            pass  # a certificate without names


@serves("GET", "/certificates")
def index(project, call):
    return lists.page_of(call, "certificates", project.certificates.values(), Certificate.json)


@serves("POST", "/certificates")
def create(project, call):
    project.check_unique("certificates", call.body["name"])
    make = _order if call.body.get("type") == "managed" else _upload
    certificate, action = make(project, call, call.body)
    return {"certificate": certificate.json(), "action": action and call.render(action)}


def _upload(project, call, body):
    missing = [(name, "is required for uploaded certificates") for name in ("certificate", "private_key") if not body.get(name)]
    if missing:
        raise invalid(missing)
    certificate = Certificate(project, body["name"], "uploaded", [], body.get("labels"))
    certificate.read(body["certificate"])
    project.certificates[certificate.id] = certificate
    return certificate, None


def _order(project, call, body):
    if not body.get("domain_names"):
        raise refused("domain_names", "is required for managed certificates")
    now = project.cloud.clock.now()
    project.managed_at = [at for at in project.managed_at if at > now - 3600]
    if len(project.managed_at) >= MANAGED_AN_HOUR:
        raise ApiError("resource_limit_exceeded",
                       f"cannot create more than {MANAGED_AN_HOUR} managed certificates per hour")
    project.managed_at.append(now)
    certificate = Certificate(project, body["name"], "managed", body["domain_names"], body.get("labels"))
    project.certificates[certificate.id] = certificate
    if call.request.outcome and call.request.outcome[0] == "error":
        certificate.issuance = "failed"
    return certificate, project.act(call, "create_certificate", [certificate], certificate.issue)


@serves("GET", "/certificates/{id}")
def show(project, call):
    return {"certificate": project.get("certificates", call.id).json()}


@serves("PUT", "/certificates/{id}")
def update(project, call):
    certificate = project.get("certificates", call.id)
    if "name" in call.body:
        project.check_unique("certificates", call.body["name"], but=certificate)
        certificate.name = call.body["name"]
    certificate.labels = dict(call.body.get("labels", certificate.labels))
    return {"certificate": certificate.json()}


@serves("DELETE", "/certificates/{id}")
def delete(project, call):
    certificate = project.get("certificates", call.id)
    if certificate.json()["used_by"]:
        raise ApiError("resource_in_use", "the certificate is used by a load balancer")
    del project.certificates[certificate.id]
