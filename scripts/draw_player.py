"""Draw docs/player.webp: the player as it plays a run, photographed frame by frame in a Chromium.

    .venv/bin/python scripts/draw_player.py

The run is on the model, saved as one page as `player.save` does, so that anyone gets the same frames. Needs the developers' tools.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from kitlib import run
from kitlib.views.browser.saved_page import save

FILE = Path(__file__).resolve().parent.parent / "docs" / "player.webp"
EXPERIMENT = "small_max_offset_behind"
WIDE, TALL = 1000, 812
FRAMES, MS_PER_FRAME, LAST_MS = 48, 160, 2500


def draw() -> list[Image.Image]:
    """One picture of the player for each of FRAMES steps, spread evenly over the run."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "run.html"
        trace = run(EXPERIMENT)
        save(trace, page_file)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDE, "height": TALL})
        page.goto(page_file.as_uri())
        slider = page.locator("input[type=range]").first
        slider.wait_for()
        last = len(trace.steps)
        pictures: list[Image.Image] = []
        for number in range(FRAMES):
            slider.evaluate(
                "(element, step) => { element.value = step; element.dispatchEvent(new Event('input', { bubbles: true })) }",
                number * last // (FRAMES - 1),
            )
            page.wait_for_timeout(60)
            pictures.append(Image.open(io.BytesIO(page.screenshot())))
        browser.close()
    return pictures


def main() -> None:
    pictures = draw()
    durations = [MS_PER_FRAME] * (len(pictures) - 1) + [LAST_MS]
    pictures[0].save(FILE, save_all=True, append_images=pictures[1:], duration=durations, loop=0, quality=55, method=4)
    print(f"{FILE.name}: {len(pictures)} pictures, {FILE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
