"""Experiments drawn by chance, run on the model and on the real broker: do the verdicts agree?

    python -m tests.soak MINUTES [SEED] [EXPERIMENT...]

The same seed draws the same runs. A line for each: "agrees"; "races", when only counts differ or a second run on the broker agrees;
"differs" (exit code 1); "refused" by one side. What the runs made is taken back by `kit reset soak`.
"""

from __future__ import annotations

import os
import random
import sys
import time

from kitlib import experiments
from kitlib.errors import KnobError, LabError
from kitlib.experiments.grid import Grid, Search
from kitlib.experiments.script import Script
from kitlib.monitor.delivery import judge

MOST_STEPS = 3_000  # a draw whose run on the model is longer would take minutes on the broker


def compared(script: Script) -> tuple[str, str]:
    """How the script ends on both sides, and a sentence."""
    experiment = experiments.get(script.experiment)
    try:
        model = experiment.run(script=script)
        if len(model) > MOST_STEPS:
            return "refused", f"The model took {len(model):,} steps."
        verdict = judge(model)
        for _ in range(2):
            real = judge(experiment.run(backend="kafka", script=script))
            if not (where := verdict.parts_from(real)):
                return "agrees", f"{real.found}."
    except (KnobError, LabError) as error:
        return "refused", str(error)
    return ("races" if verdict.violations == real.violations else "differs"), where


def main(minutes: str, seed: str = "1", *only: str) -> int:
    os.environ["KIT_NOTEBOOK"] = "soak"
    names = only or [name for name in experiments.names() if not experiments.get(name).model_only]
    chance, deadline, differs = random.Random(int(seed)), time.monotonic() + float(minutes) * 60, False
    while time.monotonic() < deadline:
        name = chance.choice(names)
        drawn = Search(Grid.of(name), lambda row: True, ()).draw(chance)
        script = Script.made(name, drawn.pop("seed"), drawn)
        outcome, sentence = compared(script)
        differs |= outcome == "differs"
        print(f"{outcome:8} {str(script).splitlines()[1]}\n         {sentence}", flush=True)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
