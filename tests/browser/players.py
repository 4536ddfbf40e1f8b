"""What tests of players share: where the player is, what it says of itself, and how quick it is."""

from __future__ import annotations

import os

import psutil
import pytest
from playwright.sync_api import Page

ROOT = ".kit-player"

# In a page: the parts of a player whose words stand out from its paper by less than 4.5, as [text, colour].
FAINT_WORDS = """
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parse(colour).slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const root = document.querySelector(".kit-player"), paper = light(getComputedStyle(root).backgroundColor);
  const faintWords = (nodes) => {
    const faint = [];
    for (const node of nodes) {
      const style = getComputedStyle(node), colour = node.ownerSVGElement ? style.fill : style.color;
      const [dark, bright] = [light(colour), paper].sort((a, b) => a - b);
      if ((bright + 0.05) / (dark + 0.05) < 4.5) faint.push([node.textContent.slice(0, 30), colour]);
    }
    return faint;
  };
"""


def attribute(page: Page, name: str) -> str:
    value = page.locator(ROOT).get_attribute(f"data-{name}")
    assert value is not None
    return value


def press(page: Page, *keys: str) -> int:
    for key in keys:
        page.keyboard.press(key)
    return int(attribute(page, "step"))


def skip_if_busy(measured: str) -> None:
    """A measurement says nothing about the player while other programs want more than the machine has."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > 1.5 * cores and psutil.cpu_percent(1) > 50:  # the load still counts programs that have ended since
        pytest.skip(f"measured {measured}, but the machine is too busy to judge it: load {load:.1f} on {cores} cores")


def watch_answers(page: Page) -> None:
    """From now on the page keeps how long each key took until the picture that it led to was painted."""
    page.evaluate(
        """() => {
          const root = document.querySelector(".kit-player");
          window.times = [];
          let began = 0;
          root.addEventListener("keydown", () => { began = performance.now(); }, true);
          new MutationObserver(() => requestAnimationFrame(() => {
            const painted = new MessageChannel();
            painted.port1.onmessage = () => window.times.push(performance.now() - began);
            painted.port2.postMessage(0);
          })).observe(root, { attributes: true, attributeFilter: ["data-answered"] });
        }"""
    )


def times_of_presses(page: Page, count: int) -> list[float]:
    """Move the slider that has the focus `count` times, each when the one before is painted; the ms, in ascending order."""
    page.evaluate("window.times.length = 0")
    for number in range(count):
        page.keyboard.press("ArrowRight" if number % 2 else "ArrowLeft")
        page.wait_for_function("number => window.times.length > number", arg=number)
    times: list[float] = page.evaluate("window.times")
    return sorted(times)
