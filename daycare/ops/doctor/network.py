"""The network: who encrypts what others reach, how long a certificate is good, and which tokens last for ever."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from daycare.api.certificates import load, readable_by_others
from daycare.base.api_settings import ApiSection
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding

CERT_DAYS_LEFT: Final = 14.0

_DAY_MS: Final = 86_400_000


def network(context: DoctorContext) -> Iterator[DoctorFinding]:
    """The addresses at which the API listens, and who may call there."""
    section = context.config.api
    if not section.listen:
        yield DoctorFinding("ok", "network", "the API answers on its socket only")
        return
    found = [*_encrypted(section), *_certificate(section, context.now_ms), *_tokens(context)]
    yield from found
    if not found:
        yield DoctorFinding("ok", "network", f"the API listens on {section.listen}")


def _encrypted(section: ApiSection) -> Iterator[DoctorFinding]:
    if section.outside and section.insecure and not section.cert:
        told = f"others reach {section.listen}, and nothing encrypts: who listens on the way has the tokens"
        yield DoctorFinding("warn", "network", told, "[api] cert and key, or trusted_proxies, instead of insecure")
    for proxies in section.proxies:
        if not proxies.prefixlen:
            told = f"trusted_proxies has {proxies}, which is everybody: anyone may say from where they call"
            yield DoctorFinding("warn", "network", told, "name the address of the proxy alone")


def _certificate(section: ApiSection, now_ms: int) -> Iterator[DoctorFinding]:
    if not section.cert:
        return
    cert, key = section.cert_files
    if readable_by_others(key):
        yield DoctorFinding("warn", "network", f"others may read {key}", f"chmod 600 {key}")
    try:
        load(cert, key)
        left = (_ends_ms(cert) - now_ms) / _DAY_MS
    except (OSError, ValueError) as error:
        told = f"{cert} and {key} cannot be used: {getattr(error, 'strerror', None) or error}"
        yield DoctorFinding("fail", "network", told, "correct [api] cert and key")
        return
    if left <= 0:
        yield DoctorFinding("fail", "network", f"{cert} has expired", "renew it")
    elif left < CERT_DAYS_LEFT:
        yield DoctorFinding("warn", "network", f"{cert} expires in {left:.0f} days", "renew it")


def _ends_ms(cert: Path) -> int:
    from cryptography import x509  # late: few look at one

    return round(x509.load_pem_x509_certificate(cert.read_bytes()).not_valid_after_utc.timestamp() * 1_000)


def _tokens(context: DoctorContext) -> Iterator[DoctorFinding]:
    if not context.running:
        return
    good = [each for each in context.ask("GET", "/v1/tokens")["tokens"] if not each["revoked_at"]]
    good = [each for each in good if each["expires_at"] is None or each["expires_at"] > context.now_ms]
    if context.config.api.outside and not good:
        told = f"{context.config.api.outside[0][0]} is not opened to others before there is a token"
        yield DoctorFinding("warn", "network", told, "daycare tokens add NAME")
    for each in good:
        if each["may"] == "operator" and each["expires_at"] is None:
            told = f"the token {each['name']} may do everything, and does not expire"
            yield DoctorFinding(
                "warn", "network", told, f"daycare tokens revoke {each['name']}; daycare tokens add NAME --days 90"
            )
