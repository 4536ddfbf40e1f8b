"""What tests of players share: where the player is, what it says of itself, and how quick it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playwright.sync_api import Page

from tests.clock import loop, slowness
from tests.views.projector import Leaf, Projector, leaves_of, to_node

if TYPE_CHECKING:
    from tests.browser.conftest import Lab, MakePage, Watched

ROOT = ".kit-player"

# Of a player: words that stand out from what is behind them by less than 4.5, or that are smaller than so many CSS pixels.
UNREADABLE = """(root, least) => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parse(colour).slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paperOf = (node) => {
    const colour = getComputedStyle(node).backgroundColor;
    return node === root || (parse(colour)[3] ?? 1) > 0.5 ? colour : paperOf(node.parentElement);
  };
  const wrong = [];
  const words = "h3, p, b, code, label, summary, textarea, button, span, output, li:not(.kit-absent), svg text.ink, svg text.grey";
  for (const node of root.querySelectorAll(words)) {
    if (![...node.childNodes].some((part) => part.nodeType === 3 && part.data.trim()) || node.closest(":disabled, .kit-absent")) continue;
    if (!node.getClientRects().length || !node.checkVisibility({ visibilityProperty: true })) continue;
    const style = getComputedStyle(node), image = node.ownerSVGElement, told = node.textContent.slice(0, 30);
    const [dark, bright] = [light(image ? style.fill : style.color), light(paperOf(image ? root : node))].sort((a, b) => a - b);
    if ((bright + 0.05) / (dark + 0.05) < 4.5) wrong.push([told, style.color]);
    const scale = image ? image.getBoundingClientRect().width / image.viewBox.baseVal.width : 1;
    if (parseFloat(style.fontSize) * scale < least) wrong.push(`tiny: ${told}`);
  }
  return wrong;
}"""


def open_player(lab: Lab, make_page: MakePage, *cells: str, theme: str = "Light", **options: Any) -> Watched:
    """A page of its own with these cells run, once the first player of them is there; `options` are those of `make_page`."""
    lab.set_theme(theme)
    watched = make_page(**options)
    lab.open(watched.page, *cells)
    watched.page.locator(f"{ROOT}[data-step]").first.wait_for()
    return watched


def attribute(page: Page, name: str) -> str:
    value = page.locator(ROOT).get_attribute(f"data-{name}")
    assert value is not None
    return value


def press(page: Page, *keys: str) -> int:
    for key in keys:
        page.keyboard.press(key)
    return int(attribute(page, "step"))


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


def knob_to_picture(page: Page, count: int, at: int) -> float:
    """Move the slider that has the focus `count` times, each when the one before is painted; the `at`-th shortest time, in ms.

    It is told as it would be on a machine of the pace that promises are made for: between two keys a loop is timed.
    """
    page.evaluate("window.times.length = 0")
    loops = []
    for number in range(count):
        page.keyboard.press("ArrowRight" if number % 2 else "ArrowLeft")
        page.wait_for_function("number => window.times.length > number", arg=number)
        loops.append(loop())
    times = sorted(page.evaluate("window.times"))
    slow = slowness(loops)
    print(
        f"\nknob to picture of {page.locator('.kit-step').inner_text()}: median {times[count // 2]:.0f} ms, "
        f"number {at} of {count} {times[at]:.0f} ms, worst {times[-1]:.0f} ms; the machine is {slow:.1f} times as slow as it should be"
    )
    return float(times[at] / slow)


def drawn(page: Page) -> list[list[Leaf]]:
    """What the pictures of the only player show now, above what stays: for each its elements that are no groups."""
    pictures = page.locator("[data-reel=shown]").evaluate_all("layers => layers.map((layer) => layer.outerHTML)")
    return [leaves_of(to_node(picture)[2]) for picture in pictures]


def check_reels(page: Page, sent: Projector, step: int) -> None:
    """The browser shows after a step what it was sent for it, and its legends explain what is there."""
    assert drawn(page) == [sent.leaves(reel, step) for reel in range(len(sent.reels))], step
    meanings = "lists => lists.map((list) => [...list.querySelectorAll('li:not(.kit-absent) span')].map((item) => item.textContent))"
    legends = page.locator(".kit-legend").evaluate_all(meanings)
    assert [set(legend) for legend in legends] == [sent.meanings(reel, step) for reel in range(len(sent.reels))]
    for reel, row in enumerate(sent.reels):
        if "cursor" in row:
            at = page.locator("[data-reel=cursor]").nth(reel).get_attribute("transform")
            assert at == f"translate({row['cursor']['x'][step]:g} 0)"
    assert page.locator(".kit-said").inner_text() == sent.row["said"][step]
