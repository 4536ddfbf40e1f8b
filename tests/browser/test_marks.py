"""The marks on the time axis of every experiment: their labels stand beside each other, at any width."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser

from kitlib.experiments import every
from kitlib.monitor.delivery import judge
from kitlib.views.browser.player import SCRIPTS, STYLES, joined
from kitlib.views.play_clock import events, marks_of, pauses, play_clock, signs_of

pytestmark = pytest.mark.browser

# For each axis the labels that meet another one, or reach beyond it.
MEETING = """([rows, wide]) => {
  document.body.style.width = `${wide}px`;
  document.body.className = "kit-player";
  const found = [];
  let told = 0;
  for (const [name, clock, marks] of rows) {
    const time = new PlayTime();
    time.load(clock);
    const ruler = new Ruler(time, html("input", { type: "range" }), () => {});
    document.body.replaceChildren(ruler.node);
    LABEL_PEN.font = `11px ${getComputedStyle(ruler.node).fontFamily}`;
    ruler.wide = ruler.node.getBoundingClientRect().width;
    ruler.load(clock, marks);
    const axis = ruler.node.getBoundingClientRect();
    const boxes = [...ruler.node.querySelectorAll(".kit-mark span")].map((label) => label.getBoundingClientRect()).sort((a, b) => a.left - b.left);
    told += boxes.length;
    boxes.forEach((box, place) => {
      if (box.right > axis.right + 4 || box.left < axis.left - 4) found.push([name, "beyond"]);
      if (place && box.left < boxes[place - 1].right) found.push([name, "meets"]);
    });
    const silences = [...ruler.node.querySelectorAll(".kit-gap span")].map((label) => label.getBoundingClientRect());
    if (silences.some((box, place) => place && box.left < silences[place - 1].right)) found.push([name, "silences meet"]);
    ruler.fit.disconnect();
  }
  return [found, told];
}"""


def test_labels_of_marks_never_meet(chromium: Browser) -> None:
    """In no experiment, at no width, does a label lie over another one or leave the axis; most have room."""
    rows = []
    for experiment in every():
        trace = experiment.run()
        clock = play_clock([step.at_ms for step in trace], pauses(events(trace)))
        rows.append((experiment.name, clock.to_json(), signs_of(marks_of(trace, judge(trace)), clock)))
    rows = json.loads(json.dumps(rows))
    page = chromium.new_page()
    try:
        page.set_content(f"<style>{joined(STYLES)}</style><body></body>")
        scripts = [joined([name]).partition("\nexport default")[0] for name in SCRIPTS]
        page.add_script_tag(content="\n".join(scripts))
        told = {}
        for wide in (300, 636, 1_000):
            found, told[wide] = page.evaluate(MEETING, [rows, wide])
            assert found == [], wide
        assert told[300] < told[636] < told[1_000] and told[1_000] > len(rows)
    finally:
        page.close()
