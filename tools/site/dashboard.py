"""Draws the panels of the dashboard, without Grafana: dashboard.py PROMTOOL FILE.svg

ccmd runs for some minutes on a real API server with a simulated Hetzner Cloud, and its metrics are scraped. promtool evaluates
the panels' expressions on what was scraped. Titles, places, units and legends are those of the dashboard.
"""
import html
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "scenario"), str(ROOT / "tests")]

from lib.api import LEASES, NODES  # noqa: E402
from lib.ccmd import Ccmd  # noqa: E402
from lib.cluster import Cluster  # noqa: E402
from lib.nodes import Kubelet  # noqa: E402
from lib.process import free_ports  # noqa: E402
from lib.services import SERVICES, service  # noqa: E402
from lib.serving import Serving  # noqa: E402
from sim.hcloud import HCloud  # noqa: E402

DASHBOARD = ROOT / "charts" / "ccmd" / "monitoring" / "dashboard.json"
STEP_S, SCRAPES = 5, 48
RATE_INTERVAL_S = 4 * STEP_S  # Grafana's $__rate_interval
TARGET = 'job="ccmd",instance="ccmd-0"'

MIB = 2**20

CELL_X, CELL_Y, GAP = 50, 26, 8
LINES = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#5195ce", "#ba43a9", "#a395e0", "#b7dbab", "#f9e2d2")


def main():
    promtool, target = sys.argv[1], Path(sys.argv[2])
    panels = json.loads(DASHBOARD.read_text())["panels"]
    with tempfile.TemporaryDirectory(prefix="ccmd-dashboard-") as folder:
        results = evaluate(promtool, Path(folder), panels, record(Path(folder)))
    target.write_text(draw(panels, results))


# --- a run, and its metrics ----------------------------------------------------------------------------------------------


def record(folder):
    """The scraped texts. None: ccmd did not answer yet."""
    with Cluster() as cluster, HCloud(latency_s=0.02, action_s=0.1) as cloud:
        api = cluster.api()
        api.delete(LEASES)
        metrics_port, secure_port = free_ports(2)
        kubeconfig = cluster.ccmd_kubeconfig
        steps = timeline(api, cloud)
        env = {"HCLOUD_ENDPOINT": cloud.url, "HCLOUD_TOKEN": cloud.token, "HCLOUD_LOAD_BALANCERS_LOCATION": "fsn1"}
        flags = ["--cloud-provider=hcloud", "--allow-untagged-cloud", f"--metrics-bind-address=127.0.0.1:{metrics_port}",
                 "--bind-address=127.0.0.1", f"--authentication-kubeconfig={kubeconfig}",
                 f"--authorization-kubeconfig={kubeconfig}"]
        texts = []
        with Ccmd(folder, kubeconfig, None, *flags, env=env, leader_elect=True, secure_port=secure_port):
            begun = time.monotonic()
            for number in range(SCRAPES):
                time.sleep(max(0, begun + number * STEP_S - time.monotonic()))
                texts.append(scrape(metrics_port))
                steps.get(number, lambda: None)()
        return texts


def timeline(api, cloud):
    """{scrape: what happens then}"""
    kubelets = {}

    def join(*names):
        for number, name in enumerate(names, len(kubelets) + 1):
            cloud.add_server(name)
            kubelets[name] = Kubelet(api, name, ip=f"10.0.0.{number}")
            kubelets[name].register()

    def balance(*names):
        for name in names:
            api.post(SERVICES, service(name))

    def unbalance(*names):
        for name in names:
            api.delete(f"{SERVICES}/{name}")

    return {
        4: lambda: join("control-1", "worker-1", "worker-2", "worker-3"),
        10: lambda: balance("web", "mail"),
        16: lambda: join("worker-4", "worker-5", "worker-6"),
        22: lambda: balance("shop", "chat", "wiki"),
        26: lambda: kubelets["worker-2"].not_ready(),
        34: lambda: unbalance("mail"),
        38: lambda: kubelets["worker-2"].ready(),
        42: lambda: api.delete(f"{NODES}/worker-6"),
    }


