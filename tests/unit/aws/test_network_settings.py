"""Each row of "The network" in docs/access.md: what the SDK's client calls, and through what.

Nothing leaves this machine: the hosts of AWS are asked of a proxy that refuses.
"""

from __future__ import annotations

import os
import re
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kinesis_source.aws.session import connect
from kinesis_source.clock import SystemClock
from kinesis_source.errors import CredentialsError, TransientServiceError
from kinesis_source.options import Options
from kinesis_source.testing import LocalKinesis
from tests.support.proxies import Proxy, proxy

ARN = "arn:aws:kinesis:eu-west-1:210987654321:stream/orders"
ROLE = "arn:aws:iam::210987654321:role/reader"
KEYS = {"awsAccessKeyId": "AKIDOPTION", "awsSecretKey": "SECRETOPTION"}
DOCUMENT = (Path(__file__).parents[3] / "docs/access.md").read_text()


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of AWS or of proxies."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The proxy for HTTPS, which lets nothing through."""
    with proxy(forward=False) as gate:
        monkeypatch.setenv("HTTPS_PROXY", gate.url)
        yield gate


def hosts_called(gate: Proxy, **given: str) -> set[str]:
    """Of DescribeStreamSummary and GetRecords."""
    options = Options.parse({"region": "eu-west-1", "streamName": "orders", **KEYS, **given})
    client = connect(options, "driver").client
    with pytest.raises(TransientServiceError):
        client.describe_stream_summary()
    with pytest.raises(TransientServiceError):
        client.get_records("shardId-000000000000", "iterator", 1)
    client.close()
    return gate.hosts


