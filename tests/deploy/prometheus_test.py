"""Prometheus scrapes a running daemon and answers a query about it; promtool finds no fault.

usage: prometheus_test.py TANDEM [unittest arguments]; PYTHONPATH names the stubs and deploy/demo.
"""
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import digits
from tandem_process import TandemProcess

TANDEM = sys.argv.pop(1)
REQUESTS = 5
CONFIGURATION = """\
global: {{ scrape_interval: 1s }}
scrape_configs:
  - job_name: tandem
    static_configs: [ {{ targets: [ "127.0.0.1:{port}" ] }} ]
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def query(port, expression):
    """The sample values of an instant query; empty while Prometheus does not answer yet."""
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            answer = json.load(reply)
    except (urllib.error.URLError, ConnectionError):
        return []
    return [float(sample["value"][1]) for sample in answer["data"]["result"]]


class PrometheusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = TandemProcess([TANDEM], digits.REPOSITORY)
        cls.daemon.__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        stub = digits.connect(cls.daemon.address())
        images, _ = digits.load()
        for image in range(REQUESTS):
            digits.infer(stub, images[image:image + 1])

    def start_prometheus(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        configuration = pathlib.Path(folder.name, "prometheus.yml")
        configuration.write_text(CONFIGURATION.format(port=self.daemon.ports["metrics"]))
        port = free_port()
        process = subprocess.Popen(
            ["prometheus", f"--config.file={configuration}", f"--storage.tsdb.path={folder.name}/data",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"], stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)
        return port

    def wait_for(self, port, expression, wanted):
        end = time.monotonic() + 60
        while (values := query(port, expression)) != wanted and time.monotonic() < end:
            time.sleep(0.2)
        self.assertEqual(wanted, values, expression)

    def test_prometheus_scrapes_the_daemon_and_answers_queries(self):
        port = self.start_prometheus()
        self.wait_for(port, 'up{job="tandem"}', [1.0])
        self.wait_for(port, 'sum(nv_inference_request_success{model="digits"})', [float(REQUESTS)])
        self.wait_for(port, 'sum(nv_inference_count{model="digits",version="1"})', [float(REQUESTS)])

    def faults_of_promtool(self, metrics):
        done = subprocess.run(["promtool", "check", "metrics"], input=metrics, text=True,
                              capture_output=True, check=False)
        return (done.stdout + done.stderr).splitlines()

    def test_promtool_finds_no_fault(self):
        with TandemProcess([TANDEM], digits.REPOSITORY, "--triton-metrics=false") as daemon:
            digits.infer(digits.connect(daemon.address()), digits.load()[0][:1])
            self.assertIn("tandem_", daemon.get("metrics", "/metrics"))
            self.assertEqual([], self.faults_of_promtool(daemon.get("metrics", "/metrics")))

    def test_promtool_faults_only_the_names_that_triton_chose(self):
        faults = [line for line in self.faults_of_promtool(self.daemon.get("metrics", "/metrics"))
                  if not line.startswith("nv_")]
        self.assertEqual([], faults)


if __name__ == "__main__":
    unittest.main()