def scrape(port):
    try:
        return Serving(port, is_plain=True).get("/metrics").text
    except OSError:
        return None


# --- what the panels show ------------------------------------------------------------------------------------------------


def evaluate(promtool, folder, panels, texts):
    """{expression of the dashboard: {labels: {second: value}}}. promtool prints what it found where a test expects nothing."""
    expressions = {target["expr"]: concrete(target["expr"]) for panel in panels for target in panel.get("targets", [])}
    wanted = set(re.findall(r"\w+", " ".join(expressions.values())))
    tests = [{"expr": one, "eval_time": f"{number * STEP_S}s", "exp_samples": []}
             for one in expressions.values() for number in range(len(texts))]
    (folder / "rules.yaml").write_text("groups: []\n")
    (folder / "tests.yaml").write_text(yaml.safe_dump({
        "rule_files": ["rules.yaml"], "evaluation_interval": f"{STEP_S}s",
        "tests": [{"interval": f"{STEP_S}s", "input_series": series(texts, wanted), "promql_expr_test": tests}]}))
    done = subprocess.run([promtool, "test", "rules", folder / "tests.yaml"], capture_output=True, text=True)
    found = re.findall(r'^\s*expr: (".*"), time: (\S+),\n\s*exp: nil\n\s*got: (.*)', done.stdout + done.stderr, re.M)
    if not found:
        sys.exit(f"dashboard: promtool found nothing: {(done.stdout + done.stderr)[-2000:]}")
    results = {}
    for expression, second, samples in found:
        for labels, value in re.findall(r"(\{(?:[^\"}]|\"[^\"]*\")*\}) (\S+?)(?:, |$)", samples):
            if value != "NaN":
                one = results.setdefault(json.loads(expression), {}).setdefault(labels, {})
                one[seconds(second)] = float(value)
    return {original: results.get(one, {}) for original, one in expressions.items()}


def concrete(expression):
    return expression.replace("$__rate_interval", f"{RATE_INTERVAL_S}s").replace("$job", "ccmd")


def seconds(text):
    """3m5s → 185"""
    return sum(int(number) * {"m": 60, "s": 1}[unit] for number, unit in re.findall(r"(\d+)([ms])", text))


def series(texts, wanted):
    values = {}
    for number, text in enumerate(texts):
        for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text or "", re.M):
            if name in wanted:
                key = f"{name}{{{labels}{',' if labels else ''}{TARGET}}}"
                values.setdefault(key, ["_"] * len(texts))[number] = value
    return [{"series": key, "values": " ".join(row)} for key, row in sorted(values.items())]


# --- the drawing ---------------------------------------------------------------------------------------------------------


def draw(panels, results):
    height = max((one["gridPos"]["y"] + one["gridPos"]["h"]) * CELL_Y for one in panels) + GAP
    parts = [f'<svg viewBox="0 0 {24 * CELL_X + GAP} {height}" xmlns="http://www.w3.org/2000/svg" '
             'font-family="Inter, Helvetica, Arial, sans-serif" font-size="11" fill="#ccccdc">',
             f'<rect width="{24 * CELL_X + GAP}" height="{height}" fill="#111217"/>']
    for panel in panels:
        place = panel["gridPos"]
        x, y = place["x"] * CELL_X + GAP, place["y"] * CELL_Y + GAP
        width, height = place["w"] * CELL_X - GAP, place["h"] * CELL_Y - GAP
        parts.append(f'<g transform="translate({x} {y})">')
        if panel["type"] == "row":
            parts.append(text(0, 14, panel["title"], size=14, weight=600))
        else:
            parts.append(f'<rect width="{width}" height="{height}" rx="2" fill="#181b1f" stroke="#2c2f36"/>')
            parts.append(text(8, 17, panel["title"], size=12, weight=600))
            lines = [(legend(target.get("legendFormat"), labels), points) for target in panel["targets"]
                     for labels, points in sorted(results[target["expr"]].items())]
            unit = panel["fieldConfig"]["defaults"].get("unit")
            if not lines:
                parts.append(text(width / 2, height / 2 + 4, "No data", anchor="middle", color="#8e8e99"))
            elif panel["type"] == "stat":
                parts += stat(panel, lines, unit, width, height)
            else:
                parts += graph(lines, unit, width, height)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def text(x, y, content, size=None, weight=None, anchor=None, color=None):
    options = {"font-size": size, "font-weight": weight, "text-anchor": anchor, "fill": color}
    given = "".join(f' {key}="{value}"' for key, value in options.items() if value is not None)
    return f'<text x="{x:.0f}" y="{y:.0f}"{given}>{html.escape(content)}</text>'