class TestHosts:
    def test_by_default_the_regions(self, gate: Proxy) -> None:
        assert hosts_called(gate) == {"kinesis.eu-west-1.amazonaws.com"}

    def test_a_stream_by_its_arn_is_called_at_its_accounts_hosts(self, gate: Proxy) -> None:
        """Another for control than for data."""
        assert hosts_called(gate, streamARN=ARN) == {
            "210987654321.control-kinesis.eu-west-1.amazonaws.com",
            "210987654321.data-kinesis.eu-west-1.amazonaws.com",
        }

    def test_an_endpoint_of_the_options_is_called_as_it_is(self, gate: Proxy) -> None:
        endpoint = "vpce-0a1b2c.kinesis.eu-west-1.vpce.amazonaws.com"
        assert hosts_called(gate, endpointUrl=f"https://{endpoint}") == {endpoint}
        assert hosts_called(gate, endpointUrl=f"https://{endpoint}", streamARN=ARN) == {endpoint}

    @pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_KINESIS", "AWS_ENDPOINT_URL"])
    def test_an_endpoint_of_the_environment(
        self, gate: Proxy, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        endpoint = "vpce-0a1b2c.kinesis.eu-west-1.vpce.amazonaws.com"
        monkeypatch.setenv(name, f"https://{endpoint}")
        assert hosts_called(gate) == {endpoint}

    @pytest.mark.parametrize(
        ("setting", "more", "hosts"),
        [
            ("AWS_USE_FIPS_ENDPOINT", {}, {"kinesis-fips.us-east-1.amazonaws.com"}),
            ("AWS_USE_DUALSTACK_ENDPOINT", {}, {"kinesis.us-east-1.api.aws"}),
            (
                "AWS_USE_FIPS_ENDPOINT",
                {"streamARN": ARN.replace("eu-west", "us-east")},
                {
                    "210987654321.control-kinesis-fips.us-east-1.amazonaws.com",
                    "210987654321.data-kinesis-fips.us-east-1.amazonaws.com",
                },
            ),
        ],
    )
    def test_fips_and_dual_stack(
        self,
        gate: Proxy,
        monkeypatch: pytest.MonkeyPatch,
        setting: str,
        more: dict[str, str],
        hosts: set[str],
    ) -> None:
        monkeypatch.setenv(setting, "true")
        assert hosts_called(gate, region="us-east-1", **more) == hosts

    def test_fips_of_a_profile(
        self, gate: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        config = tmp_path / "config"
        config.write_text(
            "[profile fips]\nuse_fips_endpoint = true\n"
            "aws_access_key_id = AKID\naws_secret_access_key = SECRET\n"
        )
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        options = Options.parse({"streamName": "orders", "region": "us-east-1", "profile": "fips"})
        with pytest.raises(TransientServiceError):
            connect(options, "driver").client.describe_stream_summary()
        assert gate.hosts == {"kinesis-fips.us-east-1.amazonaws.com"}


class TestStsHosts:
    def hosts(self, gate: Proxy, **given: str) -> set[str]:
        return hosts_called(gate, roleArn=ROLE, **given)

    def test_by_default_the_regions(self, gate: Proxy) -> None:
        assert self.hosts(gate) == {"sts.eu-west-1.amazonaws.com"}
        gate.asked.clear()
        assert self.hosts(gate, region="us-east-1") == {"sts.us-east-1.amazonaws.com"}

    def test_the_global_one_where_the_environment_asks_for_it(
        self, gate: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_STS_REGIONAL_ENDPOINTS", "legacy")
        assert self.hosts(gate) == {"sts.amazonaws.com"}

    def test_the_options(self, gate: Proxy) -> None:
        assert self.hosts(gate, stsEndpointUrl="https://sts.internal") == {"sts.internal"}

    def test_the_environments(self, gate: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "https://sts.internal")
        assert self.hosts(gate) == {"sts.internal"}

    def test_fips(self, gate: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
        assert self.hosts(gate, region="us-east-1") == {"sts-fips.us-east-1.amazonaws.com"}


class TestWays:
    def test_a_proxy_and_what_goes_past_it(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        with LocalKinesis() as kinesis, proxy(forward=True) as way:
            kinesis.create_stream("orders")
            monkeypatch.setenv("HTTP_PROXY", way.url)
            options = Options.parse(kinesis.spark_options("orders"))
            connect(options, "executor").client.describe_stream_summary()
            assert way.hosts == {"127.0.0.1"}
            way.asked.clear()
            monkeypatch.setenv("NO_PROXY", "127.0.0.1,169.254.169.254")
            connect(options, "executor").client.describe_stream_summary()
            assert way.asked == []

    def test_a_certificate_authority_of_ones_own(
        self, https_endpoint: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And through a proxy, which needs the same."""
        url, authority = https_endpoint
        options = Options.parse(
            {"streamName": "orders", "region": "eu-west-1", "endpointUrl": url, **KEYS}
        )
        with pytest.raises(TransientServiceError, match="SSL validation failed"):
            connect(options, "driver").client.list_shards()
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
        assert connect(options, "driver").client.list_shards() == {}
        with proxy(forward=True) as way:
            monkeypatch.setenv("HTTPS_PROXY", way.url)
            assert connect(options, "driver").client.list_shards() == {}
            assert way.hosts == {"127.0.0.1"}

    def test_a_metadata_service_is_asked_unless_that_is_disabled(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = Options.parse({"streamName": "orders", "region": "eu-west-1"})
        with proxy(forward=False) as metadata:
            monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{metadata.url}/")
            for disabled in (True, False):
                monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", str(disabled).lower())
                with pytest.raises(CredentialsError, match="NoCredentials"):
                    connect(options, "driver").client.list_shards()
                assert bool(metadata.asked) is not disabled


def write_certificate(certificate: Path, key: Path) -> None:
    """Of 127.0.0.1, signed by itself, good for a day."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "local")])
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    signed = (
        x509.CertificateBuilder(name, name, private.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


@pytest.fixture
def https_endpoint(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """An empty stream behind HTTPS, and the certificate that vouches for it."""
    certificate, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    write_certificate(certificate, key)

    class Face(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"Shards": []}')

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Face)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}", certificate
    server.shutdown()
    server.server_close()


def test_the_document_names_these_settings_and_no_others() -> None:
    tested = Path(__file__).read_text()
    table: Any = DOCUMENT.partition("## The network")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([A-Z][A-Z_]+)[`=]", table))
    assert len(named) > 8
    assert {name for name in named if f'"{name}"' not in tested} == set()