def legend(template, labels):
    known = dict(re.findall(r'(\w+)="([^"]*)"', labels))
    return re.sub(r"\{\{(\w+)\}\}", lambda found: known.get(found[1], ""), template or "")


def stat(panel, lines, unit, width, height):
    name, points = lines[-1]
    is_named = panel["options"]["textMode"] == "name"
    shown = name if is_named else with_unit(points[max(points)], unit)
    yield text(width / 2, height / 2 + 18, shown, size=26, anchor="middle", color="#73bf69")
    if panel["options"]["textMode"] == "value_and_name":
        yield text(width / 2, height - 8, name, anchor="middle", color="#8e8e99")


def graph(lines, unit, width, height):
    left, top, right, bottom = 52, 28, width - 10, height - 46
    scale = MIB if unit == "bytes" else 1
    most = nice(max(max(points.values()) for _, points in lines) / scale) * scale
    end = (SCRAPES - 1) * STEP_S

    def at(second, value):
        return f"{left + (right - left) * second / end:.1f},{bottom - (bottom - top) * value / most:.1f}"

    for part in range(5):
        y = bottom - (bottom - top) * part / 4
        yield f'<path d="M{left} {y:.1f}H{right}" stroke="#2c2f36"/>'
        yield text(left - 6, y + 4, with_unit(most * part / 4, unit), size=10, anchor="end", color="#8e8e99")
    for minute in range(end // 60 + 1):
        yield text(left + (right - left) * minute * 60 / end, bottom + 14, f"{minute} min", size=10, anchor="middle", color="#8e8e99")
    x = 8
    for number, (name, points) in enumerate(lines):
        color = LINES[number % len(LINES)]
        for piece in pieces(points):
            if len(piece) == 1:
                piece = [piece[0], (piece[0][0] + 1, piece[0][1])]
            yield f'<polyline points="{" ".join(at(*one) for one in piece)}" fill="none" stroke="{color}" stroke-width="1.4"/>'
        if x < width - 90:
            yield f'<path d="M{x} {height - 12}h12" stroke="{color}" stroke-width="3"/>'
            yield text(x + 16, height - 8, name, size=10)
            x += 30 + 5.6 * len(name)


def pieces(points):
    """The points in parts without a gap."""
    parts = []
    for second, value in sorted(points.items()):
        if not parts or second - parts[-1][-1][0] > STEP_S:
            parts.append([])
        parts[-1].append((second, value))
    return parts


def nice(value):
    """The end of an axis: 1, 2 or 4, times a power of ten; 1 for a line at 0."""
    ends = (one * 10.0**power for power in range(-6, 12) for one in (1, 2, 4))
    return next(one for one in ends if value <= one) if value else 1


def with_unit(value, unit):
    if unit == "bytes":
        return f"{value / MIB:.3g} MiB"
    if unit == "percentunit":
        return f"{value * 100:.3g}%"
    if unit == "s" and 0 < value < 1:
        return f"{value * 1000:.3g} ms"
    shown = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return shown + {"s": " s", "ops": " ops/s", "reqps": " req/s"}.get(unit, "")


if __name__ == "__main__":
    main()
